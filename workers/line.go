package workers

import "container/list"

// line is who waits for a place: first those who had one and come back from
// waiting for others, in their order, then the families in turn, each in its own
// order. All is done in constant time. The zero value is an empty line.
type line struct {
	back list.List // of *worker
	turn list.List // of *queue: the families that have somebody in the line
	of   map[string]*queue
}

// queue is who waits in one family.
type queue struct {
	parent string
	list   list.List // of *worker
	at     *list.Element
}

// spot is a place in a line; the zero value is none.
type spot struct {
	in    *list.List
	at    *list.Element
	queue *queue // nil for one who comes back
}

// push puts w, who is new, at the end of its family.
func (l *line) push(w *worker) {
	q := l.of[w.Parent]
	if q == nil {
		q = &queue{parent: w.Parent}
		q.at = l.turn.PushBack(q)
		if l.of == nil {
			l.of = map[string]*queue{}
		}
		l.of[w.Parent] = q
	}
	w.spot = spot{in: &q.list, at: q.list.PushBack(w), queue: q}
}

// comeBack puts w before all that are new.
func (l *line) comeBack(w *worker) {
	w.spot = spot{in: &l.back, at: l.back.PushBack(w)}
}

// pop takes out who is next, nil when nobody waits.
func (l *line) pop() *worker {
	at := l.back.Front()
	if at == nil {
		first := l.turn.Front()
		if first == nil {
			return nil
		}
		l.turn.MoveToBack(first)
		at = first.Value.(*queue).list.Front()
	}
	w := at.Value.(*worker)
	l.remove(w)
	return w
}

// remove takes w out of the line, if it is there.
func (l *line) remove(w *worker) bool {
	s := w.spot
	if s.in == nil {
		return false
	}
	s.in.Remove(s.at)
	w.spot = spot{}
	if q := s.queue; q != nil && q.list.Len() == 0 {
		l.turn.Remove(q.at)
		delete(l.of, q.parent)
	}
	return true
}
