package scripts

import (
	"bufio"
	"io"
	"sync"
	"time"

	"ralph/workers/agent"
)

const (
	// flushDelay bounds how long a delta waits in the buffer.
	flushDelay = 20 * time.Millisecond
	// mainAgent names the coordinator in events that this face writes itself.
	mainAgent = "ralph"
)

// eventWriter writes events as JSON lines. Deltas are gathered for at most
// flushDelay; every other event goes out at once. It is safe for concurrent
// use; after close it writes nothing.
type eventWriter struct {
	runID string
	now   func() time.Time

	mu     sync.Mutex // guards the fields below
	w      *bufio.Writer
	timer  *time.Timer
	armed  bool
	closed bool
	last   time.Time // when the buffer was last flushed
	seq    int64
	agent  string
	err    error // the first error of w
}

func newEventWriter(w io.Writer, runID string, now func() time.Time) *eventWriter {
	e := &eventWriter{runID: runID, now: now, w: bufio.NewWriterSize(w, 64<<10), agent: mainAgent}
	e.timer = time.AfterFunc(time.Hour, e.tick)
	e.timer.Stop()
	return e
}

// event writes one event and returns the writer's first error, if any.
func (e *eventWriter) event(ev agent.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.err != nil {
		return e.err
	}
	if ev.Type == agent.EventStart {
		e.agent = ev.Agent
	}
	e.seq = ev.Seq
	if len(ev.Args) > 0 {
		ev.Args = validJSON(ev.Args)
	}
	line, err := encode(ev)
	if err != nil {
		e.err = err
		return err
	}
	e.put(line)
	if ev.Type != agent.EventMessageDelta && ev.Type != agent.EventReasoning {
		e.flush()
	} else if now := e.now(); now.Sub(e.last) >= flushDelay {
		e.flush()
	} else if !e.armed {
		e.armed = true
		e.timer.Reset(flushDelay)
	}
	return e.err
}

// renumbered writes events of a coordinator, one at a time, of which not all may be
// seen: without a gap, and begun by a start.
func (e *eventWriter) renumbered(root string) func(agent.Event) {
	return func(ev agent.Event) {
		if ev.Type != agent.EventStart {
			e.start(root)
		}
		e.mu.Lock()
		ev.Seq = e.seq + 1
		e.mu.Unlock()
		_ = e.event(ev) // an error of standard output has ended the work by now
	}
}

// start writes the first event when the work ended before it began.
func (e *eventWriter) start(root string) {
	e.mu.Lock()
	begun := e.seq > 0
	e.mu.Unlock()
	if !begun {
		// The error stays in e and is met again by result.
		_ = e.event(agent.Event{Type: agent.EventStart, Seq: 1, Time: e.now().UTC(), RunID: e.runID, Agent: mainAgent, Root: root})
	}
}

// result writes the document as the last line and closes the writer.
func (e *eventWriter) result(r *Result) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return e.err
	}
	e.closed = true
	e.timer.Stop()
	if e.err != nil {
		return e.err
	}
	line, err := r.encodeLine(e.seq+1, e.now(), e.agent)
	if err != nil {
		return err
	}
	e.put(line)
	e.flush()
	return e.err
}

// tick runs on the timer's goroutine. A tick that comes after close finds
// nothing to do.
func (e *eventWriter) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.armed = false
	if !e.closed {
		e.flush()
	}
}

func (e *eventWriter) put(line []byte) {
	if e.err == nil {
		_, e.err = e.w.Write(line)
	}
	if e.err == nil {
		e.err = e.w.WriteByte('\n')
	}
}

func (e *eventWriter) flush() {
	e.last = e.now()
	if e.err == nil {
		e.err = e.w.Flush()
	}
}
