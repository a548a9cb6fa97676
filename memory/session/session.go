// Package session owns session directories: one per chat or run, with a
// journal that is the truth, a transcript for people, and metadata.
//
// A session is numbered within its project; a number is never given twice and
// a directory never removed here. Files and keys that Ralph does not know stay
// as they are. The package runs nothing and decides nothing.
//
//	s, err := session.Create(session.Options{StateDir: store.StateDir()}, "fix login")
//	…
//	err = s.Journal().Append(epoch, session.Record{Kind: "message", Payload: data})
//	err = s.Close()
package session

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/identity"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// ErrNotFound is matched when no session fits.
var ErrNotFound = errors.New("no such session")

// ErrAmbiguous is matched when several sessions fit.
var ErrAmbiguous = errors.New("several sessions fit")

// ErrClosed is matched by every use of a session that was closed.
var ErrClosed = errors.New("the session is closed")

// The files of a session.
const (
	MetadataFile     = "session-metadata.yaml"
	JournalFile      = "journal.jsonl"
	ConversationFile = "conversation.md"
)

// Options says where sessions are and how they are kept.
type Options struct {
	// FS holds them; nil means the real disk.
	FS afero.Fs
	// StateDir is the project's `.ralph`, absolute.
	StateDir string
	// Dir is the directory of a new session, absolute, which is made, or empty; ""
	// means one of the session's number and name in `.ralph/sessions`. A session
	// elsewhere is found by a link there, and has its number from the project.
	Dir string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Kind names a session that has no name of its own: "chat", "run".
	Kind string
	// Redact takes secrets out of names, reasons and the transcript; nil keeps
	// all. Payloads of the journal are the caller's.
	Redact func(string) string
	// Key authenticates the journal; nil only detects damage.
	Key identity.Key
	// Config is noted in the metadata of a new session; the zero value stands
	// for the defaults.
	Config RuntimeConfig
	// Lessons, when set, says what is found in the session in a directory, a line
	// each, for the report that Close writes. It is called once, on the goroutine
	// of Close, when all other files are written, and not for a log that is too
	// large to be read at such a moment.
	Lessons func(dir string) []string
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Redact == nil {
		o.Redact = func(t string) string { return t }
	}
	if o.Kind == "" {
		o.Kind = "untitled"
	}
	return o
}

func (o Options) root() string { return filepath.Join(o.StateDir, "sessions") }

// maxName bounds the name of a session, in characters.
const maxName = 200

// cleaned is a name as it is kept: on one line, without secrets, and not too
// long.
func (o Options) cleaned(name string) string {
	name = strings.TrimSpace(text.VisibleLine(o.Redact(name)))
	if r := []rune(name); len(r) > maxName {
		name = strings.TrimSpace(string(r[:maxName]))
	}
	return name
}

// Session is an open session. It is safe for concurrent use; whoever opens it
// closes it.
type Session struct {
	o       Options
	id, dir string
	journal *Journal

	folder *folder.Folder

	mu      sync.Mutex
	meta    Metadata
	ended   *ended  // how it ends, once that was said
	counted counted // what of the folder's counts is in meta
	found   int     // how many lessons the report holds
	closed  bool
	unsaid  string // text that is not in the transcript yet
	listed  bool   // the transcript ends with a note
	lasting error  // why there is unsaid text
}

// Info is what a list of sessions shows.
type Info struct {
	ID   string // "001"
	Dir  string // the directory's name: session-001-fix-login
	Meta Metadata
	// Err says why the metadata could not be read.
	Err error
}

// Create makes the next session. The name may be anything, also empty.
func Create(o Options, name string) (*Session, error) {
	o = o.withDefaults()
	numbers := filepath.Join(o.root(), ".numbers")
	if err := durable.MkdirAll(o.FS, numbers, 0o700); err != nil {
		return nil, err
	}
	if name = o.cleaned(name); name == "" {
		name = o.Kind
	}
	s := &Session{o: o}
	number, err := claim(o.FS, o.root(), numbers)
	if err != nil {
		return nil, err
	}
	s.meta = newMetadata(fmt.Sprintf("%03d", number), name, o.Now(), o.Config)
	if err := s.make(number, name); err != nil {
		return nil, err
	}
	if err := s.writeMeta(); err != nil {
		return nil, err
	}
	return s, s.open()
}

// open opens what of the session is written to.
func (s *Session) open() (err error) {
	// A link in the place of the directory is refused; killed writers are long
	// gone, as the project's lock is held.
	if err := errors.Join(durable.MkdirAll(s.o.FS, s.dir, 0o700), durable.Sweep(s.o.FS, s.dir)); err != nil {
		return err
	}
	s.id = folder.Number(s.meta.SessionID)
	quarantine := filepath.Join(s.o.StateDir, "quarantine")
	s.folder, err = folder.Open(folder.Options{FS: s.o.FS, Dir: s.dir, SessionID: s.meta.SessionID, Quarantine: quarantine, Now: s.o.Now, Redact: s.o.Redact})
	if err != nil {
		return err
	}
	if err := s.folder.Regular(MetadataFile, JournalFile, ConversationFile); err != nil {
		return err
	}
	s.journal, err = openJournal(s.o.FS, filepath.Join(s.dir, JournalFile), quarantine, s.o.Key, s.o.Now)
	return err
}

// claim takes the next number by making a file that must not exist. The files
// stay, so that the number of a removed session is not given again.
func claim(fsys afero.Fs, root, numbers string) (int, error) {
	highest := 0
	for _, dir := range []string{root, filepath.Join(root, "archive"), numbers} {
		names, err := list(fsys, dir)
		if err != nil {
			return 0, err
		}
		for _, n := range names {
			if m := dirName().FindStringSubmatch(n); m != nil {
				n = m[1]
			}
			if v, err := strconv.Atoi(n); err == nil {
				highest = max(highest, v)
			}
		}
	}
	for n := highest + 1; ; n++ {
		path := filepath.Join(numbers, fmt.Sprintf("%03d", n))
		f, err := fsys.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("number a session: %w", err)
		}
		return n, errors.Join(f.Close(), durable.SyncDir(fsys, numbers))
	}
}

// list returns the names in a directory, sorted; none when it is absent.
func list(fsys afero.Fs, dir string) ([]string, error) {
	// A pipe in its place must not block.
	d, err := fsys.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

var dirName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^session-(\d{3,9})(?:-|$)`) })

func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 40 {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "untitled"
}

// Open opens an existing session: "last" is the one that Last finds;
// otherwise which is an id, a name, or a unique prefix of either or of the
// directory's name. Its metadata is in progress again from the next Update on.
func Open(o Options, which string) (*Session, error) {
	o = o.withDefaults()
	info, err := find(o, strings.ToLower(o.cleaned(which)))
	if err != nil {
		return nil, err
	}
	s := &Session{o: o, dir: Home(o.FS, filepath.Join(o.root(), info.Dir), o.StateDir), meta: info.Meta}
	if info.Err != nil {
		s.meta = newMetadata(info.ID, info.Dir, time.Time{}, o.Config)
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	if s.meta.StartTime.IsZero() {
		if s.meta.StartTime, err = s.began(); err != nil {
			return nil, errors.Join(err, s.journal.Close())
		}
	}
	if info.Err == nil && s.meta.Status == InProgress {
		s.cutOff()
	}
	return s, nil
}

// cutOff counts what a process recorded that was killed before it counted it.
func (s *Session) cutOff() {
	inventory := s.folder.Inventory()
	for _, f := range inventory.Features {
		s.meta.Context.count(f.FeatureID, f.Documented)
	}
	failures, help := s.folder.CutOff()
	p := &s.meta.Performance
	p.ErrorCount, p.HelpRequests = max(p.ErrorCount, failures), max(p.HelpRequests, help)
}

// began is when the session began as far as the journal tells.
func (s *Session) began() (time.Time, error) {
	at, enough := s.o.Now(), errors.New("enough")
	err := s.journal.Records(func(r Record) error { at = r.Time; return enough })
	if errors.Is(err, enough) {
		err = nil
	}
	return at.UTC().Truncate(time.Second), err
}

// Resume opens the session that which names, as Open does, and notes that it is
// in progress again; or it makes one: for "new" always, and for a name that no
// session has. A number that no session
// has is an error, and so is "last" when there is none.
func Resume(o Options, which string) (*Session, error) {
	if which == "new" {
		return Create(o, "")
	}
	s, err := Open(o, which)
	if err == nil {
		if err := s.Update(func(*Metadata) {}); err != nil {
			return nil, errors.Join(err, s.journal.Close())
		}
	}
	if !errors.Is(err, ErrNotFound) || which == "last" || strings.Trim(which, "0123456789 ") == "" || dirName().MatchString(which) {
		return s, err
	}
	return Create(o, which)
}

// find looks by number first, for which no metadata is read but that of the one.
func find(o Options, which string) (Info, error) {
	if which == "last" {
		return Last(o.FS, o.StateDir)
	}
	infos, err := directories(o.FS, o.StateDir)
	if err != nil {
		return Info{}, err
	}
	number := folder.Number(which)
	info, err := pick(infos, which, func(i Info) bool {
		return number == i.ID || which == strings.ToLower(i.Dir) || digits(number) && strings.TrimLeft(number, "0") == strings.TrimLeft(i.ID, "0")
	})
	if err == nil {
		info.Meta, info.Err = readMeta(o.FS, filepath.Join(o.root(), info.Dir))
	}
	if !errors.Is(err, ErrNotFound) {
		return info, err
	}
	if infos, err = List(o.FS, o.StateDir); err != nil {
		return Info{}, err
	}
	return pick(infos, which,
		func(i Info) bool { return which == strings.ToLower(i.Meta.SessionName) },
		func(i Info) bool {
			for _, s := range []string{i.ID, i.Dir, i.Meta.SessionName, strings.TrimLeft(i.ID, "0"), dirName().ReplaceAllString(i.Dir, "")} {
				if which != "" && strings.HasPrefix(strings.ToLower(s), which) {
					return true
				}
			}
			return false
		})
}

func digits(s string) bool { return strings.Trim(s, "0") != "" && strings.Trim(s, "0123456789") == "" }

// pick returns the one that fits by the first test that any fits by.
func pick(infos []Info, which string, tests ...func(Info) bool) (Info, error) {
	for _, fits := range tests {
		var found []Info
		for _, i := range infos {
			if fits(i) {
				found = append(found, i)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return Info{}, fmt.Errorf("%w %q: %s and %s", ErrAmbiguous, which, found[0].Dir, found[1].Dir)
		}
	}
	return Info{}, fmt.Errorf("%w: %q", ErrNotFound, which)
}

// Last returns the session with the highest number in which something was said,
// or, when nothing was said in any, the highest. It reads the metadata of that
// one only. The error matches ErrNotFound when there is none.
func Last(fsys afero.Fs, stateDir string) (Info, error) {
	root := filepath.Join(stateDir, "sessions")
	names, err := list(fsys, root)
	if err != nil {
		return Info{}, err
	}
	last, spoken, found := 0, false, Info{}
	for _, n := range names {
		m := dirName().FindStringSubmatch(n)
		if m == nil {
			continue
		}
		number, _ := strconv.Atoi(m[1])
		st, err := fsys.Stat(filepath.Join(root, n, JournalFile))
		says := err == nil && st.Size() > 0
		if says == spoken && number > last || says && !spoken {
			last, spoken, found = number, says, Info{ID: m[1], Dir: n}
		}
	}
	if found.ID == "" {
		return Info{}, fmt.Errorf("%w: none was begun here", ErrNotFound)
	}
	found.Meta, found.Err = readMeta(fsys, filepath.Join(root, found.Dir))
	return found, nil
}

// List returns the sessions of a project by number; none when it has none.
func List(fsys afero.Fs, stateDir string) ([]Info, error) {
	return Newest(fsys, stateDir, math.MaxInt)
}

// Newest is List of at most the newest limit sessions: no other is read.
func Newest(fsys afero.Fs, stateDir string, limit int) ([]Info, error) {
	infos, err := directories(fsys, stateDir)
	infos = infos[max(0, len(infos)-limit):]
	for i := range infos {
		infos[i].Meta, infos[i].Err = readMeta(fsys, filepath.Join(stateDir, "sessions", infos[i].Dir))
	}
	return infos, err
}

// directories returns the sessions by number, without their metadata.
func directories(fsys afero.Fs, stateDir string) ([]Info, error) {
	root := filepath.Join(stateDir, "sessions")
	names, err := list(fsys, root)
	if err != nil {
		return nil, err
	}
	var infos []Info
	for _, n := range names {
		m := dirName().FindStringSubmatch(n)
		if m == nil {
			continue
		}
		if st, err := fsys.Stat(filepath.Join(root, n)); err != nil || !st.IsDir() {
			continue
		}
		infos = append(infos, Info{ID: m[1], Dir: n})
	}
	slices.SortStableFunc(infos, func(a, b Info) int {
		x, _ := strconv.Atoi(a.ID)
		y, _ := strconv.Atoi(b.ID)
		return x - y
	})
	return infos, nil
}

// ID returns the session's number as text: "001".
func (s *Session) ID() string { return s.id }

// Dir returns the session's directory, absolute.
func (s *Session) Dir() string { return s.dir }

// Journal returns the session's journal, which the session closes.
func (s *Session) Journal() *Journal { return s.journal }

// Records calls each for every whole record of the journal, in order. It may be
// used while the journal is appended to, also after Close. An error of each
// ends it and is returned.
func (s *Session) Records(each func(Record) error) error { return s.journal.Records(each) }

// Folder returns the session's other files, which the session closes. Each is
// made with its first use.
func (s *Session) Folder() *folder.Folder { return s.folder }

// Progress notes how many of the tasks are done, unless the tasks are tracked
// in the folder, which then counts. The commits are not kept here: the journal
// names each.
func (s *Session) Progress(_, done, total int) error {
	return s.Update(func(m *Metadata) { m.TasksCompleted, m.TasksTotal = done, total })
}
