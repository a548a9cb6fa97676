// Package decide scores what could be done about a task, says how confident the
// coordinator is and from which facts, and whether a human must be asked first.
//
// It owns the numbers of the decision engine, exactly as the design of the loop
// has them ("Decisions" in loop.md), and what is learned from outcomes. It refuses
// to look at anything: the facts are arguments, and the same facts always give the
// same answer.
//
//	sum := decide.Confidence(facts)     // sum.Value 0.83; sum.String() shows the terms
//	choice := decide.Choose(facts)      // choice.Action execute, and the scores of the rest
//	answer, why := decide.Verdict(choice.Sum, decide.Rules{Mode: decide.AskFirst, Threshold: 0.7, Risk: choice.Risk, RiskTolerance: 0.5})
package decide

// Action is one of the things that can be done about a task.
type Action string

// The actions, in the order in which equal scores are preferred.
const (
	Execute  Action = "execute"
	Retry    Action = "retry"
	Delegate Action = "delegate" // to another agent
	Wait     Action = "wait"
	Skip     Action = "skip"
	Escalate Action = "escalate" // ask the human
)

// Mode is the setting human_intervention.
type Mode string

// The modes.
const (
	Never           Mode = "never"
	AskFirst        Mode = "ask_first" // the default
	OnError         Mode = "on_error"
	OnLowConfidence Mode = "on_low_confidence"
	Always          Mode = "always"
)

// Answer is what a confidence allows.
type Answer string

// The answers.
const (
	Act    Answer = "act"
	Ask    Answer = "ask"
	Refuse Answer = "refuse" // too unsure to be begun; three in a row open the breaker
)

// Facts is what can be seen of a task, by whoever can look.
type Facts struct {
	Task string

	// Clarity: what the task has.
	Description bool // it says more than its title
	Criteria    bool // acceptance criteria
	Check       bool // a command that proves it, which could be run
	Bounded     bool // it names the files it is about

	Named   []string // the tools and paths that it names
	Missing []string // those of them that do not exist

	Dependencies int // that it has
	Merged       int // of these

	Denied []string // what it needs and the sandbox denies

	History float64 // success rate of like tasks, 0..1; see History.Like
	Like    int     // how many of them there were; 0 means that History is not known, and .5 holds

	Attempts      int     // that have been made at it and failed
	Agents        int     // that could work it
	RiskTolerance float64 // setting risk_tolerance, 0..1
}

// Risk is how much could go wrong, each in 0..1.
type Risk struct {
	Execution  float64 `json:"execution"`
	Resource   float64 `json:"resource"`
	Dependency float64 `json:"dependency"`
}

// Mean is the mean of the three.
func (r Risk) Mean() float64 { return (r.Execution + r.Resource + r.Dependency) / 3 }

// Term is one part of a confidence: Weight·Value, and the facts behind it.
type Term struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
	Value  float64 `json:"value"` // 0..1
	Why    string  `json:"why"`
}

// Sum is a confidence with the terms that make it.
type Sum struct {
	Value float64 `json:"value"` // 0..1
	Terms []Term  `json:"terms"` // clarity, resources, dependencies, permission, history
}

// Alternative is an action with its score, 0..1.
type Alternative struct {
	Action Action  `json:"action"`
	Score  float64 `json:"score"`
}

// Choice is a decision about one task, with what it was decided from.
type Choice struct {
	Task      string        `json:"task"`
	Action    Action        `json:"action"`
	Scores    []Alternative `json:"scores"`    // of all actions, possible or not, best first
	Available []Action      `json:"available"` // those that were possible
	Risk      Risk          `json:"risk"`
	Sum       Sum           `json:"confidence"`
	Rationale string        `json:"rationale"`
}
