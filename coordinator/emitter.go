package coordinator

import (
	"sync"
	"time"

	"ralph/workers/agent"
)

// emitter numbers events and hands them on: the one writer of the event
// stream.
type emitter struct {
	run  string
	now  func() time.Time
	eyes func(agent.Event)
	// keep receives the events that the journal holds; like eyes it must not emit.
	// filed says that the session's other files have it already.
	keep func(e agent.Event, filed bool)

	// mu guards what follows and keeps the order of the numbers that of the calls: it is
	// held while keep and eyes are called.
	mu   sync.Mutex
	seq  int64
	mask mask
}

// emit takes the secrets out of e, numbers it and shows it.
func (m *emitter) emit(e agent.Event) { m.pass(e, false) }

// emitFiled is emit for what the session's files tell already.
func (m *emitter) emitFiled(e agent.Event) { m.pass(e, true) }

func (m *emitter) pass(e agent.Event, filed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.mask.apply(e) {
		m.show(e, filed)
	}
}

func (m *emitter) show(e agent.Event, filed bool) {
	m.seq++
	e.Seq, e.Time, e.RunID = m.seq, m.now().UTC(), m.run
	if e.Agent == "" {
		e.Agent = agentName
	}
	if m.keep != nil && journaled(e.Type) {
		m.keep(e, filed)
	}
	if m.eyes != nil {
		m.eyes(e)
	}
}

// journaled reports whether the journal keeps events of this type: all but the
// pieces of a stream, whose whole is a message.
func journaled(t agent.EventType) bool {
	return t != agent.EventMessageDelta && t != agent.EventReasoning
}

// agentName is the coordinator's own name in events and requests.
const agentName = "ralph"
