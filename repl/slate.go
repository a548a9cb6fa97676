package repl

import (
	"slices"
	"strings"

	"ralph/repl/line"
)

// returned is a line that was not sent, with its place among what was typed.
type returned struct {
	nr   int
	text string
}

// slate is what is in the prompt besides what the user types there. What it holds
// belongs to the functions that it makes, which the line reader calls one at a
// time and in order.
type slate struct {
	asked bool   // the line is the answer to a question
	stash string // what stood there before the question
	given []returned
	front string // given, as it was put before the line
}

// turn makes the line one for the question of that number, or, with 0, brings
// back what stood there before the first one. Half an answer to one question is
// none to the next.
func (d *slate) turn(ask int) line.Change {
	return func(text string, _ func(string) string) string {
		switch {
		case ask != 0 && d.asked:
			return ""
		case ask != 0:
			d.asked, d.stash = true, text
			return ""
		}
		stash := d.stash
		d.asked, d.stash = false, ""
		if stash == "" {
			return text
		}
		return stash
	}
}

// giveBack puts lines before the half-typed one, in the order in which they were
// typed. Those of one stop may come in several parts.
func (d *slate) giveBack(list []returned) line.Change {
	return func(text string, fold func(string) string) string {
		half := &text
		if d.asked {
			half = &d.stash
		}
		rest, again := strings.CutPrefix(*half, d.front)
		if !again || d.front == "" {
			d.given, rest = nil, *half
			if rest != "" {
				rest = "\n" + rest
			}
		}
		d.given = append(d.given, list...)
		slices.SortStableFunc(d.given, func(a, b returned) int { return a.nr - b.nr })
		texts := make([]string, len(d.given))
		for i, l := range d.given {
			texts[i] = l.text
		}
		d.front = fold(strings.Join(texts, "\n"))
		*half = d.front + rest
		return text
	}
}
