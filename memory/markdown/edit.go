package markdown

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// ErrNoTask is matched when a document has no task with the id or the text.
var ErrNoTask = errors.New("no such task")

// ErrAmbiguous is matched when a text fits several tasks.
var ErrAmbiguous = errors.New("several tasks fit")

// Edit says what to change of a task. Empty strings and a nil After leave
// things as they are; an After without elements clears it.
type Edit struct {
	Title    string
	Status   Status
	Priority string
	After    []string
	Agent    string
	Check    string
	Result   string
}

// Edit changes the task with the id and no other line. Values are put on one
// line each. What is the same already is not touched.
func (d *Document) Edit(id string, e Edit) error {
	n := d.find(id)
	if n == nil {
		return fmt.Errorf("%w: %q", ErrNoTask, id)
	}
	if e.Status != "" && !e.Status.Valid() {
		return fmt.Errorf("%q is no status of a task", string(e.Status))
	}
	start := n.start
	if e.Status != "" && e.Status != n.Status {
		d.setStatus(n, e.Status)
		d.refresh()
	}
	for _, f := range []struct{ name, value string }{
		{"priority", e.Priority}, {"after", strings.Join(e.After, ", ")}, {"agent", e.Agent}, {"check", e.Check}, {"result", e.Result},
	} {
		if f.value == "" && (f.name != "after" || e.After == nil) {
			continue
		}
		n = d.at(start)
		if n == nil {
			return fmt.Errorf("%w: %q", ErrNoTask, id)
		}
		d.setField(n, f.name, oneLine(f.value))
		d.refresh()
	}
	if n = d.at(start); n != nil && e.Title != "" {
		// Last, since a task without an id of its own is named by its title.
		d.setTitle(n, oneLine(e.Title))
		d.refresh()
	}
	return nil
}

// at returns the task that begins at a line. Edits put lines only behind a
// task's first line, so that stays where it is.
func (d *Document) at(start int) *node {
	for _, n := range d.tasks {
		if n.start == start {
			return n
		}
	}
	return nil
}

func (d *Document) replace(s span, text string) {
	l := &d.lines[s.line]
	l.text = l.text[:s.from] + text + l.text[s.to:]
}

func (d *Document) setStatus(n *node, s Status) {
	field, has := n.fields["status"]
	switch {
	case n.kind == nodeItem:
		exact := d.setBox(n, s)
		if has {
			d.replace(field, restyle(n.word, s))
		} else if !exact {
			d.addField(n, "status", string(s))
		}
	case has:
		d.replace(field, restyle(n.word, s))
	case !n.inline.none():
		old := d.lines[n.inline.line].text[n.inline.from:n.inline.to]
		d.replace(n.inline, restyle(old, s))
	default:
		d.addField(n, "status", string(s))
	}
}

// setBox sets the mark and reports whether it says the status exactly. Marks
// other than ticks are written only in files that have them, but for a plain
// item that is dropped.
func (d *Document) setBox(n *node, s Status) (exact bool) {
	old := d.lines[n.box.line].text[n.box.from]
	mark := byte(' ')
	switch {
	case s == Done && old == 'X', s == Done && old == 'x':
		mark = old
	case s == Done:
		mark = 'x'
	case d.usesMarks(), s == Skipped && !n.Explicit:
		mark = statusMark(s)
	}
	d.replace(n.box, string(mark))
	return markStatus(mark) == s
}

func (d *Document) usesMarks() bool {
	for _, n := range d.tasks {
		if n.kind == nodeItem && strings.IndexByte("~!-/>", d.lines[n.box.line].text[n.box.from]) >= 0 {
			return true
		}
	}
	return false
}

func (d *Document) setField(n *node, name, value string) {
	at, has := n.fields[name]
	switch {
	case n.kind == nodeRow:
		return // a row has no room for fields
	case !has && value != "":
		d.addField(n, name, value)
	case has:
		d.replace(at, value)
	}
}

// addField puts a new line behind the task's last field or its title, in the
// form of its other fields.
func (d *Document) addField(n *node, name, value string) {
	if n.kind == nodeRow {
		return
	}
	prefix := ""
	if n.kind == nodeItem {
		head := d.lines[n.start].text
		lead := head[:len(head)-len(strings.TrimLeft(strings.TrimPrefix(head, bom), " \t"))]
		prefix = strings.TrimPrefix(lead, bom) + d.childIndent(n)
	}
	text := prefix + "- " + name + ": " + value
	at := n.start
	if n.lastField >= 0 {
		at = n.lastField
		if like, ok := fieldLike(d.lines[at].text, name); ok {
			text = like + value
		}
	}
	d.insert(d.paragraphEnd(at, n), text)
}

// childIndent is what stands before the lines below an item: a tab where the
// file uses tabs, else as many blanks as the item's bullet is wide, but two at
// least.
func (d *Document) childIndent(n *node) string {
	for i := n.start + 1; i < n.end && i < len(d.lines); i++ {
		if strings.HasPrefix(d.lines[i].text, "\t") {
			return "\t"
		}
	}
	_, body := indent(strings.TrimPrefix(d.lines[n.start].text, bom))
	bullet, _ := cutBullet(body)
	return strings.Repeat(" ", max(2, len(strings.TrimRight(bullet, " \t"))+1))
}

// fieldLike copies the form of an existing field line: its indentation, its
// bullet, its emphasis and the case of its key.
func fieldLike(text, name string) (string, bool) {
	w := len(text) - len(strings.TrimLeft(text, " \t"))
	bullet, rest := cutBullet(text[w:])
	key, from, ok := cutKey(rest)
	if !ok || bullet == "" || key == "" || strings.Contains(rest, " | ") || !isASCII(key) {
		return "", false
	}
	if key[0] >= 'A' && key[0] <= 'Z' {
		name = strings.ToUpper(name[:1]) + name[1:]
	}
	head := rest[:from]
	i := strings.Index(head, key)
	out := text[:w] + bullet + head[:i] + name + head[i+len(key):]
	if !strings.HasSuffix(out, " ") {
		out += " "
	}
	return out, true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// paragraphEnd returns the line behind the one at i and the lines that
// continue it.
func (d *Document) paragraphEnd(i int, n *node) int {
	width, _ := indent(strings.TrimPrefix(d.lines[i].text, bom))
	j := i + 1
	// A comment that began behind the text of line i would hide what is put
	// before its end.
	if j < len(d.lines) && !strings.HasPrefix(strings.TrimSpace(d.lines[j].text), "<!--") {
		for j < len(d.lines) && d.lines[j].kind == lineComment {
			j++
		}
	}
	for n.kind == nodeItem && j < n.end && j < len(d.lines) {
		w, body := indent(d.lines[j].text)
		bullet, _ := cutBullet(body)
		if body == "" || bullet != "" || w <= width || d.lines[j].kind != lineText || fenceMark(body) != "" {
			break
		}
		j++
	}
	return j
}

func (d *Document) setTitle(n *node, title string) {
	l := &d.lines[n.start]
	from := n.box.to
	i := strings.LastIndex(l.text[from:], n.Title)
	if n.Title == "" || i < 0 || n.Title == title {
		return
	}
	d.replace(span{n.start, from + i, from + i + len(n.Title)}, title)
}

// Match finds the one task whose title is text, or else the one whose title
// contains it; letters may differ in case. An id fits too.
func (d *Document) Match(text string) (Task, error) {
	text = strings.ToLower(oneLine(text))
	if n := d.find(text); n != nil {
		return n.Task, nil
	}
	for _, fits := range []func(title string) bool{
		func(title string) bool { return title == text },
		func(title string) bool { return text != "" && strings.Contains(title, text) },
	} {
		var found []*node
		for _, n := range d.tasks {
			if fits(strings.ToLower(n.Title)) {
				found = append(found, n)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0].Task, nil
		default:
			return Task{}, fmt.Errorf("%w %q: %s and %s", ErrAmbiguous, text, found[0].ID, found[1].ID)
		}
	}
	return Task{}, fmt.Errorf("%w: %q", ErrNoTask, text)
}

// NextID returns the prefix with the next free number: one more than the
// highest that stands anywhere in the document or in others, also in prose, so
// that the id of a deleted task that something still names is not given again.
func (d *Document) NextID(prefix string, others ...string) string {
	highest := 0
	for _, text := range append(others, d.String()) {
		for _, m := range anyNumbered().FindAllStringSubmatch(text, -1) {
			if n, err := strconv.Atoi(m[2]); err == nil && strings.EqualFold(m[1], prefix) {
				highest = max(highest, n)
			}
		}
	}
	return fmt.Sprintf("%s-%d", prefix, highest+1)
}

var anyNumbered = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b([A-Za-z]{1,8})-(\d{1,9})\b`) })

// Add puts a task in Ralph's own form behind the last one in that form, or at
// the end, and returns it as stored. An empty id becomes the next one with the
// prefix; an empty status becomes pending.
func (d *Document) Add(t Task, prefix string) (Task, error) {
	if t.ID == "" {
		t.ID = d.NextID(prefix)
	} else if id, _, _ := cutID("**" + t.ID + "**"); id != t.ID {
		return Task{}, fmt.Errorf("%q is no id of a task", t.ID)
	}
	if d.find(t.ID) != nil {
		return Task{}, fmt.Errorf("task %q exists already", t.ID)
	}
	if t.Status == "" {
		t.Status = Pending
	}
	t.Title = oneLine(t.Title)
	if t.Title == "" || !t.Status.Valid() {
		return Task{}, errors.New("a task needs a title and a status")
	}
	at := d.addAt()
	d.insertBlock(at, t.lines())
	d.refresh()
	stored, ok := d.Task(t.ID)
	if !ok {
		return Task{}, fmt.Errorf("task %q cannot be read back", t.ID)
	}
	return stored, nil
}

// lines is a task in Ralph's own form.
func (t Task) lines() []string {
	mark := " "
	if t.Status == Done {
		mark = "x"
	}
	out := []string{"- [" + mark + "] **" + t.ID + "** " + t.Title, "  - status: " + string(t.Status)}
	for _, f := range []struct{ name, value string }{
		{"priority", t.Priority}, {"after", strings.Join(t.After, ", ")}, {"agent", t.Agent}, {"check", t.Check}, {"result", t.Result},
	} {
		if v := oneLine(f.value); v != "" {
			out = append(out, "  - "+f.name+": "+v)
		}
	}
	for _, s := range t.Steps {
		box := "  - [ ] "
		if s.Done {
			box = "  - [x] "
		}
		out = append(out, box+oneLine(s.Text))
	}
	return out
}

// AddItem puts a plain box with text behind the last item, or at the end. An
// item that is there already, and open, is not put twice.
func (d *Document) AddItem(text string) error {
	text = oneLine(text)
	if text == "" {
		return errors.New("an item needs a text")
	}
	for _, n := range d.tasks {
		if strings.EqualFold(n.Title, text) && n.Status.Open() {
			return nil
		}
	}
	d.insertBlock(d.addAt(), []string{"- [ ] " + text})
	d.refresh()
	return nil
}

// addAt returns the line where a new item goes: behind the last item that is
// not part of a heading task, otherwise at the end, but never into a fence or
// comment that is left open.
func (d *Document) addAt() int {
	at := -1
	for _, n := range d.tasks {
		if n.kind == nodeItem && n.width == 0 {
			at = n.end
		}
	}
	if at < 0 {
		at = len(d.lines)
	}
	if d.open >= 0 && at > d.open {
		at = d.open
	}
	for at > 0 && strings.TrimSpace(strings.TrimPrefix(d.lines[at-1].text, bom)) == "" {
		at--
	}
	return at
}

// insertBlock inserts list lines, apart by a blank line from what is no list.
func (d *Document) insertBlock(at int, texts []string) {
	if at > 0 {
		w, body := indent(strings.TrimPrefix(d.lines[at-1].text, bom))
		if bullet, _ := cutBullet(body); bullet == "" && w == 0 {
			texts = append([]string{""}, texts...)
		}
	}
	if at < len(d.lines) {
		_, body := indent(d.lines[at].text)
		if bullet, _ := cutBullet(body); bullet == "" && body != "" {
			texts = append(texts, "")
		}
	}
	d.insert(at, texts...)
}

// PrependEntry puts a section, Markdown whose first line is a level-2 heading,
// before the first such heading of the document, or at the end: files that are
// read newest first.
func (d *Document) PrependEntry(text string) {
	for i := range d.lines {
		if level, _ := heading(strings.TrimPrefix(d.lines[i].text, bom)); level == 2 && d.lines[i].kind == lineText {
			var prefix []string
			if i > 0 && strings.TrimSpace(d.lines[i-1].text) != "" {
				prefix = []string{""}
			}
			// A BOM stays at the very beginning.
			if i == 0 && strings.HasPrefix(d.lines[0].text, bom) {
				d.lines[0].text = strings.TrimPrefix(d.lines[0].text, bom)
				text = bom + text
			}
			d.insert(i, append(append(prefix, splitLines(text)...), "")...)
			d.refresh()
			return
		}
	}
	d.AppendEntry(text)
}

// AppendEntry puts a section at the end, apart by a blank line. A fence or
// comment that is left open there is closed first.
func (d *Document) AppendEntry(text string) {
	var texts []string
	if d.open >= 0 {
		texts = append(texts, d.closer)
	}
	if n := len(d.lines); n > 0 && (d.open >= 0 || strings.TrimSpace(strings.TrimPrefix(d.lines[n-1].text, bom)) != "") {
		texts = append(texts, "")
	}
	d.insert(len(d.lines), append(texts, splitLines(text)...)...)
	// An entry is a whole text of its own: it ends its last line.
	if last := &d.lines[len(d.lines)-1]; last.eol == "" {
		last.eol = d.eol
	}
	d.refresh()
}

func splitLines(text string) []string {
	return strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
}
