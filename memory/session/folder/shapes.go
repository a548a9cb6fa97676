package folder

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"time"
)

// EventType tells the events of execution-log.json apart.
type EventType string

// The event types that Ralph writes. A reader may meet others.
const (
	SessionStart  EventType = "session_start"
	TaskStart     EventType = "task_start"
	TaskComplete  EventType = "task_complete"
	Decided       EventType = "decision"
	Errored       EventType = "error"
	Retried       EventType = "retry"
	Interrupted   EventType = "interrupt"
	Message       EventType = "message"
	PhaseStart    EventType = "phase_start"
	PhaseComplete EventType = "phase_complete"
	GateChecked   EventType = "gate"
	Tripped       EventType = "breaker"
	Checkpoint    EventType = "checkpoint"
	Handoff       EventType = "handoff"
	SessionEnd    EventType = "session_end"
)

// Event is one entry of execution-log.json.
type Event struct {
	// Time is UTC, to the millisecond; zero is set by Log.
	Time     time.Time
	Type     EventType
	TaskID   string
	TaskName string
	Result   string
	// Duration is left out of the file when it is zero.
	Duration time.Duration
	// Details hold whatever else is worth keeping; values must encode as JSON.
	Details map[string]any
}

// MarshalJSON gives the form of the file.
func (e Event) MarshalJSON() ([]byte, error) {
	var seconds *float64
	if e.Duration != 0 {
		s := inSeconds(e.Duration)
		seconds = &s
	}
	details := e.Details
	if details == nil {
		details = map[string]any{}
	}
	return readable(struct {
		Time     time.Time      `json:"timestamp"`
		Type     EventType      `json:"event_type"`
		TaskID   string         `json:"task_id,omitempty"`
		TaskName string         `json:"task_name,omitempty"`
		Result   string         `json:"result,omitempty"`
		Seconds  *float64       `json:"duration_seconds,omitempty"`
		Details  map[string]any `json:"details"`
	}{stamp(e.Time), e.Type, e.TaskID, e.TaskName, e.Result, seconds, details})
}

// TaskStatus is how a task stands in progress-tracking.yaml.
type TaskStatus string

// The status words of progress-tracking.yaml.
const (
	TaskPending    TaskStatus = "pending"
	TaskInProgress TaskStatus = "in_progress"
	TaskPaused     TaskStatus = "paused"
	TaskCompleted  TaskStatus = "completed"
	TaskError      TaskStatus = "error"
	TaskSkipped    TaskStatus = "skipped"
)

// over says that nobody works on the task any more and nobody will.
func (s TaskStatus) over() bool {
	return s == TaskCompleted || s == TaskError || s == TaskSkipped
}

// TaskResult is how a task ended: null in the file until it did, and for one that was
// left out.
type TaskResult string

// The results of tasks.
const (
	ResultSuccess TaskResult = "success"
	ResultFailure TaskResult = "failure"
)

// result is the result of a task with the status.
func (s TaskStatus) result() TaskResult {
	switch s {
	case TaskCompleted:
		return ResultSuccess
	case TaskError:
		return ResultFailure
	}
	return ""
}

// resultWord returns the result that a word means for a task; a word that means
// neither success nor failure stays.
func resultWord(word string) string {
	return cmp.Or(string(TaskStatus(word).Meant().result()), word)
}

// MarshalYAML writes null for no result.
func (r TaskResult) MarshalYAML() (any, error) {
	if r == "" {
		return nil, nil
	}
	return string(r), nil
}

// MarshalJSON writes null for no result.
func (r TaskResult) MarshalJSON() ([]byte, error) {
	if r == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(r))
}

// TaskState is one entry of progress-tracking.yaml. Times are UTC; nil means
// not yet.
type TaskState struct {
	TaskID      string     `yaml:"task_id" json:"task_id"`
	Status      TaskStatus `yaml:"status" json:"status"`
	StartedAt   *time.Time `yaml:"started_at" json:"started_at"`
	CompletedAt *time.Time `yaml:"completed_at" json:"completed_at"`
	// DurationSeconds is how long the task was worked on, without its rests; nil
	// until it rests or is over for the first time.
	DurationSeconds *float64 `yaml:"duration_seconds" json:"duration_seconds"`
	// Result follows from the status.
	Result    TaskResult `yaml:"result" json:"result"`
	Details   string     `yaml:"details" json:"details"` // in the words of whoever worked on it
	Artifacts []string   `yaml:"artifacts" json:"artifacts"`
}

// Milestone is one entry of the milestones of progress-tracking.yaml.
type Milestone struct {
	Name       string     `yaml:"name" json:"name"`
	Target     string     `yaml:"target" json:"target"`
	Achieved   bool       `yaml:"achieved" json:"achieved"`
	AchievedAt *time.Time `yaml:"achieved_at" json:"achieved_at"`
}

// Gate is one entry of the quality gates of progress-tracking.yaml: passed is
// metric operator threshold, and nil until that was examined.
type Gate struct {
	Name      string  `yaml:"name" json:"name"`
	Metric    string  `yaml:"metric" json:"metric"`
	Threshold float64 `yaml:"threshold" json:"threshold"`
	Operator  string  `yaml:"operator" json:"operator"`
	Passed    *bool   `yaml:"passed" json:"passed"`
}

// Is reports whether the gate was examined with the given result.
func (g Gate) Is(passed bool) bool { return g.Passed != nil && *g.Passed == passed }

// Progress is progress-tracking.yaml. The percentages are from 0 to 100.
type Progress struct {
	SessionID   string    `yaml:"session_id" json:"session_id"`
	LastUpdated time.Time `yaml:"last_updated" json:"last_updated"`
	Progress    struct {
		CurrentTaskID   string  `yaml:"current_task_id" json:"current_task_id"`
		CurrentPhase    int     `yaml:"current_phase" json:"current_phase"` // from 1; 0 without phases
		PhaseName       string  `yaml:"phase_name" json:"phase_name"`
		OverallProgress float64 `yaml:"overall_progress" json:"overall_progress"`
		PhaseProgress   float64 `yaml:"phase_progress" json:"phase_progress"`
	} `yaml:"progress" json:"progress"`
	Tasks        []TaskState `yaml:"tasks" json:"tasks"`
	Milestones   []Milestone `yaml:"milestones" json:"milestones"`
	QualityGates []Gate      `yaml:"quality_gates" json:"quality_gates"`
}

// The types of decisions. The metadata counts DecisionHelp, a question to the human,
// as help requests.
const (
	DecisionTask   = "task_selection"
	DecisionAction = "action_selection"
	DecisionRetry  = "error_recovery"
	DecisionHelp   = "human_input"
)

// OutcomeDecided is the outcome of a decision that an agent made for itself.
const OutcomeDecided = "decided"

// asksHuman reports whether a decision was a question to the human, also in the word of
// former versions.
func asksHuman(decisionType string) bool {
	return decisionType == DecisionHelp || decisionType == "help_request"
}

// Decision is one entry of decision-history.json.
type Decision struct {
	// Time is UTC, to the millisecond; zero is set by Decide.
	Time         time.Time `json:"timestamp"`
	TaskID       string    `json:"task_id"`
	DecisionType string    `json:"decision_type"`
	Context      struct {
		CurrentTask      string   `json:"current_task"`
		AvailableActions []string `json:"available_actions"`
		// Risk is from 0 to 1 in each respect.
		Risk struct {
			Execution  float64 `json:"execution"`
			Resource   float64 `json:"resource"`
			Dependency float64 `json:"dependency"`
		} `json:"risk_assessment"`
	} `json:"context"`
	Decision struct {
		Action string `json:"action"`
		// Confidence is from 0 to 1.
		Confidence   float64       `json:"confidence"`
		Rationale    string        `json:"rationale"`
		Alternatives []alternative `json:"alternative_actions"`
	} `json:"decision"`
	// Outcome is empty until Outcome says how the decision turned out.
	Outcome string `json:"outcome"`
}

// Against adds an action that was not taken, and its score.
func (d *Decision) Against(action string, score float64) {
	d.Decision.Alternatives = append(d.Decision.Alternatives, alternative{action, score})
}

// alternative is an action that was not taken, and its score.
type alternative struct {
	Action string  `json:"action"`
	Score  float64 `json:"score"`
}

// Severity is how bad a failure is.
type Severity string

// The severities of errors-and-retries.json.
const (
	Low      Severity = "low"
	Medium   Severity = "medium"
	High     Severity = "high"
	Critical Severity = "critical"
)

// Failure is one entry of the errors of errors-and-retries.json.
type Failure struct {
	// Time is UTC, to the millisecond; zero is set by Fail.
	Time           time.Time `json:"timestamp"`
	TaskID         string    `json:"task_id"`
	ErrorType      string    `json:"error_type"`
	ErrorMessage   string    `json:"error_message"`
	Severity       Severity  `json:"severity"`
	RetryCount     int       `json:"retry_count"`
	RecoveryAction string    `json:"recovery_action"`
	Resolved       bool      `json:"resolved"`
	// ResolutionTimeSeconds is nil until the failure is resolved.
	ResolutionTimeSeconds *float64 `json:"resolution_time_seconds"`
}

// Trip is one entry of the circuit breaker's trips in errors-and-retries.json.
type Trip struct {
	// Time is UTC, to the millisecond; zero is set by Trip.
	Time            time.Time `json:"timestamp"`
	Condition       string    `json:"condition"`
	ActionTaken     string    `json:"action_taken"`
	DurationSeconds float64   `json:"duration_seconds"`
	Resolved        bool      `json:"resolved"`
}

// Metric is one entry of quality-metrics.json: a number that a check or a gate
// yielded.
type Metric struct {
	Name   string   `json:"name"`
	Value  float64  `json:"value"`
	Unit   string   `json:"unit"`
	Target *float64 `json:"target,omitempty"`
	Source string   `json:"source"`
	// MeasuredAt is UTC, to the millisecond; zero is set by Measure.
	MeasuredAt time.Time `json:"measured_at"`
}

// counts sum up what a Folder knows, for the metadata.
type counts struct {
	// Tracked says that the tasks are known: progress-tracking.yaml was read or
	// begun. Otherwise the four that follow are zero.
	Tracked         bool
	Tasks           int
	Completed       int
	SuccessRate     float64 // of the attempts that have ended, 0 to 1
	AverageDuration time.Duration
	Phase           int // that is worked on, or was last; from 1, 0 without phases
	PhaseName       string
	// The rest counts what was recorded since Open.
	Failures      int
	HelpRequests  int
	Interventions int
}

// readable encodes without the escapes that only HTML needs.
func readable(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// stamp is a time as the files hold it.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// inSeconds is a duration as the files hold it.
func inSeconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// byHuman says whether what stopped or held the work up, by its result, is the doing
// of a human: the system ends a process with SIGTERM, a line that is lost with
// SIGHUP, and a late result only comes after a stop.
func byHuman(result string) bool {
	switch result {
	case "interrupted by SIGTERM", "interrupted by SIGHUP", "late":
		return false
	}
	return true
}
