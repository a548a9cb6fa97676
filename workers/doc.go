// Package workers owns those who work: the coordinator's own turn and, side by
// side with it, its agents, with the processes that they start.
//
// Its Pool knows who runs, for whom and since when, ends one or all of them, and
// reports what came of it: who ended, which processes had to be killed, and by
// name whoever did not. It refuses to know what the work is: an agent is a
// function of a context. It knows no model, no memory and no human.
//
//	pool := workers.New(workers.Options{Proc: runner})
//	err := pool.Do(ctx, workers.Spec{ID: "ralph", Label: "fix the test"}, work)
//	// elsewhere, on a stop:
//	report := pool.Stop(ctx, cause)
package workers
