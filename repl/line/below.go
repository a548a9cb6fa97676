package line

import (
	"fmt"
	"strings"
)

// maxListed bounds the rows below the line.
const maxListed = 8

// shown is the prompt and the line as they are drawn: a folded paste with its
// label, the mark of the mode, and what stands below the line.
func (t *Term) shown() (Prompt, state) {
	l := &t.loop
	p, s := l.want, l.now
	s.line, s.pos = l.fold.drawn(s.line, s.pos)
	s.menu = l.edit.menu
	switch {
	case s.searching:
		s.search = l.engine.place(s)
	case l.edit.vi.asking():
		s.searching, s.search = true, l.edit.vi.question()
	}
	if l.edit.vi.normal {
		p.Mark = normalMark(p.Mark)
	}
	return p, s
}

// normalMark says that the keys are vi's commands: the mark points the other way,
// which takes no room and needs no colour.
func normalMark(mark string) string {
	for _, m := range [...][2]string{{"❯", "❮"}, {">", "<"}, {"›", "‹"}} {
		if strings.Contains(mark, m[0]) {
			return strings.Replace(mark, m[0], m[1], 1)
		}
	}
	return "[n] " + mark
}

// below returns the rows that stand below the line in a window of limit columns
// and so many rows.
func (s state) below(limit, rows int) []string {
	if s.searching {
		label := s.search
		if label == "" {
			label = "search: "
		}
		return []string{cut(visible(label), limit)}
	}
	if s.menu == nil || rows < 3 {
		return nil
	}
	return s.menu.rows(limit, min(maxListed, rows-2))
}

// rows lays the words out: one a row when they have details, else in columns as
// many as fit. The word that was walked to is always among them.
func (m *menu) rows(limit, most int) []string {
	var cells []string
	wide, detailed := 0, false
	for _, w := range m.words {
		cells = append(cells, strings.TrimRight(visible(w.Text), " "))
		wide = max(wide, width(cells[len(cells)-1]))
		detailed = detailed || w.Detail != ""
	}
	columns := 1
	switch {
	case detailed:
	case width(strings.Join(cells, "  ")) <= limit:
		columns, wide = len(cells), 0 // one row, close together
	default:
		columns = max((limit+2)/(wide+2), 1)
	}
	total := (len(cells) + columns - 1) / columns
	first, last := 0, total
	if total > most {
		show := max(most-1, 1)
		first = min(max(0, m.at/columns-show/2), total-show)
		last = first + show
	}
	wide = min(wide, max(limit*2/3, 1))
	var rows []string
	for r := first; r < last; r++ {
		var b strings.Builder
		for i := r * columns; i < min((r+1)*columns, len(cells)); i++ {
			cell := cells[i]
			if wide > 0 {
				cell = cut(cell, wide)
			}
			gap := strings.Repeat(" ", max(wide-width(cell), 0)+2)
			if i == m.at {
				cell = "\x1b[7m" + cell + "\x1b[27m"
			}
			b.WriteString(cell)
			switch {
			case detailed && m.words[i].Detail != "":
				b.WriteString(gap + visible(m.words[i].Detail))
			case !detailed && i+1 < min((r+1)*columns, len(cells)):
				b.WriteString(gap)
			}
		}
		rows = append(rows, cut(b.String(), limit))
	}
	if left := len(cells) - min(last*columns, len(cells)) + first*columns; total > most && len(rows) < most {
		rows = append(rows, cut(fmt.Sprintf("… and %d more", left), limit))
	}
	return rows
}
