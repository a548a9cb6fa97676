package exchange

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/memory/feature"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// exportTUI gives a session in the form of ralph-tui. What was imported from
// there gives every field back; of one that went on here what the form has a
// place for is changed, and nothing else.
func exportTUI(v *view) (map[string][]byte, error) {
	original := v.originals(TUI)[tuiFile]
	if original != nil && v.unchanged() {
		return map[string][]byte{tuiFile: original}, nil
	}
	x := &tuiExport{view: v, before: map[string]folder.TaskStatus{}}
	if original != nil {
		top, err := readPairs(original)
		if err != nil {
			return nil, fmt.Errorf("%s %w", tuiFile, err)
		}
		if x.was, _, err = readTUI(original); err != nil {
			return nil, err
		}
		x.top = top
		skipped := setOf(x.was.Skipped)
		for _, t := range x.was.Tracker.Tasks {
			x.before[t.ID] = tuiTask(t.Status, skipped[t.ID])
		}
	} else {
		x.begin()
	}
	x.tasks()
	x.iterations()
	x.status()
	v.leftOut(TUI)
	data, err := indented(x.top)
	return map[string][]byte{tuiFile: data}, err
}

// tuiExport is an export in the making.
type tuiExport struct {
	*view
	top    pairs
	was    tuiSession // as it came; zero when it did not come from there
	before map[string]folder.TaskStatus
}

// begin makes the file of a session that did not come from there.
func (x *tuiExport) begin() {
	for _, f := range []struct {
		key   string
		value any
	}{{"version", 1}, {"sessionId", x.session.ID}, {"status", ""}, {"startedAt", stampOf(x.session.Start)}, {"updatedAt", ""}, {"currentIteration", 0}, {"maxIterations", 0},
		{"tasksCompleted", 0}, {"isPaused", false}, {"agentPlugin", "ralph"}} {
		x.top.set(f.key, f.value)
	}
	tracker := pairs{}
	tracker.set("plugin", "markdown")
	if s := x.snapshot; s != nil {
		x.top.set("agentPlugin", s.Agent.Plugin)
		x.top.set("startedAt", stampOf(s.StartedAt))
		if s.Agent.Model != "" {
			x.top.set("model", s.Agent.Model)
		}
		if s.Tracker.Plugin != "" {
			tracker.set("plugin", s.Tracker.Plugin)
		}
		if len(s.Tracker.EpicIDs) > 0 {
			tracker.set("epicId", s.Tracker.EpicIDs[0])
		}
		if n := len(s.Tracker.EpicIDs); n > 1 {
			x.notes = append(x.notes, fmt.Sprintf("ralph-tui has a place for one epic: %s left out", strings.Join(s.Tracker.EpicIDs[1:], ", ")))
		}
		if s.Tracker.PlanPath != "" {
			tracker.set("prdPath", s.Tracker.PlanPath)
		}
	}
	tracker.set("totalTasks", 0)
	tracker.set("tasks", []any{})
	x.top.set("trackerState", tracker)
	for _, key := range []string{"iterations", "skippedTaskIds", "activeTaskIds"} {
		x.top.set(key, []any{})
	}
	x.top.set("cwd", x.root)
	x.top.set("subagentPanelVisible", x.snapshot != nil && x.snapshot.UI.AgentsPanelVisible)
}

// tasks puts the states that changed over the tracker's list.
func (x *tuiExport) tasks() {
	tracker, err := readPairs(x.top.get("trackerState"))
	if err != nil {
		tracker = pairs{}
	}
	list := readList(tracker.get("tasks"))
	at := map[string]int{}
	for i, raw := range list {
		if task, err := readPairs(raw); err == nil {
			at[task.text("id")] = i
		}
	}
	titles, skipped, active := x.titles(), slices.Clone(x.was.Skipped), []string{}
	changed := false
	for _, t := range x.data.Progress.Tasks {
		was, known := x.before[t.TaskID]
		if t.Status == folder.TaskInProgress || t.Status == folder.TaskPaused {
			active = append(active, t.TaskID)
		}
		if known && was == t.Status {
			continue
		}
		changed = true
		task := pairs{}
		i, listed := at[t.TaskID]
		if listed {
			task, _ = readPairs(list[i]) // it was read above
		} else {
			task.set("id", t.TaskID)
			task.set("title", first(titles[t.TaskID], t.TaskID))
			i, list = len(list), append(list, nil)
			at[t.TaskID] = i
		}
		task.set("status", trackerWord(t.Status))
		task.set("completedInSession", t.Status == folder.TaskCompleted)
		list[i] = task.bytes()
		skipped = slices.DeleteFunc(skipped, func(id string) bool { return id == t.TaskID })
		if t.Status == folder.TaskSkipped {
			skipped = append(skipped, t.TaskID)
		}
		if t.Status == folder.TaskError {
			x.notes = append(x.notes, fmt.Sprintf("task %s was given up: ralph-tui knows no such task, it goes as open", clipped(t.TaskID)))
		}
	}
	if !changed {
		return
	}
	done := 0
	for _, raw := range list {
		if task, err := readPairs(raw); err == nil && string(task.get("completedInSession")) == "true" {
			done++
		}
	}
	tracker.set("tasks", list)
	tracker.set("totalTasks", len(list))
	x.top.set("trackerState", tracker)
	x.top.set("tasksCompleted", done)
	x.top.set("skippedTaskIds", some(skipped))
	x.top.set("activeTaskIds", active)
}

// titles are what the tasks are called, as far as the run or the log says.
func (v *view) titles() map[string]string {
	titles := map[string]string{}
	if v.snapshot == nil {
		return titles
	}
	for _, it := range v.snapshot.Iterations {
		titles[it.TaskID] = it.TaskTitle
	}
	for _, t := range v.snapshot.Tracker.Tasks {
		titles[t.ID] = t.Title
	}
	return titles
}

// iterations adds those that were made here.
func (x *tuiExport) iterations() {
	if x.snapshot == nil {
		return
	}
	list := readList(x.top.get("iterations"))
	fresh := x.snapshot.Iterations[min(len(x.was.Iterations), len(x.snapshot.Iterations)):]
	for _, it := range fresh {
		list = append(list, tuiRound(it).bytes())
	}
	if len(fresh) > 0 {
		x.top.set("iterations", list)
	}
	if n := x.snapshot.Iteration; n != x.was.CurrentIteration {
		x.top.set("currentIteration", n)
	}
	if n := x.snapshot.MaxIterations; n != x.was.MaxIterations {
		x.top.set("maxIterations", n)
	}
}

func tuiRound(it feature.Iteration) pairs {
	p := pairs{}
	status := it.Status
	switch {
	case it.TaskCompleted:
		status = "completed"
	case status != "interrupted" && status != "skipped" && status != "running":
		status = "failed"
	}
	p.set("iteration", it.Iteration)
	p.set("status", status)
	p.set("taskId", it.TaskID)
	p.set("taskTitle", it.TaskTitle)
	p.set("taskCompleted", it.TaskCompleted)
	p.set("durationMs", it.DurationMS)
	if it.Error != "" {
		p.set("error", it.Error)
	}
	p.set("startedAt", stampOf(it.StartedAt))
	p.set("endedAt", stampOf(it.EndedAt))
	return p
}

// status says how the session stands now.
func (x *tuiExport) status() {
	status := x.runStatus()
	x.top.set("status", status)
	x.top.set("isPaused", status == "paused")
	x.top.set("updatedAt", stampOf(x.session.Ended()))
	switch {
	case status != "paused":
		x.top.drop("pausedAt")
	case x.snapshot != nil && x.snapshot.PausedAt != nil && !x.snapshot.PausedAt.Equal(moment(x.was.PausedAt)):
		x.top.set("pausedAt", stampOf(*x.snapshot.PausedAt))
	case x.top.at("pausedAt") < 0:
		x.top.set("pausedAt", stampOf(x.session.Ended()))
	}
}

func trackerWord(s folder.TaskStatus) string {
	switch s {
	case folder.TaskCompleted:
		return "completed"
	case folder.TaskInProgress:
		return "in_progress"
	case folder.TaskSkipped:
		return "cancelled"
	}
	return "open"
}

func stampOf(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// leftOut notes what of the session a form has no place for, one a line.
func (v *view) leftOut(form Format) {
	say := func(n int, noun string, of ...string) {
		them := "them"
		if n == 1 {
			them = "it"
		}
		if n > 0 {
			v.notes = append(v.notes, fmt.Sprintf("left out, %s has no place for %s: %s", form, them, strings.Join(append([]string{text.Count(n, noun)}, of...), " ")))
		}
	}
	sayNumber := func(n int, noun string) {
		if n > 0 {
			v.notes = append(v.notes, fmt.Sprintf("left out, %s has no place but for their number: %s", form, text.Count(n, noun)))
		}
	}
	tasks, artifacts := 0, 0
	for _, t := range v.data.Progress.Tasks {
		tasks++
		artifacts += len(t.Artifacts)
	}
	if form == Wiggum {
		sayNumber(tasks, "task")
		if v.snapshot != nil {
			sayNumber(len(v.snapshot.Iterations), "iteration")
		}
	} else if v.spent.Total > 0 {
		v.notes = append(v.notes, fmt.Sprintf("left out, %s has no place for them: the counts of tokens and what they cost", form))
	}
	say(artifacts, "artifact")
	say(len(v.data.Decisions), "decision")
	say(len(v.data.Failures), "error")
	say(len(v.data.Trips), "trip", "of the breaker")
	say(len(v.data.Metrics), "metric")
	say(len(v.data.Inventory.Features), "feature")
	say(len(v.data.Progress.Milestones), "milestone")
	say(len(v.data.Progress.QualityGates), "quality gate")
	if v.data.Log.Events > 0 && v.origin == nil {
		say(v.data.Log.Events, "event", "of the log")
	}
	if len(v.files["conversation.md"]) > 0 {
		v.notes = append(v.notes, fmt.Sprintf("left out, %s has no place for it: the conversation", form))
	}
}

// numberIn reads a whole number of a summary.
func numberIn(raw json.RawMessage) (int, bool) {
	var n int
	if json.Unmarshal(raw, &n) != nil {
		return 0, false
	}
	return n, true
}
