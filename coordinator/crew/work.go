package crew

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ralph/coordinator/prompt"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/workers"
	"ralph/workers/agent"
)

// unknownOutcome answers a call whose result was lost in an interruption.
const unknownOutcome = "interrupted, outcome unknown"

// afterTime bounds what is done for an agent when it has ended: the commit of
// what it did.
const afterTime = time.Minute

// quietTool is how long a tool may give no sign of life, as a build or a question
// to the human does.
const quietTool = 15 * time.Minute

// heldTime is how long an agent that is held at a boundary need give no sign of
// life: until the human says more.
const heldTime = 365 * 24 * time.Hour

// work is an agent's, on a goroutine of the pool: a tree, the loop until its work
// stands, the merge.
func (c *Crew) work(ctx context.Context, m *member) error {
	c.started(m)
	if err := c.settle(ctx, m); err != nil {
		return fmt.Errorf("make a tree: %w", err)
	}
	a := c.look(m)
	c.o.Emit(agent.Event{Type: agent.EventChildStart, Agent: a.ID, TaskID: a.Errand, Text: a.Label, Reason: a.Parent, Ref: a.Branch})
	gear, err := c.o.Equip(ctx, c.look(m))
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() != nil { // a stop waits for no disk
			c.o.Behind(gear.Close)
			return
		}
		gear.Close(context.WithoutCancel(ctx))
	}()
	if err := c.converse(m, gear); err != nil {
		return err
	}
	loop := gear.Loop
	c.complete(ctx, m, loop)
	failed := 0
	for {
		end := gear.run(ctx, m.talk)
		m.talk, loop.Spent = agent.Repair(end.Transcript, unknownOutcome), end.Spent
		c.absorb(m, end)
		if end.Err != nil {
			return end.Err
		}
		more, err := c.await(ctx, m, gear)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		if f := end.Finish; f != nil && f.Status != agent.FinishDone {
			c.declared(m, *f)
			return nil
		}
		problem, err := c.proven(ctx, m, end)
		switch {
		case err != nil:
			return err
		case problem == "":
			return c.hand(ctx, m)
		}
		if failed++; failed > c.o.Retries {
			c.become(m, Failed, c.unproven(m, problem))
			return nil
		}
		c.say(m, problem)
	}
}

// run drives the agent until it has ended its work.
func (g *Gear) run(ctx context.Context, talk []agent.Message) agent.End {
	if g.Drive != nil {
		return g.Drive(ctx, g.Loop, talk)
	}
	return g.Loop.Run(ctx, talk)
}

// proven says what keeps the work of a member from being merged, "" for nothing.
func (c *Crew) proven(ctx context.Context, m *member, end agent.End) (problem string, err error) {
	c.o.Pool.Quiet(m.ID, quietTool) // checks have a time limit of their own
	if problem, m.proven, err = c.o.Prove(ctx, c.look(m), end); err != nil || problem != "" {
		return problem, err
	}
	if problem = c.marked(m); problem != "" || c.o.Inspect == nil {
		return problem, nil
	}
	weak, err := c.o.Inspect(ctx, c.look(m))
	if err != nil {
		return "", err
	}
	c.set(m, func(a *Agent) { a.Weakened = weak })
	if len(weak) == 0 {
		return "", nil
	}
	return prompt.Weakened(weak)
}

// unproven says for people why the work of a member is not merged.
func (c *Crew) unproven(m *member, problem string) string {
	if weak := c.look(m).Weakened; len(weak) > 0 {
		return "its checks pass, but it made them prove less: " + strings.Join(weak, "; ") + " (its work is kept; only you can merge it)"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.mends != "" && strings.HasPrefix(problem, "conflict markers"):
		return text.FirstLine(strings.TrimSpace(problem))
	case m.check != "":
		return "its check failed: " + text.FirstLine(strings.TrimSpace(m.check))
	}
	return "its check failed"
}

// started notes that a member works.
func (c *Crew) started(m *member) {
	now := c.o.Now().UTC()
	c.mu.Lock()
	m.State, m.Since, m.Beat, m.Ended, m.Problem = Running, now, now, time.Time{}, ""
	m.ended, m.landed = false, Unmerged
	c.mu.Unlock()
	c.keep(m)
}

// converse makes the conversation: a new one, or the one that was cut off with what
// it is resumed with.
func (c *Crew) converse(m *member, gear *Gear) error {
	system := agent.Message{Role: agent.RoleSystem, Text: gear.System}
	c.mu.Lock()
	resumed, text, anew := m.resumed && !m.fresh, m.goText, m.resumed && m.fresh
	c.mu.Unlock()
	if anew { // whoever goes on with it later reads what follows
		c.write(m, recordShorter, []agent.Message{})
	}
	if !resumed {
		m.talk = []agent.Message{system}
		c.say(m, gear.Task)
		return nil
	}
	talk, err := c.conversation(m)
	if err != nil {
		return err
	}
	m.talk = append([]agent.Message{system}, agent.Repair(talk, unknownOutcome)...)
	if len(m.talk) == 1 {
		c.say(m, gear.Task)
	}
	note, err := prompt.ChildResumed(text)
	if err != nil {
		return err
	}
	c.say(m, note)
	return nil
}

// say adds a message to the conversation of a member.
func (c *Crew) say(m *member, text string) {
	msg := agent.Message{Role: agent.RoleUser, Text: text}
	m.talk = append(m.talk, msg)
	c.write(m, recordMessage, msg)
}

// complete joins a loop with what the crew knows: journal, news, budget, signs of
// life.
func (c *Crew) complete(ctx context.Context, m *member, loop *agent.Loop) {
	record, inbox, hold, emit, compact := loop.Record, loop.Inbox, loop.Hold, loop.Emit, loop.Compact
	loop.Agent = m.ID
	loop.Spent = m.spent
	loop.Record = func(x agent.Message) error {
		c.write(m, recordMessage, x)
		if record != nil {
			return record(x)
		}
		return nil
	}
	loop.Inbox = func() []agent.Message {
		list := c.News(m.ID)
		if inbox != nil {
			list = append(list, inbox()...)
		}
		return list
	}
	loop.Hold = func(ctx context.Context) error {
		if hold != nil {
			c.o.Pool.Quiet(m.ID, heldTime)
			if err := hold(ctx); err != nil {
				return err
			}
		}
		return m.budget.Turn()
	}
	loop.Emit = func(e agent.Event) {
		c.saw(m, e)
		if emit != nil {
			emit(e)
		}
	}
	if compact != nil {
		loop.Compact = func(ctx context.Context, talk []agent.Message) ([]agent.Message, error) {
			shorter, err := compact(ctx, talk)
			if err == nil && len(shorter) > 0 {
				c.write(m, recordShorter, shorter[1:])
			}
			return shorter, err
		}
	}
}

// saw notes what an event says of a member: a sign of life, what it does, what it
// used.
func (c *Crew) saw(m *member, e agent.Event) {
	doing := ""
	var paid agent.Spent
	c.mu.Lock()
	m.Beat = c.o.Now().UTC()
	switch e.Type {
	case agent.EventTurnStart:
		m.Turns = e.Turn
		doing = "asks the model"
	case agent.EventReasoning:
		doing = "thinks"
	case agent.EventMessageDelta:
		doing = "writes"
	case agent.EventToolStart:
		doing = Doing(e)
	case agent.EventUsage:
		if e.Usage != nil {
			m.Usage = m.Usage.Add(*e.Usage)
			paid.Usage = *e.Usage
		}
		paid.CostUSD = Grown(e.CostUSD, m.CostUSD)
		paid.CostUnknown = e.CostUSD == nil
		m.CostUSD = e.CostUSD
	}
	if doing != "" {
		m.Doing = doing
	}
	budget := m.budget
	c.mu.Unlock()
	if paid != (agent.Spent{}) {
		budget.Spend(paid)
	}
	c.o.Pool.Beat(m.ID, doing)
	switch {
	case e.Type == agent.EventToolStart:
		c.o.Pool.Quiet(m.ID, quietTool) // it has a time limit of its own
	case e.WaitMS > 0:
		c.o.Pool.Quiet(m.ID, time.Duration(e.WaitMS)*time.Millisecond)
	}
}

// Grown is what a sum grew by; nil when it is not known.
func Grown(now, before *float64) *float64 {
	if now == nil {
		return nil
	}
	grown := *now
	if before != nil {
		grown -= *before
	}
	return &grown
}

// absorb takes what a run of the loop came to.
func (c *Crew) absorb(m *member, end agent.End) {
	answer := strings.TrimSpace(end.Final.Text)
	if answer == "" && end.Finish != nil {
		answer = strings.TrimSpace(end.Finish.Summary)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m.did.APITime += max(0, end.Spent.APITime-m.spent.APITime) // a run goes on with what the last one had spent
	m.spent, m.Turns = end.Spent, end.Spent.Turns
	m.did.add(end)
	if answer != "" {
		m.Result, m.Cut = answer, end.Err != nil
	}
}

// declared takes an agent's word that it did not get there.
func (c *Crew) declared(m *member, f agent.Finish) {
	state, problem := Failed, f.Summary
	switch f.Status {
	case agent.FinishPartial:
		state = Partial
	case agent.FinishNeedsInput:
		state, problem = Partial, "it needs an answer: "+f.Summary
	}
	c.become(m, state, problem)
	c.set(m, func(a *Agent) {
		if a.Result == "" {
			a.Result = f.Summary
		}
	})
}

// become notes what the work of a member came to. It is at work until it is over,
// for others to wait for.
func (c *Crew) become(m *member, s State, problem string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.came = s; problem != "" {
		m.Problem = problem
	}
}

// set changes a member.
func (c *Crew) set(m *member, f func(*Agent)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&m.Agent)
}

// look is a member as it is now.
func (c *Crew) look(m *member) Agent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown(m)
}

// await waits for the children of a member, and answers whether it has something
// to say to them or about them.
func (c *Crew) await(ctx context.Context, m *member, gear *Gear) (more bool, err error) {
	loop := gear.Loop
	err = c.o.Pool.Aside(ctx, m.ID, func(ctx context.Context) error {
		for {
			why, err := c.Await(ctx, m.ID, m.wake)
			if err != nil || why == Idle && m.budget.Check() != nil {
				return err // it could not hear it any more
			}
			list := loop.Inbox()
			if why == Idle {
				list = append(list, gear.Last()...)
			}
			for _, x := range list {
				m.talk = append(m.talk, x)
				if err := loop.Record(x); err != nil {
					return err
				}
			}
			if more = len(list) > 0; more || why == Idle {
				return nil
			}
		}
	})
	return more, err
}

// over ends a member: it is called once per launch, when its work is over. What
// it did that is not merged is committed on its branch: before its end is told,
// or behind a stop, which waits for no disk.
func (c *Crew) over(m *member, err error) {
	c.mu.Lock()
	cut := m.cancel != nil && err != nil
	if cut {
		err = m.cancel
	}
	unfinished := (err != nil || m.came != Done) && c.o.Trees != nil && m.Branch != ""
	c.mu.Unlock()
	_, stop := interrupts.AsStop(err)
	if !stop {
		c.release(m)
	}
	if unfinished && !stop {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life()), afterTime)
		c.save(ctx, m)
		cancel()
	}
	if unfinished && stop { // asked for before its end is seen: who finds it ended can wait for this
		c.o.Behind(func(ctx context.Context) { c.save(ctx, m) })
	}
	c.mu.Lock()
	m.Ended, m.fault = c.o.Now().UTC(), err
	switch {
	case err == nil:
		m.State = m.came
	case cut, stopped(err):
		m.State, m.Problem = Interrupted, cause(err)
	default:
		m.State, m.Problem = Failed, cause(err)
	}
	m.came, m.cancel, m.news, m.talk, m.ending = "", nil, nil, nil, true
	c.mu.Unlock()
	c.locks.free(m.ID)
	c.ended(m)
	c.schedule()
}

// release ends those that still work for a member that has ended before them, as
// at a limit or when its model failed: nobody would hear of them.
func (c *Crew) release(m *member) {
	c.mu.Lock()
	var left []string
	for _, x := range c.members {
		if x.Parent == m.ID && !x.settled() {
			left = append(left, x.ID)
		}
	}
	c.mu.Unlock()
	for _, id := range left {
		_ = c.Stop(id, fmt.Errorf("agent %s, for which it worked, has ended", m.ID)) // one that has ended meanwhile is no matter
	}
}

// life is the context that the agents live in.
func (c *Crew) life() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx
}

// stopped says that an error means the end of work that can go on later.
func stopped(err error) bool {
	var limit *agent.LimitError
	if _, ok := interrupts.AsStop(err); ok {
		return true
	}
	return errors.As(err, &limit) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, workers.ErrClosed)
}

// maxProblem bounds what is kept of an error.
const maxProblem = 4 << 10

// cause is why an agent ended, for people; the first line says most.
func cause(err error) string {
	if stop, ok := interrupts.AsStop(err); ok {
		return stop.Error()
	}
	text := err.Error()
	if len(text) > maxProblem {
		text = strings.ToValidUTF8(text[:maxProblem], "") + "…"
	}
	return text
}
