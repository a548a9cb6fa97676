package render

import (
	"fmt"
	"strings"
)

// Said repeats what the user said, so that it can be found in the scrollback.
func (r *Renderer) Said(text string) string {
	sign := r.paint("36", r.pick("❯", ">"))
	rows := strings.Split(strings.TrimRight(Safe(text), "\n"), "\n")
	const shown = 12
	if len(rows) > shown {
		rows = append(rows[:shown-1:shown-1], fmt.Sprintf("%s (%d more lines)", r.pick("…", "..."), len(rows)-shown+1))
	}
	r.Begin()
	out := "\n"
	for i, row := range rows {
		lead := "  "
		if i == 0 {
			lead = sign + " "
		}
		out += r.Rows(lead+row, 2)
	}
	return out
}

// Question shows what is asked and the answers; the first is the one that an
// empty line gives. For a permission, the first line of text asks and the rest
// is exactly what is decided on: it stands whole behind a bar, so that nothing
// in it can pass for the question.
func (r *Renderer) Question(kind, text string, options []string) string {
	rows := strings.Split(strings.Trim(Safe(text), "\n"), "\n")
	var b strings.Builder
	b.WriteString("\n" + r.Rows(r.paint("33", "?")+" "+rows[0], 2))
	for _, row := range rows[1:] {
		if kind == "permission" || kind == "check" {
			b.WriteString(r.barred(row))
			continue
		}
		b.WriteString(r.Rows("  "+row, 2))
	}
	if len(options) > 0 {
		safe := make([]string, len(options))
		for i, o := range options {
			safe[i] = SafeLine(o)
		}
		safe[0] = "[" + safe[0] + "]"
		b.WriteString(r.Rows("  "+r.dim(strings.Join(safe, " / ")), 2))
	}
	r.Begin()
	return b.String()
}

// barred shows one line exactly, behind a bar.
func (r *Renderer) barred(row string) string {
	rows := []string{row}
	if !r.o.Raw {
		rows = fold(strings.ReplaceAll(row, "\t", "    "), r.o.Width-1-4)
	}
	bar := "  " + r.paint("33", r.pick("│", "|")) + " "
	return bar + strings.Join(rows, "\n"+bar) + "\n"
}

// Answer repeats the answer to a question.
func (r *Renderer) Answer(text string) string {
	r.last = kindLine
	return r.Rows(r.paint("36", r.pick("❯", ">"))+" "+SafeLine(text), 2)
}
