// Package breaker stops a run that goes wrong before it does harm: a circuit
// breaker (closed, open, half_open) with triggers, and the quality gates of a
// plan.
//
// It owns the states and what moves between them. It refuses to wait, to ask or to
// stop anything: times are arguments, and its answers are values. Its state is
// JSON, so that a run which is resumed goes on with the breaker that it had.
//
//	b, err := breaker.New(breaker.Settings{}, breaker.Defaults(), breaker.State{})
//	ok, wait := b.Allow(now, "US-001") // may an attempt at it begin?
//	trips := b.Record(now, breaker.Result{Task: "US-001", Ended: true}, metrics)
package breaker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/policy/condition"
)

// Position is where the breaker stands.
type Position string

// The positions.
const (
	Closed   Position = "closed"    // work goes on
	Open     Position = "open"      // nothing begins
	HalfOpen Position = "half_open" // a few tasks are tried
)

// Action is what a trigger asks for when its condition holds.
type Action string

// The actions. Those that pause open the breaker.
const (
	PauseAndRequestHelp       Action = "pause_and_request_help"
	PauseAndReview            Action = "pause_and_review"
	AlertAndContinue          Action = "alert_and_continue"
	AdjustPromptAndRetry      Action = "adjust_prompt_and_retry"
	PauseAndReviewMethodology Action = "pause_and_review_methodology"
)

// Pauses says that the action stops the run until a human has looked.
func (a Action) Pauses() bool {
	return a == PauseAndRequestHelp || a == PauseAndReview || a == PauseAndReviewMethodology
}

// The numbers of loop.md, "Control".
const (
	defaultThreshold = 5
	defaultRecovery  = 60 * time.Second
	defaultProbes    = 3
	maxRefusals      = 3 // "breaker below .3 three times"
)

// Settings are the numbers of a breaker; those that are not positive mean those of
// loop.md: 5 failures in a row, 60 seconds, 3 probes.
type Settings struct {
	Threshold int
	Recovery  time.Duration
	Probes    int
	// Alone says that nobody will answer: a breaker that else waits for a human
	// recovers by time.
	Alone bool
}

func (s Settings) complete() Settings {
	if s.Threshold <= 0 {
		s.Threshold = defaultThreshold
	}
	if s.Recovery <= 0 {
		s.Recovery = defaultRecovery
	}
	if s.Probes <= 0 {
		s.Probes = defaultProbes
	}
	return s
}

// Trigger is one of circuit_breaker.triggers.
type Trigger struct {
	Condition string `json:"condition"`
	Action    Action `json:"action"`
}

// Defaults are the triggers of a run whose plan has none of its own: three tasks
// in a row below the confidence that asks, and three iterations without progress.
func Defaults() []Trigger {
	return []Trigger{
		{Condition: "confidence < 0.3 for 3 consecutive tasks", Action: PauseAndRequestHelp},
		{Condition: "no_progress >= 3", Action: PauseAndReview},
	}
}

// Result is how one attempt at a task ended.
type Result struct {
	Task string
	OK   bool
	// Ended says that the task is over with it, done or failed; otherwise it is
	// tried again.
	Ended bool
	// Checked says that a check was run.
	Checked bool
	// Void says that it ended without saying anything about the work: it was
	// interrupted, or met a quota. It counts neither way.
	Void bool
}

// Trip is one time that a trigger, the threshold or a failed probe fired.
type Trip struct {
	At        time.Time `json:"at"`
	Condition string    `json:"condition"` // of the trigger, or in words
	Action    Action    `json:"action"`
	Reason    string    `json:"reason"`
	// Opened says that the breaker has opened, or opened again, because of it; Held,
	// that it then waits for a human. One that is not held recovers by time.
	Opened bool `json:"opened"`
	Held   bool `json:"held,omitempty"`
}

// State is all that a breaker remembers, as JSON; the zero value is a closed one.
type State struct {
	Position  Position       `json:"position"`
	Failures  int            `json:"failures"` // in a row
	Refusals  int            `json:"refusals,omitempty"`
	OpenedAt  time.Time      `json:"opened_at,omitzero"`
	Held      bool           `json:"held,omitempty"`    // waits for a human
	Probing   []string       `json:"probing,omitempty"` // tasks that are being tried
	Succeeded int            `json:"succeeded,omitempty"`
	Cause     *Trip          `json:"cause,omitempty"` // of an open or half-open one
	Counts    map[string]Run `json:"counts,omitempty"`
}

// Run counts how often in a row the condition of a trigger has held.
type Run struct {
	N    int    `json:"n"`
	Task string `json:"task,omitempty"`  // the last one counted, where tasks are counted
	Lit  bool   `json:"lit,omitempty"`   // it has fired, and held ever since
	Err  string `json:"error,omitempty"` // why it has no answer, once told
}

// Breaker is a circuit breaker. It is not safe for concurrent use.
type Breaker struct {
	settings Settings
	triggers []trigger
	state    State
}

type trigger struct {
	Trigger
	when *condition.Condition[condition.Metrics]
}

// New compiles the triggers. A condition that is wrong is a *condition.Error
// within the error; an action that is unknown, or a state that no breaker has, is
// an error too. Attempts that were under way in the state are taken for lost.
func New(s Settings, triggers []Trigger, from State) (*Breaker, error) {
	b := &Breaker{settings: s.complete(), state: from.copy()}
	for _, t := range triggers {
		t.Action = Action(strings.ToLower(strings.TrimSpace(string(t.Action))))
		if t.Action != AlertAndContinue && t.Action != AdjustPromptAndRetry && !t.Action.Pauses() {
			return nil, fmt.Errorf("breaker trigger %q: unknown action %q: use %s, %s, %s, %s or %s", t.Condition, t.Action,
				PauseAndRequestHelp, PauseAndReview, AlertAndContinue, AdjustPromptAndRetry, PauseAndReviewMethodology)
		}
		when, err := condition.Compile(t.Condition, condition.Metrics{})
		if err != nil {
			return nil, fmt.Errorf("breaker trigger: %w", err)
		}
		b.triggers = append(b.triggers, trigger{Trigger: t, when: when})
	}
	switch b.state.Position {
	case "":
		b.state.Position = Closed
	case Closed, Open, HalfOpen:
	default:
		return nil, fmt.Errorf("breaker state: unknown position %q", b.state.Position)
	}
	b.state.Probing = nil
	maps.DeleteFunc(b.state.Counts, func(source string, _ Run) bool {
		return !slices.ContainsFunc(b.triggers, func(t trigger) bool { return t.Condition == source })
	})
	b.state.Failures, b.state.Refusals, b.state.Succeeded = max(0, b.state.Failures), max(0, b.state.Refusals), max(0, b.state.Succeeded)
	return b, nil
}

// State is a copy of what the breaker remembers, for the snapshot.
func (b *Breaker) State() State { return b.state.copy() }

func (s State) copy() State {
	s.Probing, s.Counts = slices.Clone(s.Probing), maps.Clone(s.Counts)
	if s.Cause != nil {
		cause := *s.Cause
		s.Cause = &cause
	}
	return s
}
