package condition

import "time"

// Task is what --select and other filters of tasks see.
type Task struct {
	ID          string   `expr:"id"`
	Title       string   `expr:"title"`
	Description string   `expr:"description"`
	Status      string   `expr:"status"`   // open, in_progress, interrupted, blocked, done, failed, skipped
	Priority    int      `expr:"priority"` // 0 is the most urgent
	Score       float64  `expr:"score"`    // priority_score of a YAML plan
	Kind        string   `expr:"kind"`     // task, bug, feature, chore
	Epic        string   `expr:"epic"`
	Phase       string   `expr:"phase"`
	Labels      []string `expr:"labels"`
	After       []string `expr:"after"` // ids of the tasks that it depends on
	Check       string   `expr:"check"`
	Agent       string   `expr:"agent"`
	Assignee    string   `expr:"assignee"`
	Effort      string   `expr:"effort"`
	Files       []string `expr:"files"`    // artifacts that it reads and makes
	Criteria    int      `expr:"criteria"` // how many acceptance criteria it has
	Milestone   string   `expr:"milestone"`
}

// Metrics is what gates, breaker triggers and stop conditions see. Rates are in
// 0..1 and computed by whoever fills it, 0 where nothing was counted yet, so that
// no condition divides by nothing.
type Metrics struct {
	ErrorRate          float64 `expr:"error_rate" json:"error_rate"`     // failed iterations of all that ended
	SuccessRate        float64 `expr:"success_rate" json:"success_rate"` // done tasks of those done or failed
	Confidence         float64 `expr:"confidence" json:"confidence"`     // of the task at hand; 1 before any
	ConfidenceMean     float64 `expr:"confidence_mean" json:"confidence_mean"`
	Progress           float64 `expr:"progress" json:"progress"` // done or skipped tasks of all, 0..1
	FeaturesDiscovered int     `expr:"features_discovered" json:"features_discovered"`
	FeaturesDocumented int     `expr:"features_documented" json:"features_documented"`

	TasksTotal   int `expr:"tasks_total" json:"tasks_total"`
	TasksDone    int `expr:"tasks_done" json:"tasks_done"`
	TasksFailed  int `expr:"tasks_failed" json:"tasks_failed"`
	TasksSkipped int `expr:"tasks_skipped" json:"tasks_skipped"`
	TasksOpen    int `expr:"tasks_open" json:"tasks_open"` // that remain, with those being worked

	Iterations          int `expr:"iterations" json:"iterations"`
	Errors              int `expr:"errors" json:"errors"`
	Retries             int `expr:"retries" json:"retries"`
	Checks              int `expr:"checks" json:"checks"`
	CheckFailures       int `expr:"check_failures" json:"check_failures"`
	ConsecutiveFailures int `expr:"consecutive_failures" json:"consecutive_failures"`
	NoProgress          int `expr:"no_progress" json:"no_progress"` // iterations in a row with no diff and no new result
	Questions           int `expr:"questions" json:"questions"`     // asked of a human

	Tokens          int     `expr:"tokens" json:"tokens"`
	CostUSD         float64 `expr:"cost_usd" json:"cost_usd"`
	DurationSeconds float64 `expr:"duration_seconds" json:"duration_seconds"`
	Phase           string  `expr:"phase" json:"phase"`
	Task            string  `expr:"task" json:"task"` // id of the task at hand, "" for none
}

// Event is what filters of logs see. Details are the event's own fields, as in
// details.exit_code; one that is missing is nil. A text that is compared with the
// timestamp is a time: timestamp > "2026-11-21".
type Event struct {
	ID              string         `expr:"id"` // "e17" is the 17th of the log
	Timestamp       time.Time      `expr:"timestamp"`
	EventType       string         `expr:"event_type"`
	TaskID          string         `expr:"task_id"`
	TaskName        string         `expr:"task_name"`
	Agent           string         `expr:"agent"`
	Result          string         `expr:"result"`
	DurationSeconds float64        `expr:"duration_seconds"`
	Details         map[string]any `expr:"details"`
}

// Rate is part of whole in 0..1, and 0 when there is no whole.
func Rate(part, whole int) float64 {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return min(1, float64(part)/float64(whole))
}
