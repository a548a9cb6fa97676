package markdown

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// StatusLine has a line of its own say Status, also where the box shows it.
	StatusLine bool
	// Drop names fields (status, agent, result) whose lines are taken out.
	Drop []string
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
	if e.Status != "" && e.Status != n.Status {
		if n = d.change(n, func() { d.setStatus(n, e.Status) }); n == nil {
			return fmt.Errorf("%w: %q", ErrNoTask, id)
		}
	}
	if e.StatusLine && e.Status != "" && n.fields[fieldStatus].none() {
		if n = d.change(n, func() { d.addField(n, "status", string(e.Status)) }); n == nil {
			return fmt.Errorf("%w: %q", ErrNoTask, id)
		}
	}
	for f, value := range [numFields]string{fieldPriority: e.Priority, fieldAfter: strings.Join(e.After, ", "), fieldAgent: e.Agent, fieldCheck: e.Check, fieldResult: e.Result} {
		if value == "" && (f != fieldAfter || e.After == nil) {
			continue
		}
		if n = d.change(n, func() { d.setField(n, f, fieldText(f, value)) }); n == nil {
			return fmt.Errorf("%w: %q", ErrNoTask, id)
		}
	}
	for f := range numFields {
		if !slices.Contains(e.Drop, fieldName(f)) {
			continue
		}
		if n = d.change(n, func() { d.dropField(n, f) }); n == nil {
			return fmt.Errorf("%w: %q", ErrNoTask, id)
		}
	}
	if e.Title != "" {
		// Last, since a task without an id of its own is named by its title.
		d.change(n, func() { d.setTitle(n, oneLine(e.Title)) })
	}
	return nil
}

// replace puts a text in the place of a part of a task.
func (d *Document) replace(n *node, s span, text string) {
	l := d.lines.at(d.start(n) + s.line)
	d.bytes += len(text) - (s.to - s.from)
	l.text = l.text[:s.from] + text + l.text[s.to:]
	d.note(l.text)
}

func (d *Document) part(n *node, s span) string {
	return d.lines.at(d.start(n) + s.line).text[s.from:s.to]
}

func (d *Document) setStatus(n *node, s Status) {
	field := n.fields[fieldStatus]
	has := !field.none()
	switch {
	case !n.box.none():
		exact := d.setBox(n, s)
		if has {
			d.replace(n, field, restyle(n.word, s))
		} else if !exact {
			d.addField(n, "status", string(s))
		}
	case n.kind == nodePercent:
		d.setPercent(n, s)
	case n.kind == nodeRemark:
		d.replace(n, n.inline, restyleRemark(d.part(n, n.inline), s))
	case has:
		d.replace(n, field, restyle(n.word, s))
		if !n.inline.none() {
			d.setInline(n, s)
		}
	case !n.inline.none():
		d.setInline(n, s)
	default:
		d.addField(n, "status", string(s))
	}
}

// setInline writes a status in the line of a heading or a row. A sign before the id of a
// heading stays one sign: with a word it would be another heading.
func (d *Document) setInline(n *node, s Status) {
	old := d.part(n, n.inline)
	if n.kind == nodeHeading && slices.ContainsFunc(statusEmoji(), func(e statusWord) bool { return e.word == old }) {
		d.replace(n, n.inline, emojiFor(s))
		return
	}
	d.replace(n, n.inline, restyle(old, s))
}

// setPercent writes what a percentage can say as one, else a field.
func (d *Document) setPercent(n *node, s Status) {
	field := n.fields[fieldStatus]
	switch {
	case s == Done:
		d.replace(n, n.inline, "100")
	case s == Pending:
		d.replace(n, n.inline, "0")
	case field.none():
		old := d.part(n, n.inline)
		if s != InProgress || strings.Trim(old, "0") == "" || old == "100" {
			d.addField(n, "status", string(s))
		}
	}
	if !field.none() {
		d.replace(n, field, restyle(n.word, s))
	}
}

// restyleRemark writes a status before the colon of a TODO line, in place of
// the one there; who it is for stays.
func restyleRemark(old string, s Status) string {
	word, remark, _ := strings.Cut(old, "(")
	var parts []string
	for _, p := range strings.Split(strings.TrimSuffix(remark, ")"), ",") {
		if _, ok := ReadStatus(p); !ok && strings.TrimSpace(p) != "" {
			parts = append(parts, strings.TrimSpace(p))
		}
	}
	out := "TODO" + strings.TrimPrefix(word[len("TODO"):], " ")
	switch s {
	case Done:
		out = "DONE" + out[len("TODO"):]
	case Pending:
	default:
		parts = append(parts, strings.ReplaceAll(string(s), "_", " "))
	}
	if len(parts) == 0 {
		return out
	}
	gap := " "
	if remark != "" && !strings.HasSuffix(word, " ") {
		gap = ""
	}
	return out + gap + "(" + strings.Join(parts, ", ") + ")"
}

// setBox sets the mark and reports whether it says the status exactly. Marks
// other than ticks are written only in files that have them, but for a plain
// item that is dropped.
func (d *Document) setBox(n *node, s Status) (exact bool) {
	mark := byte(' ')
	switch {
	case s == Done && markStatus(n.mark) == Done:
		mark = n.mark
	case s == Done:
		mark = 'x'
	case d.marks > 0, s == Skipped && !n.Explicit:
		mark = statusMark(s)
	}
	d.replace(n, n.box, string(mark))
	return markStatus(mark) == s
}

// fieldText is a value as it is written: on one line, and without the bars that
// would end it, where a field is no free text.
func fieldText(f int, value string) string {
	if value = oneLine(value); f == fieldCheck || f == fieldResult {
		return value
	}
	return strings.ReplaceAll(value, " | ", " / ")
}

func (d *Document) setField(n *node, f int, value string) {
	at := n.fields[f]
	switch {
	case !n.roomy():
		return
	case !at.none():
		d.replace(n, at, value)
	case value != "":
		d.addField(n, fieldName(f), value)
	}
}

// dropField takes out the line of a field, where it holds nothing else.
func (d *Document) dropField(n *node, f int) {
	at := n.fields[f]
	if at.none() || at.line == 0 {
		return
	}
	i := d.start(n) + at.line
	if _, alone := fieldLike(d.lines.at(i).text, fieldName(f)); alone && d.paragraphEnd(i, n) == i+1 {
		d.remove(i)
	}
}

// roomy reports whether lines can stand below a task; a row of a table and a
// line of prose have no room for any.
func (n *node) roomy() bool { return n.kind != nodeRow && n.kind != nodeRemark }

// addField puts a new line behind the task's last field or its title, in the
// form of its other fields.
func (d *Document) addField(n *node, name, value string) {
	if !n.roomy() {
		return
	}
	start := d.start(n)
	text := d.below(n) + "- " + name + ": " + value
	at := start + n.lastField
	if n.lastField > 0 {
		if like, ok := fieldLike(d.lines.at(at).text, name); ok {
			text = like + value
		}
	}
	d.insert(d.paragraphEnd(at, n), text)
}

// below is what stands before the bullets below a task: its own indentation
// and, where the task is in a list, a tab where the file uses tabs, else as
// many blanks as the item's bullet is wide, but two at least.
func (d *Document) below(n *node) string {
	if n.kind == nodeHeading {
		return ""
	}
	start := d.start(n)
	head := strings.TrimPrefix(d.lines.at(start).text, bom)
	body := strings.TrimLeft(head, " \t")
	lead := head[:len(head)-len(body)]
	for i := start + 1; i < start+n.size; i++ {
		if strings.HasPrefix(d.lines.at(i).text, "\t") {
			return lead + "\t"
		}
	}
	bullet, _ := cutBullet(body)
	return lead + strings.Repeat(" ", max(2, len(strings.TrimRight(bullet, " \t"))+1))
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
	width, _ := indent(strings.TrimPrefix(d.lines.at(i).text, bom))
	end := min(d.end(n), d.lines.n)
	j := i + 1
	// A comment that began behind the text of line i would hide what is put
	// before its end.
	if j < d.lines.n && !strings.HasPrefix(strings.TrimSpace(d.lines.at(j).text), "<!--") {
		for j < d.lines.n && d.lines.at(j).kind == lineComment {
			j++
		}
	}
	for (n.kind == nodeItem || n.kind == nodePercent) && j < end {
		w, body := indent(d.lines.at(j).text)
		bullet, _ := cutBullet(body)
		if body == "" || bullet != "" || w <= width || d.lines.at(j).kind != lineText || fenceMark(body) != "" {
			break
		}
		j++
	}
	return j
}

func (d *Document) setTitle(n *node, title string) {
	l := d.lines.at(d.start(n))
	from := max(n.box.to, 0)
	i := strings.LastIndex(l.text[from:], n.Title)
	if n.Title == "" || i < 0 || n.Title == title {
		return
	}
	d.replace(n, span{0, from + i, from + i + len(n.Title)}, title)
}

// Match finds the one task whose title is text, or else the one whose title
// contains it; letters may differ in case. An id fits too.
func (d *Document) Match(text string) (Task, error) {
	text = strings.ToLower(oneLine(text))
	if n := d.find(text); n != nil {
		return d.task(n), nil
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
			return d.task(found[0]), nil
		default:
			return Task{}, fmt.Errorf("%w %q: %s and %s", ErrAmbiguous, text, found[0].ID, found[1].ID)
		}
	}
	return Task{}, fmt.Errorf("%w: %q", ErrNoTask, text)
}
