package fault

import (
	"fmt"
	"strings"
	"time"
)

// Respond is what is done after the failures-th failure in a row of a task (from
// 1). retryAfter is what the other side asked for, 0 for nothing; it may be longer
// than MaxWait.
//
// A retry past Rules.Retries is a skip for a task, whose dependants then do not
// run; an alternative that does not exist is a retry.
func Respond(k Kind, r Rules, failures int, retryAfter time.Duration) Response {
	s, why := r.strategy(k)
	if s == Alternative && !r.Alternative {
		s, why = Retry, why+"; there is no alternative"
	}
	if s != Retry {
		return Response{Strategy: s, Reason: why}
	}
	if failures > r.Retries {
		return Response{Strategy: Skip, Reason: fmt.Sprintf("%s; tried %d times, %d retries are allowed", why, failures, max(0, r.Retries))}
	}
	return Response{Strategy: Retry, Wait: wait(k, failures, retryAfter), Reason: fmt.Sprintf("%s; retry %d of %d", why, max(1, failures), r.Retries)}
}

// wait is 1 s, 2 s, 4 s … up to MaxWait. Work that its check refuses is not
// waited for: the next attempt differs by what it is told.
func wait(k Kind, failures int, retryAfter time.Duration) time.Duration {
	w := time.Duration(0)
	if k != Validation {
		w = MaxWait
		if shift := max(0, failures-1); shift < 6 {
			w = min(MaxWait, BaseWait<<shift)
		}
	}
	return max(w, retryAfter, 0)
}

func (r Rules) strategy(k Kind) (Strategy, string) {
	for _, c := range []struct{ word, from string }{
		{r.Flag, "--on-error"}, {r.Task, "on_failure of the task"}, {r.Plan[string(k)], "error_recovery of the plan for " + string(k)}, {r.Plan["default"], "error_recovery of the plan"},
	} {
		if s, ok := ParseStrategy(c.word); ok {
			return s, fmt.Sprintf("%s (%s)", s, c.from)
		}
	}
	s := byKind(k)
	return s, fmt.Sprintf("%s (as %s errors are met)", s, k)
}

// byKind is what is done where nobody said: what another attempt or a little time
// can mend is tried again, what only a human can give is asked for.
func byKind(k Kind) Strategy {
	switch k {
	case Permission:
		return Escalate
	case Dependency:
		return Alternative
	}
	return Retry
}

// ParseStrategy reads the word of a plan or a flag.
func ParseStrategy(word string) (Strategy, bool) {
	switch s := Strategy(strings.ToLower(strings.TrimSpace(word))); s {
	case Retry, Skip, Abort, Alternative, Escalate:
		return s, true
	}
	return "", false
}
