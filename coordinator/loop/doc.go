// Package loop is the autonomous loop over a plan: it chooses the tasks whose
// turn it is, has them worked side by side, judges by evidence what came of each,
// and goes on until nothing is left that can be worked.
//
// It owns a run: its settings, budget, phases, retries, breakers, questions, and
// the snapshot from which it goes on exactly where it was. It refuses to start
// processes, to touch a terminal and to know a model: tasks are worked by Hands,
// plans are kept by a plan.Tracker, and a human is asked through a function.
//
// One goroutine, that of Run, owns the state of a run; each task at work has a
// goroutine of its own that only calls Hands.Do and hands over its report. What
// others see is a copy. A snapshot is saved before an agent begins and before the
// plan is told of an end, so that a run which is cut off anywhere goes on with the
// same iteration, which counts once.
//
// Where things are: loop.go is what others call, engine.go the one goroutine,
// select.go and rank.go choose, weigh.go decides, attempt.go has a task worked,
// judge.go says what came of it, remedy.go what is done about that, ask.go asks the
// human, gates.go and phases.go follow the plan's stages, edits.go its edits,
// finish.go ends a run and saves it, state.go is what is saved, story.go what the
// session's files are told, view.go what others see.
//
//	l, err := loop.New(loop.Options{Settings: s, Tracker: t, Hands: h, Files: f, Save: save})
//	out := l.Run(ctx)
//	fmt.Println(out.Status, out.Reason)
package loop
