package markdown

import (
	"strconv"
	"strings"
)

// Task is one task as a file holds it.
type Task struct {
	// ID is the task's id: as the file has it when Explicit, otherwise made
	// from the title ("~reset-mail"), stable while the title is.
	ID       string
	Explicit bool
	Title    string
	Status   Status
	Priority string // as written: "1", "P2", "HIGH"
	After    []string
	Agent    string
	Check    string
	Result   string
	// StatusLine reports that a line of its own says the status.
	StatusLine bool
	// Steps are the task's own boxes: acceptance criteria or parts.
	Steps []Step
	// Kind, Epic and Labels are what the fields of these names say: "bug", the
	// id of the parent, words. Kind is task, bug, feature, chore, epic or "".
	Kind   string
	Epic   string
	Labels []string
	// Description is the text below the task that is neither a field nor a step,
	// without its indentation. An edit does not change it.
	Description string
	// Line is where the task begins, from 1; 0 for a task not yet in a file.
	Line int
}

// Step is one box below a task.
type Step struct {
	Text string
	Done bool
}

// Rank orders priorities: 0 is the most urgent. Words and numbers mix; a task
// without a priority ranks 2.
func (t Task) Rank() int {
	p := strings.ToLower(strings.TrimSpace(t.Priority))
	if n, err := strconv.Atoi(strings.TrimPrefix(p, "p")); err == nil && n >= 0 {
		return n
	}
	switch {
	case strings.HasPrefix(p, "crit"), strings.HasPrefix(p, "urg"), strings.HasPrefix(p, "block"):
		return 0
	case strings.HasPrefix(p, "high"), p == "高":
		return 1
	case strings.HasPrefix(p, "low"), p == "低":
		return 3
	}
	return 2
}

// node is a task with the places where the file says what. Places are given
// relative to the line on which the task begins, so that lines put in before
// it change nothing here.
type node struct {
	Task
	kind      nodeKind
	bold      bool // Ralph's own form
	story     bool // its id is that of a story
	mark      byte // in the box
	level     int8 // of a heading
	parked    int8 // level of the heading that defers this task, or 0
	first     int  // line on which it begins; only good while it is parsed
	i         int  // its place among the document's tasks
	size      int  // lines
	width     int  // indentation of a list item
	box       span // the mark
	inline    span // the status in a heading, a row or a line; a percentage
	fields    [numFields]span
	lastField int // line of the last field, or 0
	children  []*node
	word      string // the value of the status field
	raw       string // the id as the file has it
	label     string // of a list item: all that follows its box
	epic      string // the id of the heading or item that groups it
	described int    // its size when its details were read, or 0
}

type nodeKind uint8

const (
	nodeItem    nodeKind = iota
	nodeHeading          // "## T-1: title"
	nodeRow              // of a table
	nodePercent          // "- title: 80 %"
	nodeRemark           // "TODO: title"
)

// span is a part of a line; the zero span is none: no place that is noted
// begins where a task does.
type span struct{ line, from, to int }

func (s span) none() bool { return s == span{} }

// start returns the line on which a task begins.
func (d *Document) start(n *node) int { return d.starts[n.i] }

// end returns the line behind a task.
func (d *Document) end(n *node) int { return d.starts[n.i] + n.size }

// Tasks returns the tasks in the order of the file.
func (d *Document) Tasks() []Task {
	tasks := make([]Task, len(d.tasks))
	for i, n := range d.tasks {
		tasks[i] = d.task(n)
	}
	return tasks
}

// Task returns the task with the id; letters may differ in case.
func (d *Document) Task(id string) (Task, bool) {
	if n := d.find(id); n != nil {
		return d.task(n), true
	}
	return Task{}, false
}

func (d *Document) task(n *node) Task {
	d.describe(n)
	t := n.Task
	t.Line, t.StatusLine = d.start(n)+1, !n.fields[fieldStatus].none()
	return t
}

func (d *Document) find(id string) *node {
	if d.index == nil {
		d.index = make(map[string]*node, len(d.tasks))
		for i := len(d.tasks) - 1; i >= 0; i-- {
			d.index[strings.ToLower(d.tasks[i].ID)] = d.tasks[i]
		}
	}
	return d.index[strings.ToLower(strings.TrimSpace(id))]
}
