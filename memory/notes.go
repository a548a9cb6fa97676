package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
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
	d, err := s.document(TasksFile)
	if err != nil {
		return nil, err
	}
	return d.Tasks(), nil
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
	var stored Task
	others := []string{s.text(ProgressFile), s.text(TodoFile)}
	err := s.update(TasksFile, func(d *markdown.Document) error {
		add := t
		switch {
		case add.ID == "" && stored.ID != "":
			add.ID = stored.ID // applied again: the id was given already
		case add.ID == "":
			add.ID = d.NextID("T", others...)
		}
		var err error
		stored, err = d.Add(add, "T")
		return err
	})
	return stored, err
}

// text returns a state file's content, or "" when it cannot be read.
func (s *Store) text(name string) string {
	data, err := durable.ReadFile(s.fs, filepath.Join(s.root, name), maxStateBytes)
	if err != nil {
		return ""
	}
	return string(data)
}

// SetTask changes a task and returns it as stored. An unknown id matches
// markdown.ErrNoTask.
func (s *Store) SetTask(id string, e TaskEdit) (Task, error) {
	e.Title, e.Check, e.Result = s.words(e.Title), s.words(e.Check), s.words(e.Result)
	var stored Task
	err := s.update(TasksFile, func(d *markdown.Document) error {
		if err := d.Edit(id, e); err != nil {
			return err
		}
		var ok bool
		if stored, ok = d.Task(id); !ok && e.Title != "" {
			stored, _ = d.Match(e.Title) // named by its title, which is new
		}
		return nil
	})
	return stored, err
}

// Todo changes RALPH_TODO.md. Nothing is ever removed from it: a dropped item
// is marked [-].
func (s *Store) Todo(e TodoEdit) error {
	text := s.words(e.Text)
	switch e.Action {
	case "add":
		return s.update(TodoFile, func(d *markdown.Document) error { return d.AddItem(text) })
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
		return s.update(GoalsFile, func(d *markdown.Document) error {
			for _, t := range d.Tasks() {
				if strings.EqualFold(t.Title, strings.TrimSpace(text)) && t.Status.Open() {
					return nil
				}
			}
			_, err := d.Add(goal, "G")
			return err
		})
	case "met":
		return s.mark(GoalsFile, text, markdown.Done)
	case "drop":
		return s.mark(GoalsFile, text, markdown.Skipped)
	}
	return fmt.Errorf("%q is no action of a goal: use set, met or drop", e.Action)
}

func (s *Store) mark(name, text string, to markdown.Status) error {
	return s.update(name, func(d *markdown.Document) error {
		t, err := d.Match(text)
		if err != nil {
			return err
		}
		return d.Edit(t.ID, markdown.Edit{Status: to})
	})
}

// Progress puts an entry at the top of RALPH_PROGRESS.md.
func (s *Store) Progress(e Entry) error {
	if e.Time.IsZero() {
		e.Time = s.now()
	}
	text := s.words(e.text())
	return s.update(ProgressFile, func(d *markdown.Document) error {
		if !holds(d, text) {
			d.PrependEntry(text)
		}
		return nil
	})
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
	kind := strings.ToUpper(words(l.Type))
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
	text := s.words(fmt.Sprintf("## %s - %s\n\n%s", l.Time.UTC().Format(time.RFC3339), clip(kind, 60), strings.TrimPrefix(b.String(), "\n")))
	return s.update(AgentFile, func(d *markdown.Document) error {
		if !holds(d, text) {
			d.AppendEntry(text)
		}
		return nil
	})
}

// holds reports whether an entry is in the document: a write may have been
// reported as failed after its content was already in place.
func holds(d *markdown.Document, text string) bool {
	return strings.Contains(strings.ReplaceAll(d.String(), "\r\n", "\n"), text)
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

func (s *Store) flushRuns() error {
	if s.readOnly {
		return nil
	}
	for len(s.runs) > 0 {
		if s.runLog == nil {
			l, _, err := durable.OpenLog(s.fs, filepath.Join(s.root, runsFile), durable.LogOptions{
				Quarantine: s.Quarantine(), Valid: json.Valid,
			})
			if err != nil {
				return err
			}
			s.runLog = l
		}
		if err := s.runLog.Append(s.runs[0]); err != nil {
			return err
		}
		s.runs = s.runs[1:]
		s.changed[runsFile] = true
	}
	return nil
}
