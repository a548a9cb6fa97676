// Package analysis computes what a session's events add up to: durations,
// success, retries, errors, where the time went, tokens and cost, confidence
// against outcome, interrupts. It also puts sessions side by side.
//
// It is fed each event of the log and each record of the journal once, in
// order, keeps sums and bounded tables of them and never the events, and does
// no input or output itself. What the files do not say is nil in the result,
// and never guessed; what stands in the way of reading them is in Notes.
//
//	c := analysis.New()
//	c.Event("e1", event) // …
//	c.Record(record)     // …
//	a := c.Result(data)
package analysis

import "time"

// Analysis is all that is computed of a session. Every field is always there:
// nil, an empty list or 0 stand where there is nothing. Seconds are numbers,
// rates are from 0 to 1. The words by which things are counted are foreign text,
// bounded in length and number; "(others)" is what goes beyond. For Compare it
// must be the value that Result returned: not all that is needed there is in the
// JSON.
type Analysis struct {
	Session Session `json:"session"`
	Events  Events  `json:"events"`
	Tasks   Tasks   `json:"tasks"`
	Retries Retries `json:"retries"`
	Errors  Errors  `json:"errors"`
	Time    Time    `json:"time"`
	Tokens  Tokens  `json:"tokens"`
	// Confidence holds what was claimed against what came: by the decisions, before
	// the work, and by the agents, which declare it with the end of an attempt.
	Confidence struct {
		Decisions Calibration `json:"decisions"`
		Agents    Calibration `json:"agents"`
	} `json:"confidence"`
	Interrupts Interrupts `json:"interrupts"`
	Messages   struct {
		N      int            `json:"n"`
		ByRole map[string]int `json:"by_role"`
	} `json:"messages"`
	Decisions   Decisions `json:"decisions"`
	Gates       Gates     `json:"gates"`
	Compactions int       `json:"compactions"`
	Trips       int       `json:"breaker_trips"`
	Notes       []string  `json:"notes"` // about the data
	outcomes    []outcome // of all tasks that were followed, for Compare
}

// Session says which session it is and how it stands.
type Session struct {
	ID         string         `json:"id"`
	Name       string         `json:"name"`
	Dir        string         `json:"dir"` // the directory's name
	Kind       *string        `json:"kind"`
	Model      *string        `json:"model"`
	Sandbox    *string        `json:"sandbox"`
	RunID      *string        `json:"run_id"` // of the last run
	Status     string         `json:"status"`
	ExitReason string         `json:"exit_reason"`
	Answer     *string        `json:"answer"` // what was said at the end of the last run
	StartedAt  *time.Time     `json:"started_at"`
	EndedAt    *time.Time     `json:"ended_at"`
	Starts     int            `json:"starts"` // how often a Ralph began to work in it
	Records    int            `json:"journal_records"`
	Config     map[string]any `json:"config"` // ralph_runtime_config
}

// Events sums up the log.
type Events struct {
	N           int            `json:"n"`
	ByType      map[string]int `json:"by_type"`
	First       *time.Time     `json:"first"`
	Last        *time.Time     `json:"last"`
	SpanSeconds *float64       `json:"span_seconds"`
	Unordered   int            `json:"unordered"`
}

// Distribution sums up values. All but N are nil when there are none.
type Distribution struct {
	N      int      `json:"n"`
	Median *float64 `json:"median_seconds"`
	P95    *float64 `json:"p95_seconds"`
	Mean   *float64 `json:"mean_seconds"`
	Max    *float64 `json:"max_seconds"`
}

// Tasks sums up the tasks. The status words are those of
// progress-tracking.yaml.
type Tasks struct {
	Total       int            `json:"total"`
	ByStatus    map[string]int `json:"by_status"`
	Done        int            `json:"done"`
	Failed      int            `json:"failed"`
	SuccessRate *float64       `json:"success_rate"` // of the done and the failed
	Durations   Distribution   `json:"durations"`    // of those that were worked on and are over
	Slowest     []Task         `json:"slowest"`      // at most 10
	ByKind      []Kind         `json:"by_kind"`
}

// Task is one of the slowest tasks.
type Task struct {
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	Kind     string  `json:"kind"`
	Status   string  `json:"status"`
	Seconds  float64 `json:"seconds"`
	Attempts int     `json:"attempts"`
}

// Kind sums up the tasks of one kind.
type Kind struct {
	Kind        string   `json:"kind"`
	N           int      `json:"n"`
	Done        int      `json:"done"`
	Failed      int      `json:"failed"`
	SuccessRate *float64 `json:"success_rate"`
	Median      *float64 `json:"median_seconds"`
}

// Retries counts what was tried again.
type Retries struct {
	N      int            `json:"n"`
	ByType map[string]int `json:"by_type"`
	ByTask map[string]int `json:"by_task"`
}

// Errors counts failures. Source names the file that was counted: what two
// files tell of is counted once.
type Errors struct {
	N          int            `json:"n"`
	Source     *string        `json:"source"`
	ByType     map[string]int `json:"by_type"`
	BySeverity map[string]int `json:"by_severity"`
	Resolved   *int           `json:"resolved"`
	Unresolved *int           `json:"unresolved"`
	Resolution Distribution   `json:"resolution"`
}

// Time says where the time went. Agents work at the same time: Sum adds up what
// each spent, Wall is the time on the clock in which at least one did. Busy is
// the wall clock of all four together, other that of tasks, agents and runs
// besides, idle the rest: busy, other and idle add up to active. Without a
// journal busy is nil, and part of other. A break is the time between the last
// event of one Ralph and the start of the next in the session; it is in total
// and not in active.
type Time struct {
	Total  *float64     `json:"total_seconds"`
	Breaks float64      `json:"breaks_seconds"`
	Active *float64     `json:"active_seconds"`
	Model  Spent        `json:"model"`
	Tools  Spent        `json:"tools"`
	Checks Spent        `json:"checks"`
	Human  Spent        `json:"human"` // waiting for an answer or a permission
	Waits  Distribution `json:"waits"` // for the human, each
	Busy   *float64     `json:"busy_seconds"`
	Other  *float64     `json:"other_seconds"`
	Idle   *float64     `json:"idle_seconds"`
	ByTool []Runs       `json:"by_tool"`
	Agents []Agent      `json:"by_agent"`
}

// Spent is time of one sort; nil when no file tells of it.
type Spent struct {
	N    int      `json:"n"`
	Sum  *float64 `json:"sum_seconds"`
	Wall *float64 `json:"wall_seconds"`
}

// Runs sums up the calls of one tool or the runs of one check.
type Runs struct {
	Name    string  `json:"name"`
	N       int     `json:"n"`
	Failed  int     `json:"failed"`
	Seconds float64 `json:"seconds"`
}

// Agent sums up what one agent did.
type Agent struct {
	ID        string   `json:"id"`
	Turns     int      `json:"turns"`
	ToolCalls int      `json:"tool_calls"`
	Tasks     int      `json:"tasks"`
	Tokens    *int64   `json:"tokens"`
	Cost      *float64 `json:"cost_usd"`
	Seconds   *float64 `json:"seconds"` // how long it was there
}

// Usage counts tokens, nil when nothing tells of them; cost nil: the price is
// unknown, be it of a part.
type Usage struct {
	Input     *int64   `json:"input"`
	Cached    *int64   `json:"cached_input"`
	Output    *int64   `json:"output"`
	Reasoning *int64   `json:"reasoning"`
	Total     *int64   `json:"total"`
	Cost      *float64 `json:"cost_usd"`
}

// UsageOf is the usage of a model, an agent or a task.
type UsageOf struct {
	ID string `json:"id"`
	Usage
}

// Tokens says what was used. Source names the file it is from.
type Tokens struct {
	Usage
	Source      *string   `json:"source"`
	Requests    *int      `json:"requests"`
	Estimated   bool      `json:"estimated"` // part of it was not stated by the endpoint
	PerDoneTask *float64  `json:"tokens_per_done_task"`
	CostPerDone *float64  `json:"cost_usd_per_done_task"`
	ByModel     []UsageOf `json:"by_model"`
	ByAgent     []UsageOf `json:"by_agent"`
	ByTask      []UsageOf `json:"by_task"`
}

// Calibration compares confidence with outcome. Brier is the mean square of
// confidence minus outcome, ECE the mean distance of confidence and success
// rate over the bins, weighted by their counts; both are nil without samples.
type Calibration struct {
	N              int      `json:"n"`
	MeanConfidence *float64 `json:"mean_confidence"`
	SuccessRate    *float64 `json:"success_rate"`
	Brier          *float64 `json:"brier_score"`
	ECE            *float64 `json:"expected_calibration_error"`
	Bins           []Bin    `json:"bins"` // ten, from 0 to 1
}

// Bin is a tenth of the confidences: from ≤ c < to, and the last with 1.
type Bin struct {
	From           float64  `json:"from"`
	To             float64  `json:"to"`
	N              int      `json:"n"`
	MeanConfidence *float64 `json:"mean_confidence"`
	SuccessRate    *float64 `json:"success_rate"`
}

// Interrupts counts stops and pauses. Latency is from the key to rest.
type Interrupts struct {
	N        int            `json:"n"`
	ByReason map[string]int `json:"by_reason"`
	ByHow    map[string]int `json:"by_how"`
	Latency  Distribution   `json:"latency"`
}

// Decisions counts what was decided.
type Decisions struct {
	N        int            `json:"n"`
	Source   *string        `json:"source"`
	ByType   map[string]int `json:"by_type"`
	ByAction map[string]int `json:"by_action"`
}

// Gates counts the checks that were run.
type Gates struct {
	N       int    `json:"n"`
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	ByCheck []Runs `json:"by_check"`
}
