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
	asked int    // the question to which the line is the answer, 0 for none
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
		case ask != 0 && d.asked != 0:
			d.asked = ask
			return ""
		case ask != 0:
			d.asked, d.stash = ask, text
			return ""
		}
		stash := d.stash
		d.asked, d.stash = 0, ""
		if stash == "" {
			return text
		}
		return stash
	}
}

// of is the line that was typed for the question of that number: now, what stands in
// the prompt, unless that is the answer to another one.
func (d *slate) of(ask int, now *string) *string {
	if d.asked != 0 && d.asked != ask {
		return &d.stash
	}
	return now
}

// composed puts what an editor made of before, which was typed for the question of
// that number, in its place, or before what stands there else.
func (d *slate) composed(ask int, before, saved string) line.Change {
	return func(text string, fold func(string) string) string {
		half := d.of(ask, &text)
		rest, same := strings.CutPrefix(*half, before)
		if !same || before == "" {
			rest = ""
			if *half != "" {
				rest = "\n" + *half
			}
		}
		*half = fold(saved) + rest
		return text
	}
}

// giveBack puts lines before the half-typed one, in the order in which they were
// typed. Those of one stop may come in several parts.
func (d *slate) giveBack(list []returned) line.Change {
	return func(text string, fold func(string) string) string {
		half := d.of(0, &text)
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
