// Package condition compiles the expressions that people write about a run:
// which tasks to work (--select), when a gate passes, when a breaker trips,
// which events of a log to show.
//
// It owns the names that each kind of expression may use (Task, Metrics, Event),
// the cap on its size, and the sentence about an error in it. It refuses what
// could run long or see the world: clocks, long ranges, deep nesting. It is pure:
// the same expression over the same values always says the same. Filters of logs
// alone may ask what time it is: nobody acts on them.
//
//	c, err := condition.Compile(`confidence < 0.3 for 3 consecutive tasks`, condition.Metrics{})
//	ok, err := c.Holds(condition.Metrics{Confidence: 0.2}) // true; c.Consecutive() is 3
package condition

import (
	"fmt"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
)

// MaxBytes caps the source of one condition: deep nesting in an expression can
// exhaust the stack of its parser.
const MaxBytes = 4 << 10

// Values are what a condition can be about.
type Values interface{ Task | Metrics | Event }

// Condition is a compiled, type-checked expression that is true or false of
// values of one type. It is safe for concurrent use and keeps no state.
type Condition[T Values] struct {
	source  string
	program *vm.Program
	run     streak
}

// Compile compiles source over values like env, whose content does not matter.
// The expression may end in "for N consecutive tasks" (or iterations, attempts,
// checks) when it is about Metrics. The error is an *Error.
func Compile[T Values](source string, env T) (*Condition[T], error) {
	body, run, err := split(source)
	if err != nil {
		return nil, err
	}
	if _, metrics := any(env).(Metrics); run.n > 1 && !metrics {
		return nil, &Error{Source: source, Line: 1, Column: 1 + len([]rune(body)), Text: "only conditions over a run can ask for consecutive " + run.unit}
	}
	program, err := compile(source, body, env)
	if err != nil {
		return nil, err
	}
	return &Condition[T]{source: source, program: program, run: run}, nil
}

// Holds says whether the expression is true of v, now; the consecutive form is
// counted by whoever asks. An error means that it has no answer (a division by
// zero, a missing key): a gate with one fails, a trigger with one does not trip.
func (c *Condition[T]) Holds(v T) (bool, error) {
	out, err := expr.Run(c.program, v)
	if err != nil {
		return false, fmt.Errorf("evaluate %q: %s", c.source, headline(err))
	}
	ok, _ := out.(bool) // AsBool made it one at compile time
	return ok, nil
}

// Test returns what says whether the expression is true of what v points to when it
// is called. It is Holds for many values one after the other: one goroutine calls it.
func (c *Condition[T]) Test(v *T) func() (bool, error) {
	machine := &vm.VM{}
	return func() (bool, error) {
		out, err := machine.Run(c.program, v)
		if err != nil {
			return false, fmt.Errorf("evaluate %q: %s", c.source, headline(err))
		}
		ok, _ := out.(bool) // AsBool made it one at compile time
		return ok, nil
	}
}

// String is the source as it was written.
func (c *Condition[T]) String() string { return c.source }

// Consecutive is how many times in a row the expression must hold, at least 1.
func (c *Condition[T]) Consecutive() int { return c.run.n }

// Unit is what is counted by Consecutive: "tasks", "iterations", "attempts" or
// "checks"; "" for a condition that counts nothing.
func (c *Condition[T]) Unit() string { return c.run.unit }

// Error says what is wrong with a condition and where.
type Error struct {
	Source string
	Line   int // from 1
	Column int // from 1, in characters
	Text   string
	Hint   string // the way out, "" for none
}

// Error is one line: position, fault and the way out.
func (e *Error) Error() string {
	shown := strings.ToValidUTF8(e.Source, "\uFFFD")
	if r := []rune(shown); len(r) > 80 {
		shown = string(r[:80]) + "…"
	}
	text := fmt.Sprintf("condition %q:%d:%d: %s", shown, e.Line, e.Column, e.Text)
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}
