package crew

import (
	"context"
	"errors"
	"testing"
)

// A stop also says that something came in: what it ended is not told as if it
// had been asked for.
func TestAwaitEndsWithAStop(t *testing.T) {
	c := New(Options{})
	done, busy := newMember(Agent{ID: "done", Parent: "ralph", State: Done}), newMember(Agent{ID: "busy", Parent: "ralph", State: Running})
	done.untold = true
	c.members = []*member{done, busy}
	stop := errors.New("stop")
	for range 100 {
		ctx, cancel := context.WithCancelCause(t.Context())
		came := make(chan struct{}, 1)
		came <- struct{}{}
		if waits, err := c.Await(ctx, "ralph", came); waits != Came || err != nil {
			t.Fatalf("when something came: %v, %v", waits, err)
		}
		cancel(stop)
		came <- struct{}{}
		if waits, err := c.Await(ctx, "ralph", came); waits != Idle || !errors.Is(err, stop) {
			t.Fatalf("when a stop came: %v, %v", waits, err)
		}
		busy.State, busy.untold = Interrupted, true
		if waits, err := c.Await(ctx, "ralph", nil); waits != Idle || !errors.Is(err, stop) {
			t.Fatalf("when a stop has ended an agent: %v, %v", waits, err)
		}
		busy.State, busy.untold = Running, false
	}
}
