package plan

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ralph/memory/durable"
	"ralph/memory/markdown"
)

// markdownTracker keeps a plan in a Markdown file: RALPH_TASKS.md through the book of
// the project, which merges what the user edits, any other by itself. It is safe for
// concurrent use.
type markdownTracker struct {
	place
	book Book

	// mu makes looking at a task and changing it one step.
	mu     sync.Mutex
	links  links
	unread []markdown.Heading // when it was loaded first
	strays []markdown.Stray
	loaded bool
}

func openMarkdown(o Options, p place) *markdownTracker {
	t := &markdownTracker{place: p, book: fileBook{p}}
	if p.rel == markdownFile && o.Book != nil {
		t.book = o.Book // which is about that file
	}
	return t
}

// fileBook is the Book of a Markdown file that nobody else keeps.
type fileBook struct{ place }

// Tasks implements Book.
func (b fileBook) Tasks() ([]markdown.Task, error) {
	data, err := b.read()
	if err != nil {
		return nil, err
	}
	return markdown.Parse(data).Tasks(), nil
}

// SetTask implements Book. What others write meanwhile is kept: the change goes into
// that text.
func (b fileBook) SetTask(id string, e markdown.Edit) (markdown.Task, error) {
	was, err := b.read()
	if err != nil {
		return markdown.Task{}, err
	}
	text := was
	for range maxTries {
		d := markdown.Parse(text)
		if err := d.Edit(id, e); err != nil {
			return markdown.Task{}, err
		}
		next := d.Bytes()
		late, err := durable.Swap(b.fs, b.abs, was, next, 0o644)
		switch {
		case errors.Is(err, durable.ErrChanged):
			if was, err = b.read(); err != nil {
				return markdown.Task{}, err
			}
			text = was
		case late != nil:
			was, text = next, late
		case err != nil:
			return markdown.Task{}, b.fail("mark task in plan", err)
		default:
			stored, _ := d.Task(id)
			return stored, nil
		}
	}
	return markdown.Task{}, durable.ErrChanged
}

// Name implements Tracker.
func (t *markdownTracker) Name() string { return "markdown" }

// tasks returns the tasks as they are now, with their fingerprint.
func (t *markdownTracker) tasks(ctx context.Context) ([]markdown.Task, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	tasks, err := t.book.Tasks()
	if err != nil {
		var own *Problems
		if !errors.As(err, &own) {
			err = t.fail("open plan", err)
		}
		return nil, "", err
	}
	return tasks, stampOf(tasks), nil
}

// stampOf is the fingerprint of what a list of tasks says, wherever they stand.
func stampOf(tasks []markdown.Task) string {
	h := sha256.New()
	buf := make([]byte, 0, 1024)
	add := func(s string) {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	for i := range tasks {
		t := &tasks[i]
		buf = buf[:0]
		for _, s := range [...]string{t.ID, t.Title, string(t.Status), t.Priority, t.Agent, t.Check, t.Result, t.Epic, t.Kind, t.Description} {
			add(s)
		}
		add(strings.Join(t.After, "\x00"))
		add(strings.Join(t.Labels, "\x00"))
		for _, s := range t.Steps {
			add(s.Text)
			if s.Done {
				buf = append(buf, 1)
			}
			buf = append(buf, 0)
		}
		_, _ = h.Write(buf) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Stamp implements Tracker.
func (t *markdownTracker) Stamp(ctx context.Context) (string, error) {
	_, stamp, err := t.tasks(ctx)
	return stamp, err
}

// Load implements Tracker.
func (t *markdownTracker) Load(ctx context.Context) (*Plan, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tasks, stamp, err := t.tasks(ctx)
	if err != nil {
		return nil, err
	}
	if data, err := t.place.read(); err == nil && !t.loaded {
		d := markdown.Parse(data)
		t.unread, t.strays, t.loaded = d.Unread(), d.Strays(), true
	}
	// Lines move without a change of the tasks: the plan is made anew each time.
	p, err := t.read(tasks)
	if err != nil {
		return nil, err
	}
	p.Stamp = stamp
	return p, nil
}

func (t *markdownTracker) read(tasks []markdown.Task) (*Plan, error) {
	r := &reader{file: t.rel, noun: "task", links: &t.links}
	p := &Plan{Tracker: t.Name(), Path: t.rel, Tasks: make([]Task, 0, len(tasks))}
	folded := make(map[string]string, len(tasks))
	for i := range tasks {
		folded[strings.ToLower(tasks[i].ID)] = tasks[i].ID
	}
	for i := range tasks {
		p.Tasks = append(p.Tasks, t.task(r, &tasks[i], folded))
	}
	p.epicsByUse()
	r.check(p, func(int, string) int { return 0 })
	if len(r.problems) > 0 {
		return nil, &Problems{Op: "open plan", Path: t.rel, List: inOrder(r.problems), Hint: "put it right and check it with: ralph plan check"}
	}
	if n := len(t.unread); n > 0 {
		ids := make([]string, 0, n)
		for _, h := range t.unread[:min(n, 20)] {
			ids = append(ids, clip(h.ID))
		}
		r.warn(t.unread[0].Line, "", "%d headings are text and no tasks, as others have ids of stories (US-1, T-1): %s", n, strings.Join(ids, ", ")+more(n-len(ids)))
	}
	t.warnStrays(r, false, "list items without a box, and headings without an id, are no tasks; write \"- [ ]\" before them: %s")
	t.warnStrays(r, true, "lines that begin with a box in another form are no tasks; write it as \"- [ ]\": %s")
	if !p.work() {
		return nil, &Problems{Op: "open plan", Path: t.rel, Err: ErrEmpty, Hint: "an empty plan is not taken as done; add tasks (- [ ] **T-1** …), or name another plan with --plan"}
	}
	p.Warnings = inOrder(r.warnings)
	return p, nil
}

// warnStrays warns of lines that look like tasks.
func (t *markdownTracker) warnStrays(r *reader, box bool, text string) {
	const most = 20
	var lines []string
	n, first := 0, 0
	for _, s := range t.strays {
		if s.Box != box {
			continue
		}
		if n++; n == 1 {
			first = s.Line
		}
		if n <= most {
			lines = append(lines, fmt.Sprintf("%q (line %d)", clip(s.Text), s.Line))
		}
	}
	if n > 0 {
		r.warn(first, "", text, strings.Join(lines, ", ")+more(n-len(lines)))
	}
}

// task takes over one task. Ids are matched as the file's own reader does,
// whatever the case of their letters.
func (t *markdownTracker) task(r *reader, m *markdown.Task, folded map[string]string) Task {
	out := Task{
		ID: m.ID, Title: m.Title, Description: m.Description, Status: fromMarkdown(m.Status), Priority: m.Rank(),
		Kind: m.Kind, Epic: m.Epic, Labels: m.Labels, Check: m.Check, Result: m.Result, StatusLine: m.StatusLine, File: t.rel, Line: m.Line,
	}
	if m.Title == "" {
		r.fault(m.Line, 0, m.ID, "task %s: has no title", clip(m.ID))
	}
	if base, n, again := strings.Cut(m.ID, "~"); again && base != "" && m.Explicit {
		r.fault(m.Line, 0, base, "task %s: the id is there again (%s times by here)", clip(base), n)
	}
	if same, ok := folded[strings.ToLower(m.Epic)]; ok && m.Epic != "" {
		out.Epic = same
	}
	for _, id := range m.After {
		if same, ok := folded[strings.ToLower(id)]; ok {
			id = same
		}
		out.After = append(out.After, id)
	}
	out.After = dedupe(out.After)
	for _, s := range m.Steps {
		out.Criteria = append(out.Criteria, Criterion{Text: s.Text, Done: s.Done})
	}
	out.Agent, out.Assignee = cutActor(m.Agent)
	if out.Status != InProgress {
		out.Assignee = ""
	}
	return out
}

// more says how many are not named.
func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

func fromMarkdown(s markdown.Status) Status {
	if s == markdown.Pending || !s.Valid() {
		return Pending
	}
	return Status(s) // the other words are the same
}

func toMarkdown(s Status) markdown.Status {
	if s == Pending {
		return markdown.Pending
	}
	return markdown.Status(s)
}

// The field `agent` of a task says who is to work it, who works it, or both:
// "claude", "ralph/s-1/login", "claude (ralph/s-1/login)". What begins with
// ralph/ is a claim.
const claimPrefix = "ralph/"

// cutActor splits the field.
func cutActor(field string) (agent, actor string) {
	if strings.HasPrefix(field, claimPrefix) {
		return "", field
	}
	if i := strings.LastIndex(field, " ("+claimPrefix); i >= 0 && strings.HasSuffix(field, ")") {
		return field[:i], field[i+2 : len(field)-1]
	}
	return field, ""
}

// withActor puts a claim into the field.
func withActor(agent, actor string) string {
	if actor = oneLine(actor); !strings.HasPrefix(actor, claimPrefix) {
		actor = claimPrefix + actor
	}
	if agent == "" {
		return actor
	}
	return agent + " (" + actor + ")"
}

// Mark implements Tracker.
func (t *markdownTracker) Mark(ctx context.Context, id string, m Mark) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	tasks, _, err := t.tasks(ctx)
	if err != nil {
		return err
	}
	return t.mark(tasks, id, m)
}

func (t *markdownTracker) refused(id string, err error) error {
	return &Problems{Op: "mark task " + clip(id) + " in plan", Path: t.rel, Err: err}
}

func (t *markdownTracker) mark(tasks []markdown.Task, id string, m Mark) error {
	if !m.Status.Valid() {
		return t.refused(id, errors.New("there is no status "+string(m.Status)))
	}
	i := slices.IndexFunc(tasks, func(k markdown.Task) bool { return k.ID == id })
	if i < 0 {
		return t.refused(id, ErrNoTask)
	}
	agent, actor := cutActor(tasks[i].Agent)
	e := markdown.Edit{Status: toMarkdown(m.Status), Result: oneLine(m.Result)}
	if m.Status == InProgress {
		have := Task{Status: fromMarkdown(tasks[i].Status), Assignee: actor}
		want := ""
		if m.Actor != "" {
			_, want = cutActor(withActor("", m.Actor))
			e.Agent = withActor(agent, m.Actor)
		}
		if err := claim(&have, want); err != nil {
			return t.refused(id, err)
		}
	} else if agent != "" && actor != "" {
		e.Agent = agent // the plan's own word again
	}
	if b := m.Back; b != nil {
		e.Agent, e.Result, e.StatusLine = b.Agent, b.Result, b.StatusLine
		for _, f := range []struct {
			name string
			had  bool
		}{{"status", b.StatusLine}, {"agent", b.Agent != ""}, {"result", b.Result != ""}} {
			if !f.had {
				e.Drop = append(e.Drop, f.name)
			}
		}
	}
	if note := oneLine(m.Note); note != "" && e.Result == "" && m.Status != Done && m.Back == nil {
		e.Result = note
	}
	stored, err := t.book.SetTask(id, e)
	switch {
	case errors.Is(err, markdown.ErrNoTask):
		return t.refused(id, ErrNoTask)
	case err != nil:
		return t.refused(id, err)
	case stored.Status != e.Status:
		return t.refused(id, fmt.Errorf("it says %s now, not %s: its line has no room for that", stored.Status, e.Status))
	}
	return nil
}

// Release implements Tracker.
func (t *markdownTracker) Release(ctx context.Context, actor string) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tasks, _, err := t.tasks(ctx)
	if err != nil {
		return nil, err
	}
	if actor != "" && !strings.HasPrefix(actor, claimPrefix) && !strings.HasPrefix(claimPrefix, actor) {
		actor = claimPrefix + actor
	}
	var ids []string
	for i := range tasks {
		_, who := cutActor(tasks[i].Agent)
		if tasks[i].Status != markdown.InProgress || !claimedBy(who, actor) {
			continue
		}
		if err := t.mark(tasks, tasks[i].ID, Mark{Status: Pending}); err != nil {
			return ids, err
		}
		ids = append(ids, tasks[i].ID)
	}
	return ids, nil
}
