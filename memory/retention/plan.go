package retention

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/afero"
	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/durable"
	"ralph/memory/session"
)

// ErrTaken is matched when something else stands where a session is to go.
var ErrTaken = errors.New("something else stands there")

// ErrLive is matched when a session is worked in.
var ErrLive = errors.New("somebody works in it")

// ErrElsewhere is matched when a session is kept where the user wanted it.
var ErrElsewhere = errors.New("it is kept outside `.ralph`, and stays where it is")

// Policy says at what age what becomes of a session. Ages count from its end;
// 0 means never.
type Policy struct {
	ArchiveAfter   time.Duration
	DeleteRawAfter time.Duration
	// Summaries are kept by quarter.
	Summaries bool
}

// Kind says what an Action does.
type Kind string

// The kinds of actions.
const (
	// Archive moves a session's directory to the archive.
	Archive Kind = "archive"
	// Prune deletes the raw files of an archived session.
	Prune Kind = "prune"
	// PruneRun deletes the directory of a one-shot.
	PruneRun Kind = "prune_run"
	// Summarize writes the summary of a quarter.
	Summarize Kind = "summarize"
)

// Action is one thing to do. Paths are relative to the project's root, with
// slashes.
type Action struct {
	Kind Kind `json:"action"`
	// ID is the session's or the run's; for a summary the quarter: 2026-Q4.
	ID string `json:"id"`
	// Path is what is moved, lessened, deleted or written.
	Path string `json:"path"`
	// To is where an archived session goes.
	To string `json:"to,omitempty"`
	// Files are what Prune deletes, relative to Path.
	Files []string `json:"files,omitempty"`
	// Bytes is what becomes free, or how long a summary is.
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`

	was, data []byte // of a summary
}

// Plan says what the policy asks for: what goes to the archive, and what of the
// archive and of the runs is old enough to be deleted. It looks at nothing but
// its arguments.
func Plan(st State, p Policy, now time.Time) []Action {
	var actions []Action
	for _, s := range st.Sessions {
		age := now.Sub(s.Ended())
		switch {
		case s.Live || s.Err != nil || s.Resumable() || s.Elsewhere:
			continue
		case !s.Archived && p.ArchiveAfter > 0 && age >= p.ArchiveAfter:
			actions = append(actions, archive(s, fmt.Sprintf("%s %s ago, more than %s", s.Status, days(age), days(p.ArchiveAfter))))
		case s.Archived && p.DeleteRawAfter > 0 && age >= p.DeleteRawAfter && len(s.Raw) > 0:
			actions = append(actions, Action{Kind: Prune, ID: s.ID, Path: path.Join(".ralph", s.Path), Files: slices.Clone(s.Raw), Bytes: s.RawBytes,
				Why: fmt.Sprintf("ended %s ago, more than %s", days(age), days(p.DeleteRawAfter))})
		}
	}
	for _, r := range st.Runs {
		if age := now.Sub(r.Changed); p.DeleteRawAfter > 0 && age >= p.DeleteRawAfter {
			actions = append(actions, Action{Kind: PruneRun, ID: r.ID, Path: path.Join(".ralph", r.Path), Bytes: r.Bytes,
				Why: fmt.Sprintf("ended %s ago, more than %s", days(age), days(p.DeleteRawAfter))})
		}
	}
	return actions
}

// Named is the action that archives a session because the user named it, of
// whatever age, also when it could be resumed. It is nil for one that is in the
// archive already; a session that is worked in gives ErrLive.
func Named(s Session) (*Action, error) {
	switch {
	case s.Archived:
		return nil, nil
	case s.Live:
		return nil, fmt.Errorf("archive session %s: %w", s.ID, ErrLive)
	case s.Elsewhere:
		return nil, fmt.Errorf("archive session %s: %w", s.ID, ErrElsewhere)
	}
	a := archive(s, "named")
	return &a, nil
}

func archive(s Session, why string) Action {
	return Action{Kind: Archive, ID: s.ID, Path: path.Join(".ralph", s.Path), To: path.Join(".ralph", archiveDir, path.Base(s.Path)), Why: why}
}

// days says a span in whole days.
func days(d time.Duration) string {
	n := int(d.Hours() / 24)
	if n == 1 {
		return "1 day"
	}
	return fmt.Sprintf("%d days", n)
}

// Apply does one action. It is repeatable: what was already done in an earlier
// try that did not end is no error.
func Apply(fsys afero.Fs, stateDir string, a Action, now time.Time) error {
	root := filepath.Dir(stateDir)
	at := filepath.Join(root, filepath.FromSlash(a.Path))
	var err error
	switch a.Kind {
	case Archive:
		err = move(fsys, at, filepath.Join(root, filepath.FromSlash(a.To)))
	case Prune:
		err = prune(fsys, at, a.Files, now)
	case PruneRun:
		err = removeTree(fsys, at)
	case Summarize:
		err = writeSummary(fsys, at, a)
	default:
		err = errors.New("no such action")
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", strings.ReplaceAll(string(a.Kind), "_", " "), a.ID, err)
	}
	return nil
}

// move renames a directory durably: at every moment it stands at one of the two
// places.
func move(fsys afero.Fs, from, to string) error {
	if err := durable.MkdirAll(fsys, filepath.Dir(to), 0o700); err != nil {
		return err
	}
	_, there := durable.Lstat(fsys, to)
	_, here := durable.Lstat(fsys, from)
	switch {
	case there == nil && errors.Is(here, fs.ErrNotExist): // done before the last crash
	case there == nil:
		return fmt.Errorf("%s: %w", to, ErrTaken)
	case !errors.Is(there, fs.ErrNotExist):
		return there
	case here != nil:
		return here
	default:
		if err := fsys.Rename(from, to); err != nil {
			return err
		}
	}
	// The new place first: a crash in between may show both, never none.
	return errors.Join(durable.SyncDir(fsys, filepath.Dir(to)), durable.SyncDir(fsys, filepath.Dir(from)))
}

// prune notes in the metadata that raw files are deleted, and deletes them. The
// note comes first, so that no crash leaves a session that silently lacks its
// logs.
func prune(fsys afero.Fs, dir string, files []string, now time.Time) error {
	info, err := durable.Lstat(fsys, dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return durable.ErrSymlink
	}
	if err := noteDeleted(fsys, filepath.Join(dir, session.MetadataFile), now); err != nil {
		return err
	}
	for _, name := range files {
		if !raw(name) {
			return fmt.Errorf("%q is no raw file", name)
		}
		if err := removeTree(fsys, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return durable.SyncDir(fsys, dir)
}

// noteDeleted adds a line to the metadata, once.
func noteDeleted(fsys afero.Fs, name string, now time.Time) error {
	data, err := durable.ReadFile(fsys, name, maxMetadataBytes)
	if err != nil {
		return err
	}
	var m map[string]any
	if err := yaml.Load(data, &m); err != nil {
		return fmt.Errorf("read %q: %w", name, err)
	}
	if _, noted := m[deletedKey]; noted {
		return nil
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	data = append(data, deletedKey+": "+now.UTC().Format(time.RFC3339)+"\n"...)
	if err := yaml.Load(data, &m); err != nil {
		return fmt.Errorf("write %q: a line more makes it no YAML: %w", name, err)
	}
	return durable.Replace(fsys, name, data, 0o600)
}

// removeTree removes a file or a directory with all that is in it, following no
// link. What is gone already is no error.
func removeTree(fsys afero.Fs, name string) error {
	info, err := durable.Lstat(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		infos, err := entries(fsys, name)
		if err != nil {
			return err
		}
		for _, e := range infos {
			if err := removeTree(fsys, filepath.Join(name, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
