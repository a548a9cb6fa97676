// Package result declares how a piece of work ends: its Status, the Outcome from which every front
// end makes its report, and errors with a way out. It is values only.
package result

import (
	"encoding/json"
	"fmt"
	"time"

	"ralph/coordinator/crew"
	"ralph/interrupts"
	"ralph/workers/agent"
	"ralph/workers/git"
)

// Status is how a piece of work ended. The words are a public contract; the
// front ends map them to exit codes.
type Status string

// How work can end.
const (
	Completed      Status = "completed"
	Failed         Status = "failed"
	Usage          Status = "usage"
	ConfigError    Status = "config_error"
	ProviderError  Status = "provider_error"
	NeedsInput     Status = "needs_input"
	Denied         Status = "denied"
	Limit          Status = "limit"
	SchemaMismatch Status = "schema_mismatch"
	Locked         Status = "locked"
	RetryLater     Status = "retry_later"
	Timeout        Status = "timeout"
	Interrupted    Status = "interrupted"
)

// Outcome is the result of one Run. It is complete on every path, also after a stop.
type Outcome struct {
	Status Status
	// Signal is the number of the signal that interrupted the work, 0 when it
	// was not a signal.
	Signal int
	// Verified is set when something was checked and passed: --check or --schema.
	Verified bool
	// Reason is one sentence for a person: why it ended so.
	Reason string
	// Answer is the model's final text, or its partial text after a stop.
	Answer string
	// Structured is the answer as JSON when a schema was given and it fits.
	Structured   json.RawMessage
	Turns        int
	Usage        agent.Usage
	CostUSD      *float64 // nil: the price is unknown
	StartedAt    time.Time
	Duration     time.Duration
	APITime      time.Duration
	ToolCalls    ToolCount
	FilesChanged []git.FileChange
	Commands     []agent.CommandRun
	Commits      []string
	Denials      []Denial
	Children     []crew.Agent // that worked for this run, in the order of a tree
	Check        *Check
	Tasks        TaskCount
	Failure      *Failure // nil when Status is completed
	Warnings     []string
	Messages     []interrupts.Message // of the human, that came during the run
	Rest         string               // after a stop: what was ended and what is left, in words
	StateFiles   []string             // written by this run, relative to the root
	LogFile      string               // where the whole run can be read, relative to the root
	SessionID    string
}

// ToolCount counts tool calls.
type ToolCount struct {
	Total  int `json:"total"`
	Failed int `json:"failed"`
	Denied int `json:"denied"`
}

// TaskCount counts the project's tasks by their state after the run.
type TaskCount struct {
	Done    int `json:"done"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Open    int `json:"open"`
}

// Denial is one refused tool call.
type Denial struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
	Rule string          `json:"rule"`
}

// CheckResult is what the check of the work said the last time it ran.
type Check struct {
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	// Source is flag (also a variable of the environment), plan, config or detected.
	Source string `json:"source"`
	// BaselineExitCode is how a detected check that failed ended on the state before
	// the work, nil where it did not run there.
	BaselineExitCode *int `json:"baseline_exit_code"`
	// Tree is worktree or clean. In the worktree of an agent a check sees what a commit
	// of the work holds and what git ignores, in that of the user all files; clean is a
	// fresh checkout of the commit.
	Tree string `json:"tree"`
	// LeftOut names what no commit holds and the check did not see.
	LeftOut []string `json:"left_out"`
}

// Failure explains an outcome that is not completed.
type Failure struct {
	Kind       string
	Message    string
	Hint       string
	Retryable  bool
	HTTPStatus int
	RetryAfter time.Duration
	// told is set where what led to it is in the session's files: it is no further error.
	Recorded bool
}

// Error is an error of the coordinator with a way out.
type Error struct {
	Op     string // what was tried: "open state"
	Path   string // on what, may be empty
	Err    error
	Hint   string
	Status Status
}

// Error reads `op "path": cause`.
func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("%s %q: %v", e.Op, e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
