package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"ralph/coordinator/prompt"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/workers"
	"ralph/workers/agent"
)

const (
	// askedTail is how much of the conversation's end a side answer is given.
	askedTail = 12 << 10
	// askedTime bounds a side answer.
	askedTime = 5 * time.Minute
	// maxAsides bounds how many are answered at a time.
	maxAsides = 4
)

// asides answers questions beside the work, from what is known at this moment:
// without tools, without touching the conversation.
type asides struct {
	c     *Coordinator
	slots chan struct{}
	wg    sync.WaitGroup

	// mu guards closed.
	mu     sync.Mutex
	closed bool
}

func newAsides(c *Coordinator) *asides { return &asides{c: c, slots: make(chan struct{}, maxAsides)} }

// close waits for the answers that are under way, which the caller has stopped.
func (a *asides) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.wg.Wait()
}

// resume answers what was asked of an earlier Ralph that did not come to it.
func (a *asides) resume() {
	if a.c.opt.NoModel {
		return
	}
	for _, m := range a.c.mail.queue.Waiting() {
		if m.Class == interrupts.ClassAsk && a.c.here(m) {
			a.answer(m)
		}
	}
}

// answer answers a question on a goroutine of its own; it does not wait.
func (a *asides) answer(m interrupts.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return // it stays in the queue for the next Ralph
	}
	a.wg.Go(func() {
		guard := a.c.mail.queue.Guard(a.c.closing, "ask "+m.ID())
		defer guard.Release()
		ctx, cancel := context.WithTimeout(guard.Context(), askedTime)
		defer cancel()
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
		case <-ctx.Done():
		}
		a.c.mail.ready(ctx)
		taken := a.c.mail.queue.Take(func(x interrupts.Message) bool { return x.N == m.N })
		if len(taken) == 0 {
			return // a stop, or the user, took it out
		}
		a.reply(ctx, taken[0])
	})
}

// reply asks the model and tells the answer.
func (a *asides) reply(ctx context.Context, m interrupts.Message) {
	c := a.c
	text, err := a.complete(ctx, m)
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		if c.mail.queue.Settle(m.ID(), interrupts.Returned) == nil {
			c.warn(fmt.Sprintf("%s was not answered within %v", m.ID(), askedTime))
		}
		return
	case ctx.Err() != nil:
		// A stop of everything has settled it; one of this answer alone has not.
		_ = c.mail.queue.Settle(m.ID(), interrupts.Cancelled)
		return
	case errors.Is(err, workers.ErrClosed):
		c.mail.queue.PutBack(m.ID()) // the next Ralph answers it
		return
	case err != nil:
		_, f := Fail(err)
		text = "(no answer: " + f.Message + ")"
	}
	if !c.mail.settle(m.ID(), interrupts.Answered) {
		return // a stop came first
	}
	defer c.mail.recorded(m.ID())
	c.start()
	c.events.emit(agent.Event{Type: agent.EventInbox, Ref: m.ID(), Class: m.Class.String(), From: m.From,
		Status: string(interrupts.Answered), Text: m.Text, Output: text})
	c.book.flushEvents()
}

// complete asks the model.
func (a *asides) complete(ctx context.Context, m interrupts.Message) (string, error) {
	c := a.c
	client := c.answers()
	if client == nil {
		return "", errNoModel
	}
	state := c.situationText()
	content, err := prompt.Aside(m.Text+c.mentioned(m.Text), state)
	if err != nil {
		return "", err
	}
	name := "ask " + m.ID()
	var reply agent.Reply
	err = c.pool.Do(ctx, workers.Spec{ID: name, Parent: c.name, Label: text.ClipRunes(m.Text, maxQuote)}, func(ctx context.Context) error {
		var err error
		reply, err = client.Complete(ctx, agent.Request{Agent: name, Messages: []agent.Message{{Role: agent.RoleUser, Text: content}}}, func(agent.Delta) {})
		return err
	})
	c.mu.Lock()
	c.totals.spend(agent.Spent{Usage: reply.Usage, CostUSD: reply.CostUSD, APITime: reply.Duration})
	c.mu.Unlock()
	return strings.TrimSpace(c.redactor.String(reply.Message.Text)), err
}

// situationText is what is going on, in words for a model: what runs, what was
// said and done last, what waits, which tasks there are.
func (c *Coordinator) situationText() string {
	live := c.Live()
	var b strings.Builder
	fmt.Fprintf(&b, "State: %s, mode %s\n", live.State, live.Mode)
	if live.Task != "" {
		fmt.Fprintf(&b, "Work: %s (since %s, %s)\n", live.Task, live.Since.Format(time.TimeOnly), text.Count(live.Turn, "request"))
	}
	if live.Tool != "" {
		fmt.Fprintf(&b, "Tool that runs: %s\n", live.Tool)
	}
	for _, x := range live.Agents {
		fmt.Fprintf(&b, "Agent %s: %s, %s, since %s, last: %s\n", x.ID, x.State, x.Label, x.Since.Format(time.TimeOnly), x.Doing)
	}
	if run := c.runStanding(); run != "" {
		b.WriteString(run + "\n")
	}
	for _, x := range live.Background {
		fmt.Fprintf(&b, "In the background: %s: %s\n", x.ID, x.Command)
	}
	if ran := c.typed.text(false); ran != "" {
		b.WriteString(ran + "\n")
	}
	for _, x := range live.Queue {
		fmt.Fprintf(&b, "Waiting: %s (%s): %s\n", x.ID, x.Class, text.ClipRunes(x.Text, maxQuote))
	}
	if s := c.interruption(); s != nil {
		b.WriteString(s.text() + "\n")
	}
	goals, tasks, learned, err := c.book.remembered()
	if err == nil {
		b.WriteString(strings.TrimSpace(goals+"\n"+tasks+"\n"+learned) + "\n")
	}
	b.WriteString("\nThe end of the conversation:\n" + tail(transcriptText(c.present()), askedTail))
	return b.String()
}

// transcriptText is a conversation as plain text.
func transcriptText(list []agent.Message) string {
	var b strings.Builder
	for _, m := range list {
		if m.Role == agent.RoleSystem {
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", m.Role, head(m.Text, 2<<10))
		for _, call := range m.Calls {
			fmt.Fprintf(&b, "  calls %s %s\n", call.Name, head(call.Args, 300))
		}
	}
	return b.String()
}
