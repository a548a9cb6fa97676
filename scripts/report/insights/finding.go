package insights

import "time"

// Severity is how much a finding matters.
type Severity string

// The severities of a finding.
const (
	Low    Severity = "low"
	Medium Severity = "medium"
	High   Severity = "high"
)

// Finding is one thing that a rule found in a session. Its texts are made by
// Ralph, but name what the session names: they are safe for a terminal, not for
// HTML or Markdown.
type Finding struct {
	// Rule is the machine name of the rule; Title says in a few words what was
	// found.
	Rule     string   `json:"rule"`
	Title    string   `json:"title"`
	Severity Severity `json:"severity"`
	// Threshold is from where on the rule finds something, as a person reads it.
	Threshold string `json:"threshold"`
	// Count is how many events show it, also those that Events leaves out.
	Count int `json:"count"`
	// Events are the ids of the first events that show it, at most 20: e17 of the
	// log, j341 of the journal, d5 of the decisions, x3 of the errors.
	Events []string `json:"events"`
	// TaskIDs are the tasks that it happened in, at most 20; none when it belongs
	// to no task.
	TaskIDs []string `json:"task_ids"`
	// First and Last are when it began and when it was seen last, UTC; nil when no
	// time is known.
	First *time.Time `json:"first"`
	Last  *time.Time `json:"last"`
	// Evidence is one sentence with the numbers.
	Evidence   string `json:"evidence"`
	Suggestion string `json:"suggestion"`
}

// Learning is what a finding teaches, in the fields of an entry of AGENT.md.
type Learning struct {
	Type, What, Why, How, Results, Learning string
}

// Rule is one named rule.
type Rule struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Severity Severity `json:"severity"`
	// Threshold is from where on it finds something.
	Threshold string `json:"threshold"`
	// Means says what it looks at, and Suggestion what to do about it.
	Means      string `json:"means"`
	Suggestion string `json:"suggestion"`
}
