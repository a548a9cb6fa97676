// Package sessions lists, finds, checks, archives and joins the closed sessions of a project.
package sessions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator/ownership"
	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/config"
	"ralph/memory/durable"
	"ralph/memory/exchange"
	"ralph/memory/markdown"
	"ralph/memory/text"

	"ralph/memory/registry"
	"ralph/memory/retention"
	"ralph/memory/session"
	"ralph/memory/session/folder"
)

// holderSessions is what a Ralph says that puts sessions in order.
const holderSessions = "sessions"

// orderWait is how long a Ralph that is about to end is waited for: another
// command over sessions takes moments.
const orderWait = 500 * time.Millisecond

// maxTasksBytes bounds the project's task file.
const maxTasksBytes = 1 << 20

// maxListedBytes bounds the journals that a list adds up.
const maxListedBytes = 128 << 20

// Sessions lists, checks and changes the sessions of a project. Nothing is open between calls: reading
// takes no lock, and what writes takes the project's for its time. A project that has no state is
// left without. It is used from one goroutine; its errors are of type *result.Error where there is a
// way out.
type Sessions struct {
	o        Options
	policy   retention.Policy
	redact   func(string) string
	registry *registry.Registry
	warn     func(string)
}

// sessionOptions is what Sessions are made of.
type Options struct {
	// FS holds the state; nil means the real one.
	FS afero.Fs
	// Root is the project's root, absolute.
	Root   string
	Config *config.Config
	// RunID names this process's work.
	RunID string
	// Getenv reads the user's environment; nil is for a caller that answers for the state.
	Getenv func(string) string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// OpenSessions returns the sessions of a project; it touches nothing. warn takes whole sentences, on
// the caller's goroutine.
func Open(o Options, warn func(string)) *Sessions {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	getenv := o.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	r := o.Config.Retention
	return &Sessions{o: o, warn: warn, redact: text.NewRedactor(o.Config.Secrets()).String,
		policy:   retention.Policy{ArchiveAfter: r.ArchiveAfter, DeleteRawAfter: r.DeleteRawAfter, Summaries: r.Summarize == "quarterly"},
		registry: registry.New(registry.Options{FS: o.FS, Path: registry.Path(getenv), Now: o.Now})}
}

func (o Options) owned() ownership.Project {
	return ownership.Project{FS: o.FS, Root: o.Root, Getenv: o.Getenv, Adopt: o.Config.AdoptState}
}

func (s *Sessions) stateDir() string { return filepath.Join(s.o.Root, ".ralph") }

func (s *Sessions) exchange() exchange.Options {
	return exchange.Options{FS: s.o.FS, StateDir: s.stateDir(), Now: s.o.Now, Redact: s.redact, Key: s.o.owned().Key()}
}

// scan looks at the sessions as they stand now. held says that we hold the
// project: then nobody works in any.
func (s *Sessions) scan(held bool) (retention.State, error) {
	st, err := scanProject(s.o.FS, s.o.Root, held)
	if err != nil {
		return st, &result.Error{Op: "list sessions", Err: err, Status: result.Failed, Hint: "ralph doctor looks at the state directory"}
	}
	return st, nil
}

func scanProject(fsys afero.Fs, root string, held bool) (retention.State, error) {
	st, err := retention.Scan(fsys, filepath.Join(root, ".ralph"))
	if held || err != nil {
		return st, err
	}
	if h, alive := memory.Locked(fsys, root); alive {
		markLive(st.Sessions, h)
	}
	return st, nil
}

// lockSlack is how much older than the lock a session's metadata may seem.
const lockSlack = 2 * time.Second

// markLive finds the session that the holder of the project works in: the one
// that it names, or else, of those at work that were written since it came, the
// one written last. A one-shot works in none.
func markLive(sessions []retention.Session, h memory.Holder) {
	at := -1
	for i, x := range sessions {
		if x.Archived || x.Status != session.InProgress {
			continue
		}
		if h.SessionID == x.ID {
			at = i
			break
		}
		if !x.Changed.Before(h.AcquiredAt.Add(-lockSlack)) && (at < 0 || x.Changed.After(sessions[at].Changed)) {
			at = i
		}
	}
	if at >= 0 {
		sessions[at].Live = true
	}
}

// List returns the project's sessions by number, or with all those of every
// project in the registry, this one's first.
func (s *Sessions) List(ctx context.Context, all bool) ([]retention.Row, error) {
	st, err := s.scan(false)
	if err != nil {
		return nil, err
	}
	left := int64(maxListedBytes)
	rows := []retention.Row{}
	for _, x := range st.Sessions {
		rows = append(rows, x.Row(s.o.FS, s.stateDir(), &left))
	}
	if !all {
		return rows, nil
	}
	listed, warning, err := s.registry.List(ctx)
	if err = errors.Join(err, ctx.Err()); err != nil {
		s.warn("only this project's sessions are listed: " + err.Error())
		return rows, nil
	}
	if warning != "" {
		s.warn(warning)
	}
	seen := map[string]bool{s.o.Root: true}
	for _, e := range listed {
		if seen[e.Cwd] && !e.Gone {
			continue
		}
		if !e.Gone {
			seen[e.Cwd] = true
			st, err := scanProject(s.o.FS, e.Cwd, false)
			if err == nil {
				for _, x := range st.Sessions {
					rows = append(rows, x.Row(s.o.FS, filepath.Join(e.Cwd, ".ralph"), &left))
				}
				continue
			}
			s.warn(fmt.Sprintf("the sessions of %s cannot be read: %v", e.Cwd, err))
		}
		rows = append(rows, registered(e))
	}
	return rows, nil
}

// registered is what the registry alone knows of a session.
func registered(e registry.Listed) retention.Row {
	started, updated := e.StartedAt, e.UpdatedAt
	kind := "chat"
	if e.Feature != "" {
		kind = "run"
	}
	return retention.Row{ID: e.SessionID, Name: e.Feature, Kind: kind, Status: string(e.Status), Started: &started, Ended: &updated, Project: e.Cwd, Gone: e.Gone}
}

// Show reads one session: its line in the list and its details.
func (s *Sessions) Show(which string) (retention.Row, exchange.Details, error) {
	st, err := s.scan(false)
	if err != nil {
		return retention.Row{}, exchange.Details{}, err
	}
	x, err := find(st.Sessions, which)
	if err != nil {
		return retention.Row{}, exchange.Details{}, err
	}
	left := int64(maxListedBytes)
	row := x.Row(s.o.FS, s.stateDir(), &left)
	d, err := exchange.Look(s.exchange(), x)
	if err != nil {
		return row, d, &result.Error{Op: "show session", Path: x.ID, Err: err, Status: result.Failed, Hint: "ralph doctor looks at the state directory"}
	}
	for _, w := range d.Warnings {
		s.warn(w)
	}
	return row, d, nil
}

// find returns the session that which names: a number, a name, the directory's
// name, or a prefix that only one has. Those in the archive count too.
func find(sessions []retention.Session, which string) (retention.Session, error) {
	word := strings.ToLower(strings.TrimSpace(which))
	number := folder.Number(word)
	names := func(x retention.Session) []string {
		return []string{x.ID, strings.TrimLeft(x.ID, "0"), strings.ToLower(filepath.Base(x.Path)), strings.ToLower(x.Name)}
	}
	for _, fits := range []func(string) bool{func(n string) bool { return n == word || n == number }, func(n string) bool { return word != "" && strings.HasPrefix(n, word) }} {
		var found []retention.Session
		for _, x := range sessions {
			if slices.ContainsFunc(names(x), fits) {
				found = append(found, x)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return retention.Session{}, &result.Error{Op: "find session", Path: which, Status: result.Usage, Hint: "ralph sessions list shows their numbers",
				Err: fmt.Errorf("several fit: %s %q and %s %q", found[0].ID, found[0].Name, found[1].ID, found[1].Name)}
		}
	}
	hint := "ralph sessions list shows what there is"
	var all []string
	for _, x := range sessions {
		all = append(all, names(x)...)
	}
	if best := text.Closest(word, all); best != "" {
		hint = fmt.Sprintf("did you mean %q? ralph sessions list shows what there is", best)
	}
	return retention.Session{}, &result.Error{Op: "find session", Path: which, Err: errors.New("no such session"), Status: result.Usage, Hint: hint}
}

// hold calls do with the project's lock held. dry takes none and writes
// nothing. make says that a project without state gets one.
func (s *Sessions) hold(ctx context.Context, dry, begin bool, do func(st retention.State) error) (err error) {
	if !begin {
		if _, serr := s.o.FS.Stat(s.stateDir()); errors.Is(serr, fs.ErrNotExist) {
			dry = true // nothing is there to change, and so nothing is made
		}
	}
	if !dry {
		if err := s.o.owned().Check(); err != nil {
			return err
		}
		store, found, err := memory.Open(ctx, memory.Options{FS: s.o.FS, Root: s.o.Root, Now: s.o.Now, Holder: holderSessions, SessionID: s.o.RunID, LockWait: orderWait, Redact: s.redact, Owner: s.o.owned().Owner()})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		for _, w := range found.Warnings {
			s.warn(w)
		}
		if found.ReadOnly {
			return &result.Error{Op: "change sessions of", Path: s.o.Root, Err: errors.New("nothing can be saved in this project"), Status: result.Failed, Hint: "ralph doctor says why; --dry-run shows what would be done"}
		}
	}
	st, err := s.scan(!dry)
	if err != nil {
		return err
	}
	return do(st)
}

// openTasks are the project's open tasks, a line each.
func (s *Sessions) openTasks() []string {
	data, err := durable.ReadFile(s.o.FS, filepath.Join(s.o.Root, memory.TasksFile), maxTasksBytes)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.warn("the project's tasks are left out: " + err.Error())
		}
		return nil
	}
	var open []string
	for _, t := range markdown.Parse(data).Tasks() {
		if t.Status.Open() {
			open = append(open, strings.TrimSpace(fmt.Sprintf("%s %s (%s)", t.ID, t.Title, t.Status)))
		}
	}
	return open
}

// register notes in the registry of all projects how a session stands; that it
// cannot is no more than a warning.
func Register(ctx context.Context, r *registry.Registry, root, session string, pid int, status registry.Status, run *registry.Entry) (warning string) {
	e := registry.Entry{AgentPlugin: "ralph", TrackerPlugin: "markdown"}
	if run != nil {
		e = *run
	}
	e.SessionID, e.Cwd, e.PID, e.Status = registry.ID(root, session), root, pid, status
	warning, err := r.Put(ctx, e)
	if errors.Is(err, registry.ErrNoHome) {
		return ""
	}
	if err != nil {
		return "ralph sessions --all will not know this session: " + err.Error()
	}
	return warning
}
