package markdown

import (
	"strconv"
	"strings"
	"unicode"
)

// scan finds the tasks in a run of lines.
type scan struct {
	d      *Document
	roots  []*node // headings that are tasks, items outside them, rows
	items  []*node // open list items, outermost first
	top    *node   // the open heading task
	epic   *node   // the heading that groups what follows
	parked int     // level of a heading that defers all below it, or 0
	log    int     // level of a heading whose section reports what was, or 0
	slab   []node
	lines  int // to read: the tasks in them are fewer

	stories bool // there is an id of a story
}

// findTasks builds the list of tasks.
func (d *Document) findTasks() {
	s := d.scanned()
	if d.stories = s.stories && len(d.other) > 0; d.stories {
		s = d.scanned() // once more, now that it is known what the headings are
	}
	d.number(s.roots)
}

func (d *Document) scanned() *scan {
	s := &scan{d: d}
	d.entry, d.other = -1, nil
	s.run(0, d.lines.n)
	return s
}

// run reads the lines from one to another and closes what is open at the end.
func (s *scan) run(from, to int) {
	s.lines = to - from
	for i := from; i < to; i++ {
		if l := s.d.lines.at(i); l.kind == lineText && l.text != "" {
			s.line(i, l)
		}
	}
	s.endItems(0, to)
	s.endTop(to)
}

func (s *scan) node(kind nodeKind, i int) *node {
	if len(s.slab) == 0 {
		s.slab = make([]node, min(256, 1+s.lines/4)) // one task that is kept keeps them all
	}
	n := &s.slab[0]
	s.slab = s.slab[1:]
	n.kind, n.first, n.parked = kind, i, int8(s.parked)
	if s.epic != nil {
		n.epic = s.epic.raw
	}
	return n
}

// endItems closes the open items that are indented so much or more.
func (s *scan) endItems(width, at int) {
	for len(s.items) > 0 && s.items[len(s.items)-1].width >= width {
		last := s.items[len(s.items)-1]
		last.size = at - last.first
		s.items = s.items[:len(s.items)-1]
	}
}

func (s *scan) endTop(at int) {
	if s.top != nil {
		s.top.size, s.top = at-s.top.first, nil
	}
}

func (s *scan) line(i int, l *line) {
	text := strings.TrimPrefix(l.text, bom)
	width, body := indent(text)
	if strings.TrimSpace(body) == "" {
		return
	}
	if body[0] == '#' {
		if level, title := heading(text); level > 0 {
			s.heading(i, level, title)
			return
		}
	}
	if s.d.underlined(i, width, body) {
		s.heading(i, 2, body)
		return
	}
	s.endItems(width+1, i)
	bullet, rest := cutBullet(body)
	if bullet != "" {
		s.endItems(width, i)
		if _, _, ok := cutBox(rest); ok {
			s.endItems(max(width-1, 0), i) // one blank is no level
			s.item(s.d.itemTask(s, i, width, rest))
			return
		}
	}
	ends := bullet == "" && width == 0 && (rest[0] == '|' || s.d.blank(i-1)) // what may end a list
	if s.top == nil && (len(s.items) == 0 || ends) {
		if n := s.plain(i, width, text, bullet, rest); n != nil {
			if ends {
				s.endItems(0, i)
			}
			s.roots = append(s.roots, n)
			return
		}
		if len(s.items) == 0 {
			return
		}
	}
	owner := s.top
	// Behind the boxes of a heading, a line that is not indented below them is
	// the heading's again.
	if n := len(s.items); n > 0 && (s.top == nil || bullet != "" || width > s.items[0].width) {
		owner = s.items[n-1]
	}
	s.d.field(owner, i, text)
}

// underlined reports whether a line is a heading that names a story, of which the next line
// is the underline.
func (d *Document) underlined(i, width int, body string) bool {
	if width > 3 || i == 0 || i+1 >= d.lines.n || !isUnderline(d.lines.at(i+1)) {
		return false
	}
	rest, _ := storyHeading(body)
	return storyID().MatchString(strings.TrimLeft(rest, "*_`[ "))
}

func isUnderline(l *line) bool {
	text := strings.TrimSpace(l.text)
	return l.kind == lineText && len(text) >= 3 && (strings.Trim(text, "-") == "" || strings.Trim(text, "=") == "")
}

func (s *scan) heading(i, level int, title string) {
	if level == 2 && s.d.entry < 0 {
		s.d.entry = i
	}
	s.endItems(0, i)
	if level <= s.parked {
		s.parked = 0
	}
	if level <= s.log {
		s.log = 0
	}
	if s.top != nil && level <= int(s.top.level) {
		s.endTop(i)
	}
	if s.epic != nil && level <= int(s.epic.level) {
		s.epic = nil
	}
	if n := s.d.headingTask(s, i, level, title); n != nil {
		s.endTop(i)
		s.top = n
		n.deferIf()
		s.roots = append(s.roots, n)
		if isEpic(n.raw) {
			s.epic = n
		}
		return
	}
	if st, ok := ReadStatus(title); ok && st == Skipped && s.parked == 0 {
		s.parked = level
	}
	if s.log == 0 && isEntry(title) {
		s.log = level
	}
}

// isEntry reports whether a heading begins an entry of a log: with a date, or
// with a number that counts iterations. What such a section says of
// percentages or of things to do is a report.
func isEntry(title string) bool {
	if title = strings.TrimLeft(title, "[*_ "); title == "" {
		return false
	}
	if c := title[0]; c >= '0' && c <= '9' {
		year, rest, ok := strings.Cut(title, "-")
		return ok && len(year) == 4 && allDigits(year) && len(rest) > 2 && allDigits(rest[:2]) && rest[2] == '-'
	}
	word, rest, _ := strings.Cut(strings.ToLower(title), " ")
	switch word {
	case "iteration", "session", "run", "loop":
		return rest != "" && strings.ContainsAny(rest[:1], "#0123456789")
	}
	return false
}

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (s *scan) item(n *node) {
	n.deferIf()
	n.story = n.raw != "" && storyID().MatchString(n.raw)
	s.stories = s.stories || n.story && len(s.items) == 0
	if s.top != nil && n.width == 0 && n.ownIn(s.top) {
		s.endTop(n.first)
	}
	switch {
	case len(s.items) > 0:
		parent := s.items[len(s.items)-1]
		parent.children = append(parent.children, n)
	case s.top != nil:
		s.top.children = append(s.top.children, n)
	default:
		s.roots = append(s.roots, n)
	}
	s.items = append(s.items, n)
}

// ownIn reports whether a box below a heading or an item is a task of its own: Ralph's own
// form is never a step of a heading, and what has an id is none of an epic.
func (n *node) ownIn(top *node) bool {
	if isEpic(top.raw) {
		return (n.story || n.bold) && !isEpic(n.raw)
	}
	return top.kind == nodeHeading && n.bold && (n.story || strings.EqualFold(prefixOf(n.raw), prefixOf(top.raw)))
}

// plain finds a task without a box on a line that belongs to no other: a row,
// a percentage, a remark.
func (s *scan) plain(i, width int, text, bullet, rest string) *node {
	if bullet == "" && strings.HasPrefix(rest, "|") {
		return s.d.rowTask(s, i, text)
	}
	if s.log > 0 || width > 3 {
		return nil
	}
	if n := s.d.remarkTask(s, i, rest); n != nil {
		return n
	}
	if bullet == "" {
		return nil
	}
	n := s.d.percentTask(s, i, width, rest)
	if n != nil {
		s.items = append(s.items, n)
	}
	return n
}

// deferIf leaves out what stands below a heading that says so.
func (n *node) deferIf() {
	if n.parked > 0 && n.Status == Pending {
		n.Status = Skipped
	}
}

func (d *Document) itemTask(s *scan, i, width int, rest string) *node {
	n := s.node(nodeItem, i)
	n.width = width
	at := len(d.lines.at(i).text) - len(rest)
	n.box = span{0, at + 1, at + 2}
	mark, title, _ := cutBox(rest)
	n.label = trimTitle(title)
	n.raw, n.Title, n.bold = cutID(title)
	n.Title = trimTitle(n.Title)
	n.mark, n.Status = mark, markStatus(mark)
	d.afterRemark(n)
	return n
}

// headingTask makes a task of a heading that begins with an id or a box, or returns nil.
func (d *Document) headingTask(s *scan, i, level int, title string) *node {
	title, sign := storyHeading(title)
	mark, behind, boxed := cutBox(title)
	if boxed {
		title, _ = storyHeading(strings.TrimSpace(behind))
	}
	id, rest, _ := cutID(title)
	if !boxed {
		if id == "" || numbered(title) != "" {
			return nil // "2.1 Overview" is a chapter
		}
		if mark, behind, boxed = cutBox(rest); boxed { // "US-3: [ ] Pay"
			rest = behind
		}
	}
	story := storyID().MatchString(id)
	if s.stories = s.stories || story; !story && !boxed {
		if d.other = append(d.other, Heading{Line: i + 1, ID: id}); d.stories {
			return nil
		}
	}
	whole := d.lines.at(i).text
	n := s.node(nodeHeading, i)
	n.raw, n.level, n.Status = id, int8(level), Pending
	if !strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(whole, bom), " "), "#") {
		n.lastField = 1 // what is put below it comes behind its underline
	}
	// A box in a heading carries the status, and behind the title a word does too.
	if boxed {
		at := strings.Index(whole, "["+string(mark)+"]")
		n.mark, n.Status, n.box = mark, markStatus(mark), span{0, at + 1, at + 2}
		n.Title = trimTitle(rest)
		d.afterRemark(n)
		return n
	}
	if at := boxIn(rest); at >= 0 {
		from := strings.LastIndex(whole, rest[at:])
		n.inline = span{0, from, from + len(rest[at:])}
		n.Status, _ = ReadStatus(rest[at:])
		rest = rest[:at]
	}
	if sign != "" && n.inline.none() {
		from := strings.Index(whole, sign)
		n.inline = span{0, from, from + len(sign)}
		n.Status, _ = ReadStatus(sign)
	}
	n.Title = trimTitle(rest)
	d.afterRemark(n)
	if tail := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), n.Title)); tail != "" && n.inline.none() {
		if st, ok := ReadStatus(tail); ok {
			from := strings.LastIndex(whole, tail)
			n.Status, n.inline = st, span{0, from, from + len(tail)}
		}
	}
	return n
}

// afterRemark reads "(after T-1)" in the line of a task. What it says is no part of
// the title where it ends that.
func (d *Document) afterRemark(n *node) {
	if !strings.Contains(n.Title, "(") {
		return
	}
	whole := d.lines.at(n.first).text
	m := afterRemark().FindStringSubmatchIndex(whole)
	if m == nil {
		return
	}
	for _, id := range splitList(whole[m[2]:m[3]]) {
		if !dependencyID().MatchString(id) {
			return // "(after lunch)"
		}
	}
	n.set("after", 0, m[2], whole[m[2]:m[3]])
	n.Title = strings.TrimSpace(strings.TrimSuffix(n.Title, whole[m[0]:m[1]]))
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
func (d *Document) rowTask(s *scan, i int, text string) *node {
	body := strings.TrimSpace(text)
	if !strings.HasPrefix(body, "|") || strings.Count(body, "|") < 3 {
		return nil
	}
	whole := d.lines.at(i).text
	var id, title string
	var status Status
	var inline span
	at := strings.IndexByte(whole, '|') + 1
	for col := 0; at < len(whole); col++ {
		cell, _, _ := strings.Cut(whole[at:], "|")
		value := strings.TrimSpace(cell)
		switch {
		case col == 0:
			id = strings.Trim(value, "*`")
			if !rowID().MatchString(id) {
				return nil
			}
		case col == 1:
			title = value
		case inline.none():
			if st, ok := ReadStatus(value); ok {
				from := at + strings.Index(cell, value)
				status, inline = st, span{0, from, from + len(value)}
			}
		}
		at += len(cell) + 1
	}
	if inline.none() {
		return nil
	}
	n := s.node(nodeRow, i)
	n.raw, n.Title, n.Status, n.inline, n.size = id, title, status, inline, 1
	return n
}

// percentTask makes a task of a bullet that is a name and nothing but a
// percentage: "- Renderer: 80 %".
func (d *Document) percentTask(s *scan, i, width int, rest string) *node {
	if !strings.Contains(rest, "%") {
		return nil
	}
	key, from, ok := cutKey(rest)
	if !ok || canonical(key) != "" || !strings.ContainsFunc(key, unicode.IsLetter) {
		return nil
	}
	value := strings.Trim(rest[from:], "*_` \t")
	number := strings.TrimRight(strings.TrimSuffix(value, "%"), " \u00a0\u202f")
	percent, err := strconv.Atoi(number)
	if err != nil || !strings.HasSuffix(value, "%") || !allDigits(number) || percent > 100 {
		return nil
	}
	n := s.node(nodePercent, i)
	n.width, n.Title = width, key
	at := len(d.lines.at(i).text) - len(rest) + from
	at += strings.Index(rest[from:], number)
	n.inline = span{0, at, at + len(number)}
	switch n.Status = InProgress; percent {
	case 0:
		n.Status = Pending
	case 100:
		n.Status = Done
	}
	n.deferIf()
	return n
}

// remarkTask makes a task of a line that begins with TODO and a colon, or with
// DONE, which is what becomes of it. What stands in parentheses before the
// colon may be a status: "TODO (blocked): mail them".
func (d *Document) remarkTask(s *scan, i int, rest string) *node {
	body := strings.TrimLeft(rest, "*_")
	word := ""
	if word = strings.TrimPrefix(body, "TODO"); word == body {
		if word = strings.TrimPrefix(body, "DONE"); word == body {
			return nil
		}
	}
	word = strings.TrimLeft(word, " ")
	remark := ""
	if strings.HasPrefix(word, "(") {
		var ok bool
		if remark, word, ok = strings.Cut(word[1:], ")"); !ok {
			return nil
		}
	}
	title := strings.TrimLeft(word, "*_")
	if !strings.HasPrefix(title, ":") {
		return nil
	}
	title = strings.TrimSpace(strings.TrimLeft(title[1:], "*_"))
	if title == "" {
		return nil
	}
	n := s.node(nodeRemark, i)
	n.size = 1
	n.raw, n.Title, _ = cutID(title)
	n.Title = trimTitle(n.Title)
	at := len(d.lines.at(i).text) - len(body)
	n.inline = span{0, at, at + len(body) - len(word)}
	n.Status = Pending
	if st, ok := ReadStatus(remark); ok {
		n.Status = st
	}
	if strings.HasPrefix(body, "DONE") {
		n.Status = Done
	}
	n.deferIf()
	return n
}
