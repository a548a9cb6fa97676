// Package coordinator is the one main Ralph: it takes a piece of work, asks the
// model, lets the tools run, checks what came of it and records it.
//
// It joins what workers, memory and interrupts know, and it is the only writer
// of state. It refuses to print, to read a terminal and to speak HTTP: the
// faces (repl, scripts) see what happens through events and get one Outcome,
// which is complete on every path, also after a stop.
//
// Where things are: a run is in run.go, judge.go and settle.go, how it ends in the package result,
// what it may do in the package permission; the state in book.go (the store and the journal),
// chronicle.go and verdicts.go (a session's files), edits.go (what the user edits meanwhile) and
// notebook.go (the tools that keep something), whose it is in the package ownership; what the model
// sees in compact.go, summary.go, past.go, recall.go, wording.go and context.go, what of it is kept
// in the package transcript; what a crash leaves in the package recovery and in resume.go; changes
// to files in changes.go and trace.go; closed sessions in the package sessions. What the user does
// beside the model is in usercommand.go, checks.go, files.go, settings.go and handoff.go,
// its values in the package desk; mention.go has the files that they mention. Children are in the
// package crew; children.go equips them and joins them with the queue, family.go is what a piece of
// work does with its own, station.go is the place where an agent works, with its sandbox.
//
// The queue joins in so: mail.go accepts and keeps, deliver.go hands over, aside.go
// answers beside the work, pause.go holds it; a stop is in rest.go, what follows it
// in mode.go; watch.go, live.go and serve.go are for those who look on.
//
// Locks are taken in this order and never the other way: the mutex of changes,
// Coordinator.telling, the emitter's, the book's. Coordinator.mu and those of the
// Approver, the edits, the past, the pause, the eyes, the loop's calls in the
// background and the queue are leaves; the mail's two and that of the asides are
// taken with none of these held. Nobody holds one while waiting for a human, the
// model or a tool. A stop takes leaves only.
//
//	c, err := coordinator.Open(ctx, coordinator.Options{Root: root, Config: cfg, Proc: exec.New(exec.Options{}), RunID: id})
//	if err != nil {
//		return coordinator.Fail(err)
//	}
//	defer c.Close()
//	out := c.Run(ctx, coordinator.Job{Task: "fix the failing test"})
package coordinator
