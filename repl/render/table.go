package render

import "strings"

// maxColumn is how wide a column gets that is not the last, as a share of the
// width: a long cell does not push the others out of sight.
const maxColumn = 3

// Table renders rows of cells, all of the same number: a column is as wide as
// its widest cell, and the last one wraps below itself. Where that would leave it
// no room, a row goes on below with the cells that do not fit beside the others.
func (r *Renderer) Table(rows [][]string) string {
	full, indent := r.columnWidths(rows, r.o.Width)
	if indent > r.o.Width/2 {
		var widths []int
		if widths, indent = r.columnWidths(rows, max(r.o.Width/maxColumn, minWrap)); indent > r.o.Width/2 && !r.o.Raw {
			return r.flowing(rows, full)
		}
		full = widths
	}
	var b strings.Builder
	for _, row := range rows {
		line, at := "  ", indent
		for i, text := range row {
			text = SafeLine(text)
			if i < len(row)-1 {
				text = r.fitted(text, full[i])
			} else if w := widestWord(text); w > r.o.Width-1-indent && w <= r.o.Width-1-below && !r.o.Raw && i > 0 {
				b.WriteString(r.Rows(strings.TrimRight(line, " "), indent)) // an address is not torn
				line, at = strings.Repeat(" ", below), below
			}
			line += text
		}
		b.WriteString(r.Rows(strings.TrimRight(line, " "), min(at, r.o.Width/2)))
	}
	return b.String()
}

// below is how far what has no room in its column is indented.
const below = 4

// widestWord is how many columns the widest word of a text has.
func widestWord(text string) (most int) {
	for w := range strings.FieldsSeq(text) {
		most = max(most, columns(w))
	}
	return most
}

// columnWidths are those of all columns but the last, none wider than most, and
// where the last one begins.
func (r *Renderer) columnWidths(rows [][]string, most int) (widths []int, indent int) {
	for _, row := range rows {
		for i, text := range row[:len(row)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], min(columns(SafeLine(text)), most))
		}
	}
	indent = 2
	for _, w := range widths {
		indent += w + 2
	}
	return widths, indent
}

// flowing renders rows in as many columns as have room, each cell whole.
func (r *Renderer) flowing(rows [][]string, widths []int) string {
	var b strings.Builder
	for _, row := range rows {
		line, used := "  ", 2
		for i, text := range row {
			text = SafeLine(text)
			if used > below && used+columns(text) >= r.o.Width {
				b.WriteString(r.Rows(strings.TrimRight(line, " "), below))
				line, used = strings.Repeat(" ", below), below
			}
			line += text
			used += columns(text)
			if i < len(row)-1 && text != "" {
				gap := max(widths[i]-columns(text), 0) + 2
				line += strings.Repeat(" ", gap)
				used += gap
			}
		}
		b.WriteString(r.Rows(strings.TrimRight(line, " "), below))
	}
	return b.String()
}

// fitted is a cell that fills its column and the gap behind it.
func (r *Renderer) fitted(text string, width int) string {
	text = clip(text, width, r.pick("…", "..."))
	return text + strings.Repeat(" ", max(0, width-columns(text))+2)
}
