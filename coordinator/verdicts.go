package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/memory/session/folder"
	"ralph/workers/agent"
	"ralph/workers/tools"
)

// gate tells what a check said.
func (t *chronicle) gate(e agent.Event) {
	code, passed := 0, e.OK != nil && *e.OK
	if e.ExitCode != nil {
		code = *e.ExitCode
	}
	result, target := "failed", 0.0
	if passed {
		result = "passed"
	}
	var took time.Duration
	if e.DurationMS != nil {
		took = time.Duration(*e.DurationMS) * time.Millisecond
	}
	details := map[string]any{"check": e.Text, "exit_code": code, "reason": e.Reason, "agent": e.Agent}
	if e.Ref != "" {
		details["tree"] = e.Ref
	}
	t.files.Log(folder.Event{Time: e.Time, Type: folder.GateChecked, TaskID: cmp.Or(e.TaskID, t.task), Result: result, Duration: took, Details: details})
	gate := checkGate(e.Text)
	gate.Passed = &passed
	t.files.Gate(gate)
	t.files.Measure(folder.Metric{Name: "check_exit_code", Value: float64(code), Unit: "exit code", Target: &target, Source: e.Text, MeasuredAt: e.Time})
	t.validates(true, e.Text)
}

// checkGate is how the session's files list a check, without its result.
func checkGate(command string) folder.Gate {
	return folder.Gate{Name: command, Metric: "exit_code", Operator: "=="}
}

// validates lists commands among the checks that are planned, and among those
// that were run if they were.
func (t *chronicle) validates(run bool, commands ...string) {
	commands = slices.DeleteFunc(slices.Clone(commands), func(c string) bool { return t.proved[c] })
	if len(commands) == 0 {
		return
	}
	if t.session.Validates(run, commands...); run {
		for _, c := range commands {
			t.proved[c] = true
		}
	}
}

// decision tells how a permission or a question was decided.
func (t *chronicle) decision(e agent.Event) {
	d := folder.Decision{Time: e.Time, TaskID: cmp.Or(e.TaskID, t.task), DecisionType: folder.DecisionAction, Outcome: e.Status}
	d.Context.CurrentTask = d.TaskID
	d.Context.AvailableActions = []string{"allow", "deny"}
	d.Decision.Action, d.Decision.Confidence, d.Decision.Rationale = "allow", 1, e.Rule
	other := "deny"
	if e.Status == "denied" {
		d.Decision.Action, other = other, d.Decision.Action
	}
	what := strings.TrimSpace(e.Tool + ": " + e.Text)
	switch {
	case e.Status == "asked":
		t.asked = asked{what, e.CallID, e.Time}
		if e.Type == agent.EventAsk {
			t.asked.what = e.Text
		}
		return
	case e.Type == agent.EventAsk:
		d.DecisionType, what = folder.DecisionHelp, t.asked.what
		d.Context.AvailableActions, d.Decision.Action, d.Decision.Rationale = nil, head(e.Text, maxToldBytes), "the user answered"
	case e.Status != "allowed" && e.Status != "denied":
		return
	case e.Rule == "":
		d.Decision.Rationale = "the user was asked"
	}
	if d.DecisionType == folder.DecisionAction {
		d.Against(other, 0)
	}
	by, waited, kind := "rule", time.Duration(0), "permission"
	if e.Type == agent.EventAsk {
		kind = folder.DecisionHelp
	}
	if !t.asked.at.IsZero() && t.asked.what == what && t.asked.call == e.CallID {
		by, waited = "user", max(0, e.Time.Sub(t.asked.at))
		t.asked = asked{}
	}
	d.Context.CurrentTask = head(strings.TrimSpace(d.Context.CurrentTask+" "+what), maxToldBytes)
	t.files.Decide(d)
	said := e.Status // in a word of the past, where the action is one of those that were available
	if e.Type == agent.EventAsk {
		said = d.Decision.Action
	}
	t.session.Note(fmt.Sprintf("decision: %s: %s (%s)", said, "`"+strings.ReplaceAll(head(what, maxToldBytes), "`", "'")+"`", d.Decision.Rationale))
	t.files.Log(folder.Event{Time: e.Time, Type: folder.Decided, TaskID: d.TaskID, Result: said, Duration: waited,
		Details: map[string]any{"decision_type": kind, "about": head(what, maxToldBytes), "by": by, "agent": e.Agent}})
}

// chose keeps a decision that an agent made for itself.
func (t *chronicle) chose(ch tools.Choice) {
	what, why := head(ch.What, maxToldBytes), head(ch.Why, maxToldBytes)
	d := folder.Decision{TaskID: t.task, DecisionType: folder.DecisionAction, Outcome: folder.OutcomeDecided}
	d.Context.CurrentTask, d.Context.AvailableActions = t.task, []string{what}
	d.Decision.Action, d.Decision.Rationale, d.Decision.Confidence = what, why, 1
	for _, a := range ch.Alternatives {
		a = head(a, maxToldBytes)
		d.Context.AvailableActions = append(d.Context.AvailableActions, a)
		d.Against(a, 0)
	}
	t.files.Decide(d)
	t.session.Note(fmt.Sprintf("decision: %s (%s)", "`"+strings.ReplaceAll(what, "`", "'")+"`", why))
	t.files.Log(folder.Event{Type: folder.Decided, TaskID: t.task, Result: what, Details: map[string]any{"decision_type": d.DecisionType, "why": why}})
}

// unanswered tells of the question that a stop took from the human.
func (t *chronicle) unanswered(at time.Time) {
	q := t.asked
	if t.asked = (asked{}); q.at.IsZero() {
		return
	}
	t.files.Log(folder.Event{Time: at, Type: folder.Decided, TaskID: t.task, Result: "unanswered", Duration: max(0, at.Sub(q.at)),
		Details: map[string]any{"decision_type": folder.DecisionHelp, "about": head(q.what, maxToldBytes), "by": "user"}})
}

// validated notes that a check was run of which the story does not hear.
func (b *book) validated(command string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.story != nil {
		b.story.validates(true, command)
	}
}

// features counts what was discovered and documented in the session.
func (b *book) features() (discovered, documented int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil {
		return 0, 0
	}
	x := b.session.Meta().Context
	return len(x.FeaturesDiscovered), len(x.FeaturesDocumented)
}

// validations notes which checks are planned.
func (b *book) validations(commands []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.story != nil {
		b.story.validates(false, commands...)
	}
}
