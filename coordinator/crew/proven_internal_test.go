package crew

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"ralph/workers"
	"ralph/workers/agent"
)

// An agent whose checks take minutes has not stalled.
func TestAProofIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := workers.New(workers.Options{Alarm: func(s workers.Status) { t.Errorf("%s has stalled", s.ID) }})
		c := New(Options{Pool: pool, Now: time.Now, Prove: func(context.Context, Agent, agent.End) (string, string, error) {
			time.Sleep(10 * time.Minute)
			return "the check failed", "", nil
		}})
		m := newMember(Agent{ID: "look"})
		work := func(ctx context.Context) error {
			_, err := c.proven(ctx, m, agent.End{})
			return err
		}
		if err := pool.Spawn(t.Context(), workers.Spec{ID: "look"}, work, nil); err != nil {
			t.Fatal(err)
		}
		if err := pool.Wait(t.Context(), "look"); err != nil {
			t.Error(err)
		}
		if err := pool.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
