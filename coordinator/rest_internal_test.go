package coordinator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// What two stops leave to be done is done in their order, and waited for whole.
func TestWhatTwoStopsLeaveIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Coordinator{closing: t.Context()}
		first := make(chan struct{})
		var order []int
		c.behind(func(context.Context) { <-first; order = append(order, 1) })
		c.behind(func(context.Context) { order = append(order, 2) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if c.settled(ctx) == nil {
			t.Error("nobody waits for what the first stop left")
		}
		close(first)
		if err := c.settled(t.Context()); err != nil || len(order) != 2 || order[0] != 1 {
			t.Errorf("order %v, error %v", order, err)
		}
	})
}
