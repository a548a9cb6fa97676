package render

import (
	"fmt"
	"strings"

	"ralph/coordinator/permission"
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

// Question shows what is asked, by whom and why, and the answers with what each
// means; the first is the one that an empty line gives. What a permission is about
// stands whole in a frame, so that nothing in it can pass for the question, and
// nobody can miss its end.
func (r *Renderer) Question(q permission.Question) string {
	rows := strings.Split(strings.Trim(Safe(q.Text), "\n"), "\n")
	head, exact, facts := rows[0], rows[1:], [][]string(nil)
	framed := q.Kind == "permission" || q.Kind == "check"
	if q.Target != "" {
		head, facts = mayIt(q), [][]string{{"why", q.Rule}}
		if q.Dir != "" {
			facts = append(facts, []string{"where", q.Dir})
		}
		exact = strings.Split(Safe(q.Target), "\n")
	}
	if q.Agent != "" && q.Agent != mainAgent {
		head = SafeLine(q.Agent) + " asks: " + head
	}
	var b strings.Builder
	b.WriteString("\n" + r.Rows(r.paint("33", "?")+" "+head, 2))
	if len(facts) > 0 {
		b.WriteString(r.Table(facts))
	}
	if framed && len(exact) > 0 {
		b.WriteString(r.frame("┌", lines(len(exact))))
		for _, row := range exact {
			b.WriteString(r.barred(row))
		}
		b.WriteString(r.frame("└", "end of "+lines(len(exact))))
	} else {
		for _, row := range exact {
			b.WriteString(r.Rows("  "+row, 2))
		}
	}
	b.WriteString(r.answers(q))
	r.Begin()
	return b.String()
}

// mayIt is the question of a permission.
func mayIt(q permission.Question) string {
	text := "may " + SafeLine(q.Tool) + " do this?"
	switch {
	case q.Outside:
		text = "may this command run OUTSIDE the sandbox, with your rights?"
	case q.Dir != "":
		text = "may this command run?"
	case q.Tool == "write" || q.Tool == "edit":
		text = "may this file be changed?"
	case q.Tool == "fetch":
		text = "may this be fetched?"
	}
	return text
}

// frame is the upper or the lower end of what stands behind bars.
func (r *Renderer) frame(corner, text string) string {
	return "  " + r.paint("33", r.pick(corner, "+")) + r.dim(" "+text) + "\n"
}

// answers are the options; those of a permission with what they mean.
func (r *Renderer) answers(q permission.Question) string {
	if len(q.Options) == 0 {
		return ""
	}
	safe := make([]string, len(q.Options))
	for i, o := range q.Options {
		safe[i] = SafeLine(o)
	}
	safe[0] = "[" + safe[0] + "]"
	if q.Open {
		var b strings.Builder
		for i, o := range safe {
			b.WriteString(r.Rows(fmt.Sprintf("  %d %s", i+1, o), 4))
		}
		return b.String() + r.Rows("  "+r.dim("a number, or your own words"), 2)
	}
	if q.Kind != "permission" && q.Kind != "check" {
		return r.Rows("  "+r.dim(strings.Join(safe, " / ")), 2)
	}
	table := make([][]string, len(safe))
	for i := range safe {
		table[i] = []string{safe[i], meaning(q, q.Options[i])}
	}
	return r.Table(table)
}

// meaning says what an answer to a question about a permission does.
func meaning(q permission.Question, answer string) string {
	switch {
	case answer == "no":
		return "it is not done; Enter alone says the same"
	case answer == "yes" && q.Kind == "check":
		return "this text, for this session"
	case answer == "yes" && q.Outside:
		return "this once, outside the sandbox"
	case answer == "yes":
		return "this once"
	case answer == "always":
		return "all commands of this session"
	}
	return ""
}

func lines(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
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
