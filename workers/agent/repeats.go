package agent

import (
	"encoding/json"
	"strings"
)

// maxRepeats is how often in a row the same call with the same arguments may be
// asked for; the call that reaches it is not run and ends the loop.
const maxRepeats = 3

// repeatGuard notices a model that goes in circles: the same call, or the same
// round of calls, over and over.
type repeatGuard struct {
	call, round streak
}

// streak counts how often the same thing came in a row.
type streak struct {
	last  string
	times int
}

func (s *streak) again(key string) int {
	if key != s.last {
		s.last, s.times = key, 0
	}
	s.times++
	return s.times
}

// seen reports whether a round is the third of its like in a row, or holds a
// call that is.
func (g *repeatGuard) seen(calls []Call) bool {
	var round strings.Builder
	for _, c := range calls {
		key := c.Name + "\x00" + compactJSON(c.Args) + "\x00"
		round.WriteString(key)
		if g.call.again(key) >= maxRepeats {
			return true
		}
	}
	return g.round.again(round.String()) >= maxRepeats
}

// compactJSON makes two spellings of the same arguments equal; text that is no
// JSON stands for itself.
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
