package markdown

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Add puts a task in Ralph's own form behind the last one in that form, or at
// the end, and returns it as stored. An empty id becomes the next one with the
// prefix; an empty status becomes pending.
func (d *Document) Add(t Task, prefix string) (Task, error) {
	if t.ID == "" {
		if n := len(d.other); n > 0 && !d.stories { // with another prefix its headings would be no tasks any more
			if own := prefixOf(d.other[n-1].ID); !strings.ContainsAny(own, "- ") {
				prefix = own
			}
		}
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
	d.insertTask(t.lines(), false)
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
	for f, value := range [numFields]string{fieldPriority: t.Priority, fieldAfter: strings.Join(t.After, ", "), fieldAgent: t.Agent, fieldCheck: t.Check, fieldResult: t.Result} {
		if v := fieldText(f, value); v != "" {
			out = append(out, "  - "+fieldName(f)+": "+v)
		}
	}
	for _, detail := range [...][2]string{{"kind", t.Kind}, {"epic", t.Epic}, {"labels", strings.Join(t.Labels, ", ")}, {"description", t.Description}} {
		if v := oneLine(detail[1]); v != "" {
			out = append(out, "  - "+detail[0]+": "+v)
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
	d.insertTask([]string{"- [ ] " + text}, true)
	return nil
}

// insertTask puts the lines of a new item behind the last item that is not
// part of a heading task, otherwise at the end, but never into a fence or
// comment that is left open. A plain item says nothing of itself: where it
// would be a step of a heading task, or deferred, it gets a heading.
func (d *Document) insertTask(texts []string, plain bool) {
	var last *node
	at := d.lines.n
	for i := len(d.tasks) - 1; i >= 0 && last == nil; i-- {
		if n := d.tasks[i]; n.kind == nodeItem && n.width == 0 && !(plain && n.parked > 0) {
			last, at = n, d.end(n)
		}
	}
	if d.open >= 0 && at > d.open {
		at, last = d.open, nil
	}
	if level := d.under(at); plain && last == nil && level > 0 {
		texts = append([]string{"", strings.Repeat("#", level) + " To do", ""}, texts...)
	}
	for at > 0 && strings.TrimSpace(strings.TrimPrefix(d.lines.at(at-1).text, bom)) == "" {
		at--
	}
	before, n := 0, len(texts)
	if at > 0 {
		w, body := indent(strings.TrimPrefix(d.lines.at(at-1).text, bom))
		if bullet, _ := cutBullet(body); bullet == "" && w == 0 && texts[0] != "" {
			texts, before = append([]string{""}, texts...), 1
		}
	}
	if at < d.lines.n {
		_, body := indent(d.lines.at(at).text)
		if bullet, _ := cutBullet(body); bullet == "" && body != "" {
			texts = append(texts, "")
		}
	}
	d.insert(at, texts...)
	if !d.adopt(last, at, before, n, len(texts)) {
		d.refresh()
	}
}

// under returns the level of the outermost heading above line at whose section
// is a task or is deferred, or 0.
func (d *Document) under(at int) int {
	level, least := 0, 7
	for i := at - 1; i >= 0 && least > 1; i-- {
		l := d.lines.at(i)
		if l.kind != lineText || !strings.Contains(l.text, "#") {
			continue
		}
		k, title := heading(strings.TrimPrefix(l.text, bom))
		if k == 0 || k >= least {
			continue
		}
		least = k
		id, _, _ := cutID(title)
		if st, ok := ReadStatus(title); id != "" && numbered(title) == "" || ok && st == Skipped {
			level = k
		}
	}
	return level
}

// PrependEntry puts a section, Markdown whose first line is a level-2 heading,
// before the first such heading of the document, or at the end: files that are
// read newest first.
func (d *Document) PrependEntry(text string) {
	i := d.entry
	if i < 0 {
		d.AppendEntry(text)
		return
	}
	var texts []string
	if i > 0 && strings.TrimSpace(d.lines.at(i-1).text) != "" {
		texts = []string{""}
	}
	at := i + len(texts)
	entry := append(splitLines(text), "")
	// A BOM stays at the very beginning.
	if first := d.lines.at(0); i == 0 && strings.HasPrefix(first.text, bom) {
		first.text = strings.TrimPrefix(first.text, bom)
		d.bytes -= len(bom)
		entry[0] = bom + entry[0]
	}
	alone := quiet(entry)
	d.insert(i, append(texts, entry...)...)
	if alone == nil || d.inside(i) || strings.HasPrefix(entry[0], bom) {
		d.refresh()
		return
	}
	d.classifyAs(at, alone)
	if k, _ := slices.BinarySearch(d.starts, i); k > 0 && d.end(d.tasks[k-1]) == i {
		d.tasks[k-1].size += len(texts) // the blank line is still its own
	}
	d.shift(i, len(texts)+len(entry))
	d.entry = at
}

// AppendEntry puts a section at the end, apart by a blank line. A fence or
// comment that is left open there is closed first.
func (d *Document) AppendEntry(text string) {
	var texts []string
	if d.open >= 0 {
		texts = append(texts, d.closer)
	}
	if n := d.lines.n; n > 0 && (d.open >= 0 || strings.TrimSpace(strings.TrimPrefix(d.lines.at(n-1).text, bom)) != "") {
		texts = append(texts, "")
	}
	entry := splitLines(text)
	end, at := d.lines.n, d.lines.n+len(texts)
	alone := quiet(entry)
	d.insert(end, append(texts, entry...)...)
	// An entry is a whole text of its own: it ends its last line.
	if last := d.lines.at(d.lines.n - 1); last.eol == "" {
		last.eol = d.eol
		d.bytes += len(d.eol)
	}
	if d.open >= 0 || alone == nil || !d.cutAt(end, at) {
		d.refresh()
		return
	}
	d.classifyAs(at, alone)
	if d.entry < 0 {
		d.entry = at
	}
}

func splitLines(text string) []string {
	return strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
}
