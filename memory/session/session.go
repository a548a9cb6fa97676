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
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/visible"
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
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Kind names a session that has no name of its own: "chat", "run".
	Kind string
	// Redact takes secrets out of names, reasons and the transcript; nil keeps
	// all. Payloads of the journal are the caller's.
	Redact func(string) string
	// Config is noted in the metadata of a new session; the zero value stands
	// for the defaults.
	Config RuntimeConfig
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = afero.NewOsFs()
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

// Session is an open session. It is safe for concurrent use; whoever opens it
// closes it.
type Session struct {
	o       Options
	dir     string
	journal *Journal

	mu      sync.Mutex
	meta    Metadata
	closed  bool
	lasting error // the first error of Say
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
	number, err := claim(o.FS, o.root(), numbers)
	if err != nil {
		return nil, err
	}
	if name = strings.TrimSpace(o.Redact(name)); name == "" {
		name = o.Kind
	}
	s := &Session{o: o, dir: filepath.Join(o.root(), fmt.Sprintf("session-%03d-%s", number, slug(name)))}
	if err := durable.MkdirAll(o.FS, s.dir, 0o700); err != nil {
		return nil, err
	}
	s.meta = newMetadata(fmt.Sprintf("%03d", number), name, o.Now(), o.Config)
	if err := s.writeMeta(); err != nil {
		return nil, err
	}
	return s, s.openJournal()
}

func (s *Session) openJournal() (err error) {
	// A link in the place of the directory is refused; killed writers are long
	// gone, as the project's lock is held.
	if err := errors.Join(durable.MkdirAll(s.o.FS, s.dir, 0o700), durable.Sweep(s.o.FS, s.dir)); err != nil {
		return err
	}
	s.journal, err = openJournal(s.o.FS, filepath.Join(s.dir, JournalFile), filepath.Join(s.o.StateDir, "quarantine"), s.o.Now)
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
	d, err := fsys.Open(dir)
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
	var info Info
	var err error
	if strings.ToLower(strings.TrimSpace(which)) == "last" {
		info, err = Last(o.FS, o.StateDir)
	} else {
		var infos []Info
		if infos, err = List(o.FS, o.StateDir); err == nil {
			info, err = pick(infos, which)
		}
	}
	if err != nil {
		return nil, err
	}
	s := &Session{o: o, dir: filepath.Join(o.root(), info.Dir), meta: info.Meta}
	if info.Err != nil {
		s.meta = newMetadata(info.ID, info.Dir, o.Now(), o.Config)
	}
	return s, s.openJournal()
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

func pick(infos []Info, which string) (Info, error) {
	which = strings.ToLower(strings.TrimSpace(which))
	exact := func(i Info) bool {
		return which == i.ID || which == strings.ToLower(i.Dir) || which == strings.ToLower(i.Meta.SessionName)
	}
	prefix := func(i Info) bool {
		for _, s := range []string{i.ID, i.Dir, i.Meta.SessionName, strings.TrimLeft(i.ID, "0"), dirName().ReplaceAllString(i.Dir, "")} {
			if which != "" && strings.HasPrefix(strings.ToLower(s), which) {
				return true
			}
		}
		return false
	}
	for _, fits := range []func(Info) bool{exact, prefix} {
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
	found.Meta, found.Err = readMeta(fsys, filepath.Join(root, found.Dir, MetadataFile))
	return found, nil
}

// List returns the sessions of a project by number; none when it has none.
func List(fsys afero.Fs, stateDir string) ([]Info, error) {
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
		info := Info{ID: m[1], Dir: n}
		info.Meta, info.Err = readMeta(fsys, filepath.Join(root, n, MetadataFile))
		infos = append(infos, info)
	}
	slices.SortStableFunc(infos, func(a, b Info) int {
		x, _ := strconv.Atoi(a.ID)
		y, _ := strconv.Atoi(b.ID)
		return x - y
	})
	return infos, nil
}

// ID returns the session's number as text: "001".
func (s *Session) ID() string { return s.meta.SessionID }

// Dir returns the session's directory, absolute.
func (s *Session) Dir() string { return s.dir }

// Journal returns the session's journal, which the session closes.
func (s *Session) Journal() *Journal { return s.journal }

// Records calls each for every whole record of the journal, in order. It may be
// used while the journal is appended to, also after Close. An error of each
// ends it and is returned.
func (s *Session) Records(each func(Record) error) error { return s.journal.Records(each) }

// Say appends to the transcript that people read: who spoke, and what. The
// text stands in a quotation that it cannot end. The transcript only repeats
// what the journal holds: an error is reported by Close.
func (s *Session) Say(who, text string) {
	who = strings.Join(strings.Fields(visible.Line(s.o.Redact(who))), " ")
	text = strings.TrimRight(visible.Text(s.o.Redact(text)), "\n \t")
	if text == "" {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %s %s\n\n", s.o.Now().UTC().Format("2006-01-02 15:04:05"), who)
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(strings.TrimRight("> "+line, " ") + "\n")
	}
	b.WriteString("\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	err := durable.AppendText(s.o.FS, filepath.Join(s.dir, ConversationFile), b.String(), 0o600)
	if s.lasting == nil {
		s.lasting = err
	}
}

// Progress notes how many of the tasks are done. The commits are not kept here:
// the journal names each.
func (s *Session) Progress(_, done, total int) error {
	return s.Update(func(m *Metadata) {
		m.TasksCompleted, m.TasksTotal = done, total
		m.Performance.TotalDurationSeconds = s.o.Now().Sub(m.StartTime).Round(time.Second).Seconds()
	})
}

// End notes how the session ends: with Close it is written. Without it a
// session ends as completed.
func (s *Session) End(status Status, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta.Status, s.meta.ExitReason = status, s.o.Redact(reason)
}

// Close writes how the session ended and closes the journal. A second Close
// does nothing.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.meta.Status == InProgress {
		s.meta.Status = Completed
	}
	if s.meta.Status != Paused {
		end := s.o.Now().UTC().Truncate(time.Second)
		s.meta.EndTime = &end
		s.meta.Performance.TotalDurationSeconds = end.Sub(s.meta.StartTime).Seconds()
	}
	return errors.Join(s.lasting, s.writeMeta(), s.journal.Close())
}
