package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ralph/memory/text"
)

const (
	repeatWindow = 12 // rounds that are looked back at
	repeatLength = 4  // of the longest cycle, in calls and in rounds
	repeatTimes  = 3  // that a cycle recurs before the model is told
	repeatMore   = 2  // that it recurs after that before the run ends
)

// repeatGuard detects a model that goes in circles: a cycle of calls that recurs
// with the same arguments and the same results. The zero value has seen nothing.
type repeatGuard struct {
	rounds [][]repeatKey // the last ones, oldest first
	told   []repeatKey   // the cycle that the model was told of; nil for none
	since  int           // calls of that cycle which came after
}

// repeatKey identifies a call with its result.
type repeatKey struct{ call, result string }

// saw takes the calls of a round with their results. It returns the note that tells
// the model what repeats, "" for none, and whether it goes on in spite of that.
func (g *repeatGuard) saw(round []answered) (note string, stuck bool) {
	keys := make([]repeatKey, 0, len(round))
	for _, a := range round {
		if a.result.Alive { // it changes by itself
			*g = repeatGuard{}
			return "", false
		}
		keys = append(keys, repeatKey{a.call.Name + " " + compactJSON(a.call.Args), a.result.outcome()})
	}
	g.rounds = append(g.rounds, keys)
	g.rounds = g.rounds[max(0, len(g.rounds)-repeatWindow):]
	for _, k := range keys {
		if g.told == nil {
			break
		}
		if k != g.told[g.since%len(g.told)] {
			g.told, g.since = nil, 0
			break
		}
		g.since++
	}
	if g.told != nil {
		return "", g.since >= repeatMore*len(g.told)
	}
	if g.told = g.cycle(); g.told == nil {
		return "", false
	}
	return repeatNote(g.told), false
}

// cycle returns the shortest cycle with which the window ends, nil for none. It is
// one of up to repeatLength calls, or of the calls of up to repeatLength rounds.
func (g *repeatGuard) cycle() []repeatKey {
	calls := slices.Concat(g.rounds...)
	var lengths []int
	for n := 1; n <= repeatLength; n++ {
		lengths = append(lengths, n, len(slices.Concat(g.rounds[max(0, len(g.rounds)-n):]...)))
	}
	slices.Sort(lengths)
	for _, n := range lengths {
		if n == 0 || n*repeatTimes > len(calls) {
			continue
		}
		last := calls[len(calls)-n:]
		if tail := calls[len(calls)-n*repeatTimes:]; slices.Equal(tail, slices.Repeat(last, repeatTimes)) {
			return slices.Clone(last)
		}
	}
	return nil
}

// repeatNote tells the model which calls recur.
func repeatNote(cycle []repeatKey) string {
	var b strings.Builder
	fmt.Fprintf(&b, "You repeat yourself: these calls have come %d times with the same results:", repeatTimes)
	for _, k := range cycle[:min(len(cycle), 2*repeatLength)] {
		b.WriteString("\n- " + text.Head(text.FirstLine(k.call), 100))
	}
	b.WriteString("\nTo do the same again leads to the same. Take another way, or end with finish and say what is in the way.")
	return b.String()
}

// outcome identifies what came of a call. The head is left out where there is a
// text or an exit code, because it holds how long a command took.
func (r Result) outcome() string {
	what := r.Text
	switch {
	case r.Command != nil:
		what = strconv.Itoa(r.Command.ExitCode) + "\x00" + what
	case what == "":
		what = r.Head
	}
	return strconv.FormatBool(r.Failed) + "\x00" + r.Denied + "\x00" + what
}

// compactJSON makes two spellings of the same arguments equal; text that is no
// JSON stays as it is.
func compactJSON(s string) string {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return s
	}
	return string(b)
}
