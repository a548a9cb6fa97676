// Package retention says what becomes of old sessions: which go to the archive,
// which of those lose their raw logs, and what the quarterly summaries hold.
//
// Scan and Plan only look; Apply does one planned thing and can be repeated
// after any crash. Nothing is deleted that is not one of Ralph's own raw files
// in an archived session or a directory of a one-shot; what other tools and
// people put there stays. A session that somebody works in is never touched,
// and one that can be resumed goes to the archive only when it is named. The
// package decides no age and takes no lock: the caller does.
//
//	state, err := retention.Scan(fsys, filepath.Join(root, ".ralph"))
//	for _, action := range retention.Plan(state, policy, time.Now()) {
//		err = retention.Apply(fsys, stateDir, action, time.Now())
//	}
package retention

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"
	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/durable"
	"ralph/memory/session"
)

// Session is what a list of sessions knows of one, from its directory and its
// metadata alone. Times are UTC.
type Session struct {
	ID       string // "001"
	Name     string
	Path     string // of the directory, relative to `.ralph`, with slashes
	Archived bool
	// Elsewhere says that Path is a link: the directory is where the user wanted it,
	// and stays there.
	Elsewhere bool
	Kind      string // chat, run or imported

	Status     session.Status // as the file says
	Phase      string
	ExitReason string
	Start, End time.Time // zero when not stated
	Changed    time.Time // when a file of it was last written
	Done       int       // tasks
	Total      int       // tasks
	Stated     time.Duration

	// Live says that somebody works in it now; the caller knows.
	Live bool
	// Deleted is when the raw files were deleted, zero when they were not.
	Deleted time.Time
	// Raw are the raw files and directories that are there, and their size.
	Raw      []string
	RawBytes int64
	// Err says why the metadata could not be read.
	Err error
}

// Resumable says that the session did not end: it can go on.
func (s Session) Resumable() bool {
	return s.Status != session.Completed && s.Status != session.Failed
}

// Ended is when the session ended, as far as that is known.
func (s Session) Ended() time.Time {
	for _, t := range []time.Time{s.End, s.Changed} {
		if !t.IsZero() {
			return t
		}
	}
	return s.Start
}

// Duration is how long the session took; 0 when that is not known.
func (s Session) Duration() time.Duration {
	if s.Stated > 0 || s.Start.IsZero() || s.End.Before(s.Start) {
		return s.Stated
	}
	return s.End.Sub(s.Start)
}

// Run is the directory of a one-shot without a session.
type Run struct {
	ID      string
	Path    string // relative to `.ralph`, with slashes
	Changed time.Time
	Bytes   int64
}

// State is what Scan found.
type State struct {
	Sessions []Session // by number
	Runs     []Run     // by id
}

const (
	sessionsDir = "sessions"
	archiveDir  = "sessions/archive"
	runsDir     = "runs"
)

var sessionName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^session-(\d{3,9})(?:-|$)`) })

// runName is how the command line names its runs; other directories are not
// ours to judge.
var runName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^r-(\d{8}-\d{6})-[0-9a-f]{6}$`) })

// raw tells the files that only repeat in full what metadata, progress, report
// and summaries hold in short.
func raw(name string) bool {
	switch name {
	case session.JournalFile, session.ConversationFile, "execution-log.json", "decision-history.json", "errors-and-retries.json",
		"quality-metrics.json", "outputs", "iterations":
		return true
	}
	return false
}

// Scan looks at the sessions and runs of a project; none when it has no
// `.ralph`. It reads each session's metadata and no other file. Links are
// left out, but for those to sessions that were made elsewhere.
func Scan(fsys afero.Fs, stateDir string) (State, error) {
	var st State
	for _, in := range []string{sessionsDir, archiveDir} {
		infos, err := entries(fsys, filepath.Join(stateDir, in))
		if err != nil {
			return st, fmt.Errorf("list sessions: %w", err)
		}
		for _, info := range infos {
			m := sessionName().FindStringSubmatch(info.Name())
			if m == nil {
				continue
			}
			at := filepath.Join(stateDir, filepath.FromSlash(in), info.Name())
			home := session.Home(fsys, at, stateDir)
			if !info.IsDir() && home == at {
				continue
			}
			s := scanSession(fsys, home, path.Join(in, info.Name()), m[1], in == archiveDir)
			s.Elsewhere = home != at
			st.Sessions = append(st.Sessions, s)
		}
	}
	slices.SortStableFunc(st.Sessions, func(a, b Session) int { return number(a.ID) - number(b.ID) })
	infos, err := entries(fsys, filepath.Join(stateDir, runsDir))
	if err != nil {
		return st, fmt.Errorf("list runs: %w", err)
	}
	for _, info := range infos {
		m := runName().FindStringSubmatch(info.Name())
		if m == nil || !info.IsDir() {
			continue
		}
		r := Run{ID: info.Name(), Path: path.Join(runsDir, info.Name())}
		r.Changed, _ = time.Parse("20060102-150405", m[1])
		var newest time.Time
		if r.Bytes, newest, err = measure(fsys, filepath.Join(stateDir, filepath.FromSlash(r.Path)), 0); err != nil {
			continue // of what age it is cannot be told: it stays
		}
		if newest.After(r.Changed) {
			r.Changed = newest
		}
		st.Runs = append(st.Runs, r)
	}
	return st, nil
}

func number(id string) int {
	n, _ := strconv.Atoi(id) // the pattern lets digits through only
	return n
}

// entries lists a directory without following links, sorted by name.
func entries(fsys afero.Fs, dir string) ([]fs.FileInfo, error) {
	info, err := durable.Lstat(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: is no directory", dir)
	}
	d, err := fsys.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	slices.Sort(names)
	infos := make([]fs.FileInfo, 0, len(names))
	for _, n := range names {
		info, err := durable.Lstat(fsys, filepath.Join(dir, n))
		switch {
		case err == nil:
			infos = append(infos, info)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return infos, nil
}

// maxDepth bounds how deep a directory is looked into.
const maxDepth = 32

// measure adds up a tree without following links, and finds its newest file.
func measure(fsys afero.Fs, name string, depth int) (size int64, newest time.Time, err error) {
	info, err := durable.Lstat(fsys, name)
	if err != nil {
		return 0, newest, err
	}
	if !info.IsDir() {
		return info.Size(), info.ModTime().UTC(), nil
	}
	if depth > maxDepth {
		return 0, newest, fmt.Errorf("%s: folders nest deeper than %d", name, maxDepth)
	}
	infos, err := entries(fsys, name)
	for _, e := range infos {
		n, t, merr := measure(fsys, filepath.Join(name, e.Name()), depth+1)
		err = errors.Join(err, merr)
		size += n
		if t.After(newest) {
			newest = t
		}
	}
	return size, newest, err
}

func scanSession(fsys afero.Fs, dir, rel, id string, archived bool) Session {
	s := Session{ID: id, Path: rel, Archived: archived, Kind: "chat"}
	infos, err := entries(fsys, dir)
	if err != nil {
		s.Err = err
		return s
	}
	for _, info := range infos {
		if t := info.ModTime().UTC(); !info.IsDir() && t.After(s.Changed) {
			s.Changed = t
		}
		switch {
		case info.Name() == "import" && info.IsDir():
			s.Kind = "imported"
		case info.Name() == "iterations" && s.Kind == "chat":
			s.Kind = "run"
		}
		if raw(info.Name()) {
			s.Raw = append(s.Raw, info.Name())
			n, _, merr := measure(fsys, filepath.Join(dir, info.Name()), 0)
			s.RawBytes += n
			err = errors.Join(err, merr)
		}
	}
	s.Err = errors.Join(err, s.readMeta(fsys, filepath.Join(dir, session.MetadataFile)))
	if s.Name == "" {
		s.Name = strings.TrimPrefix(sessionName().ReplaceAllString(path.Base(rel), ""), "-")
	}
	return s
}

const (
	maxMetadataBytes = 4 << 20
	deletedKey       = "raw_deleted_at"
)

// readMeta takes from the metadata what it understands, whatever wrote it.
func (s *Session) readMeta(fsys afero.Fs, name string) error {
	data, err := durable.ReadFile(fsys, name, maxMetadataBytes)
	if err != nil {
		return err
	}
	var m map[string]any
	if err := yaml.Load(data, &m); err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	s.Status, s.Name = session.Status(textOf(m["status"])), textOf(m["session_name"])
	s.Phase, s.ExitReason = textOf(m["phase_name"]), textOf(m["exit_reason"])
	s.Start, s.End, s.Deleted = when(m["start_time"]), when(m["end_time"]), when(m[deletedKey])
	s.Done, s.Total = int(amount(m["tasks_completed"])), int(amount(m["tasks_total"]))
	if p, ok := m["performance_metrics"].(map[string]any); ok {
		s.Stated = time.Duration(amount(p["total_duration_seconds"]) * float64(time.Second))
	}
	if k := textOf(m["kind"]); k != "" {
		s.Kind = k
	}
	return nil
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil, map[string]any, []any:
		return ""
	}
	return fmt.Sprint(v)
}

func when(v any) time.Time {
	switch v := v.(type) {
	case time.Time:
		return v.UTC()
	case string:
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
			if t, err := time.Parse(layout, strings.TrimSpace(v)); err == nil {
				return t.UTC()
			}
		}
	}
	return time.Time{}
}

func amount(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case float64:
		return v
	case string:
		f, _ := strconv.ParseFloat(v, 64)
		return f
	}
	return 0
}
