// Package insights owns the named rules that say what went wrong in a session:
// each has a threshold, names the events that show it, and suggests something.
// What they are is one table: see Rules.
//
//	repeated_error          3 errors of the same type and kind of task
//	retry_storm             5 retries within 10 minutes
//	flaky_check             a check passed and failed on the same tree
//	low_confidence_success  it succeeded below the session's confidence threshold
//	over_long_context       80 % of the context window were in use
//	task_too_big            3 times the median of at least 3 finished tasks, and 10 s
//	idle_waiting_for_human  one wait of 5 minutes for a human
//	slow_stop               more than 1 s from the stop to rest
//
// A fact counts once, however many files tell it: the log is asked first, and
// the journal, the errors, the decisions and the progress only for what it does
// not tell. Events may come in any order of time, from any zone, in any spelling
// that memory/session/folder reads, and over several processes: nobody waits
// between a session's end and its next start.
//
// It refuses to guess: a check without a tree is not flaky, a number of tokens
// without a window is not too much, and a pause is no slow stop. It reads no
// files and starts nothing. What it holds is bounded: 100,000 tasks and 1,000
// findings of a rule; Notes says what was left out.
//
//	f := insights.New(insights.Options{})
//	f.Event("e1", event)  // each event of the log
//	f.Record(record)      // each record of the journal
//	findings := f.Result(data)
package insights
