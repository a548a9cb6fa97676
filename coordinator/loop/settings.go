package loop

import (
	"cmp"
	"fmt"
	"time"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy"
)

// CheckNone is the Check of a run that has none, and whose tests are not detected.
const CheckNone = "none"

// Settings are what a face or a plan sets of a run. They are kept in its snapshot,
// so that it goes on with the same. The zero value is usable: New completes it.
type Settings struct {
	Feature string   `json:"feature,omitempty"`
	Plan    string   `json:"plan,omitempty"` // the plan's file, as it was given
	Tracker string   `json:"tracker,omitempty"`
	Epics   []string `json:"epics,omitempty"`
	Select  string   `json:"select,omitempty"` // an expression over tasks

	Parallel      int `json:"parallel,omitempty"`       // tasks side by side; 0: as many as there may be agents
	MaxIterations int `json:"max_iterations,omitempty"` // 0: no bound
	Retries       int `json:"retries,omitempty"`        // of a task, after its first attempt; 0: three, negative: none

	// Of these three, 0 is what the plan says, or else .7, .1 and .5; a negative
	// number is a 0 that was asked for.
	ConfidenceThreshold float64 `json:"confidence_threshold,omitempty"`
	LearningRate        float64 `json:"learning_rate,omitempty"`
	RiskTolerance       float64 `json:"risk_tolerance,omitempty"`
	HumanIntervention   string  `json:"human_intervention,omitempty"` // never, ask_first, on_error, on_low_confidence, always

	Agent        string `json:"agent,omitempty"`    // "" is the built-in one
	Fallback     string `json:"fallback,omitempty"` // the agent that takes over when that one may not or cannot work
	OnError      string `json:"on_error,omitempty"` // retry, skip, abort, alternative, escalate; "": by the plan, then by the kind of error
	Model        string `json:"model,omitempty"`
	Sandbox      string `json:"sandbox,omitempty"`
	SandboxKept  bool   `json:"-"`                // Sandbox is that of the run which goes on, and the user did not say it again
	Check        string `json:"check,omitempty"`  // that each task has to pass besides its own, or CheckNone
	Prompt       string `json:"prompt,omitempty"` // the template's file
	RequireCheck bool   `json:"require_check,omitempty"`
	DryRun       bool   `json:"dry_run,omitempty"`
	Continue     bool   `json:"continue,omitempty"`
	New          bool   `json:"new,omitempty"`

	// Retry and RetryFailed open tasks again before the run begins.
	Retry       []string `json:"-"`
	RetryFailed bool     `json:"-"` // what failed or was skipped

	MaxTokens  int           `json:"max_tokens,omitempty"`   // of the whole run; 0: no bound
	MaxCostUSD float64       `json:"max_cost_usd,omitempty"` // of the whole run; 0: no bound
	MaxTurns   int           `json:"max_turns,omitempty"`    // of the whole run; 0: no bound
	Timeout    time.Duration `json:"timeout,omitempty"`      // of the work of one process; 0: no bound
	SessionDir string        `json:"session_dir,omitempty"`
}

// unconfined reports whether commands run without a sandbox.
func (s Settings) unconfined() bool { return s.Sandbox == string(policy.SandboxOff) }

// Order is one attempt at a task, for the hands that work it.
type Order struct {
	Iteration int // of the run, from 1; an attempt that was cut off goes on with its own
	Attempt   int // at the task, from 1
	Task      plan.Task
	Prompt    string // as Hands.Prompt built it; empty while that builds it
	Agent     string // who is to work it; "" is the built-in agent
	Model     string
	Cut       bool         // the iteration had begun already and did not end
	Resume    string       // the agent whose conversation and tree go on; "" for a new one
	Checks    []plan.Check // that its work has to pass, its own first

	// What a prompt may tell beyond the task.
	Whole         *plan.Plan // as it was read last; nobody changes it
	Phase         string
	MaxIterations int      // 0: no bound
	Feedback      string   // what the last attempt came to: its check's output, its problem
	Guidance      []string // what the human said for this task and for the run
	Needs         []Merged // what it builds on

	// Begun is called once the agent's id is known, before it works, so that the
	// attempt can go on with it after a crash. It may be called from any goroutine
	// and does not block.
	Begun func(agentID string)
}

// Merged is a task that another one needs, and whose work is in the tree.
type Merged struct {
	ID, Title, Result string
}

// CheckRun is a check that was run by Ralph.
type CheckRun struct {
	Command  string        `json:"command"`
	Output   string        `json:"output,omitempty"`
	ExitCode int           `json:"exit_code"`
	TimedOut bool          `json:"timed_out,omitempty"`
	Took     time.Duration `json:"took_ns,omitempty"`
	// Tree names what it looked at; "" where that is not known.
	Tree string `json:"tree,omitempty"`
	// Where is worktree or clean; "" where it did not run.
	Where string `json:"where,omitempty"`
	// LeftOut names what no commit holds and the check did not see.
	LeftOut []string `json:"left_out,omitempty"`
	// Source is flag, plan, config or detected; Baseline is the exit code on the state
	// before the work, nil where it did not run there.
	Source   string `json:"source,omitempty"`
	Baseline *int   `json:"baseline_exit_code,omitempty"`
	// Excused says why it does not count that it did not pass; "" when it counts.
	Excused string `json:"excused,omitempty"`
}

// Passed reports whether the check proves the work.
func (c CheckRun) Passed() bool { return c.ExitCode == 0 && !c.TimedOut }

// Failed reports whether the check did not pass, and that counts.
func (c CheckRun) Failed() bool { return !c.Passed() && c.Excused == "" }

// The modes in which a human is asked.
const (
	AskNever  = "never" // nobody is asked
	askFirst  = "ask_first"
	askError  = "on_error"
	askUnsure = "on_low_confidence"
	askAlways = "always"
)

// explicitZero stands for a rate or a bound that was set to 0: a plain 0 is one that
// nobody has set.
const explicitZero = -1

// complete sets what is not set, from the plan where that says it. A value that
// cannot be is an error.
func (s Settings) complete(p *plan.Plan) (Settings, error) {
	if p != nil {
		d := p.Decision
		for _, n := range []struct {
			to   *float64
			from *float64
		}{{&s.ConfidenceThreshold, d.ConfidenceThreshold}, {&s.LearningRate, d.LearningRate}, {&s.RiskTolerance, d.RiskTolerance}} {
			if *n.to == 0 && n.from != nil {
				*n.to = *n.from
			}
		}
		s.HumanIntervention = cmp.Or(s.HumanIntervention, d.HumanIntervention)
	}
	s.ConfidenceThreshold = cmp.Or(s.ConfidenceThreshold, 0.7)
	s.LearningRate = cmp.Or(s.LearningRate, 0.1)
	s.RiskTolerance = cmp.Or(s.RiskTolerance, 0.5)
	s.HumanIntervention = cmp.Or(s.HumanIntervention, askFirst)
	switch s.HumanIntervention {
	case AskNever, askFirst, askError, askUnsure, askAlways:
	default:
		return s, fmt.Errorf("human intervention %q: it is one of never, ask_first, on_error, on_low_confidence, always", s.HumanIntervention)
	}
	for _, n := range []struct {
		name  string
		value float64
	}{{"confidence threshold", s.ConfidenceThreshold}, {"learning rate", s.LearningRate}, {"risk tolerance", s.RiskTolerance}} {
		if n.value != explicitZero && !(n.value >= 0 && n.value <= 1) {
			return s, fmt.Errorf("%s %v: it is a number from 0 to 1", n.name, n.value)
		}
	}
	if s.OnError != "" && !strategy(s.OnError).known() {
		return s, fmt.Errorf("on error %q: it is one of retry, skip, abort, alternative, escalate", s.OnError)
	}
	for name, n := range map[string]int{"parallel": s.Parallel, "max iterations": s.MaxIterations, "max tokens": s.MaxTokens, "max turns": s.MaxTurns} {
		if n < 0 {
			return s, fmt.Errorf("%s %d: it cannot be negative", name, n)
		}
	}
	return s, nil
}
