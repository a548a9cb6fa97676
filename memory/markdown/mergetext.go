package markdown

import (
	"slices"
	"strings"
)

// mergeText puts in what Ralph added between the tasks and takes out what it
// took out, unless the user changed that.
func (m *merger) mergeText() {
	b := keys(m.base, m.bUnits, itself, itselfText)
	r := keys(m.ralph, m.rUnits, func(i int) int { return m.br.left[i] }, itselfText)
	r2b := align(r, b)
	kept := make([]bool, len(b))
	for _, k := range r2b {
		if k >= 0 {
			kept[k] = true
		}
	}
	prev := -1
	var added []int
	for i, k := range r2b {
		switch {
		case k >= 0:
			m.hunk(added, kept, prev, k)
			prev, added = k, nil
		case m.rUnits[i].task >= 0 && m.br.left[m.rUnits[i].task] >= 0:
			// Ralph moved it; its place is the user's affair.
		default:
			added = append(added, i)
		}
	}
	m.hunk(added, kept, prev, len(b))
}

// hunk handles what Ralph did between two units of base that it kept.
func (m *merger) hunk(added []int, kept []bool, prev, next int) {
	var gone []int
	whole, where := true, -1
	for i := prev + 1; i < next; i++ {
		if kept[i] || m.bUnits[i].task >= 0 || norm(m.base.text(m.bUnits[i])) == "" {
			continue
		}
		gone = append(gone, i)
		if k := m.b2u[i]; k < 0 || m.user.text(m.uUnits[k]) != m.base.text(m.bUnits[i]) {
			whole = false
		} else if where < 0 {
			where = k
		}
	}
	pieces := m.pieces(added)
	if len(gone) > 0 && !whole {
		pieces = m.disputed(gone, pieces)
		where = -1
	}
	if len(gone) > 0 && whole {
		for _, i := range gone {
			m.drop[m.b2u[i]] = true
		}
	}
	for _, p := range pieces {
		m.runs = append(m.runs, p)
		if where >= 0 {
			m.before[where] = append(m.before[where], p)
		} else {
			m.place(p, prev, next)
		}
	}
}

// disputed handles text that Ralph replaced or took out and the user changed:
// the user's stays, Ralph's is kept in a bullet.
func (m *merger) disputed(gone []int, pieces []*run) []*run {
	var out []*run
	var was, now []string
	for _, i := range gone {
		was = append(was, m.base.text(m.bUnits[i]))
	}
	for _, p := range pieces {
		if len(p.tasks) > 0 {
			out = append(out, p)
			continue
		}
		for _, l := range p.lines {
			now = append(now, l.text)
		}
	}
	c := Conflict{Field: "text", Base: strings.Join(was, "\n"), Ralph: strings.TrimSpace(strings.Join(now, "\n"))}
	var mine []string
	from, to := -1, len(m.uUnits)
	for i := gone[0] - 1; i >= 0 && from < 0; i-- {
		from = m.b2u[i]
	}
	for i := gone[len(gone)-1] + 1; i < len(m.b2u) && to == len(m.uUnits); i++ {
		if m.b2u[i] > from {
			to = m.b2u[i]
		}
	}
	for k := from + 1; k < to && k-from < 50; k++ {
		if u := m.uUnits[k]; u.task < 0 {
			mine = append(mine, m.user.text(u))
		}
	}
	if c.User = strings.TrimSpace(strings.Join(mine, "\n")); c.Ralph == "" && c.User == "" {
		return out // both took it out
	}
	m.conflicts = append(m.conflicts, c)
	if c.Ralph == "" {
		return out
	}
	keep := "- " + conflictKey + "text: " + oneLine(c.Ralph)
	if m.fresh[norm(keep)] > 0 {
		return out
	}
	return append(out, &run{lines: []line{{text: keep}}})
}

// pieces splits what Ralph added in tasks and in sections, and leaves out what
// the user's version has too.
func (m *merger) pieces(added []int) []*run {
	var out []*run
	var section []line
	flush := func() {
		section = trimBlank(section)
		if len(section) > 0 && !m.present(section) {
			out = append(out, &run{lines: section})
		}
		section = nil
	}
	for _, i := range added {
		u := m.rUnits[i]
		if u.task < 0 {
			l := m.ralph.block(u)[0]
			if level, _ := heading(l.text); l.kind == lineText && (level == 1 || level == 2) {
				flush()
			}
			section = append(section, l)
			continue
		}
		flush()
		if _, twin := m.twins[u.task]; twin {
			continue
		}
		block := m.ralph.block(u)
		if id := m.renamed[u.task]; id != "" {
			block[0].text = strings.Replace(block[0].text, m.ralph.tasks[u.task].raw, id, 1)
		}
		block = m.translated(block, m.ralph.tasks[u.task])
		if n := len(out); n > 0 && out[n-1].tasks != nil {
			out[n-1].lines, out[n-1].tasks = append(out[n-1].lines, block...), append(out[n-1].tasks, u.task)
			continue
		}
		out = append(out, &run{lines: block, tasks: []int{u.task}})
	}
	flush()
	return out
}

// translated puts the ids that tasks have in the merged file into a new task's
// list of what it comes after.
func (m *merger) translated(block []line, n *node) []line {
	at := n.fields[fieldAfter]
	if ids, changed := m.translate(n.After); changed && at.line < len(block) {
		l := &block[at.line]
		from := min(at.from, len(l.text))
		l.text = l.text[:from] + strings.Join(ids, ", ")
	}
	return block
}

func (m *merger) translate(ids []string) (out []string, changed bool) {
	for _, id := range ids {
		if to, ok := m.ids[strings.ToLower(id)]; ok {
			id, changed = to, true
		}
		out = append(out, id)
	}
	return out, changed
}

// present reports whether a section is among what the user's version has more
// than base: its heading, or all of it when it has none.
func (m *merger) present(section []line) bool {
	var all []string
	for _, l := range section {
		if s := norm(l.text); s != "" {
			all = append(all, s)
		}
	}
	if level, _ := heading(section[0].text); level > 0 {
		all = all[:1]
	}
	need := map[string]int{}
	for _, s := range all {
		if need[s]++; m.fresh[s] < need[s] {
			return false
		}
	}
	for s, n := range need {
		m.fresh[s] -= n
	}
	return true
}

func trimBlank(lines []line) []line {
	blank := func(l line) bool { return strings.TrimSpace(l.text) == "" }
	for len(lines) > 0 && blank(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 0 && blank(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// place finds where the user's version has what stood around the place of a
// run in Ralph's.
func (m *merger) place(p *run, prev, next int) {
	if p.tasks != nil {
		if m.placeTask(p, prev) {
			return
		}
	}
	if next == len(m.bUnits) && p.tasks == nil {
		m.after[len(m.uUnits)-1] = append(m.after[len(m.uUnits)-1], p)
		return
	}
	solid := func(i int) bool { return m.bUnits[i].task >= 0 || norm(m.base.text(m.bUnits[i])) != "" }
	for i := next; i < len(m.bUnits); i++ {
		if !solid(i) {
			continue
		}
		if k := m.b2u[i]; k >= 0 {
			m.before[k] = append(m.before[k], p)
			return
		}
		break
	}
	if level, _ := heading(p.lines[0].text); level == 2 && m.user.entry >= 0 {
		if k := slices.IndexFunc(m.uUnits, func(u unit) bool { return u.from == m.user.entry }); k >= 0 {
			m.before[k] = append(m.before[k], p)
			return
		}
	}
	for i := prev; i >= 0; i-- {
		if k := m.b2u[i]; k >= 0 && solid(i) {
			m.after[k] = append(m.after[k], p)
			return
		}
	}
	m.after[len(m.uUnits)-1] = append(m.after[len(m.uUnits)-1], p)
}

// placeTask puts new tasks behind the nearest task before them that the user
// still has in its place, indented as that one is.
func (m *merger) placeTask(p *run, prev int) bool {
	best := -1
	for i := prev; i >= 0; i-- {
		k := m.b2u[i]
		if m.bUnits[i].task < 0 || k < 0 || m.uUnits[k].task < 0 {
			if m.bUnits[i].task < 0 && best < 0 && norm(m.base.text(m.bUnits[i])) != "" && i < prev-1 {
				break
			}
			continue
		}
		if m.stay[m.uUnits[k].task] {
			best = i
			break
		}
		if best < 0 {
			best = i
		}
	}
	if best < 0 || m.drop[m.b2u[best]] {
		return false
	}
	k := m.b2u[best]
	was, now := lead(m.base.text(m.bUnits[best])), lead(m.user.text(m.uUnits[k]))
	for i := range p.lines {
		if rest, ok := strings.CutPrefix(p.lines[i].text, was); ok && was != now && strings.TrimSpace(rest) != "" {
			p.lines[i].text = now + rest
		}
	}
	m.after[k] = append(m.after[k], p)
	return true
}

func lead(s string) string { return s[:len(s)-len(strings.TrimLeft(s, " \t"))] }
