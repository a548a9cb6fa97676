package recovery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ralph/coordinator/ownership"
	"ralph/coordinator/result"
	"ralph/coordinator/transcript"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/identity"
	"ralph/memory/markdown"
	"ralph/memory/queue"
	"ralph/memory/session"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/exec/supervise"
	"ralph/workers/git"
)

const (
	// askGit bounds all that git is asked while a situation is assessed.
	askGit = 2 * time.Second
	// tailBytes is how much of a journal's end is read at first, and most how far
	// back it is looked for a whole record.
	tailBytes     = 256 << 10
	mostTailBytes = 16 << 20
	// shownCommits bounds the commits that are counted.
	shownCommits = 100
)

// Options are what Assess looks at. Project has the root of the project and whose state it is;
// Session may name the session to look at, by id; without Proc, or with one that is closed, git is
// not asked. Now is time.Now when nil.
type Options struct {
	Project ownership.Project
	Session string
	Proc    *exec.Runner
	Now     func() time.Time
}

// Assess looks how the last Ralph in a project ended. It only reads, takes no lock, and asks git at
// most two seconds. It works with whatever is left: without `.ralph/`, without git, with files that
// cannot be read. The error is that of ctx, or of a Session that is not there
// (session.ErrNotFound).
func Assess(ctx context.Context, o Options) (Report, error) {
	if o.Project.FS == nil {
		o.Project.FS = durable.Disk()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a := assessment{o: o, state: filepath.Join(o.Project.Root, ".ralph")}
	loc, err := git.Find(o.Project.Root)
	if err == nil {
		a.loc = &loc
	}
	alive := a.holder()
	if o.Project.Getenv == nil || a.known() {
		if err := a.session(); err != nil {
			return a.s, err
		}
		a.run()
	}
	a.markdown()
	a.judge(alive)
	if a.s.Verdict != "" && a.s.Verdict != Refused && o.Proc != nil {
		a.git(ctx)
	}
	if ctx.Err() != nil {
		return a.s, context.Cause(ctx)
	}
	return a.s, nil
}

// assessment fills a Report.
type assessment struct {
	o     Options
	state string // the state directory
	loc   *git.Location
	s     Report
	last  time.Time // of the newest session's journal
}

func (a *assessment) warn(format string, args ...any) {
	a.s.Warnings = append(a.s.Warnings, fmt.Sprintf(format, args...))
}

// holder reads who holds or held the project, and says whether they live.
func (a *assessment) holder() (alive bool) {
	notes := []string{filepath.Join(a.state, "lock")}
	if a.loc != nil {
		notes = slices.Insert(notes, 0, filepath.Join(a.loc.CommonDir, "ralph.lock"))
	}
	for _, path := range notes {
		data, err := durable.ReadFile(a.o.Project.FS, path, 64<<10)
		var h memory.Holder
		if err != nil || json.Unmarshal(data, &h) != nil || h.PID <= 0 {
			continue
		}
		if a.s.Holder = h; processOf(h).Alive() {
			return true
		}
	}
	return false
}

func processOf(h memory.Holder) supervise.ProcessID {
	return supervise.ProcessID{PID: h.PID, Start: h.StartTime, Boot: h.BootID}
}

// known reports whether the user's records of the state can be read. Without them no
// session is continued.
func (a *assessment) known() bool {
	found, _ := memory.Examine(a.o.Project.FS, a.o.Project.Home(), a.o.Project.Root) // opening the state warns about it
	return found.Standing != identity.Unknown
}

// session looks at the newest session, or at the one that was asked for.
func (a *assessment) session() error {
	which := strings.TrimSpace(a.o.Session)
	var info session.Info
	var err error
	if which == "" || which == "last" || which == "new" {
		info, err = session.Last(a.o.Project.FS, a.state)
		if errors.Is(err, session.ErrNotFound) {
			return nil
		}
	} else {
		var list []session.Info
		list, err = session.List(a.o.Project.FS, a.state)
		i := slices.IndexFunc(list, func(i session.Info) bool { return i.ID == which })
		if err == nil && i < 0 {
			return fmt.Errorf("%w: %q", session.ErrNotFound, which)
		}
		if i >= 0 {
			info = list[i]
		}
	}
	if err != nil {
		a.warn("the sessions cannot be read: %v", err)
		return nil
	}
	path := filepath.Join(a.state, "sessions", info.Dir, session.JournalFile)
	unsaid := info.Err == nil && which != info.ID && session.Empty(a.o.Project.FS, filepath.Dir(path))
	if _, err := a.o.Project.FS.Stat(path); unsaid || errors.Is(info.Err, fs.ErrNotExist) && errors.Is(err, fs.ErrNotExist) {
		return nil // another tool's directory, or one that was never begun
	}
	a.s.Session, a.s.Name, a.s.began = info.ID, info.Meta.SessionName, info.Meta.StartTime
	a.s.Ended, a.s.Reason = string(info.Meta.Status), info.Meta.ExitReason
	if info.Err != nil {
		a.s.Name = info.Dir
		a.warn("session %s: its metadata cannot be read, its journal is gone by", info.ID)
	}
	if info.Err != nil || info.Meta.Status == session.InProgress {
		a.s.Ended = CutOff
	}
	if end := info.Meta.EndTime; end != nil {
		a.s.At = *end
	}
	end := a.journal(path)
	if a.last = end.at; a.s.At.IsZero() {
		a.s.At = end.at
	}
	a.s.Said, a.s.Answered, a.s.Call = end.said, end.answered, end.call
	return nil
}

// run looks whether a one-shot without a session was cut off after the newest
// session.
func (a *assessment) run() {
	// A pipe in its place must not block.
	d, err := a.o.Project.FS.OpenFile(filepath.Join(a.state, "runs"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return // there are none, or they cannot be read: they are no session to go on with
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil || len(names) == 0 {
		return
	}
	name := slices.Max(names) // they begin with the time
	end := a.journal(filepath.Join(a.state, "runs", name, session.JournalFile))
	if end.at.IsZero() || end.ended || !end.at.After(a.last) {
		return
	}
	a.s.Run = name
	if a.s.Ended == CutOff || a.s.Ended == string(session.Paused) {
		return // there is something to go on with
	}
	a.s.At, a.s.Said, a.s.Answered, a.s.Call = end.at, end.said, end.answered, end.call
}

// ending is what the end of a journal tells.
type ending struct {
	at                   time.Time
	said, answered, call string
	ended                bool // the last turn has an outcome
}

// journal reads the end of a journal without opening it for writing.
func (a *assessment) journal(path string) ending {
	var e ending
	for window := int64(tailBytes); ; window *= 4 {
		tail, whole, err := durable.ReadTail(a.o.Project.FS, path, window)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				a.warn("a journal cannot be read: %v", err)
			}
			return e
		}
		e = readEnding(tail)
		if whole || window >= mostTailBytes || e.said != "" {
			if n := len(tail); n > 0 && tail[n-1] != '\n' {
				a.s.Torn = append(a.s.Torn, a.relative(path))
			}
			return e
		}
	}
}

func (a *assessment) relative(path string) string {
	if rel, err := filepath.Rel(a.o.Project.Root, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}

func readEnding(tail []byte) ending {
	var e ending
	var open []agent.Call
	for line := range bytes.Lines(tail) {
		var l transcript.Record
		if len(line) < len("{}") || json.Unmarshal(line, &l) != nil {
			continue
		}
		e.at = l.Time
		switch l.Kind {
		case transcript.Cleared:
			e, open = ending{at: l.Time, ended: true}, nil
		case transcript.Outcome:
			e.ended = true
		case transcript.Message:
			var m agent.Message
			if json.Unmarshal(l.Payload, &m) != nil {
				continue
			}
			e.ended = false
			open = e.take(m, open)
		}
	}
	if len(open) > 0 && !e.ended {
		e.call = strings.TrimSpace(open[0].Name + " " + open[0].Args)
	}
	return e
}

// take takes a message in; open are the calls that have no result yet.
func (e *ending) take(m agent.Message, open []agent.Call) []agent.Call {
	switch m.Role {
	case agent.RoleUser:
		if text, ok := transcript.Said(m); ok {
			e.said, e.answered = text, ""
		}
		return nil
	case agent.RoleAssistant:
		if strings.TrimSpace(m.Text) != "" {
			e.answered = m.Text
		}
		return slices.Clone(m.Calls)
	case agent.RoleTool:
		return slices.DeleteFunc(open, func(c agent.Call) bool { return c.ID == m.CallID })
	}
	return open
}

// markdown reads what the files in the root and the queue say.
func (a *assessment) markdown() {
	if data, ok := a.text(filepath.Join(a.o.Project.Root, memory.TasksFile)); ok {
		for _, t := range markdown.Parse(data).Tasks() {
			if t.Status == markdown.InProgress || t.Status == markdown.Interrupted {
				a.s.Tasks = append(a.s.Tasks, t)
			}
		}
	}
	if data, ok := a.text(filepath.Join(a.o.Project.Root, memory.ProgressFile)); ok {
		a.s.Stopped = stoppedIn(string(data))
	}
	left, err := queue.Peek(a.o.Project.Queue())
	if err != nil {
		a.warn("%v", err)
	}
	a.s.Messages = len(left)
}

// text reads a state file; one that cannot be read is told of.
func (a *assessment) text(path string) ([]byte, bool) {
	data, err := durable.ReadFile(a.o.Project.FS, path, maxRecovered)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.warn("%v", err)
	}
	return data, err == nil
}

// maxRecovered bounds a state file that is read to say how things stand.
const maxRecovered = 32 << 20

// stoppedIn finds what the newest entry of RALPH_PROGRESS.md says was
// interrupted: its title, or "".
func stoppedIn(text string) string {
	title, in := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "## "); ok {
			if in {
				return ""
			}
			in, title = true, rest
			if _, after, ok := strings.Cut(rest, " — "); ok {
				title = after
			}
			continue
		}
		if rest, ok := strings.CutPrefix(line, "- Status:"); ok && in {
			switch result.Status(strings.TrimSpace(rest)) {
			case result.Interrupted, result.Timeout, result.Limit:
				return title
			}
			return ""
		}
	}
	return ""
}

// judge says what it all means.
func (a *assessment) judge(alive bool) {
	s := &a.s
	left := len(s.Tasks) > 0 || s.Stopped != "" || s.Messages > 0
	_, gone := a.o.Project.FS.Stat(a.state)
	switch {
	case alive:
		s.Verdict, s.Why = Refused, (&memory.LockedError{Holder: s.Holder}).Error()
		if s.Ended == CutOff {
			s.Ended = stillRunning
		}
	case s.Ended == CutOff:
		s.Verdict, s.Why = SameSession, "it was cut off"
	case s.Ended == string(session.Paused):
		s.Verdict, s.Why = SameSession, "it was interrupted"
		if s.Reason != "" {
			s.Why += ": " + s.Reason
		}
	case s.Run != "":
		s.Verdict, s.Why = FreshState, "a one-shot was cut off, and those have no session to go on with"
	case s.Session == "" && gone != nil && (left || s.Holder.PID > 0):
		s.Verdict, s.Why = FreshState, "there is no .ralph directory; this is what the Markdown files and git tell"
	case s.Session == "" && left:
		s.Verdict, s.Why = FreshState, "there is no session; this is what the Markdown files and git tell"
	}
}

// git asks git, and looks for what a crash leaves; all at once.
func (a *assessment) git(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askGit)
	defer cancel()
	points := git.OpenCheckpoints(a.o.Proc, a.o.Project.Root, a.state, identity.CheckpointDir(a.o.Project.Home(), a.o.Project.Root), a.loc)
	var wg sync.WaitGroup
	var turns []string
	errs := make([]error, 3)
	wg.Go(func() { turns, errs[0] = cutTurns(ctx, points) })
	if a.loc != nil {
		repo := git.Open(a.o.Proc, *a.loc)
		a.s.Git = true
		wg.Go(func() { a.s.Dirty, errs[1] = dirty(ctx, repo) })
		wg.Go(func() { a.s.Branch, a.s.Commits, errs[2] = a.commits(ctx, repo) })
	}
	wg.Wait()
	a.s.Turns, a.s.Worktrees, a.s.Locks = turns, points.Worktrees(), points.StaleLocks()
	if err := errors.Join(errs...); err != nil {
		a.warn("git did not tell everything: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// cutTurns names the turns that have a checkpoint before them and none after.
func cutTurns(ctx context.Context, points *git.Checkpoints) ([]string, error) {
	list, err := points.List(ctx)
	if err != nil {
		return nil, err
	}
	if p, ok := git.CutTurn(list); ok {
		return []string{strings.TrimSuffix(p.ID, git.BeforeTurn)}, nil
	}
	return nil, nil
}

// dirty counts the files that are not committed, without Ralph's own.
func dirty(ctx context.Context, repo *git.Repo) (int, error) {
	changes, err := repo.Status(ctx)
	n := 0
	for _, c := range changes {
		if !slices.Contains(stateFiles(), c.Path) {
			n++
		}
	}
	return n, err
}

func stateFiles() []string {
	return []string{memory.GoalsFile, memory.TasksFile, memory.TodoFile, memory.ProgressFile, memory.AgentFile}
}

// commits counts those since the session began.
func (a *assessment) commits(ctx context.Context, repo *git.Repo) (branch string, n int, err error) {
	if branch, err = repo.Branch(ctx); err != nil || a.s.began.IsZero() {
		return branch, 0, err
	}
	list, err := repo.Log(ctx, git.LogOptions{N: shownCommits})
	for _, c := range list {
		if c.Time.After(a.s.began) { // git counts in seconds
			n++
		}
	}
	return branch, n, err
}
