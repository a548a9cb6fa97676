// Package fault sorts what went wrong with a task into kinds, and says what is
// done about each: retry, skip, abort, alternative, escalate.
//
// It owns the words of error_type and of recovery_action, and the backoff. It
// refuses to wait or to try anything itself: it is pure.
//
//	kind := fault.Classify(fault.Facts{Output: "dial tcp: connection refused"}) // fault.Network
//	plan := fault.Respond(kind, fault.Rules{Retries: 3}, 1, 0)                 // retry after 1 s
package fault

import "time"

// Kind is the kind of an error, as error_type of errors-and-retries.json has it.
type Kind string

// The kinds of errors.
const (
	Validation Kind = "validation" // the work does not satisfy its check
	Execution  Kind = "execution"  // the agent or a program failed
	Resource   Kind = "resource"   // disk, memory, quota, rate limit, tokens, time
	Permission Kind = "permission" // denied by the sandbox, the rules or the system
	Network    Kind = "network"    // no way to the endpoint
	Dependency Kind = "dependency" // something it needs is not there: a task, a program, a module
	Unknown    Kind = "unknown"
)

// Strategy is what is done about an error.
type Strategy string

// The strategies.
const (
	Retry       Strategy = "retry"       // again, after a wait
	Skip        Strategy = "skip"        // leave the task out and go on
	Abort       Strategy = "abort"       // end the run
	Alternative Strategy = "alternative" // another agent, or the plan's fallback strategy
	Escalate    Strategy = "escalate"    // ask the human
)

// The defaults of loop.md: three retries, exponential backoff.
const (
	DefaultRetries = 3
	BaseWait       = time.Second
	MaxWait        = time.Minute
)

// Facts is what is known of an error. Fields that are not known stay zero.
type Facts struct {
	Said     string // the kind that the reporter itself gives, "" for none
	Status   int    // of HTTP
	ExitCode int    // of the program that failed
	Signal   bool   // it was killed
	TimedOut bool
	Quota    bool // a quota or a rate limit
	Denied   bool // a rule or the sandbox refused something
	Check    bool // a check failed: the work is wrong, not the machine
	Weakened bool // the change weakens its checks
	Conflict bool // it could not be merged
	Output   string
}

// Rules are the strategies that were asked for, each "" for none. Which one
// holds: Flag, else Task, else Plan by kind, else Plan's "default", else the
// default of the kind.
type Rules struct {
	Flag    string            // --on-error
	Task    string            // error_handling.on_failure of the task
	Plan    map[string]string // error_recovery: kind → strategy
	Retries int               // how often a task is tried again; 0 means never
	// Alternative says that there is another agent or a fallback strategy.
	Alternative bool
}

// Response is what is done about one failure.
type Response struct {
	Strategy Strategy
	Wait     time.Duration // before a retry
	Reason   string        // why this, in words
}
