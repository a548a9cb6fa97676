package coordinator

import (
	"context"
	"errors"
	"fmt"

	"ralph/memory/exchange"
	"ralph/memory/session"
	"ralph/workers/agent"
)

// HandOff gives one session of the project what another knows: open tasks,
// decisions, files, the last messages. Each is named by number, name or a prefix
// that only one has; "" is the session of this conversation, whose model reads
// what it is given with its next request, also after a restart. The same context
// is handed over once. While work is under way it is refused with ErrBusy; a
// conversation without a session, or a project in which nothing can be kept, is an
// *Error too.
func (c *Coordinator) HandOff(_ context.Context, from, to string) (exchange.Handed, error) {
	select {
	case c.running <- struct{}{}:
		defer c.free()
	default:
		return exchange.Handed{}, &Error{Op: "hand over", Err: ErrBusy, Status: StatusLocked, Hint: "wait for its end, or stop it"}
	}
	h, got, err := c.book.handOff(from, to)
	if got {
		c.mu.Lock()
		c.transcript = append(c.transcript[:len(c.transcript):len(c.transcript)], agent.Message{Role: agent.RoleUser, Text: h.Text})
		c.mu.Unlock()
	}
	return h, err
}

// handOff hands over; got says that it was to the open session, and is new there.
func (b *book) handOff(from, to string) (h exchange.Handed, got bool, err error) {
	b.mu.Lock()
	defer b.leave()
	switch {
	case b.session == nil || b.dry:
		return h, false, &Error{Op: "hand over", Err: errors.New("this conversation has no session"), Status: StatusUsage, Hint: "ralph sessions handoff FROM TO joins any two"}
	case b.readOnly:
		return h, false, &Error{Op: "hand over", Err: errors.New("nothing can be saved in this project"), Status: StatusFailed, Hint: "ralph doctor says why"}
	}
	own := b.session.ID()
	if from == "" {
		from = own
	}
	if to == "" {
		to = own
	}
	b.flush() // what is handed over is read from the files
	if err := b.story.files.Flush(); err != nil {
		return h, false, fmt.Errorf("hand over: %w", err)
	}
	s := OpenSessions(b.c.opt, b.note)
	h, err = s.handoff(from, to, &exchange.Live{ID: own, Folder: b.story.files, Take: func(r session.Record, text, from string) error {
		b.keep(r.Kind, r.Payload)
		b.flush()
		b.session.Say("handoff from session "+from, text)
		b.c.past.saw(agent.Message{Role: agent.RoleUser, Text: text}, b.c.now())
		got = true
		return nil
	}})
	return h, got, err
}
