package coordinator

import (
	"context"
	"errors"
	"slices"
	"strings"

	"ralph/coordinator/transcript"
	"ralph/interrupts"
	"ralph/workers/agent"
)

// urgentNote follows an urgent message, so that the model knows why its work was
// cut short.
const urgentNote = "\n\n" + transcript.NoteTitle + "\nThe user said this urgently, in the middle of your work. Answer it first, in words."

// resumedNote goes on with the work when an urgent message was answered.
const resumedNote = "The urgent message is answered. Go on with the work that it interrupted, unless your answer changed the plan or the user asked you to stop."

// mine says that a message is for the work of this one.
func (c *Coordinator) mine(m interrupts.Message) bool {
	return m.To == c.box() && c.here(m)
}

// here says that a message is for the session that runs.
func (c *Coordinator) here(m interrupts.Message) bool {
	return m.Session == "" || m.Session == c.SessionID()
}

// box is the name under which the queue knows this one: the coordinator has
// none.
func (c *Coordinator) box() string {
	if c.host == nil {
		return ""
	}
	return c.name
}

// inbox is the loop's: what came in since it was last asked, as one message, and
// what Ralph itself has to say.
func (p *piece) inbox(ctx context.Context) []agent.Message {
	return append(p.c.crew.News(p.c.name), p.came(ctx)...)
}

// came is what came in but for what the children came to.
func (p *piece) came(ctx context.Context) []agent.Message {
	held := p.c.mail.ready(ctx)
	got := p.c.mail.queue.Take(func(m interrupts.Message) bool {
		return p.c.mine(m) && (m.Kept || held) && (m.Class == interrupts.ClassUrgent || m.Class == interrupts.ClassSteer)
	})
	news := p.c.edits.inbox()
	if m, ok := p.deliver(got); ok {
		return append(news, m)
	}
	return news
}

// deliver makes one message for the model of what the human said. Each part is
// settled here, so that it is either this message's or a stop's, never both; the
// queue's file learns of it after the journal has it.
func (p *piece) deliver(got []interrupts.Message) (agent.Message, bool) {
	m, delivered, ok := p.c.settleAll(got)
	p.out.Messages = append(p.out.Messages, delivered...)
	if strings.HasSuffix(m.Text, urgentNote) {
		p.urgent = true
	}
	return m, ok
}

// settleAll settles messages as delivered and makes one for the model of those
// that a stop did not cover meanwhile.
func (c *Coordinator) settleAll(got []interrupts.Message) (m agent.Message, delivered []interrupts.Message, ok bool) {
	m.Role = agent.RoleUser
	var texts, ids []string
	urgent := false
	for _, x := range got {
		if !c.mail.settle(x.ID(), interrupts.Delivered) {
			continue // a stop was faster
		}
		texts, ids = append(texts, x.Text), append(ids, x.ID())
		urgent = urgent || x.Class == interrupts.ClassUrgent
		x.State = interrupts.Delivered
		delivered = append(delivered, x)
	}
	if len(ids) == 0 {
		return m, nil, false
	}
	m.Text, m.Inbox = strings.Join(texts, "\n\n"), strings.Join(ids, " ")
	m.Text += c.mentioned(m.Text)
	if urgent {
		m.Text += urgentNote
	}
	return m, delivered, true
}

// record is the loop's Record.
func (p *piece) record(ctx context.Context, m agent.Message) error {
	if m.Role == agent.RoleAssistant && len(m.Calls) > 0 {
		p.urgent = false // the work goes on by itself
		p.c.quiet.end()
	}
	defer p.c.mail.recorded(strings.Fields(m.Inbox)...)
	return p.c.book.record(ctx, m)
}

// resumed is the loop's: after an urgent message was answered in words the work
// goes on.
func (p *piece) resumed() string {
	urgent := p.urgent
	p.urgent = false
	p.c.quiet.end()
	if !urgent || p.talking {
		return ""
	}
	return resumedNote
}

// heed has the model answer what came urgently while its work was judged, and go
// on with it. It answers false when the message was withdrawn meanwhile: then
// there is nothing to answer.
func (p *piece) heed(ctx context.Context) (bool, error) {
	news := p.inbox(ctx)
	for _, m := range news {
		p.talk = append(p.talk, m)
		if err := p.record(ctx, m); err != nil {
			return false, err
		}
	}
	p.heeding = len(news) > 0
	return p.heeding, nil
}

// waiting takes what is to be delivered when the work has ended, or when there
// was none: everything that is for it.
func (p *piece) waiting(ctx context.Context) (agent.Message, bool) {
	held := p.c.mail.ready(ctx)
	got := p.c.mail.queue.Take(func(m interrupts.Message) bool {
		return p.c.mine(m) && (m.Kept || held) && m.Class != interrupts.ClassAsk && m.Class != interrupts.ClassStop
	})
	return p.deliver(got)
}

// errNothingSaid ends a piece of work that was to deliver what waits, when
// nothing does any more.
var errNothingSaid = errors.New("nothing waits to be delivered")

// Say accepts a message of the human and returns it with its number. It never
// waits: a stop has ended the work it concerns when Say returns, an urgent
// message its present step. That a message is on disk is told by an inbox event.
func (c *Coordinator) Say(m interrupts.Message) interrupts.Message {
	if m.To == agentName {
		m.To = ""
	}
	if m.Class == interrupts.ClassStop && m.To == "" {
		c.catch()
	}
	if m.Class == interrupts.ClassUrgent && m.To == "" && c.here(m) {
		c.hush()
	}
	if client := c.answers(); client != nil && m.Class == interrupts.ClassUrgent && m.To == "" {
		client.Again(agentName) // a person does not wait for a limit that another request was told of
	}
	m = c.mail.queue.Push(m)
	if m.To != "" && !c.crew.Wake(m.To) {
		c.unheard(m.To)
	}
	switch m.Class {
	case interrupts.ClassStop:
		c.halted(m)
	case interrupts.ClassAsk:
		if c.here(m) {
			c.asides.answer(m)
		}
	}
	return m
}

// hush holds the children at their next boundary until something urgent is
// handled, where somebody is there to handle it: its loop, or the wait for the
// children, ends that. It is called before the message can be taken.
func (c *Coordinator) hush() {
	c.mu.Lock()
	attended := c.piece != nil && c.piece.loop != nil && !c.piece.talking
	c.mu.Unlock()
	if attended && c.crew.AtWork() {
		c.quiet.begin()
	}
}

// Waiting lists what was said and not delivered yet, in the order of delivery.
func (c *Coordinator) Waiting() []interrupts.Message {
	return c.mail.queue.Waiting()
}

// Amend changes a message that waits.
func (c *Coordinator) Amend(id string, a interrupts.Amendment) (interrupts.Message, error) {
	if a.Class != nil && *a.Class == interrupts.ClassUrgent && slices.ContainsFunc(c.mail.queue.Waiting(), func(m interrupts.Message) bool {
		return m.ID() == id && c.mine(m)
	}) {
		c.hush()
	}
	return c.mail.queue.Amend(id, a)
}
