package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/memory/durable"
	"ralph/memory/markdown"
)

// Task is a task of RALPH_TASKS.md.
type Task = markdown.Task

// TaskEdit says what to change of a task.
type TaskEdit = markdown.Edit

// TodoEdit changes RALPH_TODO.md.
type TodoEdit struct {
	Action string // add, done or drop
	Text   string // the item's text; for done and drop a part of it is enough
}

// GoalEdit changes RALPH_GOALS.md.
type GoalEdit struct {
	Action     string // set, met or drop
	Text       string // the goal; for met and drop its id or a part of it is enough
	Acceptance []string
}

// Entry is one piece of completed or interrupted work for RALPH_PROGRESS.md.
type Entry struct {
	Time    time.Time // zero: now
	Title   string
	Status  string
	Summary string // of the answer; bounded when written
	Files   []string
	Commits []string
	Check   string // the command and what it said, such as "go test ./...: exit 0"
	RunID   string
}

// Learning is one entry of AGENT.md.
type Learning struct {
	Time                              time.Time // zero: now
	Type                              string
	What, Why, How, Results, Learning string
}

// Tasks returns the project's tasks in the order of the file; none when there
// is no file.
func (s *Store) Tasks() ([]Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[TasksFile]
	if err := s.look(f); err != nil {
		return nil, err
	}
	return f.doc.Tasks(), nil
}

// Task returns the task with an id as it is now; ok is false for none, or where the file
// cannot be read.
func (s *Store) Task(id string) (t Task, ok bool) {
	tasks, err := s.Tasks()
	if err != nil {
		return t, false
	}
	i := slices.IndexFunc(tasks, func(t Task) bool { return strings.EqualFold(t.ID, id) })
	if i < 0 {
		return t, false
	}
	return tasks[i], true
}

// Interrupted returns the tasks that a Ralph was working on when it ended:
// those in progress or marked as interrupted. It is meant to be called before
// this process begins a task of its own.
func (s *Store) Interrupted() ([]Task, error) {
	tasks, err := s.Tasks()
	var out []Task
	for _, t := range tasks {
		if t.Status == markdown.InProgress || t.Status == markdown.Interrupted {
			out = append(out, t)
		}
	}
	return out, err
}

// AddTask adds a task and returns it as stored. An empty id becomes the next
// free one, which no other state file names either.
func (s *Store) AddTask(t Task) (Task, error) {
	t.Title, t.Check, t.Result = s.words(t.Title), s.words(t.Check), s.words(t.Result)
	t.Priority, t.Agent, t.After = s.words(t.Priority), s.words(t.Agent), s.allWords(t.After)
	t.Steps = slices.Clone(t.Steps)
	for i := range t.Steps {
		t.Steps[i].Text = s.words(t.Steps[i].Text)
	}
	err := s.change(TasksFile, plan{
		op: func(d *markdown.Document) (op, error) {
			if t.ID == "" {
				t.ID = s.nextID("T", TasksFile, ProgressFile, TodoFile)
			}
			if _, ok := d.Task(t.ID); ok {
				return op{}, fmt.Errorf("task %q exists already", t.ID)
			}
			return op{Op: opAdd, Task: dataOf(t)}, nil
		},
		then: func(d *markdown.Document) { t, _ = d.Task(t.ID) },
	})
	return t, err
}

// allWords is words of a list; nil stays nil.
func (s *Store) allWords(list []string) []string {
	out := slices.Clone(list)
	for i := range out {
		out[i] = s.words(out[i])
	}
	return out
}

// nextID is the next free id with a prefix that none of the files names, also
// not in prose: that of a deleted task is not given again. What cannot be read
// counts for nothing. mu is held.
func (s *Store) nextID(prefix string, names ...string) string {
	top := 0
	for _, name := range names {
		if f := s.files[name]; s.look(f) == nil {
			top = max(top, f.top(prefix))
		}
	}
	return fmt.Sprintf("%s-%d", prefix, top+1)
}

// SetTask changes a task and returns it as stored. An unknown id matches
// markdown.ErrNoTask.
func (s *Store) SetTask(id string, e TaskEdit) (Task, error) {
	e.Title, e.Check, e.Result = s.words(e.Title), s.words(e.Check), s.words(e.Result)
	e.Priority, e.Agent, e.After = s.words(e.Priority), s.words(e.Agent), s.allWords(e.After)
	var stored Task
	err := s.change(TasksFile, plan{
		op: func(*markdown.Document) (op, error) { return op{Op: opEdit, ID: id, Edit: editOf(e)}, nil },
		then: func(d *markdown.Document) {
			var ok bool
			if stored, ok = d.Task(id); !ok && e.Title != "" {
				stored, _ = d.Match(e.Title) // named by its title, which is new
			}
		},
	})
	return stored, err
}

// Todo changes RALPH_TODO.md. Nothing is ever removed from it: a dropped item
// is marked [-].
func (s *Store) Todo(e TodoEdit) error {
	text := s.words(e.Text)
	switch e.Action {
	case "add":
		return s.change(TodoFile, plan{op: func(*markdown.Document) (op, error) { return op{Op: opItem, Text: text}, nil }})
	case "done":
		return s.mark(TodoFile, text, markdown.Done)
	case "drop":
		return s.mark(TodoFile, text, markdown.Skipped)
	}
	return fmt.Errorf("%q is no action of a todo: use add, done or drop", e.Action)
}

// Goal changes RALPH_GOALS.md. A goal that is there already is not set twice.
func (s *Store) Goal(e GoalEdit) error {
	text := s.words(e.Text)
	switch e.Action {
	case "set":
		goal := Task{Title: text}
		for _, a := range e.Acceptance {
			goal.Steps = append(goal.Steps, markdown.Step{Text: s.words(a)})
		}
		return s.change(GoalsFile, plan{op: func(d *markdown.Document) (op, error) {
			if openGoal(d, text) {
				return op{}, errSame
			}
			goal.ID = s.nextID("G", GoalsFile)
			return op{Op: opGoal, Task: dataOf(goal)}, nil
		}})
	case "met":
		return s.mark(GoalsFile, text, markdown.Done)
	case "drop":
		return s.mark(GoalsFile, text, markdown.Skipped)
	}
	return fmt.Errorf("%q is no action of a goal: use set, met or drop", e.Action)
}

func (s *Store) mark(name, text string, to markdown.Status) error {
	return s.change(name, plan{op: func(d *markdown.Document) (op, error) {
		t, err := d.Match(text)
		return op{Op: opEdit, ID: t.ID, Edit: &editData{Status: to}}, err
	}})
}

// enter puts an entry into a file that is read from one of its ends.
func (s *Store) enter(name, kind, text string) error {
	return s.change(name, plan{blind: true, op: func(*markdown.Document) (op, error) { return op{Op: kind, Text: text}, nil }})
}

// Progress puts an entry at the top of RALPH_PROGRESS.md.
func (s *Store) Progress(e Entry) error {
	if e.Time.IsZero() {
		e.Time = s.now()
	}
	return s.enter(ProgressFile, opPrepend, s.words(e.text()))
}

// Bounds of a progress entry.
const (
	maxTitleBytes   = 160
	maxSummaryBytes = 2000
	maxListed       = 30
)

func (e Entry) text() string {
	var b strings.Builder
	title := clip(words(e.Title), maxTitleBytes)
	if title == "" {
		title = "work"
	}
	fmt.Fprintf(&b, "## %s UTC — %s\n\n", e.Time.UTC().Format("2006-01-02 15:04"), title)
	item(&b, "Status", words(e.Status))
	item(&b, "Files", codes(e.Files))
	item(&b, "Commits", codes(e.Commits))
	item(&b, "Check", code(e.Check))
	item(&b, "Run", code(e.RunID))
	foreignText(&b, "Summary", e.Summary)
	return b.String()
}

func item(b *strings.Builder, key, value string) {
	if value != "" {
		b.WriteString("- " + key + ": " + value + "\n")
	}
}

// foreignText writes a text that is not ours: on the line when it is one, else
// in a fence that it cannot end.
func foreignText(b *strings.Builder, key, text string) {
	text = clip(text, maxSummaryBytes)
	switch {
	case text == "":
	case !strings.ContainsAny(text, "\n\r"):
		item(b, key, words(text))
	default:
		b.WriteString("\n" + key + ":\n\n" + markdown.Fence(strings.ReplaceAll(text, "\r", ""), "text"))
	}
}

// words makes a text one line.
func words(s string) string {
	return strings.ReplaceAll(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }), " "), "<!--", "<! --")
}

func code(s string) string {
	if s = strings.ReplaceAll(words(s), "`", "'"); s == "" {
		return ""
	}
	return "`" + s + "`"
}

func codes(list []string) string {
	var out []string
	for i, s := range list {
		if i == maxListed {
			out = append(out, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		out = append(out, code(s))
	}
	return strings.Join(out, ", ")
}

// Learn appends an entry to AGENT.md.
func (s *Store) Learn(l Learning) error {
	if l.Time.IsZero() {
		l.Time = s.now()
	}
	kind := strings.ToUpper(words(s.redact(l.Type)))
	if kind == "" {
		kind = "NOTE"
	}
	var b strings.Builder
	for _, f := range []struct{ key, text string }{{"What", l.What}, {"Why", l.Why}, {"How", l.How}, {"Results", l.Results}, {"Learning", l.Learning}} {
		foreignText(&b, "**"+f.key+"**", f.text)
	}
	if b.Len() == 0 {
		return errors.New("a learning needs a text")
	}
	return s.enter(AgentFile, opAppend, s.words(fmt.Sprintf("## %s - %s\n\n%s", l.Time.UTC().Format(time.RFC3339), clip(kind, 60), strings.TrimPrefix(b.String(), "\n"))))
}

const runsFile = ".ralph/runs.jsonl"

// AppendRun appends the result document of a run to `.ralph/runs.jsonl`, as
// one line, and returns once it is on disk. What cannot be written is held.
func (s *Store) AppendRun(doc json.RawMessage) error {
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(s.redact(string(doc)))); err != nil {
		return fmt.Errorf("append run: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, line.Bytes())
	return s.flushRuns()
}

// flushRuns appends the records that are not on disk. mu is held, but not while
// the disk works.
func (s *Store) flushRuns() error {
	s.awaitLog()
	if s.readOnly || s.fenced != nil {
		return s.fenced
	}
	if len(s.runs) == 0 {
		return nil
	}
	if s.runLog == nil {
		if err := s.home(); err != nil {
			return err
		}
		l, _, err := durable.OpenLog(s.fs, filepath.Join(s.root, runsFile), durable.LogOptions{
			Quarantine: s.Quarantine(), Valid: json.Valid,
		})
		if err != nil {
			return err
		}
		s.runLog = l
	}
	runs, log := s.runs, s.runLog
	err := s.withLog(func() error {
		err := log.Append(runs...)
		if errors.Is(err, fs.ErrNotExist) { // somebody deleted `.ralph/`
			if err = s.home(); err == nil {
				err = log.Append(runs...)
			}
		}
		return err
	})
	if err == nil {
		s.runs = s.runs[len(runs):]
		s.changed[runsFile] = true
	}
	return err
}
