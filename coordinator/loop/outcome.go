package loop

import (
	"time"

	"ralph/coordinator/permission"

	"ralph/memory/feature"
)

// The limits of a run, in the words of Outcome.Limit.
const (
	limitIterations = "iterations"
	limitTokens     = "tokens"
	limitCost       = "cost"
	limitTurns      = "turns"
	limitTime       = "time"
	limitRate       = "rate"
)

// Counts are the tasks of a run by how they stand. A task that is being worked is
// open.
type Counts struct {
	Done    int `json:"done"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Open    int `json:"open"`
	Total   int `json:"total"`
}

// Outcome is how a run stands when Run returns.
type Outcome struct {
	// Status is completed (nothing of it is left), failed (it gave up, or gates or
	// tasks failed), paused (a limit, or a question that nobody could answer: it can
	// go on), interrupted (it was stopped: it can go on).
	Status feature.Status
	Reason string // in words, why
	Counts Counts
	// Done are the tasks of the plan that are done, also from before this run; the
	// other lists the rest of them.
	Done, Failed, Skipped, Open []string
	// Why says in words why each of Failed has failed, "" where that is not known.
	Why []string
	// Limit is what was used up: iterations, tokens, cost, turns, time, rate; "" for
	// nothing. RetryAfter is for how long it is, where that is known.
	Limit      string
	RetryAfter time.Duration
	// Question needs an answer before the run can go on; nil for none.
	Question *permission.Question
	// Verified says that all that this run has done was checked; false when it has
	// done nothing.
	Verified   bool
	Iterations int
	Phase      string
	// Commits holds what was merged of the tasks that this run has done, in the order
	// of the plan; Since is the commit with which the run began. Both are of all
	// processes that have worked the run.
	Commits []string
	Since   string
	// Err is why the run could not go on, where that is an error.
	Err error
	// Told says that a run failed for nothing but its tasks, whose errors are in the
	// session's files.
	Told bool
}

// TaskEnd is told when a task is over, or rests.
type TaskEnd struct {
	ID, Title string
	Status    string // done, failed, skipped, interrupted
	Why       string // in words, when it is not done
	Verified  bool
	Iteration int
	Attempts  int
	Report    Report // of the last attempt
}
