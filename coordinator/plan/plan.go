// Package plan reads the plans that people and tools keep (RALPH_TASKS.md,
// prd.json, RALPH-LOOP-PLAN.yaml, beads) as one kind of value, and writes what
// became of a task back into the place where it came from.
//
// It owns the form of each source: how it is recognised, read, strictly checked
// and changed. What a plan means for a run is decided elsewhere. It refuses to
// guess: a plan is read whole or refused with all its faults at once, each with
// file and line; a plan without tasks is an error and never "all done"; a write
// changes the one task that it is about and leaves every other byte alone.
//
//	t, err := plan.Open(ctx, plan.Options{Root: root})
//	p, err := t.Load(ctx)
//	for _, r := range p.Graph().Ranks() { … }
//	err = t.Mark(ctx, "US-003", plan.Mark{Status: plan.Done, Actor: "ralph/us_003"})
package plan

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Status is how a task stands, whatever its tracker calls it.
type Status string

// The states of a task. Pending is the word of the API for a task that is open
// and not begun; its text is "open".
const (
	Pending     Status = "open"
	InProgress  Status = "in_progress"
	Interrupted Status = "interrupted"
	Blocked     Status = "blocked"
	Done        Status = "done"
	Failed      Status = "failed"
	Skipped     Status = "skipped"
)

// Open reports whether work on the task remains.
func (s Status) Open() bool { return s != Done && s != Failed && s != Skipped }

// Valid reports whether s is one of the states.
func (s Status) Valid() bool {
	switch s {
	case Pending, InProgress, Interrupted, Blocked, Done, Failed, Skipped:
		return true
	}
	return false
}

// Criterion is one acceptance criterion of a task.
type Criterion struct {
	Text string `json:"text"`
	Done bool   `json:"done"`
}

// Task is one task of a plan. It is a value; its slices are shared with the
// plan that it came from and must not be changed.
type Task struct {
	ID          string      `json:"id"`
	Title       string      `json:"title"`
	Description string      `json:"description,omitempty"`
	Criteria    []Criterion `json:"criteria,omitempty"`
	Status      Status      `json:"status"`
	// Priority is the tracker's own number, 0 the most urgent; 2 where the plan
	// gives none. From a yaml plan's priority_score it is made by fifths.
	Priority int `json:"priority"`
	// Score is priority_score as written, else 0; it breaks ties, higher first.
	Score float64 `json:"score,omitempty"`
	// Kind is task, bug, feature, chore or epic; "" means task. Epics are never
	// worked.
	Kind string `json:"kind,omitempty"`
	// Epic is the id of the parent, "" for none. It need not be in the plan.
	Epic   string   `json:"epic,omitempty"`
	Phase  string   `json:"phase,omitempty"`
	Labels []string `json:"labels,omitempty"`
	// After holds the ids of the tasks that must be done before.
	After []string `json:"after,omitempty"`
	// Check is a command that proves it; Clean asks for a fresh checkout to run it in.
	Check string `json:"check,omitempty"`
	Clean bool   `json:"clean,omitempty"`
	// Agent is who the plan wants for it; "" is the run's.
	Agent string `json:"agent,omitempty"`
	// Assignee is who has claimed it.
	Assignee string `json:"assignee,omitempty"`
	// Inputs and Outputs are the files that it reads and makes.
	Inputs  []string `json:"inputs,omitempty"`
	Outputs []string `json:"outputs,omitempty"`
	// System and Prompt are the prompts that the plan has for it.
	System  string   `json:"system,omitempty"`
	Prompt  string   `json:"prompt,omitempty"`
	Metrics []string `json:"metrics,omitempty"`
	// OnFailure is retry, skip, abort, alternative, escalate, or "": by the kind
	// of the error.
	OnFailure  string    `json:"on_failure,omitempty"`
	Fallback   string    `json:"fallback,omitempty"`
	Effort     string    `json:"effort,omitempty"`
	Notes      string    `json:"notes,omitempty"`
	Result     string    `json:"result,omitempty"`
	DeferUntil time.Time `json:"defer_until,omitzero"`
	// StatusLine reports that a line of its own says the status, in Markdown.
	StatusLine bool `json:"-"`
	// File is where it stands, relative to the root; Line counts from 1, 0 is
	// unknown.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Phase is one stage of a plan that names its own.
type Phase struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Tasks       []string `json:"tasks,omitempty"`
	Line        int      `json:"line,omitempty"`
}

// Milestone is reached when its tasks are done.
type Milestone struct {
	Name   string   `json:"name"`
	Target string   `json:"target,omitempty"`
	Tasks  []string `json:"tasks,omitempty"`
	Line   int      `json:"line,omitempty"`
}

// Check is a command that work has to pass.
type Check struct {
	Command string
	// Clean runs it in a fresh checkout of what git would commit, and not among the
	// ignored files of the agent's tree.
	Clean bool
	// Detected says that nobody named it: Ralph found the project's own tests. It may
	// fail where it failed before the work.
	Detected bool
}

// Commands are the commands of checks.
func Commands(checks []Check) []string {
	var list []string
	for _, c := range checks {
		list = append(list, c.Command)
	}
	return list
}

// Gate is a condition that must hold. Condition is an expression; one given as
// metric, operator and threshold has been made into one, "metric operator
// threshold". Check is a command instead of, or beside, a condition; for Clean see
// Check.
type Gate struct {
	Name      string  `json:"name"`
	Condition string  `json:"condition,omitempty"`
	Metric    string  `json:"metric,omitempty"`
	Operator  string  `json:"operator,omitempty"`
	Threshold float64 `json:"threshold,omitempty"`
	Phase     string  `json:"phase,omitempty"`
	Task      string  `json:"task,omitempty"`
	Check     string  `json:"check,omitempty"`
	Clean     bool    `json:"clean,omitempty"`
	Line      int     `json:"line,omitempty"`
}

// Trigger trips the circuit breaker when its condition holds.
type Trigger struct {
	Condition string `json:"condition"`
	Action    string `json:"action"`
	Line      int    `json:"line,omitempty"`
}

// Decision is what a plan says about deciding; nil and "" where it says nothing.
type Decision struct {
	RiskTolerance       *float64 `json:"risk_tolerance,omitempty"`
	ConfidenceThreshold *float64 `json:"confidence_threshold,omitempty"`
	LearningRate        *float64 `json:"learning_rate,omitempty"`
	HumanIntervention   string   `json:"human_intervention,omitempty"`
}

// Plan is a plan as it stood when it was loaded. Its Tasks may be reordered and
// their plain fields changed by whoever loaded it; what the slices, maps and
// pointers in it lead to is shared and read-only. It is not safe for concurrent
// use while it is changed.
type Plan struct {
	Tracker     string `json:"tracker"` // "markdown", "json", "yaml", "beads", "beads-bv"
	Path        string `json:"path"`    // relative to the root
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	Branch      string `json:"branch,omitempty"`
	Tasks       []Task `json:"tasks"`
	// Phases are the plan's own, in order; none means the default phases.
	Phases     []Phase           `json:"phases,omitempty"`
	Milestones []Milestone       `json:"milestones,omitempty"`
	Gates      []Gate            `json:"gates,omitempty"`
	Triggers   []Trigger         `json:"triggers,omitempty"`
	Strategies map[string]string `json:"strategies,omitempty"` // kind of error → strategy; "default" for all
	Decision   Decision          `json:"decision,omitzero"`
	Stamp      string            `json:"stamp"`              // fingerprint of the source as loaded
	Warnings   []Problem         `json:"warnings,omitempty"` // nothing that stops a run

	index map[string]int
}

// Find returns the task with the id, by exact spelling. The pointer is into
// Tasks.
func (p *Plan) Find(id string) (*Task, bool) {
	if p.index != nil {
		// Whoever loaded the plan may have reordered it.
		if i, ok := p.index[id]; ok && i < len(p.Tasks) && p.Tasks[i].ID == id {
			return &p.Tasks[i], true
		}
	}
	i := slices.IndexFunc(p.Tasks, func(t Task) bool { return t.ID == id })
	if i < 0 {
		return nil, false
	}
	return &p.Tasks[i], true
}

// DefaultPhases are the phases of a plan that has none of its own.
func DefaultPhases() []string {
	return []string{"planning", "implementation", "e2e_testing", "verification", "pr_review"}
}

// PhaseNames lists the ids and names of the plan's phases.
func (p *Plan) PhaseNames() []string {
	if len(p.Phases) == 0 {
		return DefaultPhases()
	}
	var names []string
	for _, ph := range p.Phases {
		names = append(names, ph.ID, ph.Name)
	}
	return names
}

// Reads returns how the plan reads a status that it was told: some trackers know few.
func (p *Plan) Reads(s Status) Status {
	if s != Done && s != InProgress && (p.Tracker == "json" || strings.HasPrefix(p.Tracker, "beads")) {
		return Pending
	}
	return s
}

// Kept is what a mark can change of a task besides its status.
type Kept struct {
	Agent      string `json:"agent,omitempty"`
	Result     string `json:"result,omitempty"`
	Notes      string `json:"notes,omitempty"`
	StatusLine bool   `json:"status_line,omitempty"`
}

// Kept returns what marks can change of the task besides its status.
func (t *Task) Kept() Kept { return Kept{t.Agent, t.Result, t.Notes, t.StatusLine} }

// Mark says what became of a task.
type Mark struct {
	// Status is the new state. InProgress claims the task for Actor.
	Status Status
	// Actor is who does it ("ralph/implement_auth"), Session in which session.
	Actor, Session string
	// Result is the outcome in a line; Commit what landed; Note a remark that is
	// kept with the task where the tracker has room for one.
	Result, Commit, Note string
	// Back, if any, is put back with the status: what earlier marks changed besides.
	// Result and Note are not read then.
	Back *Kept `json:",omitempty"`
}

// Tracker is one open plan. It is safe for concurrent use; it holds nothing that
// must be closed.
type Tracker interface {
	// Name is "markdown", "json", "yaml", "beads" or "beads-bv".
	Name() string
	// Load reads the present state and checks it strictly: an error is a
	// *Problems with all faults, or matches ErrEmpty, or says what could not be
	// read.
	Load(ctx context.Context) (*Plan, error)
	// Stamp returns the fingerprint of the source as it is now, cheaply. It
	// equals Plan.Stamp until the source changes.
	Stamp(ctx context.Context) (string, error)
	// Mark records what became of a task, durably when it returns nil; only that
	// task changes. It fails with ErrNoTask, and with ErrTaken when InProgress is
	// asked for a task that another has claimed or that is done.
	Mark(ctx context.Context, id string, m Mark) error
	// Release gives back (open) every task in progress whose claimant begins
	// with actor, and returns their ids. It is for sessions of ours that ended.
	Release(ctx context.Context, actor string) ([]string, error)
}
