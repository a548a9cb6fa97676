package plan

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoPlan is matched when a project has no plan, or not the one asked for.
var ErrNoPlan = errors.New("no plan")

// ErrEmpty is matched when a plan has no task: that is a mistake, not success.
var ErrEmpty = errors.New("has no tasks")

// ErrNoTask is matched when a plan has no task with the id.
var ErrNoTask = errors.New("no such task")

// ErrTaken is matched when a task to be claimed is another's, or done.
var ErrTaken = errors.New("is taken")

// Problem is one fault of a plan, or one thing to warn about, and where it is.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`   // from 1; 0 unknown
	Column int    `json:"column,omitempty"` // in bytes from 1; 0 unknown
	Task   string `json:"task,omitempty"`   // the id of the task that it is about
	Text   string `json:"text"`             // says which task itself, in the plan's own word
}

// String is the problem on one line: "prd.json:41: story US-003: depends on …".
func (p Problem) String() string {
	at := p.File
	if p.Line > 0 {
		at += fmt.Sprintf(":%d", p.Line)
		if p.Column > 0 {
			at += fmt.Sprintf(":%d", p.Column)
		}
	}
	if at == "" {
		return p.Text
	}
	return at + ": " + p.Text
}

// Problems is the error of a plan that cannot be used: what was done to which
// plan, why it did not work, and what the user can do.
type Problems struct {
	Op   string // "open plan", "mark task", "find plan", …
	Path string
	List []Problem // all faults at once, in the order of the file
	Err  error     // the cause where there is one beside the list; a sentinel or what the disk said
	Hint string    // may be empty
}

// maxListed bounds how many faults an error's text has; List has them all.
const maxListed = 50

// Error lists the faults, one a line. A single fault is told on one line.
func (p *Problems) Error() string {
	head := p.Op
	if p.Path != "" {
		head += fmt.Sprintf(" %q", p.Path)
	}
	if p.Err != nil {
		head += ": " + p.Err.Error()
	}
	switch len(p.List) {
	case 0:
		return head
	case 1:
		one := p.List[0]
		if one.File == p.Path && one.Line > 0 {
			return fmt.Sprintf("%s: %s (line %d)", head, one.Text, one.Line)
		}
		return head + ": " + one.String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d faults", head, len(p.List))
	for i, one := range p.List {
		if i == maxListed {
			fmt.Fprintf(&b, "\n  … and %d more", len(p.List)-i)
			break
		}
		b.WriteString("\n  " + one.String())
	}
	return b.String()
}

// Unwrap returns the cause.
func (p *Problems) Unwrap() error { return p.Err }
