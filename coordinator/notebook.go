package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/markdown"
	"ralph/memory/session/folder"
	"ralph/workers/tools"
)

var _ tools.Notebook = notebook{}

// errNoState answers a tool that wants to keep something when nothing is kept.
var errNoState = errors.New("nothing is kept in this run")

// use calls f with the store; mu is held meanwhile. A change that is held is
// made: its result says that it is not saved.
func (b *book) use(f func(*memory.Store) (string, error)) (string, error) {
	b.mu.Lock()
	defer b.leave()
	if b.store == nil || b.dry {
		return "", errNoState
	}
	text, err := f(b.store)
	if !errors.Is(err, memory.ErrHeld) {
		return text, err
	}
	if !b.held {
		b.held = true
		b.note(heldText(err))
	}
	return text + " (held in memory, not saved yet)", nil
}

// What an agent cannot change by the task tool: it would prove its work by that.
var (
	errPlanWorked = errors.New("the plan is being worked, and only Ralph changes its tasks then: call finish when yours is done")
	errUsersCheck = errors.New("the check of a task that is there is the user's: say which one you would take instead, and why")
)

// Task adds or changes a task and returns it as it stands in the file. The check of
// a task that is there stays, and so does every task of a plan while a run works it.
func (b *book) Task(_ context.Context, u tools.TaskUpdate) (string, error) {
	switch {
	case u.ID == "":
	case b.c.worksPlan(memory.TasksFile):
		return "", errPlanWorked
	case u.Check != "":
		return "", errUsersCheck
	}
	var was, now memory.Task
	text, err := b.use(func(s *memory.Store) (string, error) {
		priority := ""
		if u.Priority != nil {
			priority = strconv.Itoa(*u.Priority)
		}
		var t memory.Task
		var err error
		if u.ID == "" {
			status := markdown.Status(u.Status)
			if status == "" {
				status = markdown.Pending
			}
			t, err = s.AddTask(memory.Task{Title: u.Title, Status: status, Priority: priority, After: u.After, Check: u.Check, Result: u.Result})
		} else {
			was, _ = s.Task(u.ID)
			t, err = s.SetTask(u.ID, memory.TaskEdit{Title: u.Title, Status: markdown.Status(u.Status), Priority: priority, After: u.After, Result: u.Result})
		}
		if err != nil && !errors.Is(err, memory.ErrHeld) {
			return "", err
		}
		now = t
		delete(b.working, t.ID)
		if t.Status == markdown.InProgress {
			b.working[t.ID] = true
		}
		if b.story != nil {
			b.story.worked(t)
		}
		return fmt.Sprintf("%s %s (%s)", t.ID, t.Title, t.Status), err
	})
	b.c.changes.noteTask(was, now)
	return text, err
}

// Todo changes RALPH_TODO.md.
func (b *book) Todo(_ context.Context, u tools.TodoUpdate) (string, error) {
	return b.use(func(s *memory.Store) (string, error) {
		return u.Action + ": " + u.Text, s.Todo(memory.TodoEdit{Action: u.Action, Text: u.Text})
	})
}

// Goal changes RALPH_GOALS.md.
func (b *book) Goal(_ context.Context, u tools.GoalUpdate) (string, error) {
	return b.use(func(s *memory.Store) (string, error) {
		return u.Action + ": " + u.Text, s.Goal(memory.GoalEdit{Action: u.Action, Text: u.Text, Acceptance: u.Acceptance})
	})
}

// Learn adds an entry to AGENT.md.
func (b *book) Learn(_ context.Context, l tools.Learning) (string, error) {
	return b.use(func(s *memory.Store) (string, error) {
		if b.story != nil {
			b.story.learned = append(b.story.learned, cmp.Or(l.Learning, l.What))
		}
		return "kept in " + memory.AgentFile, s.Learn(memory.Learning{Type: l.Type, What: l.What, Why: l.Why, How: l.How, Results: l.Results, Learning: l.Learning})
	})
}

// Decide keeps a decision in the decision history and the conversation of the session;
// without a session in AGENT.md.
func (b *book) Decide(_ context.Context, ch tools.Choice) (string, error) {
	return b.use(func(s *memory.Store) (string, error) {
		if b.story == nil {
			how := ""
			if len(ch.Alternatives) > 0 {
				how = "considered: " + strings.Join(ch.Alternatives, "; ")
			}
			return "kept in " + memory.AgentFile, s.Learn(memory.Learning{Type: "decision", What: ch.What, Why: ch.Why, How: how, Learning: ch.What})
		}
		b.story.chose(ch)
		return "decided: " + ch.What, nil
	})
}

// notebook is the book for an agent that works at a station: what it says of a
// document is read in its own tree.
type notebook struct {
	*book
	at *station
}

// Feature adds a feature to the inventory of the session, or of the project
// when there is no session.
func (n notebook) Feature(_ context.Context, f tools.Feature) (string, error) {
	b, doc := n.book, n.describe(f.Document)
	return b.use(func(s *memory.Store) (string, error) {
		dir, session := "", ""
		if b.session != nil {
			dir, session = b.session.Dir(), folder.SessionID(b.session.ID())
		}
		id, err := s.RecordFeature(dir, session, memory.Feature{Name: f.Name, Category: f.Category, Directory: f.Directory, Purpose: f.Purpose,
			KeyFiles: f.KeyFiles, Dependencies: f.Dependencies, Status: f.Status, Challenges: f.Challenges, Assumptions: f.Assumptions, Document: doc})
		if err == nil && b.session != nil {
			b.session.Features(f.Challenges)
		}
		said := id + " " + f.Name
		if doc.Status == missing {
			said += "; its document " + doc.Path + " is not there: record the feature again once it is written"
		}
		return said, err
	})
}

// missing is the status of a document that is not there, as memory knows it.
const missing = "missing"

// describe reads what there is to say about a feature's document.
func (n notebook) describe(path string) memory.Document {
	if path == "" {
		return memory.Document{}
	}
	doc := memory.Document{Path: path, Title: filepath.Base(path), Status: missing}
	f, resolved, err := n.at.work.Open(path)
	if err != nil {
		return doc
	}
	text, err := io.ReadAll(io.LimitReader(f, maxStateBytes))
	if err = errors.Join(err, f.Close()); err != nil {
		return doc
	}
	doc.Path, doc.Status, doc.Words = resolved, "written", len(strings.Fields(string(text)))
	if title, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "# "); ok {
		doc.Title, _, _ = strings.Cut(title, "\n")
	}
	return doc
}

// maxStateBytes bounds a file of the project that is read whole.
const maxStateBytes = 1 << 20

// maxRemembered bounds what of each state file goes into the system prompt, in
// bytes.
const maxRemembered = 4 << 10

// remembered is what the state files tell the model at the start: the goals,
// the open tasks and the newest learnings.
func (b *book) remembered() (goals, tasks, learned string, err error) {
	read := func(name string) string {
		data, rerr := durable.ReadFile(b.c.opt.FS, filepath.Join(b.c.opt.Root, name), maxStateBytes)
		if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return string(data)
	}
	goals = head(read(memory.GoalsFile), maxRemembered)
	learned = tail(read(memory.AgentFile), maxRemembered)
	var open strings.Builder
	for _, t := range markdown.Parse([]byte(read(memory.TasksFile))).Tasks() {
		if t.Status.Open() {
			fmt.Fprintf(&open, "- %s %s (%s)\n", t.ID, t.Title, t.Status)
		}
	}
	return goals, head(open.String(), maxRemembered), learned, err
}

// lately returns the newest of the progress and what is to do, for the beginning of a
// conversation.
func (b *book) lately() (progress, todo string) {
	read := func(name string) string {
		data, err := durable.ReadFile(b.c.opt.FS, filepath.Join(b.c.opt.Root, name), maxStateBytes)
		if err != nil {
			return "" // of what cannot be read others tell
		}
		return string(data)
	}
	progress = read(memory.ProgressFile)
	if i := strings.Index(progress, "\n## "); i >= 0 {
		progress = progress[i+1:] // newest first
	}
	return head(progress, maxLately), tail(read(memory.TodoFile), maxLately)
}

// maxLately bounds what of each file a conversation begins with, in bytes.
const maxLately = 2 << 10

// head is the beginning of a text, cut at a line end, or within a line that is
// longer than n.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = strings.ToValidUTF8(s[:n], "")
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		return s[:i+1]
	}
	return s
}

// tail is the end of a text, begun at a line start, or within a line that is
// longer than n.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = strings.ToValidUTF8(s[len(s)-n:], "")
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < len(s)-1 {
		return s[i+1:]
	}
	return s
}

const maxTitle = 80

// progressOf is the entry for RALPH_PROGRESS.md.
func progressOf(out result.Outcome, j Job, run string) memory.Entry {
	title, _, _ := strings.Cut(strings.TrimSpace(j.Task), "\n")
	if r := []rune(title); len(r) > maxTitle {
		title = string(r[:maxTitle-1]) + "…"
	}
	e := memory.Entry{Title: title, Status: string(out.Status), Summary: out.Answer, Commits: out.Commits, RunID: run}
	if out.Failure != nil {
		e.Summary = strings.TrimSpace(out.Failure.Message + "\n\n" + out.Answer)
	}
	for _, f := range out.FilesChanged {
		e.Files = append(e.Files, f.Path)
	}
	if out.Check != nil {
		e.Check = fmt.Sprintf("%s: exit %d", out.Check.Command, out.Check.ExitCode)
	}
	return e
}
