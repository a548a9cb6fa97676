package memory

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/markdown"
)

// maxStateBytes bounds a state file that is read whole.
const maxStateBytes = 32 << 20

// settleTime is how long a file must stay as it is before it counts as
// replaced by nothing, and how long its last edit must be over before Ralph
// puts another in its place: programs save in several steps.
const settleTime = 60 * time.Millisecond

// A file that became shorter must stay so for shrinkSettles settleTimes, and one
// whose end looks cut off for cutSettles.
const (
	shrinkSettles = 4
	cutSettles    = 8
)

// lossTime is how long a file must be gone, or empty, or no text, before it
// counts as lost: most programs empty a file before they write it, or delete it,
// and what comes between may take a slow disk or a busy machine that long.
const lossTime = 2 * time.Second

// maxDefer is how long Ralph lets a program go first that writes a file again
// and again.
const maxDefer = 500 * time.Millisecond

// order is the order in which state files are written.
func order() []string { return []string{ProgressFile, TasksFile, TodoFile, GoalsFile, AgentFile} }

// file is a state file as the Store knows it: what is on disk, and what is true.
type file struct {
	name string
	path string

	doc    *markdown.Document // all that is recorded is in it; nil: not read yet
	gen    int64              // counts the changes of doc
	clean  int64              // gen of the doc that is on disk
	base   []byte             // what is on disk as far as we know; nil: no file
	stamp  stamp              // of base; of the file at Open while doc is nil
	known  bool               // a log or a backup has content of it
	tops   map[string]int     // highest number by prefix of ids
	last   int64              // the last change in doc
	saved  int64              // the last change that is on disk
	wait   []op               // recorded while the file could not be read
	past   []version          // what stood in the file before Ralph wrote it, of late
	raw    bool               // the user's own encoding is not UTF-8
	unmet  bool               // it could not be looked at when the project was opened
	half   bool               // somebody is just writing it
	flying bool               // Ralph is just replacing it: base is not what is on disk, or soon will not be
	tried  []byte             // a try to write it failed: it may be on disk, but not for good
	theirs bool               // base is what the user wrote while the Store was open
	broken *sight             // what stands in its place
	since  time.Time          // of broken, or of half
	first  time.Time          // since when Ralph waits for the user to be done
	err    error              // of the last try to write it

	chained bool // the log says from which content on its last changes were made
	ops     int  // changes since then
	edited  bool // by the user, and no backup has it
	backup  *backup
}

func (f *file) dirty() bool { return f.gen != f.clean }

// put makes d what is true of the file.
func (f *file) put(d *markdown.Document) {
	f.doc, f.tops = d, nil
	f.gen++
}

// top is the highest number that an id with the prefix has in the file.
func (f *file) top(prefix string) int {
	if n, ok := f.tops[prefix]; ok {
		return n
	}
	n := highest(f.doc.String(), prefix)
	if f.tops == nil {
		f.tops = map[string]int{}
	}
	f.tops[prefix] = n
	return n
}

// grew keeps the highest numbers right after a change.
func (f *file) grew(o op) {
	for prefix := range f.tops {
		for _, t := range o.texts() {
			f.tops[prefix] = max(f.tops[prefix], highest(t, prefix))
		}
	}
}

// sightKind is what stands in the place of a state file.
type sightKind uint8

const (
	sightWhole   sightKind = iota // a text
	sightAbsent                   // nothing
	sightBroken                   // something that cannot be what the user wrote
	sightRefused                  // a link to something: not ours to follow or to move
	sightUnknown                  // cannot be told now
)

// sight is one look at the place of a state file.
type sight struct {
	kind  sightKind
	data  []byte // whole
	stamp stamp
	err   error // all but whole and absent
}

var (
	errEmpty  = errors.New("it is empty")
	errBinary = errors.New("it is no text")
	errNotUTF = errors.New("it is not UTF-8")
)

// see looks at a state file. Of one that nobody knew before, an empty one and
// one in another encoding than UTF-8 are whole: the user made them so.
func see(fsys afero.Fs, path string, known bool) sight { return stare(fsys, path, known, known) }

func stare(fsys afero.Fs, path string, known, utf bool) sight {
	v := glance(fsys, path)
	if v.kind != sightWhole && v.kind != sightUnknown {
		return v
	}
	data, err := durable.ReadFile(fsys, path, maxStateBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sight{kind: sightAbsent}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, durable.ErrTooLarge), errors.Is(err, durable.ErrNotRegular):
		return sight{kind: sightBroken, stamp: v.stamp, err: err}
	case err != nil:
		return sight{kind: sightUnknown, err: err}
	case data == nil:
		data = []byte{}
	}
	v.kind, v.data = sightWhole, data
	if err := wholesome(data, known, utf); err != nil {
		v.kind, v.err = sightBroken, err
	}
	return v
}

// view is see for a file of which something may be known.
func (s *Store) view(f *file) sight {
	known := f.known || len(f.base) > 0
	v := stare(s.fs, f.path, known, known && !f.raw)
	if !errors.Is(v.err, errNotUTF) || f.base != nil {
		return v
	}
	// What was good before may be in that encoding too.
	if data, from, err := s.newest(f.name); err == nil && from != "" && !utf8.Valid(data) {
		f.raw = true
		return stare(s.fs, f.path, known, false)
	}
	return v
}

// wholesome says why data cannot be a state file; nil when it can.
func wholesome(data []byte, known, utf bool) error {
	switch {
	case known && len(data) == 0:
		return errEmpty
	case bytes.IndexByte(data, 0) >= 0:
		return fmt.Errorf("%w: it holds NUL bytes", errBinary)
	case utf && !utf8.Valid(data):
		return fmt.Errorf("%w: %w", errBinary, errNotUTF)
	}
	return nil
}

// glance is see without reading: whole says no more than that there is a file.
func glance(fsys afero.Fs, path string) sight {
	info, err := durable.Lstat(fsys, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sight{kind: sightAbsent}
	case err != nil:
		return sight{kind: sightUnknown, err: err}
	}
	v := sight{stamp: stampOf(info)}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP) {
			v.kind, v.err = sightBroken, errors.New("it is a link that leads nowhere")
		} else {
			v.kind, v.err = sightRefused, &durable.Error{Op: "open", Path: path, Err: durable.ErrSymlink,
				Hint: "replace the link by a regular file; Ralph does not write through links"}
		}
	case !mode.IsRegular():
		v.kind, v.err = sightBroken, durable.ErrNotRegular
	case info.Size() > maxStateBytes:
		v.kind, v.err = sightBroken, durable.ErrTooLarge
	}
	return v
}

// look makes the cached document right: what the user did to the file since is
// merged into it. An error means that there is no document, because the file
// could not be read; one that was read before stays as it was. mu is held.
func (s *Store) look(f *file) error {
	if f.unmet {
		if err := s.meetAgain(f); err != nil {
			return err
		}
	}
	if f.doc == nil {
		return s.load(f)
	}
	if f.flying {
		// What stands there may be Ralph's own, and an edit of it is told from
		// that once it is base.
		return nil
	}
	info, err := durable.Lstat(s.fs, f.path)
	switch {
	case err == nil && info.Mode().IsRegular() && f.base != nil && stampOf(info).same(f.stamp) && (f.stamp.settled() || f.stamp.fresh()):
		f.broken = nil
		return nil
	case errors.Is(err, fs.ErrNotExist) && f.base == nil:
		f.broken = nil
		return nil
	}
	v := s.view(f)
	switch v.kind {
	case sightWhole:
		f.broken = nil
		if f.tried != nil && bytes.Equal(v.data, f.tried) {
			f.base = v.data // Ralph's own, not an edit
		}
		if f.base != nil && bytes.Equal(v.data, f.base) {
			f.stamp, f.half = v.stamp, false
			return nil
		}
		if !f.half {
			f.since = time.Now()
		}
		if f.half = halfWritten(v, f.base, f.stamp, s.settle) && time.Since(f.since) < maxDefer; !f.half {
			s.pickUp(f, v)
		}
	case sightAbsent, sightBroken, sightRefused:
		f.half = false
		if f.broken == nil || f.broken.kind != v.kind || !f.broken.stamp.same(v.stamp) {
			f.broken, f.since = &v, time.Now()
			if v.kind != sightRefused {
				f.gen++ // it is to be put back
			}
		}
	case sightUnknown:
		f.err = v.err // the document in memory has to do
	}
	return nil
}

// load reads a file for the first time.
func (s *Store) load(f *file) error {
	v := s.view(f)
	switch v.kind {
	case sightUnknown:
		return v.err
	case sightWhole:
		f.base, f.stamp, f.raw = v.data, v.stamp, !utf8.Valid(v.data)
		f.put(markdown.Parse(v.data))
		f.clean = f.gen
	case sightAbsent:
		if !f.known {
			f.put(markdown.Parse([]byte(header(f.name))))
			f.clean = f.gen
			break
		}
		fallthrough
	default:
		if _, err := s.revive(f); err != nil {
			return err
		}
		f.broken, f.since = &v, time.Now()
	}
	for _, o := range f.wait {
		s.do(f, o)
	}
	f.wait = nil
	return nil
}

// revive fills the document of a file that is lost from what else is known of
// it. mu is held.
func (s *Store) revive(f *file) (from string, err error) {
	data, from, err := s.newest(f.name)
	if err != nil {
		return "", err
	}
	if from == "" {
		f.put(markdown.Parse([]byte(header(f.name))))
		f.clean = f.gen
		return "", nil
	}
	f.put(markdown.Parse(data))
	f.last = max(f.last, s.n)
	return from, nil
}

// pickUp takes over what the user made of the file. mu is held.
func (s *Store) pickUp(f *file, v sight) {
	s.merge(f, f.ancestor(v.data), v.data)
	f.base, f.stamp, f.theirs = v.data, v.stamp, true
	if f.doc.String() == string(v.data) {
		f.clean, f.saved = f.gen, f.last
	}
}

// merge joins what the user made of was with what is recorded. mu is held.
func (s *Store) merge(f *file, was, user []byte) {
	before, after := markdown.Parse(was), markdown.Parse(user)
	p := Pickup{File: f.name, Changes: markdown.Compare(before, after)}
	p.Text = len(p.Changes) == 0 || prose(before) != prose(after)
	ours := f.doc.Bytes()
	if bytes.Equal(ours, was) {
		f.put(after)
	} else {
		m := markdown.Merge(was, user, ours)
		p.Conflicts = m.Conflicts
		f.put(markdown.Parse(m.Data))
	}
	f.chained, f.edited = false, true
	s.tell(p)
}

// prose is what of a document is neither a task's first line nor in a list or
// indented.
func prose(d *markdown.Document) string {
	tasks := map[int]bool{}
	for _, t := range d.Tasks() {
		tasks[t.Line] = true
	}
	var b strings.Builder
	n := 0
	for line := range strings.Lines(d.String()) {
		n++
		if text := strings.TrimRight(line, "\r\n"); text != "" && !tasks[n] && !strings.ContainsRune(" \t-*+|", rune(text[0])) {
			b.WriteString(text + "\n")
		}
	}
	return b.String()
}

// halfWritten says that a program seems to be in the middle of writing what was
// seen: it wrote just now, and the text ends where a block does, or without the
// line end that it had; or there is less than before in the same file, which
// must stay so for longer, as it would be taken for a deletion.
func halfWritten(v sight, base []byte, was stamp, settle time.Duration) bool {
	const block = 4096
	less := len(v.data) < len(base) && v.stamp.Ino == was.Ino && was.Ino != 0
	cut := len(v.data) > 0 &&
		(len(v.data)%block == 0 || bytes.HasSuffix(base, []byte("\n")) && !bytes.HasSuffix(v.data, []byte("\n")))
	switch {
	case less && cut:
		return !v.stamp.quiet(cutSettles * settle)
	case less:
		return !v.stamp.quiet(shrinkSettles * settle)
	}
	return cut && !v.stamp.quiet(settle)
}

// lost says that what stands in the place of a file is not a step of a program
// that is saving it: it stays so. What is no file at all is no such step.
// mu is held.
func (s *Store) lost(f *file) bool {
	v, need := f.broken, s.settle
	if v.kind == sightAbsent || errors.Is(v.err, errEmpty) || errors.Is(v.err, errBinary) {
		need = s.loss
	}
	if time.Since(f.since) >= need {
		return true
	}
	if v.kind != sightAbsent {
		return v.stamp.quiet(need)
	}
	// It was deleted before its directory was changed last.
	dir, err := durable.Lstat(s.fs, filepath.Dir(f.path))
	return err == nil && time.Since(dir.ModTime()) > need
}

// quarantine moves what stands in the place of a state file away; nothing there
// is overwritten. It returns where to, relative to the root; "" when nothing
// stood there.
func (s *Store) quarantine(path string) (string, error) {
	if _, err := durable.Lstat(s.fs, path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	to, err := s.vacant(filepath.Base(path))
	if err != nil {
		return "", err
	}
	if err := s.fs.Rename(path, to); err != nil {
		return "", &durable.Error{Op: "move to quarantine", Path: path, Err: err}
	}
	for _, dir := range []string{s.Quarantine(), filepath.Dir(path)} {
		if err := durable.SyncDir(s.fs, dir); err != nil {
			return s.rel(to), &durable.Error{Op: "move to quarantine", Path: path, Err: err}
		}
	}
	return s.rel(to), nil
}

// vacant is a name in the quarantine that nothing has yet.
func (s *Store) vacant(base string) (string, error) {
	dir := s.Quarantine()
	if err := durable.MkdirAll(s.fs, dir, 0o700); err != nil {
		return "", err
	}
	at := s.now().UTC().Format("20060102T150405Z")
	for i := 1; ; i++ {
		path := filepath.Join(dir, fmt.Sprintf("%s.%s.%d", base, at, i))
		if _, err := durable.Lstat(s.fs, path); errors.Is(err, fs.ErrNotExist) {
			return path, nil
		} else if err != nil {
			return "", &durable.Error{Op: "move to quarantine", Path: path, Err: err}
		}
	}
}

func (s *Store) rel(path string) string {
	if rel, err := filepath.Rel(s.root, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}
