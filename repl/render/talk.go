package render

import (
	"fmt"
	"strings"
)

// Said repeats what the user said, so that it can be found in the scrollback.
func (r *Renderer) Said(text string) string { return r.said(text, "") }

// said is Said with a word about the message. Of a long text only the beginning
// is shown.
func (r *Renderer) said(text, about string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lead := r.paint("36", r.pick("❯", ">")) + " "
	var rows []string
	whole := 0 // how many of the lines are shown
	for _, line := range lines {
		line = Safe(strings.ToValidUTF8(line[:min(len(line), maxSaidBytes)], ""))
		rows = append(rows, strings.Split(strings.TrimSuffix(r.Rows(lead+line, 2), "\n"), "\n")...)
		if len(rows) > shownRows {
			break
		}
		lead = "  "
		whole++
	}
	if len(rows) > shownRows {
		rows = append(rows[:shownRows-1:shownRows-1], fmt.Sprintf("  %s (%s)", r.pick("…", "..."), more(len(lines)-whole)))
	}
	if about != "" && (r.o.Raw || columns(rows[0])+2+columns(about) < r.o.Width) {
		rows[0] += "  " + r.dim(about)
	}
	r.Begin()
	return "\n" + strings.Join(rows, "\n") + "\n"
}

func more(lines int) string {
	if lines == 1 {
		return "1 more line"
	}
	return fmt.Sprintf("%d more lines", lines)
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
