package markdown

import "strings"

// placing says where a merge puts what Ralph added.
type placing uint8

const (
	inPlace placing = iota
	atEnd
	nowhere
)

// assemble writes the merged file.
func (m *merger) assemble(where placing) []byte {
	a := assembly{eol: m.user.eol, lines: make([]line, 0, m.user.lines.n+16)}
	end := len(m.uUnits)
	for k, u := range m.uUnits {
		if m.user.open >= 0 && u.from >= m.user.open && end == len(m.uUnits) {
			end = k // what comes behind would be part of the open fence
		}
	}
	for k, u := range m.uUnits {
		if where == atEnd && k == end {
			a.putAll(m.runs)
		}
		if where == inPlace {
			a.putAll(m.before[k])
		}
		switch {
		case m.drop[k]:
		case u.task >= 0 && m.over[u.task] != nil:
			a.users(m.over[u.task])
		default:
			a.users(m.user.block(u))
		}
		if where == inPlace {
			a.putAll(m.after[k])
		}
	}
	if where == atEnd && end == len(m.uUnits) || len(m.uUnits) == 0 && where == inPlace {
		a.putAll(m.runs)
	}
	return a.bytes(m.user.lines.n > 0 && strings.HasPrefix(m.user.lines.at(0).text, bom))
}

// assembly is a file in the making.
type assembly struct {
	lines []line
	eol   string
	wants bool // a blank line must come before the next that is not blank
	list  bool // but not before another item
}

// users puts in lines of the user, as they are.
func (a *assembly) users(lines []line) {
	if len(lines) == 0 {
		return
	}
	if a.wants && strings.TrimSpace(lines[0].text) != "" {
		_, body := indent(lines[0].text)
		if bullet, _ := cutBullet(body); !a.list || bullet == "" {
			a.blank()
		}
	}
	a.wants = false
	a.lines = append(a.lines, lines...)
}

func (a *assembly) blank() { a.lines = append(a.lines, line{eol: a.eol}) }

func (a *assembly) putAll(runs []*run) {
	for _, p := range runs {
		a.put(p)
	}
}

// put puts in what Ralph added, apart by a blank line from what is no list.
func (a *assembly) put(p *run) {
	_, body := indent(p.lines[0].text)
	bullet, _ := cutBullet(body)
	list := bullet != ""
	if n := len(a.lines); n > 0 {
		last := strings.TrimPrefix(a.lines[n-1].text, bom)
		w, rest := indent(last)
		b, _ := cutBullet(rest)
		if strings.TrimSpace(last) != "" && (!list || b == "" && w == 0) {
			a.blank()
		}
	}
	for _, l := range p.lines {
		a.lines = append(a.lines, line{text: l.text, eol: a.eol})
	}
	a.wants, a.list = true, list
}

// bytes ends all lines but the last, which ends as it did, and puts a BOM to
// the beginning.
func (a *assembly) bytes(withBOM bool) []byte {
	var b strings.Builder
	size := len(bom)
	for _, l := range a.lines {
		size += len(l.text) + len(a.eol)
	}
	b.Grow(size)
	if withBOM {
		b.WriteString(bom)
	}
	for i, l := range a.lines {
		if l.eol == "" && i < len(a.lines)-1 {
			l.eol = a.eol
		}
		b.WriteString(l.text)
		b.WriteString(l.eol)
	}
	return []byte(b.String())
}

// sound reports whether a merged file holds the tasks of the user, as they
// were or as they were merged, and those that were put in.
func (m *merger) sound(data []byte) bool {
	want := make(map[string]int, len(m.user.tasks))
	key := func(n *node) string { return strings.ToLower(n.raw) + "\x00" + n.Title }
	for _, u := range m.uUnits {
		if u.task >= 0 && m.over[u.task] == nil {
			n := m.user.tasks[u.task]
			want[key(n)+"\x00"+string(n.Status)]++
		}
	}
	for k, u := range m.uUnits {
		if u.task >= 0 && m.drop[k] {
			n := m.user.tasks[u.task]
			want[key(n)+"\x00"+string(n.Status)]--
		}
	}
	for _, over := range m.over {
		if over != nil {
			d := &Document{lines: newLines(over)}
			d.refresh()
			for _, n := range d.tasks {
				want[key(n)]++
			}
		}
	}
	for _, p := range m.runs {
		for _, i := range p.tasks {
			id := m.ralph.tasks[i].raw
			if to := m.renamed[i]; to != "" {
				id = to
			}
			want[strings.ToLower(id)+"\x00"+m.ralph.tasks[i].Title]++
		}
	}
	d := Parse(data)
	for _, n := range d.tasks {
		k := key(n)
		if full := k + "\x00" + string(n.Status); want[full] > 0 {
			want[full]--
		} else {
			want[k]--
		}
	}
	for _, n := range want {
		if n != 0 {
			return false
		}
	}
	return true
}

// refuseAdded reports what cannot be put in anywhere, and leaves it out.
func (m *merger) refuseAdded() {
	for _, p := range m.runs {
		c := Conflict{Field: "text", Ralph: strings.Join(texts(p.lines), "\n")}
		if p.tasks != nil {
			c.Field, c.ID = "task", m.ralph.tasks[p.tasks[0]].ID
		}
		m.conflicts = append(m.conflicts, c)
	}
	m.runs = nil
}
