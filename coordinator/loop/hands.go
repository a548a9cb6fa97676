package loop

import (
	"context"
	"time"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/decide"
	"ralph/workers/agent"
)

// Hands work tasks for a loop. They are called from several goroutines at once.
type Hands interface {
	// Prompt builds what the agent of an order is told. An error is that of a
	// template or of what it needs, and ends the run.
	Prompt(ctx context.Context, o Order) (string, error)
	// Facts are what can be seen of a task before it is worked. What the loop knows
	// itself, such as how many of its dependencies are merged and how like tasks
	// went, it fills in.
	Facts(ctx context.Context, t plan.Task) decide.Facts
	// Do has a task worked, checks and merges it, and returns when the agent has
	// ended and its merge is settled. When ctx ends it stops the agent and returns
	// as soon as that is at rest, with the status interrupted.
	Do(ctx context.Context, o Order) Report
	// Check runs a check on the user's tree, as a gate asks for it.
	Check(ctx context.Context, check plan.Check) CheckRun
}

// How an attempt ended, in the words of Report.Status.
const (
	saidDone    = "done"
	saidPartial = "partial"
	saidFailed  = "failed"
	needsInput  = "needs_input"
	interrupted = "interrupted"
)

// What became of an attempt's work, in the words of Report.Landing.
const (
	landedMerged    = "merged"
	landedUnchanged = "unchanged"
	landedHeld      = "held"
)

// Report is what one attempt at a task came to, as the hands saw it. What the
// agent said is foreign text.
type Report struct {
	Agent, Branch, Commit string
	Status                string     // done, partial, failed, needs_input, interrupted
	Declared              bool       // the agent said in its final message that it is complete, and ended cleanly
	Verified              bool       // something was checked, and all of it passed
	Checks                []CheckRun // as they were run last
	Landing               string     // merged, held, conflict, unchanged; "" not merged
	Summary, Final        string     // what the agent says of its work; its final message
	Problem, Question     string
	Confidence            *float64 // as the agent stated it
	Files                 []string // that it changed
	Weakened              []string // what weakens its check or its tests; such work is not merged
	Usage                 agent.Usage
	CostUSD               *float64 // nil: not known
	Turns, ToolCalls      int
	Context               int64 // tokens of the agent's largest request; 0: not known
	Took                  time.Duration
	Kind                  string        // of the error, in the words of the package fault; "" for none
	Quota                 bool          // the agent may not work now
	Futile                bool          // nor will it, however often it is tried: its program is not there, or is another than it is taken for
	RetryAfter            time.Duration // for how long; 0: not known
	Down                  bool          // its endpoint could not be asked: that says nothing about the task
	Err                   error
}
