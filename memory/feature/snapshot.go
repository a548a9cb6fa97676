package feature

import (
	"encoding/json"
	"slices"
	"time"
)

// Status is how a run stands.
type Status string

// The status words of a run.
const (
	Idle         Status = "idle"
	Initializing Status = "initializing"
	Running      Status = "running"
	Pausing      Status = "pausing"
	Paused       Status = "paused"
	Stopping     Status = "stopping"
	Interrupted  Status = "interrupted"
	Completed    Status = "completed"
	Failed       Status = "failed"
	Cancelled    Status = "cancelled"
)

// Live says that a run of this status has a process that works on it.
func (s Status) Live() bool {
	return s == Initializing || s == Running || s == Pausing || s == Stopping
}

// Resumable says that a run of this status can go on where it was.
func (s Status) Resumable() bool { return s == Paused || s == Interrupted || s.Live() }

func (s Status) known() bool {
	switch s {
	case Idle, Initializing, Running, Pausing, Paused, Stopping, Interrupted, Completed, Failed, Cancelled:
		return true
	}
	return false
}

// Snapshot is `.ralph/sessions/FEATURE.json`: how a run stands, so that it can
// go on where it was. Times are UTC. Keys of the file that Ralph does not know
// come along with the value and are written again.
type Snapshot struct {
	Version        int         `json:"version"` // 1
	Feature        string      `json:"feature"`
	SessionID      string      `json:"sessionId"`
	SessionDir     string      `json:"sessionDir"` // relative to the project's root, with slashes
	Status         Status      `json:"status"`
	Phase          string      `json:"phase"`
	Phases         []Phase     `json:"phases"`
	Iteration      int         `json:"iteration"`     // how many began, in all processes
	MaxIterations  int         `json:"maxIterations"` // 0 is no limit
	Tasks          Count       `json:"tasks"`
	ActiveTaskIDs  []string    `json:"activeTaskIds"`
	SkippedTaskIDs []string    `json:"skippedTaskIds"`
	Iterations     []Iteration `json:"iterations"`
	Tokens         Tokens      `json:"tokens"`
	Git            Git         `json:"git"`
	Agent          Agent       `json:"agent"`
	Tracker        Tracker     `json:"tracker"`
	StartedAt      time.Time   `json:"startedAt"`
	UpdatedAt      time.Time   `json:"updatedAt"`
	PausedAt       *time.Time  `json:"pausedAt,omitempty"`
	EndedAt        *time.Time  `json:"endedAt,omitempty"`
	ExitReason     string      `json:"exitReason,omitempty"`
	UI             UI          `json:"ui"`
	Cwd            string      `json:"cwd"`
	// Run is the loop's own state: settings, spent budget, breaker, history. It
	// is kept as it is.
	Run json.RawMessage `json:"run,omitempty"`

	more *more // keys that are not ours
}

// Phase is a phase of a run.
type Phase struct {
	ID        string     `json:"id"`
	Status    string     `json:"status"`
	StartedAt *time.Time `json:"startedAt"`
	EndedAt   *time.Time `json:"endedAt"`
}

// Count counts tasks.
type Count struct {
	Completed int `json:"completed"`
	Total     int `json:"total"`
}

// Iteration is one iteration of a run: one task that was worked once.
type Iteration struct {
	Iteration     int       `json:"iteration"` // from 1
	Status        string    `json:"status"`
	TaskID        string    `json:"taskId"`
	TaskTitle     string    `json:"taskTitle"`
	TaskCompleted bool      `json:"taskCompleted"`
	DurationMS    float64   `json:"durationMs"`
	Error         string    `json:"error,omitempty"`
	StartedAt     time.Time `json:"startedAt"`
	EndedAt       time.Time `json:"endedAt,omitzero"` // zero, and left out, while it goes on
}

// Tokens counts tokens.
type Tokens struct {
	Input       int64 `json:"input"`
	Output      int64 `json:"output"`
	CachedInput int64 `json:"cachedInput"`
}

// Git is where the repository stood when the run began.
type Git struct {
	Baseline string   `json:"baseline"` // the commit; empty without a repository
	Branch   string   `json:"branch"`
	Dirty    []string `json:"dirty"`
}

// Agent says who works, and how.
type Agent struct {
	Plugin   string `json:"plugin"`
	Model    string `json:"model,omitempty"`
	Fallback string `json:"fallback,omitempty"`
	Prompt   string `json:"prompt,omitempty"`   // the template's file
	Sandbox  string `json:"sandbox,omitempty"`  //
	Parallel int    `json:"parallel,omitempty"` // 0: as many as there may be
}

// Tracker says where the tasks come from, and what they were.
type Tracker struct {
	Plugin     string   `json:"plugin"`
	EpicIDs    []string `json:"epicIds"`
	PlanPath   string   `json:"planPath,omitempty"`
	TotalTasks int      `json:"totalTasks"`
	Tasks      []Task   `json:"tasks"`
}

// Task is a task as the tracker had it.
type Task struct {
	ID                 string `json:"id"`
	Title              string `json:"title"`
	Status             string `json:"status"`
	CompletedInSession bool   `json:"completedInSession"`
}

// UI is what the screen showed.
type UI struct {
	AgentsPanelVisible bool `json:"agentsPanelVisible"`
}

// plain is a Snapshot without its methods.
type plain Snapshot

// MarshalJSON gives the form of the file: lists are never null, and keys that
// are not ours follow ours.
func (s Snapshot) MarshalJSON() ([]byte, error) {
	s.settle()
	data, err := json.Marshal(plain(s))
	if err != nil {
		return nil, err
	}
	return s.more.into(data)
}

// UnmarshalJSON reads that form.
func (s *Snapshot) UnmarshalJSON(data []byte) error {
	var p plain
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	*s = Snapshot(p)
	var err error
	s.more, err = unknown(data)
	return err
}

// settle makes absent lists empty and times UTC.
func (s *Snapshot) settle() {
	s.Phases, s.Iterations, s.Tracker.Tasks = some(s.Phases), some(s.Iterations), some(s.Tracker.Tasks)
	s.ActiveTaskIDs, s.SkippedTaskIDs = some(s.ActiveTaskIDs), some(s.SkippedTaskIDs)
	s.Git.Dirty, s.Tracker.EpicIDs = some(s.Git.Dirty), some(s.Tracker.EpicIDs)
	s.StartedAt, s.UpdatedAt = s.StartedAt.UTC(), s.UpdatedAt.UTC()
}

// Cut is the snapshot of a run whose process is dead, as it reads: what was
// being worked was interrupted, at the last moment of which the file tells.
func (s Snapshot) Cut() Snapshot {
	if !s.Status.Live() {
		return s
	}
	at := s.UpdatedAt
	s.Status, s.PausedAt = Interrupted, &at
	if s.ExitReason == "" {
		s.ExitReason = "it was cut off: the Ralph that ran it is gone"
	}
	s.Iterations = slices.Clone(s.Iterations)
	for i, it := range s.Iterations {
		if it.EndedAt.IsZero() {
			s.Iterations[i].Status, s.Iterations[i].EndedAt = string(Interrupted), at
			s.Iterations[i].DurationMS = max(0, float64(at.Sub(it.StartedAt).Milliseconds()))
		}
	}
	return s
}

func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
