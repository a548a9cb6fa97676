package interrupts

import (
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrNoMessage says that no message with that id was ever accepted.
var ErrNoMessage = errors.New("no such message")

// ErrSettled says that the message waits no longer: it has its final state, or
// is just being delivered.
var ErrSettled = errors.New("the message waits no longer")

// ErrClosed says that the queue was closed.
var ErrClosed = errors.New("the queue is closed")

// Options says what a queue begins with and whom it tells. The zero value is a
// queue that keeps nothing and tells nobody.
type Options struct {
	// Last is the highest accept number ever given in the project.
	Last uint64
	// Waiting are the messages that an earlier process accepted and did not
	// settle. A stop among them is Delivered at once: what it was to end has
	// ended with that process.
	Waiting []Message
	// Keep makes new and changed messages durable, all or none, in this order;
	// a message that changed more than once comes once, as it is now. A message
	// that a stop settled comes before the stop. It is called by one goroutine
	// at a time, never by one that calls the queue, with what came up
	// meanwhile: at most 1,024 messages, or 8 MiB of text and one message. On
	// an error they are held, and tried again with the next change or after a
	// second. nil keeps nothing. It must not call Flush or Close.
	Keep func([]Message) error
	// Notify is told of each change of a message, in the order of the changes
	// and by one goroutine at a time: as soon as it is kept (Kept), or as it is
	// known that it is only held: Keep failed, or has hung for a second. A
	// message that is kept after all is told once more, in the state told last.
	// It may call the queue, but not Flush or Close. nil: nobody is told.
	Notify func(Message)
	// Now is the clock of Message.At, time.Now if nil.
	Now func() time.Time
	// Home is the From of those to whom a stop gives their messages back
	// (Returned); what others said is Cancelled. "": nobody.
	Home string
}

// Queue takes everything that a human says to a running Ralph. Everything but
// Flush and Close returns without waiting for anybody: no disk, no reader, no
// callback. It is safe for concurrent use; who makes it closes it.
//
// A message that is not settled, or not kept yet, stays in memory, its text
// once. So its size is bounded by what its users accept and how soon they take
// it, and those who take in text from outside bound each text.
type Queue struct {
	o       Options
	changed chan struct{}
	wake    chan struct{} // for the keeper
	done    chan struct{} // the keeper has ended

	// mu guards what follows. Nobody waits, does I/O or calls a function of
	// others while holding it; contexts, too, are ended without it, for the end
	// of a context may call back.
	mu      sync.Mutex
	last    uint64            // accept number
	epoch   uint64            // stops so far
	stopped map[string]uint64 // epoch that began with the last stop of an agent, "" of all
	open    map[uint64]*entry // queued messages, waiting or taken
	waiting [classes][]*entry // by number
	guards  list.List         // of *Guard, oldest first
	closed  bool
	keeping
}

// entry is a message and how far it has come.
type entry struct {
	now   *change // its present state
	kept  uint64  // the number of its last change that is on disk
	taken bool
	felt  bool    // an urgent message: it has ended a step
	told  *change // what was told last of a message that is held
	held  bool    // it is in keeping.held
	tried uint64  // the number of the last batch that it was in
}

func (e *entry) message() Message {
	m := e.now.m
	m.Kept = e.kept >= e.now.seq
	return m
}

// change is one state of a message; it never changes.
type change struct {
	seq uint64 // its number among all changes of the queue, from 1
	e   *entry
	m   Message
}

// NewQueue makes a queue and starts its goroutine.
func NewQueue(o Options) *Queue {
	if o.Now == nil {
		o.Now = time.Now
	}
	q := &Queue{
		o: o, last: o.Last, stopped: map[string]uint64{}, open: map[uint64]*entry{},
		changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	for _, m := range o.Waiting {
		if m.State != Queued && m.State != "" || q.open[m.N] != nil {
			continue
		}
		m.State, m.Class = Queued, min(m.Class, ClassLater)
		q.last = max(q.last, m.N)
		e := &entry{felt: true}
		e.now = &change{e: e, m: m} // seq 0: it is on disk
		q.open[m.N] = e
		if m.Class == ClassStop {
			q.settle(e, Delivered)
			continue
		}
		q.enqueue(e)
	}
	go q.run()
	return q
}

// Push accepts a message, never waits, and returns it with its number, its
// time and the state Queued. A closed queue accepts nothing: the number is then
// 0 and the state Cancelled.
//
// A stop (also one to a closed queue) ends, in the caller's goroutine and
// before Push returns, the context of every guard and step that it concerns,
// and gives each message with a lower number that it concerns, waiting or
// taken, its final state: Returned if it is from Options.Home, else Cancelled.
// Other stops are not covered. The stop itself waits like any message: who
// brings the work to rest takes it and settles it as Delivered.
//
// An urgent message ends the steps of the agent that it is for.
func (q *Queue) Push(m Message) Message {
	m.At, m.State, m.Kept, m.Edited = q.o.Now(), Queued, false, false
	m.Class = min(m.Class, ClassLater) // nothing is lost for a class that does not exist
	q.mu.Lock()
	if q.closed {
		m.N, m.State = 0, Cancelled
	} else {
		q.last++
		m.N = q.last
	}
	var ended []*Guard
	var cause error
	if m.Class == ClassStop {
		cause = &Stop{Signal: m.Signal, Text: m.Text}
		ended = q.stop(m)
	}
	if m.N != 0 {
		e := &entry{}
		q.open[m.N] = e
		q.record(e, m)
		q.enqueue(e)
		if m.Class == ClassUrgent {
			ended, cause = q.preempt(e)
		}
	}
	q.mu.Unlock()
	for _, g := range ended {
		g.cancel(cause)
	}
	poke(q.wake)
	poke(q.changed)
	return m
}

// stop begins an epoch, settles what the stop m covers and lists the guards
// that it ends; q.mu is held.
func (q *Queue) stop(m Message) []*Guard {
	q.epoch++
	q.stopped[m.To] = q.epoch
	if !q.closed {
		q.cover(m.To)
	}
	return q.concerned(func(g *Guard) bool {
		hit := m.To == "" || g.agent == m.To
		g.ended = g.ended || hit
		return hit
	})
}

// cover settles all that was accepted so far for an agent, "" for anyone; q.mu
// is held.
func (q *Queue) cover(agent string) {
	var covered []*entry
	for _, e := range q.open {
		if e.now.m.Class != ClassStop && (agent == "" || e.now.m.To == agent) {
			covered = append(covered, e)
		}
	}
	slices.SortFunc(covered, func(a, b *entry) int { return cmp.Compare(a.now.m.N, b.now.m.N) })
	for _, e := range covered {
		s := Cancelled
		if q.o.Home != "" && e.now.m.From == q.o.Home {
			s = Returned
		}
		q.settle(e, s)
	}
	q.prune()
}

// preempt lists the steps that the urgent message ends, with the cause; q.mu is
// held.
func (q *Queue) preempt(e *entry) (ended []*Guard, cause error) {
	ended = q.concerned(func(g *Guard) bool {
		if !g.step || g.agent != e.now.m.To {
			return false
		}
		e.felt = e.felt || !g.ended // a step that has ended looks at the queue only by chance
		g.ended = true
		return true
	})
	return ended, &Preempt{Message: e.message()}
}

// Take gives the waiting messages that want chooses, in order of class and then
// number, into the hands of the caller, who settles each or puts it back. want
// is called without a lock held; a message that changes meanwhile is left for
// the next Take, with what its sender said in that class after it, and Changed has
// told of it. A stop that comes settles what was
// taken, too: then Settle says ErrSettled, and the message is not delivered.
func (q *Queue) Take(want func(Message) bool) []Message {
	var wanted []*change
	for _, o := range q.offers() {
		m := o.now.m
		m.Kept = o.kept
		if want(m) {
			wanted = append(wanted, o.now)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var ms []Message
	changed := map[line]bool{}
	for _, c := range wanted {
		e, l := c.e, line{c.m.Class, c.m.From}
		switch {
		case e.taken || q.closed || changed[l]:
		case e.now == c:
			e.taken = true
			ms = append(ms, e.message())
		case e.now.m.State == Queued && e.now.m.Class == c.m.Class:
			changed[l] = true
		}
	}
	q.prune()
	return ms
}

// line is what one sender says in a class: it is delivered in order.
type line struct {
	class Class
	from  string
}

// offer is a waiting message as Take shows it.
type offer struct {
	now  *change
	kept bool
}

func (q *Queue) offers() []offer {
	q.mu.Lock()
	defer q.mu.Unlock()
	var os []offer
	for _, line := range q.waiting {
		for _, e := range line {
			os = append(os, offer{e.now, e.kept >= e.now.seq})
		}
	}
	return os
}

// Settle gives a queued message, taken or not, its one final state, and may be
// followed by no other: then, as after a stop that covered it, the error is
// ErrSettled. Of two that settle, and of a Settle and a stop, exactly one wins.
func (q *Queue) Settle(id string, s State) error {
	switch s {
	case Delivered, Answered, Cancelled, Returned:
	default:
		return fmt.Errorf("settle %s: %q is not a final state", id, s)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	e, err := q.find(id)
	if err != nil {
		return fmt.Errorf("settle %s as %s: %w", id, s, err)
	}
	q.settle(e, s)
	if !e.taken {
		q.prune()
	}
	poke(q.wake)
	return nil
}

// PutBack lets messages wait again that were taken. Those that have a final
// state by now, through a stop for one, keep it. Changed does not tell of it.
func (q *Queue) PutBack(ids ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range ids {
		if e := q.open[number(id)]; e != nil && e.taken {
			e.taken = false
			q.enqueue(e)
		}
	}
}

// Waiting lists the messages that are queued and not taken, in the order in
// which Take gives them.
func (q *Queue) Waiting() []Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	var ms []Message
	for _, line := range q.waiting {
		for _, e := range line {
			ms = append(ms, e.message())
		}
	}
	return ms
}

// Amend changes a message while it waits and returns it as it is then. One that
// becomes urgent pre-empts as a pushed one does. The error is ErrNoMessage, or
// ErrSettled if it has been taken or settled; a stop has been obeyed already
// and cannot be changed, nor can a message become one.
func (q *Queue) Amend(id string, a Amendment) (Message, error) {
	if a.Class != nil && (*a.Class == ClassStop || *a.Class > ClassLater) {
		return Message{}, fmt.Errorf("amend %s: it cannot become a %s", id, *a.Class)
	}
	q.mu.Lock()
	e, err := q.find(id)
	if err == nil && (e.taken || e.now.m.Class == ClassStop) {
		err = ErrSettled
	}
	if err != nil {
		q.mu.Unlock()
		return Message{}, fmt.Errorf("amend %s: %w", id, err)
	}
	ended, cause := q.amend(e, a)
	m := e.message()
	q.mu.Unlock()
	for _, g := range ended {
		g.cancel(cause)
	}
	poke(q.wake)
	poke(q.changed)
	return m, nil
}

// amend changes a waiting message, and lists the steps that this ends; q.mu is
// held.
func (q *Queue) amend(e *entry, a Amendment) (ended []*Guard, cause error) {
	if a.Drop {
		q.settle(e, Cancelled)
		q.prune()
		return nil, nil
	}
	m := e.now.m
	if a.Text != nil {
		m.Text = *a.Text
	}
	if a.Class != nil {
		m.Class = *a.Class
	}
	if m == e.now.m {
		return nil, nil
	}
	moved := m.Class != e.now.m.Class
	m.Edited = true
	q.record(e, m)
	if moved {
		q.prune()
		q.enqueue(e)
		if m.Class == ClassUrgent {
			e.felt = false
			return q.preempt(e)
		}
	}
	return nil, nil
}

// Changed receives after messages were pushed or amended. It holds one token
// for any number of changes, so it has one reader, who takes until nothing that
// he wants is left.
func (q *Queue) Changed() <-chan struct{} { return q.changed }

// Epoch is the number of stops so far.
func (q *Queue) Epoch() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.epoch
}

// find is the queued message with the id; q.mu is held. Every number up to the
// last was given to a message, so what is not open has been settled.
func (q *Queue) find(id string) (*entry, error) {
	n := number(id)
	switch e := q.open[n]; {
	case n == 0 || n > q.last:
		return nil, ErrNoMessage
	case e == nil:
		return nil, ErrSettled
	case q.closed:
		return nil, ErrClosed
	default:
		return e, nil
	}
}

// enqueue puts a message where it waits; q.mu is held.
func (q *Queue) enqueue(e *entry) {
	line := &q.waiting[e.now.m.Class]
	i, _ := slices.BinarySearchFunc(*line, e.now.m.N, func(e *entry, n uint64) int { return cmp.Compare(e.now.m.N, n) })
	*line = slices.Insert(*line, i, e)
}

// prune takes out of each line what does not wait there any more; q.mu is held.
func (q *Queue) prune() {
	for i := range q.waiting {
		q.waiting[i] = slices.DeleteFunc(q.waiting[i], func(e *entry) bool {
			return e.taken || e.now.m.State != Queued || int(e.now.m.Class) != i
		})
	}
}

// settle ends a queued message; q.mu is held.
func (q *Queue) settle(e *entry, s State) {
	m := e.now.m
	m.State = s
	delete(q.open, m.N)
	q.record(e, m)
}

// poke leaves a token in a channel of capacity 1 and never waits.
func poke(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
