package scripts

import (
	"context"
	"time"

	"ralph/coordinator/loop"
	"ralph/interrupts/control"
	"ralph/memory"
)

// leftWithin is how long a Ralph that was asked to leave has to do so; after
// that --force kills it.
const leftWithin = 5 * time.Second

// resumeLive has a paused Ralph go on, and with --force asks the one that holds
// the project to leave. done says that this was all there was to do. id is the
// session that was asked for by the word which.
func (inv *invocation) resumeLive(ctx context.Context, which, id string) (done bool, err error) {
	if _, alive := memory.Locked(nil, inv.root); !alive && !inv.listening() {
		return false, nil
	}
	caller, err := inv.reach(ctx)
	if err != nil {
		return ctx.Err() != nil, err // whoever does not answer is dealt with by the lock
	}
	defer caller.close()
	l := caller.live
	paused := l.State == statePaused || l.State == statePausing
	switch {
	case inv.force:
		if err := inv.human(); err != nil {
			return true, err
		}
		caller.leave(ctx)
		return false, nil
	case paused && (which == "" || id != "" && id == l.SessionID):
		if err := inv.human(); err != nil {
			return true, err
		}
		if l.Loop != nil && !inv.answersHere() {
			if q := l.Loop.Question; q != nil && q.Kind == loop.KindBreaker {
				return true, waits("answer it where that Ralph runs, or with ralph resume on a terminal; ralph status shows the question", "the run %q waits for an answer: %s", l.Loop.Feature, q.Text)
			}
		}
		return true, caller.proceed(ctx, "resume", stateRunning)
	}
	return false, nil
}

// leave asks the running Ralph to stop and to leave the project, and waits for
// that, for a while.
func (c *caller) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leftWithin)
	defer cancel()
	// An error is no answer: the other one is about to end.
	_ = c.do(ctx, control.Request{Op: "stop", Text: "leave"}, nil, nil)
	for {
		if _, alive := memory.Locked(nil, c.inv.root); !alive {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(dialAgain):
		}
	}
}
