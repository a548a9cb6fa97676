package scripts

import (
	"fmt"
	"strings"
	"time"

	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/memory/feature"
)

// planRun says how the run of a plan stands that is not told by a living Ralph: by
// its snapshot. A run that no process works on reads interrupted.
func (inv *invocation) planRun(d *statusDocument, alive bool) {
	list, err := feature.List(inv.features(inv.warning))
	if err != nil {
		inv.warning("the runs of plans cannot be read: " + err.Error())
		return
	}
	for _, l := range list {
		if l.Err != nil {
			if !strings.HasPrefix(l.Name, "session-") {
				inv.warning(l.Err.Error())
			}
			continue
		}
		if d.Run == nil {
			v := loop.Seen(l.Snapshot)
			d.Run = &v
			if d.Question == nil && !d.Live {
				d.Question = v.Question
			}
		}
		if d.Run.Feature == l.Name && !d.Live {
			inv.ranLast(d, l, alive)
		}
		break
	}
}

// ranLast takes what the newest run says into the state of the project, when
// nothing was done after it.
func (inv *invocation) ranLast(d *statusDocument, l feature.Listed, alive bool) {
	s := l.Snapshot
	// The session and its result document are written after the last snapshot.
	same := d.Last != nil && d.Last.Session != nil && *d.Last.Session == s.SessionID
	if alive {
		return // who holds the project does not answer: what it does is not known
	}
	if r := d.Recovery; s.Status.Resumable() && (r == nil || r.Session == nil || *r.Session == s.SessionID) {
		if d.Recovery == nil {
			d.Recovery = &statusRecovery{Verdict: verdictSame, Why: "the run " + s.Feature + " was " + howEnded(s), Torn: []string{}}
		}
		r := d.Recovery
		r.From, r.Iteration, r.Feature, r.Session = optional(s.SessionID), s.Iteration, optional(s.Feature), optional(s.SessionID)
		r.Lost = lostText(s)
		r.Tasks = begunOf(s)
	}
	if d.Last != nil && d.Last.At != nil && d.Last.At.After(s.UpdatedAt) && !same {
		return // something else was done since
	}
	d.State, d.Session = string(s.Status), optional(s.SessionID)
	if s.Status == feature.Idle || s.Status == "" {
		d.State = stateIdle
	}
	at := s.UpdatedAt
	if s.EndedAt != nil {
		at = *s.EndedAt
	}
	d.Since = instant(at)
	if !same {
		d.Last = &statusLast{Status: d.State, At: instant(at), Reason: optional(s.ExitReason), Session: optional(s.SessionID)}
		d.RunID = nil
	}
	d.Model = optional(s.Agent.Model)
	d.Task = optional("work through the plan " + orWord(s.Tracker.PlanPath, s.Tracker.Plugin))
	d.Tasks = result.TaskCount(countsOnly(d.Run.Counts))
}

// countsOnly leaves out the sum.
func countsOnly(c loop.Counts) result.TaskCount {
	return result.TaskCount{Done: c.Done, Failed: c.Failed, Skipped: c.Skipped, Open: c.Open}
}

// lostText says what of a run that was cut off is not kept: the work of an attempt
// since its last boundary.
func lostText(s feature.Snapshot) string {
	if s.Status != feature.Interrupted || len(s.ActiveTaskIDs) == 0 {
		return ""
	}
	return fmt.Sprintf("what was being done on %s since the last boundary, %s; the trees of its agents are kept",
		strings.Join(s.ActiveTaskIDs[:min(5, len(s.ActiveTaskIDs))], ", "), s.UpdatedAt.UTC().Format(time.RFC3339))
}

// runReport adds how a run stands to the text of a status.
func runReport(v loop.View, now time.Time, add func(name, format string, args ...any)) {
	words := []string{oneLine(v.Feature, 60), oneLine(string(v.Status), 20)}
	if v.Phase != "" {
		words = append(words, "phase "+oneLine(v.Phase, 40))
	}
	if it := iterationText(v); it != "" {
		words = append(words, it)
	}
	if plan := orWord(v.Plan, v.Tracker); plan != "" {
		words = append(words, oneLine(plan, 60))
	}
	if len(v.Epics) > 0 {
		words = append(words, "epics "+oneLine(strings.Join(v.Epics, ", "), 60))
	}
	add("run", "%s", strings.Join(words, ", "))
	c := v.Counts
	add("", "%s %d of %d done, %d failed, %d skipped, %d open", bar(c.Done+c.Failed+c.Skipped, c.Total, 20), c.Done, c.Total, c.Failed, c.Skipped, c.Open)
	for i, r := range v.Active {
		if i == shownItems {
			add("", "and %d more", len(v.Active)-i)
			break
		}
		add("", "%s", strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", oneLine(r.ID, 40), oneLine(r.Status, 20), oneLine(r.Agent, 40), ago(r.Since, now), oneLine(r.Title, 60))))
	}
	if v.Waiting != nil {
		add("", "%s", waitText(*v.Waiting, now))
	}
	if v.Question != nil {
		add("", "asks: %s", oneLine(v.Question.Text, 160))
	}
	if v.Breaker != "" {
		add("", "breaker %s", oneLine(v.Breaker, 20))
	}
	if v.Reason != "" {
		add("", "%s", oneLine(v.Reason, 160))
	}
}
