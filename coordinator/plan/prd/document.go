// Package prd reads a product requirements document in Markdown and makes a
// plan of it: prd.json, the tasks of RALPH_TASKS.md, or issues for bd.
//
// It owns the forms that such documents have and nothing of what a plan means.
// It is pure and deterministic: the same bytes give the same plan. What it reads
// it keeps, what it leaves out it names with the number of the line, and it
// refuses to make a plan of a document whose stories contradict each other.
//
//	doc, warnings := prd.Parse(data)
//	if faults := doc.Check(); len(faults) == 0 {
//		out, err := doc.JSON()
//	}
package prd

import (
	"fmt"
	"slices"
	"strings"
)

// Document is what a PRD says.
type Document struct {
	Name        string // of the whole, without "PRD:"; "" when it has no title
	Description string // Markdown
	Branch      string
	Gates       []Gate
	Epics       []Epic
	Stories     []Story // in the order of the document
}

// Gate is a command that has to pass for every story.
type Gate struct {
	Name, Check string
	Line        int
}

// Epic is a heading with an id that only groups stories.
type Epic struct {
	ID, Title, Description string
	Line                   int
}

// Story is one story: a task of the plan.
type Story struct {
	ID, Title   string
	Description string // Markdown
	Criteria    []Criterion
	Priority    int // 0 the most urgent; 2 where the document says nothing
	After       []string
	Labels      []string
	Epic        string // the id of the heading that it stands under, "" for none
	Kind        string // "" is a task
	Check       string // a command that proves it
	Agent       string
	Effort      string
	Notes       string
	Done        bool
	Line        int // of its heading, from 1

	afterLine int
}

// Criterion is one acceptance criterion.
type Criterion struct {
	Text string
	Done bool
}

// Warning is one thing to say about a line of the document.
type Warning struct {
	Line int `json:"line"` // from 1
	Text string
}

// Check returns what makes a plan of the document impossible: a document without
// stories, an id that is given twice, a dependency on itself, on what is not
// there or in a circle.
func (d Document) Check() []Warning {
	if len(d.Stories) == 0 {
		return []Warning{{Line: 1, Text: "no story: a story is a heading of level 2 to 4, or an item of a list, with an id, such as \"### US-001: Title\"; a list of boxes is a plan as it is (ralph run --plan FILE)"}}
	}
	var faults []Warning
	first := map[string]int{}
	for _, s := range d.sections() {
		key := strings.ToUpper(s.ID)
		if at, ok := first[key]; ok {
			faults = append(faults, Warning{s.Line, fmt.Sprintf("%s: the id is given to another heading on line %d already", s.ID, at)})
			continue
		}
		first[key] = s.Line
	}
	epics := map[string]bool{}
	for _, e := range d.Epics {
		epics[strings.ToUpper(e.ID)] = true
	}
	for _, s := range d.Stories {
		for _, a := range s.After {
			key := strings.ToUpper(a)
			switch _, known := first[key]; {
			case strings.EqualFold(a, s.ID):
				faults = append(faults, Warning{s.afterLine, fmt.Sprintf("story %s: depends on itself", s.ID)})
			case epics[key]:
				faults = append(faults, Warning{s.afterLine, fmt.Sprintf("story %s: depends on %q, which only groups stories: name the stories", s.ID, a)})
			case !known:
				faults = append(faults, Warning{s.afterLine, fmt.Sprintf("story %s: depends on %q, which does not exist", s.ID, a)})
			}
		}
	}
	faults = append(faults, d.circles()...)
	slices.SortStableFunc(faults, func(a, b Warning) int { return a.Line - b.Line })
	return faults
}

// sections lists all headings with ids, stories and epics, in order of lines.
func (d Document) sections() []Epic {
	all := slices.Clone(d.Epics)
	for _, s := range d.Stories {
		all = append(all, Epic{ID: s.ID, Line: s.Line})
	}
	slices.SortStableFunc(all, func(a, b Epic) int { return a.Line - b.Line })
	return all
}

// circles names one circle of dependencies for each story that is in one and
// was not named in another.
func (d Document) circles() []Warning {
	at := d.places()
	const (
		fresh = iota
		open
		closed
	)
	state := make([]int, len(d.Stories))
	var faults []Warning
	// The stack is explicit: a chain of a hundred thousand stories is no reason
	// for a deep one.
	type frame struct{ story, next int }
	for root := range d.Stories {
		if state[root] != fresh {
			continue
		}
		stack := []frame{{story: root}}
		state[root] = open
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			s := d.Stories[top.story]
			if top.next == len(s.After) {
				state[top.story] = closed
				stack = stack[:len(stack)-1]
				continue
			}
			to, ok := at[strings.ToUpper(s.After[top.next])]
			top.next++
			switch {
			case !ok || to == top.story:
			case state[to] == fresh:
				state[to] = open
				stack = append(stack, frame{story: to})
			case state[to] == open:
				var names []string
				from := slices.IndexFunc(stack, func(f frame) bool { return f.story == to })
				for _, f := range stack[from:] {
					names = append(names, d.Stories[f.story].ID)
				}
				names = append(names, d.Stories[to].ID)
				faults = append(faults, Warning{d.Stories[to].afterLine, "a circle of dependencies: " + strings.Join(names, " → ")})
			}
		}
	}
	return faults
}

// places maps the id of a story, in upper case, to its first place.
func (d Document) places() map[string]int {
	at := map[string]int{}
	for i, s := range d.Stories {
		if _, ok := at[strings.ToUpper(s.ID)]; !ok {
			at[strings.ToUpper(s.ID)] = i
		}
	}
	return at
}
