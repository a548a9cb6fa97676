package loop

import (
	"slices"

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

const saidSkipped = "skipped"
