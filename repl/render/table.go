package render

import "strings"

// maxColumn is how wide a column gets that is not the last, as a share of the
// width: a long cell does not push the others out of sight.
const maxColumn = 3

// Table renders rows of cells, all of the same number: a column is as wide as
// its widest cell, and the last one wraps below itself.
func (r *Renderer) Table(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, text := range row[:len(row)-1] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], min(columns(SafeLine(text)), max(r.o.Width/maxColumn, minWrap)))
		}
	}
	indent := 2
	for _, w := range widths {
		indent += w + 2
	}
	var b strings.Builder
	for _, row := range rows {
		line := "  "
		for i, text := range row {
			text = SafeLine(text)
			if i < len(row)-1 {
				text = r.fitted(text, widths[i])
			}
			line += text
		}
		b.WriteString(r.Rows(strings.TrimRight(line, " "), min(indent, r.o.Width/2)))
	}
	return b.String()
}

// fitted is a cell that fills its column and the gap behind it.
func (r *Renderer) fitted(text string, width int) string {
	text = clip(text, width, r.pick("…", "..."))
	return text + strings.Repeat(" ", max(0, width-columns(text))+2)
}
