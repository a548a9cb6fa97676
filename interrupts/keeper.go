package interrupts

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Bounds of the keeper: what goes to disk at once, so that no batch needs an
// unbounded buffer and a try against a dead disk costs little, and how long a
// disk may take before a message is called held, or until it is tried again.
const (
	batchMessages  = 1024
	batchTextBytes = 8 << 20
	patience       = time.Second
)

var errHangs = errors.New("the disk does not answer")

// keeping is what the queue's goroutine, the keeper, works on; Queue.mu guards
// it.
//
// Each change is told once, in order, as kept or held; a held message is in
// held until it is kept, and is told again then. What is held goes to disk
// before what came later, so nothing is told as kept before it.
type keeping struct {
	seq     uint64        // number of the last change
	told    uint64        // number of the last change that was told
	pending []*change     // not told yet
	held    []*entry      // told as held and not kept yet
	batches uint64        // tried so far
	err     error         // why something is held
	news    chan struct{} // closed when told or held has changed, if anybody waits
}

// record makes m the present state of a message; q.mu is held.
func (q *Queue) record(e *entry, m Message) {
	q.seq++
	e.now = &change{seq: q.seq, e: e, m: m}
	q.pending = append(q.pending, e.now)
}

// run keeps and tells until the queue is closed and has nothing left, or cannot
// keep what is left.
func (q *Queue) run() {
	defer close(q.done)
	for {
		batch, upto, last := q.batch()
		var err error
		switch {
		case q.o.Keep == nil:
			q.hold(upto, nil)
		case len(batch) > 0:
			if err = q.keep(batch); err != nil {
				q.hold(upto, err)
			} else if q.kept(batch) {
				continue
			}
		}
		if last {
			return
		}
		q.rest(upto, err != nil)
	}
}

// batch is the present state of the messages that come next, the number of the
// last change there is, and whether none can follow.
func (q *Queue) batch() (batch []*change, upto uint64, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.batches++
	size := 0
	add := func(e *entry) bool {
		if e.tried == q.batches || e.kept >= e.now.seq {
			return true
		}
		e.tried = q.batches
		batch = append(batch, e.now)
		size += len(e.now.m.Text)
		return len(batch) < batchMessages && size < batchTextBytes
	}
	for _, e := range q.held {
		if !add(e) {
			return batch, q.seq, q.closed
		}
	}
	for _, c := range q.pending {
		if !add(c.e) {
			break
		}
	}
	return batch, q.seq, q.closed
}

// keep calls Keep in a goroutine of its own and waits for it. When it hangs,
// everything that was said and is said meanwhile is told as held.
func (q *Queue) keep(batch []*change) error {
	ms := make([]Message, len(batch))
	for i, c := range batch {
		ms[i] = c.m
	}
	done := make(chan error, 1)
	go func() { done <- q.o.Keep(ms) }()
	slow := time.NewTimer(patience)
	defer slow.Stop()
	var wake chan struct{}
	for {
		select {
		case err := <-done:
			return err
		case <-slow.C:
			wake = q.wake
		case <-wake:
		}
		q.hold(math.MaxUint64, errHangs)
	}
}

// kept notes a batch that is on disk, tells what is known by it, and reports
// whether something is left to be kept.
func (q *Queue) kept(batch []*change) (more bool) {
	q.mu.Lock()
	for _, c := range batch {
		c.e.kept = c.seq
	}
	var told []Message
	n := 0
	for _, e := range q.held {
		if e.kept < e.told.seq {
			break
		}
		told = append(told, e.told.as(true))
		e.told, e.held = nil, false
		n++
	}
	q.held = slices.Delete(q.held, 0, n)
	upto := q.told
	n = 0
	for _, c := range q.pending {
		if c.e.kept < c.seq {
			break
		}
		told = append(told, c.as(true))
		upto = c.seq
		n++
	}
	q.pending = slices.Delete(q.pending, 0, n)
	more = len(q.held)+len(q.pending) > 0
	q.mu.Unlock()
	q.tell(told, upto)
	return more
}

// hold tells the changes up to a number, which cannot be kept now because of
// err. Without an err nobody wants them kept.
func (q *Queue) hold(upto uint64, err error) {
	q.mu.Lock()
	q.err = err
	var told []Message
	n := 0
	for _, c := range q.pending {
		if c.seq > upto {
			break
		}
		e, kept := c.e, c.e.kept >= c.seq
		told = append(told, c.as(kept))
		if !kept && err != nil {
			e.told = c
			if !e.held {
				e.held = true
				q.held = append(q.held, e)
			}
		}
		n++
	}
	if n > 0 {
		upto = q.pending[n-1].seq
	} else {
		upto = q.told
	}
	q.pending = slices.Delete(q.pending, 0, n)
	q.mu.Unlock()
	q.tell(told, upto)
}

func (c *change) as(kept bool) Message {
	m := c.m
	m.Kept = kept
	return m
}

// tell notifies in order and then lets those go on who wait for it.
func (q *Queue) tell(ms []Message, upto uint64) {
	if q.o.Notify != nil {
		for _, m := range ms {
			q.o.Notify(m)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.told = upto
	if q.news != nil {
		close(q.news)
		q.news = nil
	}
}

// rest waits for a change after the given one, the end of the queue, or, when
// something is held, the time to try again.
func (q *Queue) rest(upto uint64, held bool) {
	var again <-chan time.Time
	if held {
		t := time.NewTimer(patience)
		defer t.Stop()
		again = t.C
	}
	for q.idle(upto) {
		select {
		case <-q.wake:
		case <-again:
			return
		}
	}
}

func (q *Queue) idle(upto uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seq == upto && !q.closed
}

// Flush waits until all that was said so far has been told as kept or as held,
// and says with an error when something is held. A disk that hangs holds it up
// for no longer than a second; it also ends with ctx.
func (q *Queue) Flush(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for upto := q.seq; q.told < upto; {
		if q.news == nil {
			q.news = make(chan struct{})
		}
		news := q.news
		q.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
		}
		q.mu.Lock()
		if ctx.Err() != nil && q.told < upto {
			return fmt.Errorf("save messages: %w", context.Cause(ctx))
		}
	}
	return q.unsaved()
}

// unsaved is the error that names what is held; q.mu is held.
func (q *Queue) unsaved() error {
	if len(q.held) == 0 {
		return nil
	}
	return fmt.Errorf("save %d messages: %w", len(q.held), q.err)
}

// Close ends the queue: nothing is accepted or changed any more, what is held
// is tried once more, and the queue's goroutine ends. The error says what could
// not be kept, or that ctx ended before a Keep that hangs; its goroutine ends
// as soon as that Keep returns, and Close may be called again to wait for it.
// Queued messages stay queued on disk. Guards stay as they are, and a stop
// still ends them.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	poke(q.wake)
	select {
	case <-q.done:
	case <-ctx.Done():
		return fmt.Errorf("close the queue: %w", context.Cause(ctx))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unsaved()
}
