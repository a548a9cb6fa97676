package markdown

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// number decides what is a task and what a step or a group, and gives ids to
// tasks without one.
func (d *Document) number(roots []*node) {
	d.tasks, d.starts = d.tasks[:0], d.starts[:0]
	d.index, d.marks = nil, 0
	if cap(d.tasks) < len(roots) {
		d.tasks, d.starts = make([]*node, 0, len(roots)), make([]int, 0, len(roots))
	}
	var walk func(n *node)
	walk = func(n *node) {
		children := n.children
		if n.groups() {
			n.children = nil
			if n.size = children[0].first - n.first; n.kind == nodePercent {
				n = nil // its parts are the work
			}
		} else {
			children = nil
		}
		if n != nil {
			n.settle()
			n.i = len(d.tasks)
			d.tasks, d.starts = append(d.tasks, n), append(d.starts, n.first)
			d.marks += n.marked()
		}
		for _, c := range children {
			if n != nil {
				c.epic = n.raw
			}
			walk(c)
		}
	}
	for _, n := range roots {
		walk(n)
	}
	seen := make(map[string]int, len(d.tasks))
	for _, n := range d.tasks {
		n.identify()
		key := strings.ToLower(n.ID)
		if seen[key]++; seen[key] > 1 {
			n.ID = fmt.Sprintf("%s~%d", n.ID, seen[key])
		}
	}
}

// identify gives a task the id that the file has, or one of its title.
func (n *node) identify() {
	n.Explicit = n.raw != ""
	if n.ID = n.raw; !n.Explicit {
		n.ID = "~" + slug(n.Title)
	}
}

// groups reports whether the boxes below are tasks, and not criteria of this one.
func (n *node) groups() bool {
	return n.kind == nodePercent && len(n.children) > 0 || n.kind == nodeItem && slices.ContainsFunc(n.children, func(c *node) bool { return c.ownIn(n) })
}

// marked is 1 for a box with a mark other than a tick.
func (n *node) marked() int {
	if strings.IndexByte("~!-/>", n.mark) >= 0 {
		return 1
	}
	return 0
}

func (n *node) steps(children []*node) {
	for _, c := range children {
		n.Steps = append(n.Steps, Step{Text: c.label, Done: c.Status == Done})
		n.steps(c.children)
	}
}

// settle decides the status from what the file says: a tick counts always; the
// field's word says more than an empty box or a percentage; without either the
// steps of a heading tell, when all are done: some that are say nothing of
// somebody at work. An empty box beside a field that says done reads as done:
// the file alone cannot tell whether someone wrote the word without ticking the
// box, or unticked the box without changing the word. Compare and Merge, which
// see the version before, can.
func (n *node) settle() {
	n.steps(n.children)
	if f := n.fields[fieldStatus]; !f.none() {
		if s, ok := ReadStatus(n.word); ok && (n.Status != Done || n.kind == nodePercent) {
			n.Status = s
		}
		return
	}
	if n.kind == nodeHeading && n.inline.none() && n.box.none() && n.Status == Pending && len(n.Steps) > 0 &&
		!slices.ContainsFunc(n.Steps, func(s Step) bool { return !s.Done }) {
		n.Status = Done
	}
}

// slug makes a short id of a title in any language.
func slug(title string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(title) {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
			dash = false
		case b.Len() > 0 && !dash:
			b.WriteByte('-')
			dash = true
		}
		if b.Len() >= 40 {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "task"
}
