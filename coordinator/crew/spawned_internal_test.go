package crew

import (
	"errors"
	"testing"
	"time"

	"ralph/workers"
	"ralph/workers/tools"
)

// TestSpawnedInAll bounds what one turn spawns however it asks for it, counts what
// agents spawn themselves for the attempt that they work below, and begins anew with
// the next turn.
func TestSpawnedInAll(t *testing.T) {
	c := New(Options{Pool: workers.New(workers.Options{}), Now: time.Now, MaxSpawned: 4, Budget: func() *workers.Budget { return workers.NewBudget(workers.Limit{}) }})
	c.Begin(t.Context())
	spawn := func(parent string, n int) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		list := make([]tools.SpawnAgent, n)
		for i := range list {
			list[i].Task = "look"
		}
		made, err := c.enlist(parent, list, map[string]bool{})
		for _, m := range made {
			m.State = Done
		}
		return err
	}
	below := newMember(Agent{ID: "task", Errand: "T-1/1", Depth: 1})
	below.budget = workers.NewBudget(workers.Limit{})
	c.members = append(c.members, below)
	for _, step := range []struct {
		what, parent string
		n            int
		ok           bool
	}{
		{"three", "ralph", 3, true}, {"two more are too many, and none begins", "ralph", 2, false}, {"the fourth", "ralph", 1, true}, {"a fifth", "ralph", 1, false},
		{"of an attempt", "task", 4, true}, {"one more of it", "task", 1, false},
	} {
		if err := spawn(step.parent, step.n); (err == nil) != step.ok || err != nil && !errors.Is(err, ErrSpawned) {
			t.Errorf("%s: %v", step.what, err)
		}
	}
	below.Errand = "T-1/2"
	if err := spawn("task", 1); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
	c.Begin(t.Context())
	if err := spawn("ralph", 4); err != nil {
		t.Errorf("the next turn: %v", err)
	}
}
