package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"ralph/memory/markdown"
)

// The kinds of changes, as the log names them.
const (
	opAdd     = "add"     // a task, with its id
	opEdit    = "edit"    // of a task or an item
	opItem    = "item"    // a plain box
	opGoal    = "goal"    // a goal, with its id
	opPrepend = "prepend" // a section, at the top
	opAppend  = "append"  // a section, at the end
)

// op is one change of a state file, as data: what is done, what the log holds
// and what a recovery does again are the same thing. It says all it needs (ids,
// times, whole texts), so that doing it depends on nothing but the document.
type op struct {
	N    int64     `json:"n"` // counts the changes of a project
	File string    `json:"file"`
	Op   string    `json:"op"`
	ID   string    `json:"id,omitempty"`
	Task *taskData `json:"task,omitempty"`
	Edit *editData `json:"edit,omitempty"`
	Text string    `json:"text,omitempty"`
}

// taskData is a task in the log.
type taskData struct {
	ID       string          `json:"id"`
	Title    string          `json:"title"`
	Status   markdown.Status `json:"status,omitempty"`
	Priority string          `json:"priority,omitempty"`
	After    []string        `json:"after,omitempty"`
	Agent    string          `json:"agent,omitempty"`
	Check    string          `json:"check,omitempty"`
	Result   string          `json:"result,omitempty"`
	Steps    []markdown.Step `json:"steps,omitempty"`
}

func dataOf(t Task) *taskData {
	return &taskData{ID: t.ID, Title: t.Title, Status: t.Status, Priority: t.Priority, After: t.After, Agent: t.Agent, Check: t.Check, Result: t.Result, Steps: t.Steps}
}

func (t taskData) task() Task {
	return Task{ID: t.ID, Title: t.Title, Status: t.Status, Priority: t.Priority, After: t.After, Agent: t.Agent, Check: t.Check, Result: t.Result, Steps: t.Steps}
}

// editData is an edit in the log. An After without elements clears it and must
// not be taken for none.
type editData struct {
	Title      string          `json:"title,omitempty"`
	Status     markdown.Status `json:"status,omitempty"`
	Priority   string          `json:"priority,omitempty"`
	After      *[]string       `json:"after,omitempty"`
	Agent      string          `json:"agent,omitempty"`
	Check      string          `json:"check,omitempty"`
	Result     string          `json:"result,omitempty"`
	StatusLine bool            `json:"status_line,omitempty"`
	Drop       []string        `json:"drop,omitempty"`
}

func editOf(e TaskEdit) *editData {
	d := &editData{Title: e.Title, Status: e.Status, Priority: e.Priority, Agent: e.Agent, Check: e.Check, Result: e.Result, StatusLine: e.StatusLine, Drop: slices.Clone(e.Drop)}
	if e.After != nil {
		after := slices.Clone(e.After)
		d.After = &after
	}
	return d
}

func (e editData) edit() TaskEdit {
	out := TaskEdit{Title: e.Title, Status: e.Status, Priority: e.Priority, Agent: e.Agent, Check: e.Check, Result: e.Result, StatusLine: e.StatusLine, Drop: e.Drop}
	if e.After != nil {
		out.After = append([]string{}, *e.After...)
	}
	return out
}

// payload is the op as the log holds it.
func (o op) payload() (json.RawMessage, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s of %s: %w", o.Op, o.File, err)
	}
	return data, nil
}

// apply makes a change; changed is false when the document says so already. An
// error changes nothing. again is for a document that may have the change: an
// entry that is there is not put twice.
func apply(d *markdown.Document, o op, again bool) (changed bool, err error) {
	switch o.Op {
	case opAdd:
		return applyAdd(d, o)
	case opGoal:
		if o.Task != nil && openGoal(d, o.Task.Title) {
			return false, nil
		}
		return applyAdd(d, o)
	case opEdit:
		return applyEdit(d, o)
	case opItem:
		before := d.String()
		err := d.AddItem(o.Text)
		return err == nil && d.String() != before, err
	case opPrepend, opAppend:
		if again && holds(d, o.Text) {
			return false, nil
		}
		if o.Op == opPrepend {
			d.PrependEntry(o.Text)
		} else {
			d.AppendEntry(o.Text)
		}
		return true, nil
	}
	return false, fmt.Errorf("%q is no change that this Ralph knows", o.Op)
}

func applyAdd(d *markdown.Document, o op) (bool, error) {
	if o.Task == nil || o.Task.ID == "" {
		return false, errors.New("a change without its task")
	}
	t := o.Task.task()
	if have, ok := d.Task(t.ID); ok {
		if strings.Join(strings.Fields(have.Title), " ") == strings.Join(strings.Fields(t.Title), " ") {
			return false, nil
		}
		return false, fmt.Errorf("task %q exists already", t.ID)
	}
	_, err := d.Add(t, "T")
	return err == nil, err
}

func applyEdit(d *markdown.Document, o op) (bool, error) {
	if o.Edit == nil {
		return false, errors.New("a change without its edit")
	}
	before, ok := d.Task(o.ID)
	if err := d.Edit(o.ID, o.Edit.edit()); err != nil {
		return false, err
	}
	after, still := d.Task(o.ID)
	return !ok || !still || !reflect.DeepEqual(before, after), nil
}

func openGoal(d *markdown.Document, title string) bool {
	for _, t := range d.Tasks() {
		if strings.EqualFold(t.Title, strings.TrimSpace(title)) && t.Status.Open() {
			return true
		}
	}
	return false
}

// holds reports whether an entry is in the document.
func holds(d *markdown.Document, text string) bool {
	return strings.Contains(strings.ReplaceAll(d.String(), "\r\n", "\n"), strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n"))
}

// highest returns the highest n of all ids PREFIX-n in a text, also in prose;
// letters may differ in case.
func highest(text, prefix string) int {
	top := 0
	for i := 0; ; {
		at := strings.IndexByte(text[i:], '-')
		if at < 0 {
			return top
		}
		at += i
		i = at + 1
		from := at - len(prefix)
		if from < 0 || !strings.EqualFold(text[from:at], prefix) || from > 0 && wordByte(text[from-1]) {
			continue
		}
		n, end := 0, i
		for end < len(text) && text[end] >= '0' && text[end] <= '9' && end-i < 10 {
			n = n*10 + int(text[end]-'0')
			end++
		}
		if end > i && end-i < 10 && (end == len(text) || !wordByte(text[end])) {
			top = max(top, n)
		}
	}
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// texts are what an op says to people, for highest.
func (o op) texts() []string {
	out := []string{o.Text}
	if t := o.Task; t != nil {
		out = append(out, t.ID, t.Title, t.Check, t.Result)
		for _, s := range t.Steps {
			out = append(out, s.Text)
		}
	}
	if e := o.Edit; e != nil {
		out = append(out, e.Title, e.Check, e.Result)
	}
	return out
}
