package exchange

import "time"

// Snapshot is `.ralph/sessions/FEATURE.json`: how a run stands, so that it can
// go on where it was. Times are UTC.
type Snapshot struct {
	Version        int                 `json:"version"` // 1
	Feature        string              `json:"feature"`
	SessionID      string              `json:"sessionId"`
	SessionDir     string              `json:"sessionDir"` // relative to the project's root
	Status         string              `json:"status"`
	Phase          string              `json:"phase"`
	Phases         []SnapshotPhase     `json:"phases"`
	Iteration      int                 `json:"iteration"`
	MaxIterations  int                 `json:"maxIterations"`
	Tasks          SnapshotCount       `json:"tasks"`
	ActiveTaskIDs  []string            `json:"activeTaskIds"`
	SkippedTaskIDs []string            `json:"skippedTaskIds"`
	Iterations     []SnapshotIteration `json:"iterations"`
	Tokens         SnapshotTokens      `json:"tokens"`
	Git            SnapshotGit         `json:"git"`
	Agent          SnapshotAgent       `json:"agent"`
	Tracker        SnapshotTracker     `json:"tracker"`
	StartedAt      time.Time           `json:"startedAt"`
	UpdatedAt      time.Time           `json:"updatedAt"`
	PausedAt       *time.Time          `json:"pausedAt,omitempty"`
	EndedAt        *time.Time          `json:"endedAt,omitempty"`
	ExitReason     string              `json:"exitReason,omitempty"`
	UI             SnapshotUI          `json:"ui"`
	Cwd            string              `json:"cwd"`
}

// SnapshotPhase is a phase of a run.
type SnapshotPhase struct {
	ID        string     `json:"id"`
	Status    string     `json:"status"`
	StartedAt *time.Time `json:"startedAt"`
	EndedAt   *time.Time `json:"endedAt"`
}

// SnapshotCount counts tasks.
type SnapshotCount struct {
	Completed int `json:"completed"`
	Total     int `json:"total"`
}

// SnapshotIteration is one iteration of a run.
type SnapshotIteration struct {
	Iteration     int       `json:"iteration"`
	Status        string    `json:"status"`
	TaskID        string    `json:"taskId"`
	TaskTitle     string    `json:"taskTitle"`
	TaskCompleted bool      `json:"taskCompleted"`
	DurationMS    float64   `json:"durationMs"`
	Error         string    `json:"error,omitempty"`
	StartedAt     time.Time `json:"startedAt"`
	EndedAt       time.Time `json:"endedAt"`
}

// SnapshotTokens counts tokens.
type SnapshotTokens struct {
	Input       int64 `json:"input"`
	Output      int64 `json:"output"`
	CachedInput int64 `json:"cachedInput"`
}

// SnapshotGit is where the repository stood when the run began.
type SnapshotGit struct {
	Baseline string   `json:"baseline"`
	Branch   string   `json:"branch"`
	Dirty    []string `json:"dirty"`
}

// SnapshotAgent says who works.
type SnapshotAgent struct {
	Plugin string `json:"plugin"`
	Model  string `json:"model,omitempty"`
}

// SnapshotTracker says where the tasks come from.
type SnapshotTracker struct {
	Plugin     string         `json:"plugin"`
	EpicIDs    []string       `json:"epicIds"`
	PlanPath   string         `json:"planPath,omitempty"`
	TotalTasks int            `json:"totalTasks"`
	Tasks      []SnapshotTask `json:"tasks"`
}

// SnapshotTask is a task as the tracker had it.
type SnapshotTask struct {
	ID                 string `json:"id"`
	Title              string `json:"title"`
	Status             string `json:"status"`
	CompletedInSession bool   `json:"completedInSession"`
}

// SnapshotUI is what the screen showed.
type SnapshotUI struct {
	AgentsPanelVisible bool `json:"agentsPanelVisible"`
}
