package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy/breaker"
	"ralph/coordinator/policy/condition"
	"ralph/memory/session/folder"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// gate is a quality gate of the plan.
type gate struct {
	plan.Gate
	when *breaker.Gate // nil for one that is only a command
	due  bool          // its time has come: it is looked at again whenever others are
}

// How a gate stands, in the words of the state.
const (
	gatePassed   = "passed"
	gateAccepted = "accepted" // by a human, although it failed
)

func gatesOf(p *plan.Plan) ([]gate, error) {
	var list []gate
	for i, g := range p.Gates {
		if g.Name == "" {
			g.Name = fmt.Sprintf("gate %d", i+1)
		}
		made := gate{Gate: g}
		if g.Condition != "" {
			when, err := breaker.NewGate(g.Name, g.Condition)
			if err != nil {
				return nil, fmt.Errorf("read quality gate %q: %w", g.Name, err)
			}
			made.when = when
		}
		list = append(list, made)
	}
	return list, nil
}

// examine evaluates the gates whose time has come, and says whether all of them
// let the run through. One that fails asks a human, or ends the run where nobody
// is ever asked.
func (e *engine) examine(ctx context.Context, due func(plan.Gate) bool) bool {
	any := false
	for i := range e.gates {
		g := &e.gates[i]
		if !g.due && due(g.Gate) {
			g.due, any = true, true
		}
	}
	ok := true
	for i := range e.gates {
		g := &e.gates[i]
		if !g.due {
			continue
		}
		was := e.s.Gates[g.Name]
		if was == gateAccepted {
			continue
		}
		// A command is run once; a condition is seen anew with every other, so that
		// what the files say of it goes with what was measured last.
		if was == "" || any && g.Check == "" {
			why := e.examineOne(ctx, g)
			if ctx.Err() != nil {
				return false
			}
			if e.s.Gates[g.Name], e.dirty = gatePassed, true; why != "" {
				e.s.Gates[g.Name] = "failed: " + why
			}
		}
		if now := e.s.Gates[g.Name]; now != gatePassed {
			ok = false
			e.failedGate(g, now)
		}
	}
	return ok
}

// gateEntry is how the session's files list a gate, without its result.
func (e *engine) gateEntry(g *gate) folder.Gate {
	shown := folder.Gate{Name: g.Name, Metric: g.Condition}
	if g.when == nil {
		shown.Metric, shown.Operator = "gate_exit_code: "+g.Name, "=="
	} else if _, ok := metricOf(e.metrics(g.Task), g.Metric); ok {
		shown.Metric, shown.Operator, shown.Threshold = g.Metric, g.Operator, g.Threshold
	}
	return shown
}

// listGates lists the gates in the session's files before they are examined.
func (e *engine) listGates() {
	var list []folder.Gate
	for i := range e.gates {
		list = append(list, e.gateEntry(&e.gates[i]))
	}
	e.o.Files.Planned(list...)
}

// examineOne evaluates a gate and records that; "" when it passed, else why not.
func (e *engine) examineOne(ctx context.Context, g *gate) string {
	why := ""
	shown := e.gateEntry(g)
	if g.when != nil {
		m := e.metrics(g.Task)
		r := g.when.Eval(m)
		if !r.Passed() {
			why = first(r.Error, fmt.Sprintf("%s does not hold", g.Condition))
		}
		if value, ok := metricOf(m, g.Metric); ok {
			target := g.Threshold
			e.o.Files.Measure(folder.Metric{Name: g.Metric, Value: value, Target: &target, Source: "gate " + g.Name})
			if why != "" {
				why = fmt.Sprintf("%s is %v, to be %s %v", g.Metric, value, g.Operator, g.Threshold)
			}
		}
	}
	var took time.Duration
	details := map[string]any{"gate": g.Name, "condition": g.Condition, "check": g.Check}
	if g.Check != "" && why == "" {
		run := e.o.Hands.Check(ctx, plan.Check{Command: g.Check, Clean: g.Clean})
		if ctx.Err() != nil {
			return ""
		}
		took = run.Took
		if details["exit_code"] = run.ExitCode; run.Tree != "" {
			details["tree"] = run.Tree
		}
		if g.when == nil {
			target := 0.0
			e.o.Files.Measure(folder.Metric{Name: shown.Metric, Value: float64(run.ExitCode), Unit: "exit code", Target: &target, Source: g.Check})
		}
		if run.Failed() {
			why = fmt.Sprintf("%q failed with exit code %d: %s", g.Check, run.ExitCode, text.Clip(lastLines(run.Output), maxToldBytes))
		}
	}
	passed := why == ""
	shown.Passed = &passed
	result := "failed"
	if passed {
		result = gatePassed
	}
	e.o.Files.Gate(shown)
	details["reason"] = why
	e.o.Files.Log(folder.Event{Type: folder.GateChecked, TaskID: g.Task, Result: result, Duration: took, Details: details})
	e.emit(agent.Event{Type: agent.EventGate, TaskID: g.Task, Text: g.Name, Status: result, Reason: why, OK: yes(passed), DurationMS: millis(took)})
	return why
}

// lastLines is the end of an output, which says what went wrong.
func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// failedGate asks what is to be done about a gate, or ends the run.
func (e *engine) failedGate(g *gate, why string) {
	name, text := g.Name, fmt.Sprintf("quality gate %q %s", g.Name, why)
	if e.alone() {
		if e.end == nil {
			e.end = &ending{status: failedRun, reason: text}
		}
		return
	}
	e.raise(askGate, "", text, []string{sayGo, sayRetry, sayStop}, func(_ context.Context, option, said string) {
		if option == sayGo {
			e.s.Gates[name] = gateAccepted
			return
		}
		for n := range e.s.Gates {
			if e.s.Gates[n] != gateAccepted {
				delete(e.s.Gates, n)
			}
		}
		if said != "" {
			e.s.Guidance = say(e.s.Guidance, said)
		}
	})
}

// metricOf is the value of a metric by the name that conditions have for it.
func metricOf(m condition.Metrics, name string) (float64, bool) {
	if name == "" {
		return 0, false
	}
	data, err := json.Marshal(m)
	if err != nil {
		return 0, false
	}
	var all map[string]any
	if json.Unmarshal(data, &all) != nil {
		return 0, false
	}
	v, ok := all[name].(float64)
	return v, ok
}

// metrics are what conditions are about, with a task at hand.
func (e *engine) metrics(task string) condition.Metrics {
	c, n := &e.s.Tally, e.counts
	m := condition.Metrics{Task: task, Confidence: c.Confidence, ConfidenceMean: condition.Rate(1, 1), TasksTotal: n.Total, TasksDone: n.Done, TasksFailed: n.Failed,
		TasksSkipped: n.Skipped, TasksOpen: n.Open, Iterations: e.s.Iteration, Errors: c.Errors, Retries: c.Retries, Checks: c.Checks, CheckFailures: c.CheckFailures,
		ConsecutiveFailures: c.InARow, NoProgress: c.Idle, Questions: c.Questions, Tokens: e.s.Usage.Total, DurationSeconds: e.worked().Seconds(), Phase: e.phaseNow(),
		ErrorRate: condition.Rate(c.Failed, c.Ended), SuccessRate: condition.Rate(n.Done, n.Done+n.Failed), Progress: condition.Rate(n.Done+n.Skipped, n.Total)}
	if c.Decided > 0 {
		m.ConfidenceMean = c.Confidences / float64(c.Decided)
	}
	if cost := e.s.CostUSD; cost != nil {
		m.CostUSD = *cost
	}
	m.FeaturesDiscovered, m.FeaturesDocumented = e.o.Features()
	if t := e.s.Tasks[task]; t != nil && t.Sure > 0 {
		m.Confidence = t.Sure
	}
	return m
}

// reachedWithout reports whether a milestone without tasks is reached: with the
// phase of its name, else with the last task of the run.
func (e *engine) reachedWithout(m plan.Milestone) bool {
	if at := slices.IndexFunc(e.phases, func(p phase) bool { return m.OfPhase(p.id, p.name) }); at >= 0 {
		return e.phases[at].status == phaseDone
	}
	done := false
	for id := range e.scope {
		switch e.stands[id] {
		case plan.Done:
			done = true
		case plan.Skipped:
		default:
			return false
		}
	}
	return done
}

// milestones notes which of them are reached.
func (e *engine) milestones() {
	for _, m := range e.p.Milestones {
		reached := len(m.Tasks) > 0 && !slices.ContainsFunc(m.Tasks, func(id string) bool { return e.stands[id] != plan.Done })
		if len(m.Tasks) == 0 {
			reached = e.reachedWithout(m)
		}
		if was, told := e.s.Reached[m.Name]; told && was == reached {
			continue
		}
		e.s.Reached[m.Name], e.dirty = reached, true
		e.o.Files.Milestone(folder.Milestone{Name: m.Name, Target: first(m.Target, strings.Join(m.Tasks, ", ")), Achieved: reached})
	}
}
