package page

import (
	"container/heap"

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

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n
}

// Push is for package heap.
func (q *queue) Push(x any) { *q = append(*q, x.(told)) }

// Pop is for package heap.
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
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
	heap.Push(&o.held, told{at, o.n, small(e)})
	if len(o.held) > maxHeld {
		o.next()
	}
}

func (o *order) next() {
	x := heap.Pop(&o.held).(told)
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
