package markdown

import (
	"slices"
	"strings"
)

// mergeTasks decides for each task that Ralph changed or took out.
func (m *merger) mergeTasks() {
	bAt, uAt := places(m.bUnits, len(m.base.tasks)), places(m.uUnits, len(m.user.tasks))
	for _, ru := range m.rUnits {
		if ru.task < 0 {
			continue
		}
		r := m.ralph.tasks[ru.task]
		o := m.br.left[ru.task]
		if o < 0 {
			if u, ok := m.twins[ru.task]; ok {
				m.mergeTwin(u, uAt[u], r, ru)
			}
			continue
		}
		b, bu := m.base.tasks[o], m.bUnits[bAt[o]]
		theirs, was := m.ralph.block(ru), m.base.block(bu)
		if sameText(was, theirs) {
			continue
		}
		u := m.bu.right[o]
		if u < 0 {
			m.conflicts = append(m.conflicts, Conflict{ID: b.ID, Field: "task", Base: b.Title, Ralph: said(b, r)})
			continue
		}
		uu := m.uUnits[uAt[u]]
		mine := m.user.block(uu)
		_, other := m.translate(r.After)
		switch {
		case sameText(mine, theirs):
		case sameText(mine, was) && !other:
			m.over[u] = weave(mine, theirs, m.user.eol)
		default:
			m.mergeFields(u, mine, taskSide{m.base, b, was}, taskSide{m.ralph, r, theirs})
		}
	}
	for o, b := range m.base.tasks {
		u := m.bu.right[o]
		if m.br.right[o] >= 0 || u < 0 {
			continue
		}
		if sameText(m.base.block(m.bUnits[bAt[o]]), m.user.block(m.uUnits[uAt[u]])) {
			m.drop[uAt[u]] = true
			continue
		}
		n := m.user.tasks[u]
		m.conflicts = append(m.conflicts, Conflict{ID: n.ID, Field: "task", Base: b.Title, User: said(b, n)})
	}
}

// places finds the unit of each task.
func places(units []unit, tasks int) []int {
	out := make([]int, tasks)
	for i, u := range units {
		if u.task >= 0 {
			out[u.task] = i
		}
	}
	return out
}

func sameText(a, b []line) bool {
	return slices.EqualFunc(a, b, func(x, y line) bool { return x.text == y.text })
}

// said tells in words what b says that a does not.
func said(a, b *node) string {
	var out []string
	if a.Title != b.Title {
		out = append(out, "title: "+b.Title)
	}
	for f := range numFields {
		if a.value(f) != b.value(f) {
			out = append(out, fieldName(f)+": "+b.value(f))
		}
	}
	if out == nil {
		return "other notes"
	}
	return strings.Join(out, "; ")
}

// weave returns new lines, where those that are there already stay as they
// are with their line ends.
func weave(have, want []line, eol string) []line {
	at := align(texts(want), texts(have))
	out := make([]line, len(want))
	for i, l := range want {
		if out[i] = (line{text: l.text, eol: eol}); at[i] >= 0 {
			out[i] = have[at[i]]
		}
	}
	return out
}

func texts(lines []line) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.text
	}
	return out
}

// taskSide is one version of a task.
type taskSide struct {
	d     *Document
	n     *node
	block []line
}

// taskMerge joins the versions of one task that both sides changed, in a
// document that holds the user's and nothing else.
type taskMerge struct {
	m    *merger
	id   string
	d    *Document
	n    *node
	b, r taskSide
}

// mergeFields merges a task field by field.
func (m *merger) mergeFields(u int, mine []line, b, r taskSide) {
	n := m.user.tasks[u]
	t := &taskMerge{m: m, id: n.ID, b: b, r: r}
	block, disputed := mergeNotes(mine, n, b, r, m.user)
	if !t.open(block, n) {
		// One of Ralph's lines, such as a heading, ends the task as the user has it.
		disputed, block = append(disputed, without(block, mine)...), mine
	}
	if t.n == nil && !t.open(block, n) {
		m.conflicts = append(m.conflicts, Conflict{ID: n.ID, Field: "task", Base: b.n.Title, User: n.Title, Ralph: said(b.n, r.n)})
		return
	}
	t.status(meant(b.n, n))
	if b.n.Title != r.n.Title {
		t.value("title", b.n.Title, n.Title, r.n.Title, func() { t.d.setTitle(t.n, r.n.Title) })
	}
	for f := fieldPriority; f < numFields; f++ {
		theirs := r.n.value(f)
		if f == fieldAfter {
			ids, _ := m.translate(r.n.After)
			theirs = strings.Join(ids, ", ")
		}
		if b.n.value(f) == r.n.value(f) {
			continue
		}
		t.value(fieldName(f), b.n.value(f), n.value(f), theirs, func() { t.d.setField(t.n, f, t.written(f, theirs)) })
	}
	for _, text := range disputed {
		t.conflict("text", "", "", text)
	}
	m.over[u] = t.d.all()
}

// without lists the lines that some have and others have not.
func without(some, others []line) []string {
	left := map[string]int{}
	for _, l := range others {
		left[l.text]++
	}
	var out []string
	for _, l := range some {
		if left[l.text]--; left[l.text] < 0 && strings.TrimSpace(l.text) != "" {
			out = append(out, l.text)
		}
	}
	return out
}

// mergeTwin joins a task that both sides added: what Ralph's says and the
// user's does not is put in.
func (m *merger) mergeTwin(u, at int, r *node, ru unit) {
	mine, theirs := m.user.block(m.uUnits[at]), m.ralph.block(ru)
	if sameText(mine, theirs) {
		return
	}
	n := m.user.tasks[u]
	t := &taskMerge{m: m, id: n.ID, r: taskSide{m.ralph, r, theirs}}
	if !t.open(mine, n) {
		return
	}
	if r.Status != n.Status {
		if n.Status == Pending && n.fields[fieldStatus].none() && n.inline.none() {
			t.edit(func() { t.d.setStatus(t.n, r.Status) })
		} else {
			t.conflict("status", "", string(n.Status), string(r.Status))
		}
	}
	for f := fieldPriority; f < numFields; f++ {
		theirs := r.value(f)
		if f == fieldAfter {
			ids, _ := m.translate(r.After)
			theirs = strings.Join(ids, ", ")
		}
		if theirs == "" || theirs == n.value(f) {
			continue
		}
		if n.value(f) == "" {
			t.edit(func() { t.d.setField(t.n, f, t.written(f, theirs)) })
		} else {
			t.conflict(fieldName(f), "", n.value(f), theirs)
		}
	}
	m.over[u] = t.d.all()
}

// open makes the document, and reports whether it holds the one task still.
func (t *taskMerge) open(block []line, n *node) bool {
	t.d = &Document{eol: t.m.user.eol, lines: newLines(slices.Clone(block))}
	t.d.refresh()
	if len(t.d.tasks) != 1 || t.d.starts[0] != 0 || t.d.tasks[0].raw != n.raw || t.d.tasks[0].kind != n.kind || t.d.tasks[0].Title != n.Title {
		return false
	}
	if n.roomy() && t.d.end(t.d.tasks[0]) < t.d.lines.n {
		return false
	}
	t.n = t.d.tasks[0]
	t.d.marks = t.m.user.marks // marks are written where the file has any
	return true
}

// edit makes a change; one after which the task is no longer there is undone.
func (t *taskMerge) edit(change func()) bool {
	was := t.d.all()
	if n := t.d.change(t.n, change); n != nil && len(t.d.tasks) == 1 {
		t.n = n
		return true
	}
	n := *t.n
	t.open(was, &n)
	return false
}

// written is a value as Ralph wrote it, when that is what it says.
func (t *taskMerge) written(f int, value string) string {
	at := t.r.n.fields[f]
	if at.none() || at.line >= len(t.r.block) {
		return value
	}
	if text := t.r.d.part(t.r.n, at); f != fieldAfter && plain(text) == value {
		return text
	}
	return value
}

// value merges one field that Ralph changed.
func (t *taskMerge) value(field, base, user, ralph string, set func()) {
	switch {
	case user == ralph:
	case user == base:
		if t.n.roomy() || field == "title" {
			if t.edit(set) {
				return
			}
		}
		t.conflict(field, base, user, ralph)
	default:
		t.conflict(field, base, user, ralph)
	}
}

func (t *taskMerge) status(user Status) {
	base, ralph := t.b.n.Status, t.r.n.Status
	switch {
	case base == ralph:
	case user == base:
		if t.reworded() || !t.edit(func() { t.d.setStatus(t.n, ralph) }) {
			t.conflict("status", string(base), string(user), string(ralph))
		}
		return
	case user != ralph:
		t.conflict("status", string(base), string(user), string(ralph))
		return
	}
	if t.n.Status != ralph {
		return // the user reopened it; what the file says is the user's
	}
	// Both say the same; what Ralph wrote and the user left can be put in.
	b, r := t.b.n, t.r.n
	if b.kind == nodeItem && r.kind == nodeItem && t.n.kind == nodeItem && r.mark != b.mark && t.n.mark == b.mark &&
		(t.m.user.marks > 0 || markStatus(r.mark) == Done || markStatus(b.mark) == Done) {
		t.keeping(ralph, func() { t.d.replace(t.n, t.n.box, string(r.mark)) })
	}
	if at := t.n.fields[fieldStatus]; !at.none() && r.word != b.word && t.n.word == b.word {
		t.keeping(ralph, func() { t.d.replace(t.n, at, r.word) })
	}
}

// reworded reports whether the user says the same status in other words, or says
// more: words that Ralph's would take the place of.
func (t *taskMerge) reworded() bool {
	if t.n.kind == nodeRemark || t.b.n.kind != t.n.kind {
		return false // who it is for stays
	}
	was, is := t.b.d.statusText(t.b.n), t.d.statusText(t.n)
	return is != "" && is != was
}

// statusText is what says a task's status apart from the box, less what is only
// a matter of spelling.
func (d *Document) statusText(n *node) string {
	text := n.word
	if at := n.inline; text == "" && !at.none() {
		text = d.part(n, at)
	}
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return strings.ContainsRune(" \t_-*`\ufe0f", r) }), " ")
}

// keeping makes an edit that must not change the status.
func (t *taskMerge) keeping(s Status, change func()) {
	was, n := t.d.all(), *t.n
	if !t.edit(change) || t.n.Status != s {
		t.open(was, &n)
	}
}

// conflict reports that both sides changed a field, and keeps Ralph's value in
// a bullet; a later one for the same field takes its place.
func (t *taskMerge) conflict(field, base, user, ralph string) {
	t.m.conflicts = append(t.m.conflicts, Conflict{ID: t.id, Field: field, Base: base, User: user, Ralph: ralph})
	if !t.n.roomy() {
		return
	}
	key := conflictKey + field + ":"
	value := oneLine(ralph)
	if value == "" {
		value = "nothing"
	}
	for i := 1; i < t.n.size; i++ {
		text := t.d.lines.at(i).text
		at := strings.Index(text, key)
		if at < 0 || norm(text) != strings.TrimSpace(text[at:]) || field == "text" {
			continue
		}
		if strings.TrimSpace(text[at+len(key):]) != value {
			t.edit(func() { t.d.replace(t.n, span{i, at, len(text)}, key+" "+value) })
		}
		return
	}
	bullet := "- " + key + " " + value
	for i := 1; i < t.n.size; i++ {
		if norm(t.d.lines.at(i).text) == norm(bullet) {
			return
		}
	}
	t.edit(func() { t.d.insert(t.d.paragraphEnd(t.n.lastField, t.n), t.d.below(t.n)+bullet) })
}

// all returns the lines of a document.
func (d *Document) all() []line {
	out := make([]line, 0, d.lines.n)
	for _, leaf := range d.lines.leaves {
		out = append(out, leaf...)
	}
	return out
}
