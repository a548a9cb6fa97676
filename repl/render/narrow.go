package render

import "strings"

// leastColumn is how narrow a column of a table may get when others need the room.
const leastColumn = 8

// narrowed is a table whose widest columns are broken into rows of their own, so
// that it needs no more than width; false where that leaves too little room, or
// where a cell that must be broken holds markup. glamour left alone cuts off
// the last column of a table that is a little too wide.
func narrowed(block string, width int) (string, bool) {
	if strings.Contains(block, `\|`) || strings.Contains(block, "`") {
		return "", false // a bar may be part of a cell
	}
	var rows [][]string
	for row := range strings.Lines(strings.TrimSpace(block)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		if len(rows) > 0 && len(cells) != len(rows[0]) {
			return "", false
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	widths, ok := roomFor(rows, width)
	if !ok {
		return "", false
	}
	var b strings.Builder
	for n, row := range rows {
		parts, most := make([][]string, len(row)), 1
		for i, text := range row {
			if parts[i] = []string{text}; n != 1 && columns(text) > widths[i] {
				if strings.ContainsAny(text, `*[<\~`) {
					return "", false
				}
				parts[i] = wrap(text, widths[i], 0)
			}
			most = max(most, len(parts[i]))
		}
		for at := range most {
			for _, p := range parts {
				b.WriteString("| ")
				if at < len(p) {
					b.WriteString(strings.TrimSpace(p[at]))
				}
				b.WriteByte(' ')
			}
			b.WriteString("|\n")
		}
	}
	return b.String(), true
}

// roomFor shares width among the columns: the widest ones give.
func roomFor(rows [][]string, width int) (widths []int, ok bool) {
	widths = make([]int, len(rows[0]))
	for n, row := range rows {
		for i, text := range row {
			if n != 1 { // the rule
				widths[i] = max(widths[i], columns(text))
			}
		}
	}
	need := len(widths) - 1
	for _, w := range widths {
		need += w + 2
	}
	for ; need > width; need-- {
		widest := -1
		for i, w := range widths {
			if w > max(leastColumn, columns(rows[0][i])) && (widest < 0 || w > widths[widest]) {
				widest = i // a head stays in one row
			}
		}
		if widest < 0 {
			return nil, false
		}
		widths[widest]--
	}
	return widths, true
}
