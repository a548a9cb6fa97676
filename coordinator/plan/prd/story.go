package prd

import (
	"cmp"
	"strings"

	"ralph/memory/markdown"
)

func (p *parser) openStory(i int, h heading) {
	p.closeStory()
	p.in, p.level, p.mode, p.text = true, h.level, partNone, storyText{}
	s := Story{ID: h.id, Title: h.title, Done: h.done, Line: i + 1, afterLine: i + 1, Priority: 2}
	if h.prio >= 0 {
		s.Priority = h.prio
	}
	if rest, value, ok := cutAfter(s.Title); ok {
		if ids, lost := readAfter(value); len(ids) > 0 && len(lost) == 0 {
			s.Title, s.After = rest, ids
		}
	}
	p.doc.Stories = append(p.doc.Stories, s)
}

// cutAfter cuts "(after US-1, US-2)" from the end of a title.
func cutAfter(title string) (rest, value string, ok bool) {
	i := strings.LastIndexByte(title, '(')
	if i < 0 || !strings.HasSuffix(title, ")") {
		return title, "", false
	}
	word, value, _ := strings.Cut(title[i+1:len(title)-1], " ")
	return strings.TrimSpace(title[:i]), value, strings.EqualFold(strings.TrimSuffix(word, ":"), "after")
}

// partHeading takes a heading within a story.
func (p *parser) partHeading(i int, title string) {
	if label, value, ok := strings.Cut(title, ":"); ok && partOf(label) != partNone {
		p.label(i, partOf(label), strings.TrimSpace(value))
		return
	}
	p.mode = partOf(title)
	if p.mode == partNone {
		p.text.description = append(p.text.description, "", p.lines[i], "")
	}
}

// storyLine takes a line of a story that is no heading.
func (p *parser) storyLine(i int) {
	l := p.lines[i]
	s := strings.TrimSpace(l)
	switch {
	case p.classes[i] == classCode:
		p.prose(l)
		return
	case s == "":
		p.text.gap = true
		p.prose("")
		return
	case isRule(s):
		p.text.gap = true
		return
	}
	item, _, isItem := cutItem(s)
	done, rest, isBox := cutBox(item)
	isBox = isBox && isItem
	t, value := partNone, ""
	if !isBox {
		t, value = readLabel(s)
		if p.mode == partCriteria && isItem && !p.isLabel(s, t, value) {
			t = partNone
		}
	}
	switch {
	case isBox:
		p.criterion(i, indentOf(l), rest, done, true)
	case t == partOther && !isItem:
		p.mode = partDescription
		p.prose(l)
	case t != partNone && t != partOther:
		p.label(i, t, value)
	case isItem && (p.mode == partCriteria || p.mode == partNone && p.continues(l)):
		p.criterion(i, indentOf(l), item, false, false)
	case p.mode == partCriteria:
		p.amongCriteria(l, s)
	case p.mode == partNone || p.mode == partDescription || p.mode == partNotes:
		if p.mode != partNotes && p.continues(l) {
			p.extend(s)
			break
		}
		p.prose(l)
	case p.mode == partAfter && isItem:
		p.set(i, partAfter, item)
		p.mode = partAfter // the list goes on
	case p.mode == partAfter && !namesStory(s):
		p.mode = partNone
		p.prose(l)
	default:
		p.set(i, p.mode, item)
	}
	p.text.gap = false
}

// namesStory says that a line begins with the id of a story, or says none.
func namesStory(s string) bool {
	_, _, _, ok := cutID(strings.TrimLeft(s, "*_`[# "))
	return ok || nothing(s)
}

// isLabel says that an item among the criteria is a label after all: "Status:
// 200 is returned" is a criterion.
func (p *parser) isLabel(s string, t part, value string) bool {
	item, _, _ := cutItem(strings.TrimSpace(s))
	bold := strings.HasPrefix(item, "**") || strings.HasPrefix(item, "__")
	switch t {
	case partPriority:
		_, ok := readPriority(value)
		return bold || ok
	case partAfter:
		ids, lost := readAfter(value)
		return bold || len(lost) == 0 && (len(ids) > 0 || nothing(value))
	case partCriteria, partLabels, partEpic, partEffort, partNotes, partAgent:
		return bold
	}
	return false
}

func indentOf(l string) int {
	n := 0
	for _, r := range l {
		switch r {
		case ' ':
			n++
		case '\t':
			n += 4
		default:
			return n
		}
	}
	return n
}

// label takes "Priority: P1" and its like.
func (p *parser) label(i int, t part, value string) {
	p.mode = t
	switch t {
	case partDescription, partNotes:
		if value != "" {
			p.prose(value)
		}
	case partCriteria:
		if value != "" {
			p.criterion(i, 0, value, false, false)
		}
	default:
		if value != "" {
			p.set(i, t, value)
		}
	}
}

// set takes the value of a label that has one value, or, after an empty label,
// one of the lines that follow.
func (p *parser) set(i int, t part, value string) {
	s := &p.doc.Stories[len(p.doc.Stories)-1]
	p.mode = partNone
	known := true
	switch t {
	case partPriority:
		var n int
		if n, known = readPriority(value); known {
			s.Priority = n
		}
	case partAfter:
		ids, lost := readAfter(value)
		for _, w := range lost {
			p.warn(i, "skipped: %q in what %s depends on: it names no story", excerpt(w), s.ID)
		}
		if len(ids) > 0 {
			s.afterLine = i + 1
		}
		s.After = append(s.After, ids...)
		if strings.HasSuffix(value, ",") {
			p.mode = partAfter // it goes on
		}
	case partLabels:
		for _, w := range splitList(strings.Trim(value, "[]")) {
			if w = strings.Trim(w, "`*_[] "); w != "" && !nothing(w) {
				s.Labels = append(s.Labels, w)
			}
		}
	case partEpic:
		if id, _, _, ok := cutID(strings.TrimLeft(value, "*_`[ ")); ok {
			s.Epic = id
		} else if !nothing(value) {
			s.Epic = plain(value)
		}
	case partKind:
		s.Kind, known = readKind(value)
	case partStatus:
		var done bool
		done, known = readStatus(value)
		s.Done = s.Done || done
	case partCheck:
		s.Check, _ = command(value)
	case partAgent:
		s.Agent = plain(value)
	case partEffort:
		s.Effort = plain(value)
	case partBranch:
		known = false
	}
	if !known {
		p.skip(i)
	}
}

func readKind(value string) (string, bool) {
	switch v := strings.ToLower(plain(value)); v {
	case "bug", "feature", "chore", "task":
		return v, true
	case "", "story", "user story":
		return "", true
	}
	return "", false
}

// readStatus tells whether a status means done; ok says that the word is known.
func readStatus(value string) (done, ok bool) {
	v := strings.ToLower(plain(value))
	v = strings.TrimSpace(strings.Trim(v, "✅☑✔️ "))
	switch strings.ReplaceAll(strings.ReplaceAll(v, "_", " "), "-", " ") {
	case "done", "complete", "completed", "closed", "passed", "passes", "finished", "implemented", "":
		return true, true
	case "open", "todo", "to do", "pending", "draft", "planned", "ready", "not started", "new":
		return false, true
	}
	st, ok := markdown.ReadStatus(value)
	return st == markdown.Done, ok && (st == markdown.Done || st == markdown.Pending)
}

// prose keeps a line of a description or of notes.
func (p *parser) prose(l string) {
	switch p.mode {
	case partNotes:
		p.text.notes = append(p.text.notes, l)
	default:
		p.text.description = append(p.text.description, l)
	}
}

// criterion adds one. One without a box that stands below a ticked one is
// part of what was done.
func (p *parser) criterion(i, indent int, text string, done, box bool) {
	t := &p.text
	text = strings.TrimSpace(text)
	if text == "" {
		p.skip(i)
		return
	}
	if !box {
		for j := len(t.criteria) - 1; j >= 0; j-- {
			if t.indents[j] < indent {
				done, box = t.criteria[j].Done, t.boxed[j]
				break
			}
		}
	}
	t.aside = false
	t.criteria = append(t.criteria, Criterion{Done: done})
	t.lines = append(t.lines, []string{text})
	t.boxed = append(t.boxed, box)
	t.indents = append(t.indents, indent)
}

// continues says that a line goes on with the criterion before it.
func (p *parser) continues(l string) bool {
	t := &p.text
	n := len(t.criteria)
	return n > 0 && !t.gap && indentOf(l) > t.indents[n-1] && p.mode != partDescription
}

func (p *parser) extend(s string) {
	last := len(p.text.lines) - 1
	p.text.lines[last] = append(p.text.lines[last], s)
}

// amongCriteria takes a line between criteria that is no item: it goes on with
// the one before, or stands for itself.
func (p *parser) amongCriteria(l, s string) {
	t := &p.text
	n := len(t.criteria)
	if n > 0 && !t.aside && (!t.gap || indentOf(l) > t.indents[n-1]+1) {
		p.extend(s)
		return
	}
	if t.gap || !t.aside {
		t.loose = append(t.loose, nil)
	}
	t.aside = true
	last := len(t.loose) - 1
	t.loose[last] = append(t.loose[last], s)
}

// closeStory finishes the story at work.
func (p *parser) closeStory() {
	if !p.in {
		return
	}
	p.in = false
	s, t := &p.doc.Stories[len(p.doc.Stories)-1], &p.text
	all := len(t.criteria) > 0
	for j := range t.criteria {
		t.criteria[j].Text = strings.Join(t.lines[j], " ")
		all = all && t.boxed[j] && t.criteria[j].Done
	}
	if len(t.criteria) == 0 {
		for _, l := range t.loose {
			t.criteria = append(t.criteria, Criterion{Text: strings.Join(l, " ")})
		}
	} else {
		for _, l := range t.loose {
			t.description = append(append(t.description, ""), l...)
		}
	}
	s.Criteria, s.Done = t.criteria, s.Done || all
	s.Description, s.Notes = joined(t.description), joined(t.notes)
	p.area, p.areaTop, p.pending = areaOther, p.level, -1
}

// arrange tells stories from the headings that only group them, and spells the
// ids of dependencies as their headings do.
func (p *parser) arrange() {
	group := make([]bool, len(p.doc.Stories))
	for i, s := range p.doc.Stories {
		group[i] = p.nested[i] && len(s.Criteria) == 0
	}
	spelled := map[string]string{}
	for _, s := range p.doc.Stories {
		if key := strings.ToUpper(s.ID); spelled[key] == "" {
			spelled[key] = s.ID
		}
	}
	var stories []Story
	for i, s := range p.doc.Stories {
		if group[i] {
			p.doc.Epics = append(p.doc.Epics, Epic{ID: s.ID, Title: s.Title, Description: s.Description, Line: s.Line})
			if len(s.After) > 0 {
				p.warn(s.afterLine-1, "skipped: what %s depends on: it only groups stories; say it of the stories", s.ID)
			}
			continue
		}
		for up := p.parents[i]; up >= 0 && s.Epic == ""; up = p.parents[up] {
			if group[up] {
				s.Epic = p.doc.Stories[up].ID
			}
		}
		s.Epic = cmp.Or(spelled[strings.ToUpper(s.Epic)], s.Epic)
		for j, a := range s.After {
			s.After[j] = cmp.Or(spelled[strings.ToUpper(a)], a)
		}
		s.After, s.Labels = unique(s.After), unique(s.Labels)
		if len(s.Criteria) == 0 {
			p.warn(s.Line-1, "story %s has no acceptance criteria", s.ID)
		}
		stories = append(stories, s)
	}
	p.doc.Stories = stories
}

// unique drops what is given twice, and keeps the order.
func unique(list []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
