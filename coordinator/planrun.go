package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/coordinator/transcript"
	"ralph/memory/feature"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// planning is the run of a plan that goes on.
type planning struct {
	mu   sync.Mutex // guards what follows
	run  *loop.Loop // nil for none
	last *loop.View // of the run that was here last
}

func (g *planning) set(l *loop.Loop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l == nil && g.run != nil {
		v := g.run.View()
		g.last = &v
	}
	g.run = l
}

func (g *planning) loop() *loop.Loop {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.run
}

// followed notes how the tasks of the run that was here last are after an undo.
func (g *planning) followed(s feature.Snapshot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil && g.last.Feature == s.Feature {
		v := loop.Seen(s)
		g.last = &v
	}
}

// view is the run that goes on, or went on last; nil when there was none.
func (g *planning) view() *loop.View {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.run != nil {
		v := g.run.View()
		return &v
	}
	return g.last
}

// plan works through a plan, as Job.Loop asks for; what is said meanwhile is
// answered beside it.
func (p *piece) plan(ctx context.Context) error {
	c := p.c
	if p.job.DryRun || p.job.Loop.DryRun {
		return p.preview(ctx)
	}
	system, err := c.systemPrompt(p.job)
	if err != nil {
		return err
	}
	c.approver.Reset()
	c.book.begin(p.job)
	if err := errors.Join(c.settled(ctx), c.book.ready(ctx)); err != nil {
		return err
	}
	c.crew.Begin(ctx)
	run, err := c.openRun(ctx, *p.job.Loop)
	if err != nil {
		return err
	}
	defer func() {
		c.planning.set(nil)
		if ctx.Err() != nil { // what is saved behind a stop comes before
			c.behind(func(context.Context) { c.letGo(run.store) })
			return
		}
		c.letGo(run.store)
	}()
	if p.job.Go {
		c.released()
	}
	p.talk = append([]agent.Message{{Role: agent.RoleSystem, Text: system}}, agent.Repair(c.History(), unknownOutcome)...)
	if client := c.answers(); client != nil {
		l := p.newLoop(ctx, c.window(client, p.job, p.about))
		c.mu.Lock()
		p.loop = l
		c.mu.Unlock()
	}
	c.planning.set(run.loop)
	ended := make(chan loop.Outcome, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				p.thrown = &thrown{r, debug.Stack()}
				ended <- loop.Outcome{}
			}
		}()
		ended <- run.loop.Run(ctx)
	}()
	for {
		select {
		case out := <-ended:
			return p.ran(ctx, out)
		case <-c.mail.queue.Changed():
			if ctx.Err() == nil {
				p.answer(ctx, p.came(ctx))
			}
		}
	}
}

// letGo gives a run back.
func (c *Coordinator) letGo(store *feature.Store) {
	if err := store.Close(); err != nil {
		c.warn("state: " + err.Error())
	}
}

// lastRun is the newest run of the project that can go on, for those who look at
// a Ralph that has just begun.
func (c *Coordinator) lastRun() {
	list, err := feature.List(c.features())
	if err != nil {
		return // that it cannot be read is said when it is gone on with
	}
	for _, l := range list {
		if l.Err == nil && !l.Live && l.Snapshot.Status.Resumable() {
			v := loop.Seen(l.Snapshot)
			c.planning.mu.Lock()
			c.planning.last = &v
			c.planning.mu.Unlock()
			return
		}
	}
}

// answer has the model answer what was said while a plan is worked; the work goes
// on meanwhile, and hears it too.
func (p *piece) answer(ctx context.Context, list []agent.Message) {
	c := p.c
	for len(list) > 0 {
		run := c.planning.loop()
		for _, m := range list {
			if run != nil && m.Inbox != "" {
				run.Guide(strings.TrimSuffix(m.Text, urgentNote))
			}
			if standing := c.runStanding(); standing != "" {
				m.Text += "\n\n" + transcript.NoteTitle + "\n" + standing + besideRun
			}
			p.talk = append(p.talk, m)
			if err := p.record(ctx, m); err != nil {
				c.warn("state: " + hinted(err))
			}
		}
		if p.loop == nil {
			c.warn("no model is there to answer; the tasks that begin from now on are told what you said")
			return
		}
		if !p.reply(ctx) {
			return
		}
		list = p.came(ctx)
	}
}

// reply has the model go on with the conversation; false says that it did not.
func (p *piece) reply(ctx context.Context) bool {
	end := p.loop.Run(ctx, p.talk)
	p.add(end)
	p.urgent = false
	p.c.quiet.end()
	if end.Err != nil && ctx.Err() == nil {
		p.c.warn("your message was not answered: " + hinted(end.Err))
	}
	return end.Err == nil && ctx.Err() == nil
}

// helpers waits for the agents that the conversation beside a run has begun.
func (p *piece) helpers(ctx context.Context) {
	for p.loop != nil && ctx.Err() == nil {
		if more, err := p.await(ctx); err != nil || !more || !p.reply(ctx) {
			return // a stop is told by its own way
		}
	}
}

// besideRun is what the model reads after a message that came during a run.
const besideRun = " Children work on its tasks. What the user just said is told to those that begin from now on; message_agent tells one that works already. Answer the user."

// runStanding says how the run of a plan stands, "" when none goes on.
func (c *Coordinator) runStanding() string {
	run := c.planning.loop()
	if run == nil {
		return ""
	}
	v := run.View()
	var b strings.Builder
	fmt.Fprintf(&b, "A plan is being worked (%s, iteration %d): %d tasks done, %d open, %d failed, %d skipped.", v.Status, v.Iteration, v.Counts.Done, v.Counts.Open, v.Counts.Failed, v.Counts.Skipped)
	for _, r := range v.Active {
		fmt.Fprintf(&b, " At work: %s %s (agent %s).", r.ID, r.Title, r.Agent)
	}
	return b.String()
}

const hintRunGoesOn = "`ralph run --continue` goes on with it, exactly where it was"

// ran takes what a run came to into the outcome.
func (p *piece) ran(ctx context.Context, out loop.Outcome) error {
	if p.thrown != nil {
		return errors.New("internal error")
	}
	if ctx.Err() == nil {
		if late, ok := p.waiting(ctx); ok {
			p.answer(ctx, []agent.Message{late})
		}
		p.helpers(ctx)
	}
	if cause := context.Cause(ctx); cause != nil && out.Status == feature.Interrupted {
		out.Reason = cause.Error()
	}
	o := &p.out
	p.merged, p.since = out.Commits, out.Since
	p.planned = &result.TaskCount{Done: out.Counts.Done, Failed: out.Counts.Failed, Skipped: out.Counts.Skipped, Open: out.Counts.Open}
	o.Answer, o.Reason, o.Verified, o.Check = runAnswer(out), out.Reason, out.Verified, p.c.errands.result()
	remain := hintRunGoesOn
	switch {
	case out.Status == feature.Completed:
		o.Status = result.Completed
	case out.Status == feature.Interrupted && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(out.Err, loop.ErrUnsaved):
		return loop.ErrUnsaved // an answer makes no room, and the question is on no disk
	case out.Question != nil:
		o.Status = result.NeedsInput
		hint := "answer it with `ralph run --continue` on a terminal, or in `ralph chat` with /run --continue"
		if out.Question.Kind == loop.KindBreaker {
			hint = "look at what was done; then `ralph run --continue` answers go, also without a terminal"
		}
		o.Failure = &result.Failure{Kind: "needs_input", Message: "the run waits for an answer: " + out.Question.Text, Hint: hint}
	case out.Limit == "time":
		return errTimeout
	case out.Limit == "rate":
		o.Status = result.RetryLater
		o.Failure = &result.Failure{Kind: "rate_limit", Message: out.Reason, Hint: remain, Retryable: true, RetryAfter: out.RetryAfter}
	case out.Limit != "":
		o.Status = result.Limit
		o.Failure = &result.Failure{Kind: "limit", Message: out.Reason, Hint: "raise the limit; " + remain}
	case out.Err != nil:
		return planError(out.Err)
	case out.Status == feature.Paused:
		o.Status = result.NeedsInput
		o.Failure = &result.Failure{Kind: "paused", Message: cmp.Or(out.Reason, "the run is paused"), Hint: remain}
	case out.Status == feature.Cancelled:
		o.Status = result.Failed
		o.Failure = &result.Failure{Kind: "cancelled", Message: out.Reason, Hint: "nothing was begun; ralph run asks again, ralph run --dry-run shows what would be done"}
	default:
		o.Status = result.Failed
		o.Failure = &result.Failure{Recorded: out.Told, Kind: "tasks", Message: out.Reason + failedText(out), Hint: "`ralph run --retry-failed` works what failed or was skipped anew, `--retry TASK` one task, also one that is in progress with nobody at work; the session's iterations/ hold what each attempt did"}
	}
	return nil
}

// runAnswer tells what a run came to, task by task.
func runAnswer(out loop.Outcome) string {
	var b strings.Builder
	b.WriteString(out.Reason)
	for _, part := range []struct {
		name string
		ids  []string
	}{{"done", out.Done}, {"failed", out.Failed}, {"skipped", out.Skipped}, {"open", out.Open}} {
		if len(part.ids) == 0 {
			continue
		}
		shown := part.ids[:min(len(part.ids), 20)]
		fmt.Fprintf(&b, "\n%s (%d): %s", part.name, len(part.ids), strings.Join(shown, ", "))
		if n := len(part.ids) - len(shown); n > 0 {
			fmt.Fprintf(&b, " and %d more", n)
		}
	}
	return strings.TrimSpace(b.String())
}

const (
	// maxFailed bounds how many tasks that failed are told with their reason.
	maxFailed = 5
	// maxWhy bounds such a reason, in runes.
	maxWhy = 160
)

// failedText tells why tasks have failed, a line each.
func failedText(out loop.Outcome) string {
	var b strings.Builder
	for i, id := range out.Failed[:min(len(out.Failed), maxFailed)] {
		fmt.Fprintf(&b, "\n  %s: %s", id, cmp.Or(text.ClipRunes(firstLine(out.Why[i]), maxWhy), "the plan says so"))
	}
	if n := len(out.Failed) - maxFailed; n > 0 {
		fmt.Fprintf(&b, "\n  and %d more", n)
	}
	return b.String()
}

// stoppedRun names the run that was stopped in this Ralph and can go on.
func (c *Coordinator) stoppedRun() string {
	v := c.planning.view()
	if v == nil || v.Status != feature.Interrupted && v.Status != feature.Paused {
		return ""
	}
	return v.Feature
}
