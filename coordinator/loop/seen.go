package loop

import (
	"encoding/json"
	"fmt"
	"slices"

	"ralph/coordinator/plan"
	"ralph/memory/feature"
)

// Seen is a run as its snapshot tells it, for when nobody works on it.
func Seen(s feature.Snapshot) View {
	epics := s.Tracker.EpicIDs
	if epics == nil {
		epics = []string{}
	}
	v := View{Feature: s.Feature, Status: s.Status, Reason: s.ExitReason, Phase: s.Phase, Iteration: s.Iteration, MaxIterations: s.MaxIterations,
		Tracker: s.Tracker.Plugin, Plan: s.Tracker.PlanPath, Epics: epics, Active: []Row{}, Next: []Row{}, Recent: []Row{},
		Tokens: int(s.Tokens.Input + s.Tokens.Output), StartedAt: s.StartedAt, Counts: Counts{Total: s.Tasks.Total, Done: s.Tasks.Completed}}
	if st, _, err := restored(&s); err == nil && s.Status == feature.Paused {
		v.Question = st.Question
	}
	for _, t := range s.Tracker.Tasks {
		switch {
		case slices.Contains(s.SkippedTaskIDs, t.ID), t.Status == saidSkipped:
			v.Counts.Skipped++
		case t.Status == saidFailed:
			v.Counts.Failed++
		case slices.Contains(s.ActiveTaskIDs, t.ID):
			status := t.Status
			if !s.Status.Live() {
				status = string(feature.Interrupted)
			}
			v.Active = append(v.Active, Row{ID: t.ID, Title: t.Title, Status: status})
		case t.Status == "open" && len(v.Next) < maxRecent:
			v.Next = append(v.Next, Row{ID: t.ID, Title: t.Title, Status: t.Status})
		}
	}
	v.Counts.Open = max(0, v.Counts.Total-v.Counts.Done-v.Counts.Failed-v.Counts.Skipped)
	for _, it := range slices.Backward(s.Iterations) {
		v.Worked += it.DurationMS / 1000
		if len(v.Recent) < maxRecent {
			v.Recent = append(v.Recent, Row{ID: it.TaskID, Title: it.TaskTitle, Status: it.Status, Since: it.EndedAt, Reason: it.Error})
		}
	}
	return v
}

// Moved returns a snapshot of a run whose tasks an undo or a redo has given other
// statuses since. What is not a task of the run is passed over.
func Moved(s feature.Snapshot, to map[string]plan.Status) (feature.Snapshot, error) {
	s.Tracker.Tasks, s.SkippedTaskIDs = slices.Clone(s.Tracker.Tasks), slices.Clone(s.SkippedTaskIDs)
	for i := range s.Tracker.Tasks {
		t := &s.Tracker.Tasks[i]
		status, ok := to[t.ID]
		if !ok {
			continue
		}
		if t.Status == string(plan.Done) {
			s.Tasks.Completed--
		}
		if status == plan.Done {
			s.Tasks.Completed++
		}
		t.Status, t.CompletedInSession = string(status), status == plan.Done
		s.SkippedTaskIDs = slices.DeleteFunc(s.SkippedTaskIDs, func(id string) bool { return id == t.ID })
		if status == plan.Skipped {
			s.SkippedTaskIDs = append(s.SkippedTaskIDs, t.ID)
		}
	}
	if s.Status == feature.Completed {
		s.ExitReason = fmt.Sprintf("%d of %d tasks are done, after an undo", s.Tasks.Completed, s.Tasks.Total)
	}
	if len(s.Run) == 0 {
		return s, nil
	}
	var st state
	if err := json.Unmarshal(s.Run, &st); err != nil {
		return s, fmt.Errorf("read the state of run %q: %w", s.Feature, err)
	}
	for id := range to {
		if t := st.Tasks[id]; t != nil {
			t.reopen() // whether it is done is read from the plan
		}
		st.quit(id)
	}
	var err error
	if s.Run, err = json.Marshal(st); err != nil {
		return s, fmt.Errorf("encode the state of run %q: %w", s.Feature, err)
	}
	return s, nil
}

const saidSkipped = "skipped"
