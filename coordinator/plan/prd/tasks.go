package prd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ralph/memory/markdown"
	"ralph/memory/text"
)

// Tasks is the document as the text of a RALPH_TASKS.md.
func (d Document) Tasks() ([]byte, error) {
	d = d.gated()
	var b strings.Builder
	name := d.Name
	if name == "" {
		name = "Tasks"
	}
	b.WriteString("# " + name + "\n")
	if d.Description != "" {
		b.WriteString("\n" + harmless(d.Description) + "\n")
	}
	if len(d.Gates) > 0 {
		b.WriteString("\nWhat has to pass for every task:\n")
		for _, g := range d.Gates {
			b.WriteString("\n" + markdown.Fence(g.Check, "sh"))
		}
	}
	b.WriteString("\n")
	for _, s := range d.Stories {
		text, err := d.item(s)
		if err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	out := []byte(b.String())
	doc := markdown.Parse(out)
	if n := len(doc.Tasks()); n != len(d.Stories) {
		return nil, fmt.Errorf("the text of the plan reads as %d tasks, and there are %d stories", n, len(d.Stories))
	}
	return out, nil
}

// gated is the document with its quality gates in the check of each story, for
// the forms of a plan that have no other place for them.
func (d Document) gated() Document {
	d.Stories = slices.Clone(d.Stories)
	for i := range d.Stories {
		s := &d.Stories[i]
		for _, g := range d.Gates {
			switch gate := alone(g.Check); {
			case s.Check == "":
				s.Check = g.Check
			case s.Check != g.Check && !strings.Contains(alone(s.Check), gate):
				s.Check = alone(s.Check) + " && " + gate
			}
		}
	}
	return d
}

// alone is a command that others can be joined to with &&.
func alone(command string) string {
	rest := strings.ReplaceAll(command, "&&", "")
	if strings.ContainsAny(rest, ";|&") && !strings.HasPrefix(command, "(") {
		return "(" + command + ")"
	}
	return command
}

// harmless is text that holds no task: where it would, it goes into a fence.
func harmless(text string) string {
	if len(markdown.Parse([]byte(text+"\n")).Tasks()) == 0 && len(markdown.Parse([]byte(text+"\n\n- [ ] **T-1** x\n")).Tasks()) == 1 {
		return text
	}
	return strings.TrimRight(markdown.Fence(text, "markdown"), "\n")
}

// task is a story as the project's own list has it.
func (s Story) task() markdown.Task {
	t := markdown.Task{ID: s.ID, Title: s.Title, Status: markdown.Pending, Priority: strconv.Itoa(s.Priority), After: s.After, Agent: s.Agent, Check: s.Check,
		Kind: s.Kind, Epic: s.Epic, Labels: s.Labels}
	if s.Done {
		t.Status = markdown.Done
	}
	for _, c := range s.Criteria {
		t.Steps = append(t.Steps, markdown.Step{Text: c.Text, Done: c.Done || s.Done})
	}
	return t
}

// item is a story as an item of the list: its fields, what it is about, its
// criteria. What would be read as something else than it is goes into a fence.
func (d Document) item(s Story) (string, error) {
	own := markdown.Parse(nil)
	if _, err := own.Add(s.task(), ""); err != nil {
		return "", fmt.Errorf("line %d: story %s: %w", s.Line, s.ID, err)
	}
	want, _ := own.Task(s.ID)
	lines := strings.Split(strings.TrimRight(own.String(), "\n"), "\n")
	at := slices.IndexFunc(lines[1:], func(l string) bool { return strings.HasPrefix(l, "  - [") })
	if at < 0 {
		at = len(lines) - 1
	}
	about := s.about()
	for _, text := range []string{about, strings.TrimRight(markdown.Fence(about, "markdown"), "\n")} {
		if about == "" {
			break
		}
		var between []string
		for l := range strings.SplitSeq(text, "\n") {
			between = append(between, strings.TrimRight("  "+l, " "))
		}
		out := strings.Join(slices.Concat(lines[:at+1], s.extras(), between, lines[at+1:]), "\n") + "\n"
		if same(out, want) {
			return out, nil
		}
	}
	out := strings.Join(slices.Concat(lines[:at+1], s.extras(), lines[at+1:]), "\n") + "\n"
	if about == "" && same(out, want) {
		return out, nil
	}
	return "", fmt.Errorf("line %d: story %s cannot be written as a task of a list: it reads back as another", s.Line, s.ID)
}

// extras are the fields that the list keeps and Ralph's own tasks do not have.
func (s Story) extras() []string {
	var out []string
	if s.Effort != "" {
		out = append(out, "  - effort: "+text.OneLine(s.Effort))
	}
	return out
}

// about is what a story says beside its fields.
func (s Story) about() string {
	text := s.Description
	if s.Notes != "" {
		if text != "" {
			text += "\n\n"
		}
		text += "Notes: " + s.Notes
	}
	return text
}

// same says that a text holds exactly the task.
func same(text string, want markdown.Task) bool {
	list := markdown.Parse([]byte(text + "- [ ] **T-999999** behind\n")).Tasks()
	if len(list) != 2 {
		return false
	}
	got := list[0]
	return got.ID == want.ID && got.Title == want.Title && got.Status == want.Status && got.Priority == want.Priority && slices.Equal(got.After, want.After) &&
		got.Agent == want.Agent && got.Check == want.Check && got.Result == want.Result &&
		got.Kind == want.Kind && got.Epic == want.Epic && slices.Equal(got.Labels, want.Labels) && slices.Equal(got.Steps, want.Steps)
}

// MergeTasks puts the stories into an existing RALPH_TASKS.md by id: titles,
// priorities, dependencies and checks become those of the PRD, new stories come
// at the end, and no other line changes. A task that is done stays done.
func (d Document) MergeTasks(data []byte) ([]byte, Merged, error) {
	d = d.gated()
	var m Merged
	doc := markdown.Parse(data)
	mine := map[string]bool{}
	fresh := d
	fresh.Stories = nil
	spelled := map[string]string{}
	for _, t := range doc.Tasks() {
		spelled[strings.ToUpper(t.ID)] = t.ID
	}
	for _, s := range d.Stories {
		mine[strings.ToUpper(s.ID)] = true
		s.After = slices.Clone(s.After)
		for i, a := range s.After {
			if known := spelled[strings.ToUpper(a)]; known != "" {
				s.After[i] = known
			}
		}
		id := spelled[strings.ToUpper(s.ID)]
		if id == "" {
			fresh.Stories = append(fresh.Stories, s)
			m.Added = append(m.Added, s.ID)
			continue
		}
		before := doc.String()
		if err := doc.Edit(id, s.edit(doc, id)); err != nil {
			return nil, m, fmt.Errorf("%w: task %s: %s", ErrNotAPlan, id, err)
		}
		if doc.String() == before {
			m.Same = append(m.Same, s.ID)
		} else {
			m.Changed = append(m.Changed, s.ID)
		}
	}
	for _, t := range doc.Tasks() {
		if !mine[strings.ToUpper(t.ID)] {
			m.Kept = append(m.Kept, t.ID)
		}
	}
	out, err := fresh.appended(doc)
	return out, m, err
}

// edit is what a PRD changes of a task that is there.
func (s Story) edit(doc *markdown.Document, id string) markdown.Edit {
	t, _ := doc.Task(id)
	e := markdown.Edit{After: slices.Clone(s.After)}
	if e.After == nil {
		e.After = []string{}
	}
	if slices.Equal(t.After, s.After) {
		e.After = nil
	}
	if want := strings.Join(strings.Fields(s.Title), " "); t.Title != want {
		e.Title = want
	}
	if t.Rank() != s.Priority {
		e.Priority = strconv.Itoa(s.Priority)
	}
	if s.Check != t.Check {
		e.Check = s.Check
	}
	if s.Done && t.Status != markdown.Done {
		e.Status = markdown.Done
	}
	return e
}

// appended is a document with the stories of d behind its end.
func (d Document) appended(doc *markdown.Document) ([]byte, error) {
	if len(d.Stories) == 0 {
		return doc.Bytes(), nil
	}
	text, before := doc.String(), len(doc.Tasks())
	eol := "\n"
	if strings.Contains(text, "\r\n") {
		eol = "\r\n"
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += eol
	}
	var b strings.Builder
	b.WriteString(text)
	if text != "" && !strings.HasSuffix(text, eol+eol) {
		b.WriteString(eol)
	}
	for _, s := range d.Stories {
		item, err := d.item(s)
		if err != nil {
			return nil, err
		}
		b.WriteString(strings.ReplaceAll(item, "\n", eol))
	}
	after := markdown.Parse([]byte(b.String()))
	n := len(after.Tasks())
	for _, s := range d.Stories {
		if t, ok := after.Task(s.ID); !ok || n != before+len(d.Stories) || t.Title != strings.Join(strings.Fields(s.Title), " ") {
			return nil, fmt.Errorf("%w: what is put behind its end does not read as tasks there: it ends within a fence or a comment", ErrNotAPlan)
		}
	}
	return []byte(b.String()), nil
}
