package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/feature"
	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/memory/session/keep"
)

const tuiFile = "session.json"

// tuiSession is `.ralph-tui/session.json`, version 1, as far as it is read. All
// of it is kept as it is beside.
type tuiSession struct {
	Version          *int           `json:"version"`
	SessionID        string         `json:"sessionId"`
	Status           string         `json:"status"`
	StartedAt        string         `json:"startedAt"`
	UpdatedAt        string         `json:"updatedAt"`
	PausedAt         string         `json:"pausedAt"`
	CurrentIteration int            `json:"currentIteration"`
	MaxIterations    int            `json:"maxIterations"`
	TasksCompleted   int            `json:"tasksCompleted"`
	IsPaused         bool           `json:"isPaused"`
	AgentPlugin      string         `json:"agentPlugin"`
	Model            string         `json:"model"`
	Tracker          *tuiTracker    `json:"trackerState"`
	Iterations       []tuiIteration `json:"iterations"`
	Skipped          []string       `json:"skippedTaskIds"`
	Cwd              string         `json:"cwd"`
	Active           []string       `json:"activeTaskIds"`
	PanelVisible     bool           `json:"subagentPanelVisible"`
}

type tuiTracker struct {
	Plugin     string         `json:"plugin"`
	EpicID     string         `json:"epicId"`
	PRDPath    string         `json:"prdPath"`
	TotalTasks int            `json:"totalTasks"`
	Tasks      []feature.Task `json:"tasks"`
}

type tuiIteration struct {
	Iteration     int     `json:"iteration"`
	Status        string  `json:"status"`
	TaskID        string  `json:"taskId"`
	TaskTitle     string  `json:"taskTitle"`
	TaskCompleted bool    `json:"taskCompleted"`
	DurationMS    float64 `json:"durationMs"`
	Error         string  `json:"error"`
	StartedAt     string  `json:"startedAt"`
	EndedAt       string  `json:"endedAt"`
}

// looksTUI tells whether a JSON file is a session of ralph-tui.
func looksTUI(data []byte) bool {
	var keys map[string]json.RawMessage
	if readJSON(data, &keys) != nil {
		// What was named so and is broken is to be told as such.
		return strings.Contains(string(data[:min(len(data), 64<<10)]), `"trackerState"`)
	}
	return keys["sessionId"] != nil && keys["trackerState"] != nil
}

// readTUI reads the file and says what in it does not fit together.
func readTUI(data []byte) (tuiSession, []string, error) {
	var t tuiSession
	if err := readJSON(data, &t); err != nil {
		return t, nil, fmt.Errorf("%s %w", tuiFile, err)
	}
	switch {
	case t.SessionID == "":
		return t, nil, errors.New("session.json has no sessionId")
	case t.Tracker == nil:
		return t, nil, errors.New("session.json has no trackerState: it may be of an older version, which is not known")
	case t.Version != nil && *t.Version != 1:
		return t, nil, fmt.Errorf("session.json has version %d; known is 1", *t.Version)
	}
	var odd []string
	say := func(format string, args ...any) { odd = append(odd, fmt.Sprintf("session.json: "+format, args...)) }
	known, open := map[string]bool{}, map[string]string{}
	here, done := 0, 0
	for _, task := range t.Tracker.Tasks {
		if known[task.ID] {
			say("trackerState.tasks has %q twice", clipped(task.ID))
		}
		known[task.ID] = true
		if task.CompletedInSession {
			here++
		}
		if task.Status == "completed" {
			done++
			continue
		}
		open[task.ID] = task.Status
		if task.CompletedInSession {
			say("task %q is completedInSession, but its status is %q", clipped(task.ID), clipped(task.Status))
		}
	}
	for _, it := range t.Iterations {
		if word, ok := open[it.TaskID]; ok && it.TaskCompleted {
			say("iteration %d completed task %q, but its status is %q", it.Iteration, clipped(it.TaskID), clipped(word))
		}
	}
	if t.TasksCompleted != here {
		say("tasksCompleted is %d, but %d tasks are completedInSession", t.TasksCompleted, here)
	}
	if t.Tracker.TotalTasks != len(t.Tracker.Tasks) {
		say("trackerState.totalTasks is %d, but %d tasks are listed", t.Tracker.TotalTasks, len(t.Tracker.Tasks))
	}
	if n := len(t.Iterations); n > 0 && t.Iterations[n-1].Iteration != t.CurrentIteration || n == 0 && t.CurrentIteration > 1 {
		say("currentIteration is %d, but the iterations do not end there", t.CurrentIteration)
	}
	if t.IsPaused != (t.Status == "paused") {
		say("isPaused is %v, but the status is %q", t.IsPaused, clipped(t.Status))
	}
	if t.Status == "completed" && done < len(t.Tracker.Tasks) {
		say("the status is completed, but only %d of %d tasks are", done, len(t.Tracker.Tasks))
	}
	if t.Status == "running" {
		say("the status is running, but nobody works here: it is imported as interrupted")
	}
	for _, id := range slices.Concat(t.Active, t.Skipped) {
		if !known[id] {
			say("activeTaskIds or skippedTaskIds name %q, which trackerState.tasks does not", clipped(id))
		}
	}
	for what, text := range map[string]string{"startedAt": t.StartedAt, "updatedAt": t.UpdatedAt} {
		if moment(text).IsZero() {
			say("%s is no time: %q", what, clipped(text))
		}
	}
	slices.Sort(odd)
	return t, odd, nil
}

// convertTUI turns the file into a session and the snapshot of a run.
func (s *Source) convertTUI() error {
	t, odd, err := readTUI(s.files[tuiFile])
	if err != nil {
		return err
	}
	s.Name = "ralph-tui-" + t.SessionID
	if r := []rune(t.SessionID); len(r) > 8 {
		s.Name = "ralph-tui-" + string(r[:8])
	}
	progress := folder.Progress{LastUpdated: moment(t.UpdatedAt)}
	done, skipped := 0, setOf(t.Skipped)
	for _, task := range t.Tracker.Tasks {
		state := folder.TaskState{TaskID: task.ID, Status: tuiTask(task.Status, skipped[task.ID]), Details: task.Title, Artifacts: []string{}}
		if state.Status == folder.TaskCompleted {
			done++
		}
		progress.Tasks = append(progress.Tasks, state)
	}
	events, failures := tuiEvents(&progress, t)
	if n := len(progress.Tasks); n > 0 {
		progress.Progress.OverallProgress = float64(100*done) / float64(n)
	}
	if len(t.Active) > 0 {
		progress.Progress.CurrentTaskID = t.Active[0]
	}
	s.conv.build = func(id string) (map[string][]byte, error) { return documents(id, events, progress, failures) }
	snap := tuiSnapshot(t, done)
	s.conv.snapshot, s.conv.differences = &snap, odd
	s.conv.meta, err = runMetadata(t.SessionID, snap, len(failures))
	return err
}

// tuiTask translates a tracker's status word.
func tuiTask(status string, skipped bool) folder.TaskStatus {
	switch {
	case status == "completed":
		return folder.TaskCompleted
	case status == "cancelled" || skipped:
		return folder.TaskSkipped
	case status == "in_progress":
		return folder.TaskPaused // nobody works on it here
	}
	return folder.TaskPending
}

// tuiStatus translates a session's status word into that of a run at rest.
func tuiStatus(status string) string {
	switch status {
	case "completed", "failed", "paused":
		return status
	}
	return "interrupted"
}

func tuiEvents(p *folder.Progress, t tuiSession) (events []folder.Event, failures []folder.Failure) {
	events = append(events, folder.Event{Time: moment(t.StartedAt), Type: folder.SessionStart})
	last, sound := moment(t.StartedAt), true // the times of the iterations
	at := map[string][]int{}
	for i, task := range p.Tasks {
		at[task.TaskID] = append(at[task.TaskID], i)
	}
	for _, it := range t.Iterations {
		details := map[string]any{"iteration": it.Iteration}
		sound = sound && !moment(it.StartedAt).Before(last) && !moment(it.EndedAt).Before(moment(it.StartedAt))
		last = moment(it.StartedAt)
		took := time.Duration(it.DurationMS * float64(time.Millisecond))
		events = append(events, folder.Event{Time: moment(it.StartedAt), Type: folder.TaskStart, TaskID: it.TaskID, TaskName: it.TaskTitle, Details: details})
		if it.Error != "" {
			failures = append(failures, folder.Failure{Time: moment(it.EndedAt), TaskID: it.TaskID, ErrorType: "iteration", ErrorMessage: it.Error,
				Severity: folder.Medium, Resolved: it.TaskCompleted})
			events = append(events, folder.Event{Time: moment(it.EndedAt), Type: folder.Errored, TaskID: it.TaskID, Details: map[string]any{"iteration": it.Iteration, "message": it.Error}})
		}
		if it.TaskCompleted {
			events = append(events, folder.Event{Time: moment(it.EndedAt), Type: folder.TaskComplete, TaskID: it.TaskID, TaskName: it.TaskTitle, Result: "success", Duration: took, Details: details})
		}
		for _, i := range at[it.TaskID] {
			task := &p.Tasks[i]
			task.StartedAt = earliest(task.StartedAt, moment(it.StartedAt))
			if end := moment(it.EndedAt); it.TaskCompleted && task.Status == folder.TaskCompleted && !end.IsZero() {
				seconds := it.DurationMS / 1000
				task.CompletedAt, task.DurationSeconds = &end, &seconds
			}
		}
	}
	if sound { // iterations that went on side by side; times that are wrong stay as they are
		slices.SortStableFunc(events, func(a, b folder.Event) int { return a.Time.Compare(b.Time) })
	}
	return events, failures
}

func earliest(have *time.Time, t time.Time) *time.Time {
	if t.IsZero() || have != nil && !t.Before(*have) {
		return have
	}
	return &t
}

func tuiSnapshot(t tuiSession, done int) feature.Snapshot {
	snap := feature.Snapshot{Version: 1, Status: feature.Status(tuiStatus(t.Status)), Phases: []feature.Phase{}, Iteration: t.CurrentIteration, MaxIterations: t.MaxIterations,
		Tasks: feature.Count{Completed: done, Total: len(t.Tracker.Tasks)}, ActiveTaskIDs: some(t.Active), SkippedTaskIDs: some(t.Skipped), Iterations: []feature.Iteration{},
		Git: feature.Git{Dirty: []string{}}, Agent: feature.Agent{Plugin: t.AgentPlugin, Model: t.Model},
		Tracker:   feature.Tracker{Plugin: t.Tracker.Plugin, EpicIDs: []string{}, PlanPath: t.Tracker.PRDPath, TotalTasks: t.Tracker.TotalTasks, Tasks: some(t.Tracker.Tasks)},
		StartedAt: moment(t.StartedAt), UpdatedAt: moment(t.UpdatedAt), UI: feature.UI{AgentsPanelVisible: t.PanelVisible}, Cwd: t.Cwd}
	if t.Tracker.EpicID != "" {
		snap.Tracker.EpicIDs = append(snap.Tracker.EpicIDs, t.Tracker.EpicID)
	}
	if p := moment(t.PausedAt); !p.IsZero() {
		snap.PausedAt = &p
	}
	if snap.Status == "completed" || snap.Status == "failed" {
		snap.EndedAt = &snap.UpdatedAt
	}
	for _, it := range t.Iterations {
		snap.Iterations = append(snap.Iterations, feature.Iteration{Iteration: it.Iteration, Status: it.Status, TaskID: it.TaskID, TaskTitle: it.TaskTitle,
			TaskCompleted: it.TaskCompleted, DurationMS: it.DurationMS, Error: it.Error, StartedAt: moment(it.StartedAt), EndedAt: moment(it.EndedAt)})
	}
	return snap
}

func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// moment reads an ISO 8601 time; zero when it is none.
func moment(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// phaseNumber is the number of the phase that a run is in, from 1; 0 without one.
func phaseNumber(snap feature.Snapshot) int {
	return 1 + slices.IndexFunc(snap.Phases, func(p feature.Phase) bool { return p.ID == snap.Phase })
}

// runMetadata is the metadata of the session of a run.
func runMetadata(id string, snap feature.Snapshot, failures int) (*yaml.Node, error) {
	status, reason := session.Paused, string(snap.Status)
	switch snap.Status {
	case "completed":
		status, reason = session.Completed, ""
	case "failed":
		status, reason = session.Failed, ""
	}
	m := session.Metadata{SessionID: id, StartTime: snap.StartedAt.Truncate(time.Second), Status: status, Phase: phaseNumber(snap), PhaseName: snap.Phase, TasksCompleted: snap.Tasks.Completed,
		TasksTotal: snap.Tasks.Total, Config: session.RuntimeConfig{MaxIterations: snap.MaxIterations, ConfidenceThreshold: 0.7, HumanIntervention: "ask_first", LearningRate: 0.1}, ExitReason: reason}
	m.Performance.ErrorCount = failures
	if snap.Tasks.Completed > 0 {
		m.Performance.SuccessRate = 1 // a tracker knows no task that was given up
	}
	if snap.EndedAt != nil {
		end := snap.EndedAt.Truncate(time.Second)
		m.EndTime = &end
		m.Performance.TotalDurationSeconds = end.Sub(m.StartTime).Seconds()
	}
	node, err := keep.Encode(m)
	if err != nil {
		return nil, err
	}
	setScalar(node, "kind", "run", "!!str")
	return node, nil
}
