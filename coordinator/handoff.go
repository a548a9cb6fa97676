package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"ralph/coordinator/result"
	"ralph/coordinator/sessions"
	"ralph/memory/exchange"
	"ralph/memory/session"
	"ralph/memory/session/folder"
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
		return exchange.Handed{}, &result.Error{Op: "hand over", Err: ErrBusy, Status: result.Locked, Hint: "wait for its end, or stop it"}
	}
	c.byHand.Add(1) // Close waits for it
	defer c.byHand.Done()
	h, got, err := c.book.handOff(from, to)
	if got {
		c.mu.Lock()
		c.transcript = append(c.transcript[:len(c.transcript):len(c.transcript)], agent.Message{Role: agent.RoleUser, Text: h.Text})
		c.mu.Unlock()
	}
	return h, err
}

// handOff hands over; got says that it was to the open session, and is new there.
// mu is not held while the files are read, of which there may be many megabytes: an
// event, a stop and what the human says need it.
func (b *book) handOff(from, to string) (h exchange.Handed, got bool, err error) {
	own, files, err := b.handing()
	if err != nil {
		return h, false, err
	}
	take := func(r session.Record, text, from string) error {
		b.mu.Lock()
		defer b.leave()
		b.keep(r.Kind, r.Payload)
		b.flush()
		b.session.Say("handoff from session "+from, text)
		b.c.past.saw(agent.Message{Role: agent.RoleUser, Text: text}, b.c.now())
		got = true
		return nil
	}
	s := sessions.Open(sessions.Options{FS: b.c.opt.FS, Root: b.c.opt.Root, Config: b.c.cfg, RunID: b.c.opt.RunID, Getenv: b.c.opt.Getenv, Now: b.c.now}, b.c.warn)
	h, err = s.HandoffLive(cmp.Or(from, own), cmp.Or(to, own), &exchange.Live{ID: own, Folder: files, Take: take})
	return h, got, err
}

// handing brings to disk what is handed over from there, and gives the session's id
// and files.
func (b *book) handing() (own string, files *folder.Folder, err error) {
	b.mu.Lock()
	defer b.leave()
	switch {
	case b.session == nil || b.dry:
		return "", nil, &result.Error{Op: "hand over", Err: errors.New("this conversation has no session"), Status: result.Usage, Hint: "ralph sessions handoff FROM TO joins any two"}
	case b.readOnly:
		return "", nil, &result.Error{Op: "hand over", Err: errors.New("nothing can be saved in this project"), Status: result.Failed, Hint: "ralph doctor says why"}
	}
	b.flush()
	if err := b.story.files.Flush(); err != nil {
		return "", nil, fmt.Errorf("hand over: %w", err)
	}
	return b.session.ID(), b.story.files, nil
}

// Ends notes how the conversation ends, before Close: how is "ended by SIGTERM", or
// session.HandedOn when another session goes on with it. Without it a chat that was
// left is complete, and says nothing more.
func (c *Coordinator) Ends(how string) {
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	c.book.how = how
}

// end notes what Ends was told; mu is held. It comes last: a turn that was stopped
// notes its own end late.
func (b *book) end() {
	if b.how == "" {
		return
	}
	m := b.session.Meta()
	switch {
	case b.how == session.HandedOn:
		m.Status, m.ExitReason = session.Completed, b.how // also what was interrupted goes on there
	case m.ExitReason == "":
		m.ExitReason = b.how
	case !strings.Contains(m.ExitReason, strings.TrimPrefix(b.how, "ended by ")):
		m.ExitReason += "; " + b.how
	}
	b.session.End(m.Status, m.ExitReason)
}
