package page

import (
	"ralph/memory/session/folder"
)

// maxHeld is how many events are held back, so that some that were written out
// of order are told in order.
const maxHeld = 256

// told is an event on its way to the story.
type told struct {
	at int64
	n  int // in the file
	folder.Event
}

// queue is a heap of events, the earliest first; those of one time as they
// stand in the file.
type queue []told

func (q queue) less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n
}

func (q *queue) push(x told) {
	*q = append(*q, x)
	h := *q
	for i := len(h) - 1; i > 0 && h.less(i, (i-1)/2); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

// pop takes out the first.
func (q *queue) pop() told {
	h := *q
	x, last := h[0], len(h)-1
	h[0], h[last] = h[last], told{}
	h = h[:last]
	for i := 0; ; {
		next := 2*i + 1
		if next >= last {
			break
		}
		if next+1 < last && h.less(next+1, next) {
			next++
		}
		if !h.less(next, i) {
			break
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
	*q = h
	return x
}

// order holds events back until those of before can hardly come any more.
type order struct {
	n     int
	held  queue
	story story
}

func (o *order) add(at int64, e folder.Event) {
	o.n++
	o.held.push(told{at, o.n, small(e)})
	if len(o.held) > maxHeld {
		o.next()
	}
}

func (o *order) next() {
	x := o.held.pop()
	o.story.event(x.at, x.Event)
}

// all tells what is held.
func (o *order) all() *story {
	for len(o.held) > 0 {
		o.next()
	}
	return &o.story
}

// small makes an event bounded: it keeps short texts and numbers.
func small(e folder.Event) folder.Event {
	e.TaskID, e.TaskName, e.Result = bounded(e.TaskID), bounded(e.TaskName), bounded(e.Result)
	slim := len(e.Details) <= 32
	for _, v := range e.Details {
		switch v := v.(type) {
		case string:
			slim = slim && len(v) <= maxKeptBytes
		case map[string]any, []any:
			slim = false
		}
	}
	if slim {
		return e
	}
	details := map[string]any{}
	for _, k := range []string{"kind", "error_type", "type", "error_message", "message", "error", "how", "check", "name", "gate", "command", "condition", "role", "from", "text", "content",
		"ref", "decision_type", "about", "phase", "phase_name"} {
		if s, ok := e.Details[k].(string); ok {
			details[k] = bounded(s)
		}
	}
	e.Details = details
	return e
}

// bounded is shorten for what is mostly short already.
func bounded(s string) string {
	if len(s) <= maxKeptBytes {
		return s
	}
	return shorten(s)
}
