package markdown

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
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
	// Steps are the task's own boxes: acceptance criteria or parts.
	Steps []Step
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

// node is a task with the places where the file says what.
type node struct {
	Task
	kind       nodeKind
	start, end int // lines, end exclusive
	width      int // indentation of a list item
	level      int // of a heading
	box        span
	inline     span // the status in a heading or a table row
	fields     map[string]span
	lastField  int // line of the last field, or -1
	children   []*node
	bold       bool   // Ralph's own form
	word       string // the value of the status field
}

type nodeKind uint8

const (
	nodeItem nodeKind = iota
	nodeHeading
	nodeRow
)

// span is a part of a line; the zero span is none.
type span struct{ line, from, to int }

func (s span) none() bool { return s == span{} }

// Tasks returns the tasks in the order of the file.
func (d *Document) Tasks() []Task {
	tasks := make([]Task, len(d.tasks))
	for i, n := range d.tasks {
		tasks[i] = n.Task
	}
	return tasks
}

// Task returns the task with the id; letters may differ in case.
func (d *Document) Task(id string) (Task, bool) {
	if n := d.find(id); n != nil {
		return n.Task, true
	}
	return Task{}, false
}

func (d *Document) find(id string) *node {
	for _, n := range d.tasks {
		if strings.EqualFold(n.ID, strings.TrimSpace(id)) {
			return n
		}
	}
	return nil
}

// knownID matches ids by a prefix that people use for tasks; anyID those that
// something sets apart from text: bold, a colon, a dash.
var (
	knownID = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?i:(T|TASK|US|GOAL|G|ISSUE|BUG|FEAT|FEATURE|STORY)[- ]?\d+(?:[-.]\d+)*)(?:[^\pL\pN]|$)`)
	})
	anyID = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]{0,15}(?:-[A-Za-z0-9]{1,16}){0,3}[- ]?\d+(?:[-.]\d+)*)(?:[^\pL\pN]|$)`)
	})
	numberID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d+(?:\.\d+)+)[.:)]?(?:\s|$)`) })
	rowID    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z]{1,8}[- ]?\d+(?:[-.]\d+)*$`) })
)

// cutID splits the id from the title behind it.
func cutID(s string) (id, title string, bold bool) {
	s = strings.TrimSpace(s)
	for _, m := range []string{"**", "__", "`"} {
		if inner, rest, ok := strings.Cut(strings.TrimPrefix(s, m), m); ok && strings.HasPrefix(s, m) {
			word := strings.TrimRight(inner, ": ")
			if loc := anyID().FindStringSubmatch(word); loc != nil && loc[1] == word {
				return word, trimSeparator(rest), m == "**"
			}
		}
	}
	if m := knownID().FindStringSubmatchIndex(s); m != nil {
		end := m[1]
		for end > m[3] && !idByte(s[end-1]) {
			end--
		}
		return strings.TrimSpace(s[:end]), trimSeparator(s[end:]), false
	}
	if m := numberID().FindStringSubmatch(s); m != nil {
		return m[1], trimSeparator(s[len(m[1]):]), false
	}
	if m := anyID().FindStringSubmatch(s); m != nil && strings.HasPrefix(s[len(m[1]):], ":") && !strings.Contains(m[1], " ") {
		return m[1], trimSeparator(s[len(m[1]):]), false
	}
	return "", s, false
}

func idByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func trimSeparator(s string) string {
	return strings.TrimSpace(strings.TrimLeft(s, " \t:.)-–—"))
}

// trimTitle takes off what lines carry behind the title: ticks with a date,
// two blanks for a line break.
func trimTitle(s string) string {
	s = strings.TrimSpace(s)
	for _, e := range statusEmoji() {
		if i := strings.LastIndex(s, e.word); i > 0 && strings.Trim(s[i+len(e.word):], " 0123456789-./:\ufe0f") == "" {
			return strings.TrimSpace(s[:i])
		}
	}
	return s
}

// findTasks builds the list of tasks.
func (d *Document) findTasks() []*node {
	var (
		roots   []*node // headings that are tasks, items outside them, rows
		items   []*node // open list items, outermost first
		top     *node   // the open heading task
		parked  int     // level of a heading that defers all below it
		endItem = func(width, at int) {
			for len(items) > 0 && items[len(items)-1].width >= width {
				items[len(items)-1].end = at
				items = items[:len(items)-1]
			}
		}
	)
	for i := range d.lines {
		l := d.lines[i]
		text := strings.TrimPrefix(l.text, bom)
		if l.kind != lineText || strings.TrimSpace(text) == "" {
			continue
		}
		width, body := indent(text)
		if level, title := heading(text); level > 0 {
			endItem(0, i)
			if parked > 0 && level <= parked {
				parked = 0
			}
			if top != nil && level <= top.level {
				top.end, top = i, nil
			}
			if n := d.headingTask(i, level, title); n != nil {
				if top != nil {
					top.end = i
				}
				top = n
				n.deferIf(parked > 0)
				roots = append(roots, n)
			} else if st, ok := readStatus(title); ok && st == Skipped && parked == 0 {
				parked = level
			}
			continue
		}
		endItem(width+1, i)
		bullet, rest := cutBullet(body)
		if _, _, ok := cutBox(rest); ok && bullet != "" {
			endItem(width, i)
			n := d.itemTask(i, width, text, rest)
			n.deferIf(parked > 0)
			if top != nil && n.bold && width == 0 {
				top.end, top = i, nil // Ralph's own form is never a step of a heading
			}
			switch {
			case len(items) > 0:
				parent := items[len(items)-1]
				parent.children = append(parent.children, n)
			case top != nil:
				top.children = append(top.children, n)
			default:
				roots = append(roots, n)
			}
			items = append(items, n)
			continue
		}
		if bullet != "" {
			endItem(width, i)
		}
		if n := d.rowTask(i, text); n != nil && top == nil && len(items) == 0 {
			roots = append(roots, n)
			continue
		}
		if owner := lastOf(items, top); owner != nil {
			d.field(owner, i, text)
		}
	}
	endItem(0, len(d.lines))
	if top != nil {
		top.end = len(d.lines)
	}
	return d.number(roots)
}

func lastOf(items []*node, top *node) *node {
	if len(items) > 0 {
		return items[len(items)-1]
	}
	return top
}

// deferIf leaves out what stands below a heading that says so.
func (n *node) deferIf(parked bool) {
	if parked && n.Status == Pending {
		n.Status = Skipped
	}
}

func (d *Document) itemTask(i, width int, text, rest string) *node {
	n := &node{kind: nodeItem, start: i, width: width, lastField: -1}
	at := len(d.lines[i].text) - len(rest)
	n.box = span{i, at + 1, at + 2}
	mark, title, _ := cutBox(rest)
	n.ID, n.Title, n.bold = cutID(title)
	n.Title = trimTitle(n.Title)
	n.Status = markStatus(mark)
	n.Line = i + 1
	return n
}

// headingTask makes a task of a heading that begins with an id, or returns nil.
func (d *Document) headingTask(i, level int, title string) *node {
	id, rest, _ := cutID(title)
	if id == "" || numberID().MatchString(title) {
		return nil // "2.1 Overview" is a chapter
	}
	n := &node{kind: nodeHeading, start: i, level: level, lastField: -1}
	n.ID, n.Line, n.Status = id, i+1, Pending
	// A box in a heading carries the status, and a word behind it does too.
	if at := boxIn(rest); at >= 0 {
		from := strings.LastIndex(d.lines[i].text, rest[at:])
		n.inline = span{i, from, from + len(rest[at:])}
		n.Status, _ = readStatus(rest[at:])
		rest = rest[:at]
	}
	n.Title = trimTitle(rest)
	if tail := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), n.Title)); tail != "" && n.inline.none() {
		if s, ok := readStatus(tail); ok {
			from := strings.LastIndex(d.lines[i].text, tail)
			n.Status, n.inline = s, span{i, from, from + len(tail)}
		}
	}
	return n
}

// boxIn finds a box within a heading's text.
func boxIn(s string) int {
	for i := range len(s) {
		if s[i] != '[' || i > 0 && s[i-1] != ' ' && s[i-1] != '\t' {
			continue
		}
		if _, _, ok := cutBox(s[i:]); ok {
			return i
		}
	}
	return -1
}

// rowTask makes a task of a table row that begins with an id and has a cell
// that says a status.
func (d *Document) rowTask(i int, text string) *node {
	body := strings.TrimSpace(text)
	if !strings.HasPrefix(body, "|") || strings.Count(body, "|") < 3 {
		return nil
	}
	n := &node{kind: nodeRow, start: i, end: i + 1, lastField: -1}
	at := strings.IndexByte(d.lines[i].text, '|') + 1
	for col := 0; at < len(d.lines[i].text); col++ {
		cell, _, _ := strings.Cut(d.lines[i].text[at:], "|")
		value := strings.TrimSpace(cell)
		switch {
		case col == 0:
			n.ID = strings.Trim(value, "*`")
			if !rowID().MatchString(n.ID) {
				return nil
			}
		case col == 1:
			n.Title = value
		case n.inline.none():
			if s, ok := readStatus(value); ok {
				from := at + strings.Index(cell, value)
				n.Status, n.inline = s, span{i, from, from + len(value)}
			}
		}
		at += len(cell) + 1
	}
	if n.inline.none() {
		return nil
	}
	n.Line = i + 1
	return n
}

// number decides what is a task and what a step or a group, and gives ids to
// tasks without one.
func (d *Document) number(roots []*node) []*node {
	var tasks []*node
	var walk func(n *node)
	walk = func(n *node) {
		if n.kind == nodeItem && len(n.children) > 0 && (n.ID == "" || anyHasID(n.children)) {
			for _, c := range n.children {
				walk(c) // a group: only its leaves are work
			}
			return
		}
		n.steps(n.children)
		n.settle()
		tasks = append(tasks, n)
	}
	for _, n := range roots {
		walk(n)
	}
	seen := make(map[string]int, len(tasks))
	for _, n := range tasks {
		n.Explicit = n.ID != ""
		if !n.Explicit {
			n.ID = "~" + slug(n.Title)
		}
		key := strings.ToLower(n.ID)
		if seen[key]++; seen[key] > 1 {
			n.ID = fmt.Sprintf("%s~%d", n.ID, seen[key])
		}
	}
	return tasks
}

func anyHasID(nodes []*node) bool {
	for _, n := range nodes {
		if n.ID != "" {
			return true
		}
	}
	return false
}

func (n *node) steps(children []*node) {
	for _, c := range children {
		text := c.Title
		if c.ID != "" {
			text = strings.TrimSpace(c.ID + " " + text)
		}
		n.Steps = append(n.Steps, Step{Text: text, Done: c.Status == Done})
		n.steps(c.children)
	}
}

// settle decides the status from what the file says: a tick counts always; the
// field's word says more than an empty box; without either the steps tell.
func (n *node) settle() {
	if f, ok := n.fields["status"]; ok && !f.none() {
		if s, ok := readStatus(n.word); ok && n.Status != Done {
			n.Status = s
		}
		return
	}
	if n.kind != nodeHeading || !n.inline.none() || len(n.Steps) == 0 || n.Status != Pending {
		return
	}
	done := 0
	for _, s := range n.Steps {
		if s.Done {
			done++
		}
	}
	switch done {
	case 0:
	case len(n.Steps):
		n.Status = Done
	default:
		n.Status = InProgress
	}
}

// slug makes a short id of a title in any language.
func slug(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
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
