// Package workers owns those who work: the coordinator's own turn and, side by
// side with it, its agents, with the processes that they start.
//
// Its Pool knows who runs, for whom and since when, who waits for room and whose
// turn it is, and who has given no sign of life for long. It ends one or all of
// them, and reports what came of it: who ended, which processes had to be killed,
// and by name whoever did not. Its Budget is a tree of what they may use together.
// It refuses to know what the work is: an agent is a function of a context. It
// knows no memory and no human, and of models only what they cost.
//
//	pool := workers.New(workers.Options{Proc: runner, MaxAgents: 20})
//	err := pool.Do(ctx, workers.Spec{ID: "ralph", Label: "fix the test"}, work)
//	// within work: a child on a goroutine of the pool, when there is room
//	err = pool.Spawn(ctx, workers.Spec{ID: "look_around", Parent: "ralph"}, look, ended)
//	// elsewhere, on a stop:
//	report := pool.Stop(ctx, cause)
package workers
