package coordinator

import (
	"context"

	"ralph/coordinator/result"
	"ralph/interrupts"
)

// settle does what is left when the work has ended. After a stop in a chat only
// what the conversation needs is done at once; the rest is done beside it.
func (p *piece) settle(ended context.Context) {
	c := p.c
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), settleTime)
	defer cancel()
	stop, stopped := interrupts.AsStop(context.Cause(ended))
	if !stopped {
		p.dismiss(ctx)
	}
	c.mu.Lock()
	if len(p.talk) > 0 {
		c.transcript = p.talk[1:] // the system prompt is made anew when need be
	}
	c.mu.Unlock()
	if stopped {
		p.stopped(ctx, stop)
	}
	p.children()
	if !stopped || !p.job.Chat {
		p.close(ctx)
		return
	}
	c.mu.Lock()
	rest := *p // the outcome that is returned is not written any more
	c.mu.Unlock()
	c.behind(rest.close)
}

// close does what takes the disk and git: what changed, what is to be told in the
// state files.
func (p *piece) close(ctx context.Context) {
	c := p.c
	if !p.talking { // talk changes nothing, and need not wait for what a stop left to do
		p.out.FilesChanged, p.out.Commits = c.changes.end(ctx)
		p.out.Commits = c.changes.allOf(ctx, p.since, p.merged, p.out.Commits)
		if p.out.Verified {
			c.doubt(ctx)
		}
	}
	if !p.job.Chat {
		// What a run that failed did not come to is no difference of its own.
		if err := c.cassette.played(); err != nil && p.out.Status == result.Completed {
			p.out.Status, p.out.Reason = result.Failed, ""
			p.out.Failure = &result.Failure{Kind: kindReplay, Message: err.Error(), Hint: hintReplay}
		}
	}
	if p.out.Reason == "" && p.out.Failure != nil {
		p.out.Reason = p.out.Failure.Message
	}
	for _, w := range c.cassette.warnings() {
		c.warn(w)
	}
	c.mu.Lock()
	c.totals.add(p.out)
	turn := c.totals.Turns
	c.mu.Unlock()
	if !p.talking {
		c.book.keepChanges(c.changes.trace(ctx, turn, p.out.Commits))
	}
	if p.job.Chat && !p.talking && p.out.Status == result.Interrupted {
		c.changedBefore(p.out.FilesChanged)
	}
	c.keepCalibration()
	if err := c.book.settle(&p.out, p.job, p.planned); err != nil {
		c.warn("state: " + hinted(err))
	}
}

// finish completes the outcome.
func (p *piece) finish() result.Outcome {
	o := &p.out
	if o.Failure != nil && o.Reason == "" {
		o.Reason = o.Failure.Message
	}
	if o.Failure != nil {
		o.Verified = false
	}
	o.Duration = p.c.now().Sub(o.StartedAt)
	o.SessionID = p.c.SessionID()
	p.c.mu.Lock()
	o.Warnings = append([]string(nil), p.c.warnings...)
	p.c.mu.Unlock()
	return p.c.masked(*o)
}
