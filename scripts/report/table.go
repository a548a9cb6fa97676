package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"

	"ralph/memory/markdown"
	"ralph/memory/text"
)

// markdownText collects Markdown that reads well as it is, within 80 columns.
type markdownText struct{ b strings.Builder }

func (t *markdownText) line(format string, args ...any) { fmt.Fprintf(&t.b, format+"\n", args...) }

// String is the whole text, without blank lines in a row.
func (t *markdownText) String() string { return strings.ReplaceAll(t.b.String(), "\n\n\n", "\n\n") }

func (t *markdownText) section(title string) { t.line("\n## %s\n", title) }

// items writes a list.
func (t *markdownText) items(items []string) {
	for _, i := range items {
		t.line("- %s", i)
	}
}

// table writes a table whose columns are aligned as text, too. The first columns
// are foreign or long text and go left, the other ones are numbers and go right.
// The cells are Markdown.
func (t *markdownText) table(head []string, left int, rows [][]string) {
	widths := make([]int, len(head))
	for i, h := range head {
		widths[i] = max(3, runewidth.StringWidth(h))
		for _, r := range rows {
			widths[i] = max(widths[i], runewidth.StringWidth(r[i]))
		}
	}
	write := func(cells []string) {
		for i, c := range cells {
			pad := strings.Repeat(" ", widths[i]-runewidth.StringWidth(c))
			if i < left {
				t.b.WriteString("| " + c + pad + " ")
			} else {
				t.b.WriteString("| " + pad + c + " ")
			}
		}
		t.b.WriteString("|\n")
	}
	write(head)
	for i := range head {
		if i < left {
			t.b.WriteString("|" + strings.Repeat("-", widths[i]+2))
		} else {
			t.b.WriteString("|" + strings.Repeat("-", widths[i]+1) + ":")
		}
	}
	t.b.WriteString("|\n")
	for _, r := range rows {
		write(r)
	}
	t.b.WriteString("\n")
}

// inline is foreign text in a line, cell in a cell of a table.
func inline(s string) string { return markdown.Escape(s, 200) }

func cell(s string, most int) string {
	s = markdown.EscapeCell(s, most)
	if s == "" {
		return unknown
	}
	return s
}

// unknown is what stands where a figure is not known.
const unknown = "–"

// length writes seconds as a person says them.
func length(s *float64) string {
	if s == nil || math.IsNaN(*s) || *s < 0 || *s >= 1e10 {
		return unknown
	}
	return text.Length(*s)
}

// tokens writes a count that may be unknown.
func tokens(n *int64) string {
	if n == nil {
		return unknown
	}
	return text.Grouped(*n)
}

// percent writes a rate.
func percent(r *float64) string {
	if r == nil {
		return unknown
	}
	return strconv.FormatFloat(math.Round(*r*1000)/10, 'f', -1, 64) + "%"
}

func money(c *float64) string {
	switch {
	case c == nil:
		return unknown
	case *c != 0 && math.Abs(*c) < 1:
		return "$" + strconv.FormatFloat(*c, 'f', 4, 64)
	}
	return "$" + strconv.FormatFloat(*c, 'f', 2, 64)
}

// score writes a number of two or three digits behind the point.
func score(s *float64) string {
	if s == nil {
		return unknown
	}
	return strconv.FormatFloat(*s, 'f', 3, 64)
}
