package page

import (
	"ralph/scripts/report/analysis"
)

// FiguresOf picks from an analysis what the page shows.
func FiguresOf(a analysis.Analysis) Figures {
	t := a.Tasks
	f := Figures{
		Kind: textOf(a.Session.Kind), Model: textOf(a.Session.Model), RunID: textOf(a.Session.RunID), Sandbox: textOf(a.Session.Sandbox), Answer: textOf(a.Session.Answer),
		Seconds: a.Time.Active,
		Tasks: TaskFigures{Total: t.Total, Done: t.Done, Failed: t.Failed, Skipped: t.ByStatus["skipped"], Running: t.ByStatus["in_progress"],
			Median: t.Durations.Median, P95: t.Durations.P95, Mean: t.Durations.Mean, Max: t.Durations.Max},
		Retries: a.Retries.N, Errors: a.Errors.N, Breakers: a.Trips,
		Interrupt: latencyOf(a.Interrupts.N, a.Interrupts.Latency),
		Waits:     latencyOf(a.Time.Waits.N, a.Time.Waits),
		Tokens:    spentOf("", a.Tokens.Usage),
	}
	f.Tasks.Open = max(0, t.Total-t.Done-t.Failed-f.Tasks.Skipped-f.Tasks.Running)
	if a.Errors.Resolved != nil {
		f.Resolved = *a.Errors.Resolved
	}
	if a.Tokens.Requests != nil {
		f.Tokens.Requests = *a.Tokens.Requests
	}
	for _, k := range t.ByKind {
		f.Kinds = append(f.Kinds, Group{Name: k.Kind, N: k.N, Done: k.Done, Failed: k.Failed, Median: k.Median})
	}
	for _, s := range t.Slowest {
		f.Slowest = append(f.Slowest, Work{ID: s.ID, Name: s.Name, Kind: s.Kind, Attempts: s.Attempts, Seconds: s.Seconds})
	}
	for _, g := range a.Gates.ByCheck {
		f.Gates = append(f.Gates, Group{Name: g.Name, N: g.N, Done: g.N - g.Failed, Failed: g.Failed})
	}
	f.spending(a)
	for _, c := range []struct {
		of string
		c  analysis.Calibration
	}{{"Decisions, before the work", a.Confidence.Decisions}, {"Agents, at the end of their work", a.Confidence.Agents}} {
		f.Confident = append(f.Confident, calibrationOf(c.of, c.c))
	}
	return f
}

// spending takes over where time and tokens went.
func (f *Figures) spending(a analysis.Analysis) {
	for _, s := range []struct {
		name string
		sum  *float64
	}{{"model", a.Time.Model.Sum}, {"tools", a.Time.Tools.Sum}, {"checks", a.Time.Checks.Sum}, {"human", a.Time.Human.Sum}, {"other", a.Time.Other}, {"idle", a.Time.Idle}} {
		if s.sum != nil {
			f.Time = append(f.Time, Share{s.name, *s.sum})
		}
	}
	agents := map[string]analysis.Agent{}
	for _, x := range a.Time.Agents {
		agents[x.ID] = x
	}
	for _, u := range a.Tokens.ByModel {
		f.ByModel = append(f.ByModel, spentOf(u.ID, u.Usage))
	}
	for _, u := range a.Tokens.ByAgent {
		s := spentOf(u.ID, u.Usage)
		s.Requests, s.Tools, s.Seconds = agents[u.ID].Turns, agents[u.ID].ToolCalls, agents[u.ID].Seconds
		f.ByAgent = append(f.ByAgent, s)
	}
	for _, u := range a.Tokens.ByTask {
		f.ByTask = append(f.ByTask, spentOf(u.ID, u.Usage))
	}
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func latencyOf(n int, d analysis.Distribution) Latency {
	return Latency{N: n, Median: d.Median, P95: d.P95, Max: d.Max}
}

func spentOf(name string, u analysis.Usage) Spent {
	s := Spent{Name: name, Cost: u.Cost}
	for _, x := range []struct {
		to   *int64
		from *int64
	}{{&s.Input, u.Input}, {&s.Cached, u.Cached}, {&s.Output, u.Output}, {&s.Reasoning, u.Reasoning}, {&s.Total, u.Total}} {
		if x.from != nil {
			*x.to = *x.from
		}
	}
	return s
}

func calibrationOf(of string, c analysis.Calibration) Calibration {
	out := Calibration{Of: of, N: c.N, Brier: c.Brier, Error: c.ECE}
	for _, b := range c.Bins {
		if b.N > 0 && b.MeanConfidence != nil && b.SuccessRate != nil {
			out.Bins = append(out.Bins, Bin{Low: b.From, High: b.To, N: b.N, Confidence: *b.MeanConfidence, Success: *b.SuccessRate})
		}
	}
	return out
}
