package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"ralph/memory/session"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// The names of the files that figures may come from.
const (
	logFile       = "execution-log.json"
	decisionsFile = "decision-history.json"
	errorsFile    = "errors-and-retries.json"
	metadataFile  = "session-metadata.yaml"
	progressFile  = "progress-tracking.yaml"
)

// Result gives what all that adds up to, together with the other files. The
// log's events are not in d. It is called once, at the end. The settings are
// left out of it: d does not hold them.
func (c *Collector) Result(d folder.Data) Analysis {
	c.close()
	var a Analysis
	otherwise := c.tasks.takeProgress(d.Progress.Tasks)
	a.Session = c.session(d)
	a.Events = c.eventSum(d)
	a.Tasks, a.outcomes = c.tasks.result()
	if a.Tasks.Total == 0 && d.Meta.Total > 0 {
		a.Tasks.Total, a.Tasks.Done = d.Meta.Total, max(0, d.Meta.Completed)
	}
	a.Retries = c.retriesOf(d)
	a.Errors = c.errorsOf(d)
	a.Time = c.timeOf(&a)
	a.Tokens = c.tokensOf(a.Tasks.Done)
	a.Confidence.Decisions, a.Confidence.Agents = c.confidenceOf(d)
	a.Interrupts = most(&c.stops, &c.journal.stops).result()
	a.Messages.N, a.Messages.ByRole = c.messages, c.roles
	if c.messages == 0 {
		for _, n := range c.journal.roles {
			a.Messages.N += n
		}
		a.Messages.ByRole = c.journal.roles
	}
	a.Decisions = c.decisionsOf(d)
	a.Gates = c.checks.result()
	if c.journal.checks.n > c.checks.n {
		a.Gates = c.journal.checks.result()
	}
	a.Compactions = max(c.compacted, c.journal.compacted)
	a.Trips = max(c.trips, len(d.Trips))
	a.Notes = c.notes(d, &a, otherwise)
	return a
}

// most gives the source that tells of more.
func most(a, b *stops) *stops {
	if b.n > a.n {
		return b
	}
	return a
}

func (c *Collector) session(d folder.Data) Session {
	m, j := d.Meta, &c.journal
	return Session{
		ID: clip(folder.Number(cmp.Or(m.SessionID, d.Progress.SessionID))), Name: clip(m.Name), Dir: clip(d.Dir),
		Kind: optional(c.said.kind), Model: optional(cmp.Or(c.said.models, clip(j.said.model))), Sandbox: optional(clip(j.said.sandbox)),
		RunID: optional(cmp.Or(c.said.run, clip(j.said.run))), Status: clip(m.Status), ExitReason: clip(m.ExitReason), Answer: optional(c.said.answer),
		StartedAt: moment(earliest(m.Start, c.first, j.first)), EndedAt: moment(m.End), Starts: cmp.Or(c.starts, j.starts), Records: j.records, Config: map[string]any{},
	}
}

// earliest gives the first time that is stated, in the order given.
func earliest(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// moment is nil for no time.
func moment(t time.Time) *time.Time {
	if t.IsZero() || t.Year() < 1 || t.Year() > 9999 { // JSON has no others
		return nil
	}
	t = t.UTC()
	return &t
}

func (c *Collector) eventSum(d folder.Data) Events {
	by := words{}
	for _, t := range slices.Sorted(maps.Keys(d.Log.ByType)) {
		by.add(string(t), d.Log.ByType[t])
	}
	e := Events{N: c.events, ByType: by, First: moment(c.first), Last: moment(c.last), Unordered: d.Log.Unordered}
	if !c.first.IsZero() {
		e.SpanSeconds = seconds(c.last.Sub(c.first).Seconds())
	}
	return e
}

func (c *Collector) retriesOf(d folder.Data) Retries {
	by := words{}
	for id, k := range c.tasks.byID {
		if k.retries > 0 {
			by[id] = int(k.retries)
		}
	}
	r := Retries{N: c.retried, ByType: c.retries}
	if r.N == 0 { // the errors may tell of them
		for _, f := range d.EachFailure() {
			if f.RetryCount <= 0 {
				continue
			}
			r.N += f.RetryCount
			c.retries.add(f.ErrorType, f.RetryCount)
			if f.TaskID != "" {
				by.add(f.TaskID, f.RetryCount)
			}
		}
	}
	r.ByTask = by.top(maxListed)
	return r
}

func (c *Collector) errorsOf(d folder.Data) Errors {
	if d.NFailures() == 0 {
		e := Errors{N: c.failed, ByType: c.failures, BySeverity: c.severities}
		if c.failed > 0 {
			e.Source = optional(logFile)
		} else {
			e.Resolved, e.Unresolved = new(int), new(int)
		}
		return e
	}
	e := Errors{N: d.NFailures(), Source: optional(errorsFile), ByType: words{}, BySeverity: words{}, Resolved: new(int), Unresolved: new(int)}
	var took sample
	for _, f := range d.EachFailure() {
		words(e.ByType).add(f.ErrorType, 1)
		words(e.BySeverity).add(string(f.Severity), 1)
		if !f.Resolved {
			*e.Unresolved++
			continue
		}
		*e.Resolved++
		if f.ResolutionTimeSeconds != nil {
			took.add(*f.ResolutionTimeSeconds)
		}
	}
	e.Resolution = took.distribution()
	return e
}

func (c *Collector) timeOf(a *Analysis) Time {
	j := &c.journal
	t := Time{ByTool: runs(j.tools), Agents: agentList(c.agents())}
	journal := j.records > 0
	t.Model, t.Tools = j.model.told(j.requests > 0), j.tool.told(journal)
	if t.Model.Sum == nil && c.apiMS > 0 {
		t.Model = Spent{Sum: seconds(c.apiMS / 1000)}
	}
	t.Checks = bigger(&c.check, &j.check).told(c.events > 0 || journal)
	t.Human = bigger(&c.human, &j.human).told(journal)
	if t.Waits = c.waits.distribution(); j.human.sum > c.human.sum {
		t.Waits = j.waits.distribution()
	}
	first, last, breaks := c.first, c.last, c.breaks
	if c.events == 0 {
		breaks = j.breaks
	}
	if first.IsZero() || !j.first.IsZero() && j.first.Before(first) {
		first = j.first
	}
	if j.last.After(last) {
		last = j.last
	}
	if first.IsZero() {
		return t
	}
	total := last.Sub(first).Seconds()
	breaks = min(breaks, total)
	active := total - breaks
	for _, k := range c.tasks.byID { // events out of order may have told the end first
		c.atWork.add(k.start.time(), k.end.time())
	}
	for _, s := range c.busy.segments { // what is busy is at work
		c.atWork.add(time.UnixMicro(s.from), time.UnixMicro(s.to))
	}
	busy := 0.0
	if journal {
		busy = min(c.busy.seconds(), active)
		t.Busy = seconds(busy)
	}
	other := min(max(0, c.atWork.seconds()-busy), active-busy)
	t.Total, t.Active, t.Breaks = seconds(total), seconds(active), *seconds(breaks)
	t.Other, t.Idle = seconds(other), seconds(active-busy-other)
	return t
}

func bigger(a, b *share) *share {
	if b.sum > a.sum || b.n > a.n && b.sum == a.sum {
		return b
	}
	return a
}

// agents are those of the journal, or as the log tells of them when there is
// none.
func (c *Collector) agents() map[string]*agent {
	if len(c.journal.agents) > 0 {
		return c.journal.agents
	}
	return c.workers
}

// tokensOf takes the requests of the journal, else what the ends of runs say,
// else the ends of tasks.
func (c *Collector) tokensOf(done int) Tokens {
	j := &c.journal
	total := usage{}
	byAgent := func(yield func(string, usage) bool) {
		for id, a := range c.agents() {
			if !yield(id, a.spent) {
				return
			}
		}
	}
	byTask := func(yield func(string, usage) bool) {
		for id, k := range c.tasks.byID {
			u := k.spent
			if len(j.models) == 0 {
				u = k.told
			}
			if u != nil && !yield(id, *u) {
				return
			}
		}
	}
	t := Tokens{ByModel: listed(maps.All(j.models)), ByAgent: listed(byAgent), ByTask: listed(byTask)}
	for _, u := range j.models {
		total.add(u)
	}
	switch {
	case !total.none():
		t.Source, t.Requests, t.Estimated = optional(session.JournalFile), &j.requests, j.estimated
	case !c.runs.none():
		total, t.Source, t.Estimated = c.runs, optional(logFile), c.estimated
	case !c.ends.none():
		total, t.Source, t.Estimated = c.ends, optional(logFile), c.estimated
	}
	t.Usage = total.told()
	if done > 0 && !total.none() {
		t.PerDoneTask = rounded(float64(total.total)/float64(done), 10)
		if t.Cost != nil {
			t.CostPerDone = rounded(total.cost/float64(done), 1e6)
		}
	}
	return t
}

// confidenceOf holds the decisions against their outcomes, as the history tells
// of them, else as the log does, and the agents against those of their attempts.
func (c *Collector) confidenceOf(d folder.Data) (decisions, agents Calibration) {
	var told calibration
	for _, x := range d.EachDecision() {
		if well, known := outcomeOf(x.Outcome); known && predicts(x.DecisionType) {
			told.add(x.Decision.Confidence, well)
		}
	}
	if told.n == 0 {
		told = c.choices
	}
	claims := &c.claims
	if claims.n == 0 {
		claims = &c.journal.claims
	}
	return told.result(), claims.result()
}

func (c *Collector) decisionsOf(d folder.Data) Decisions {
	if d.NDecisions() == 0 {
		r := Decisions{N: c.deeds.n, ByType: c.deeds.types, ByAction: c.deeds.action}
		if r.N > 0 {
			r.Source = optional(logFile)
		}
		return r
	}
	r := Decisions{N: d.NDecisions(), Source: optional(decisionsFile), ByType: words{}, ByAction: words{}}
	for _, x := range d.EachDecision() {
		words(r.ByType).add(x.DecisionType, 1)
		words(r.ByAction).add(x.Decision.Action, 1)
	}
	return r
}

// maxNotes bounds the notes of one sort.
const maxNotes = 20

// notes say what is to be known about the data.
func (c *Collector) notes(d folder.Data, a *Analysis, otherwise int) []string {
	notes := []string{}
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for i, p := range d.Problems {
		if i == maxNotes {
			say("%d more files or entries could not be read", len(d.Problems)-maxNotes)
			break
		}
		say("%s: %s", clip(p.File), clip(p.Err.Error()))
	}
	if c.events == 0 {
		say("there are no events in %s", logFile)
	}
	if c.journal.records == 0 {
		say("there is no journal: what the model and the tools took is known only as far as the log tells")
	}
	if a.Events.Unordered > 0 {
		say("%s out of order: the time before it is later", text.Clause(a.Events.Unordered, "event", "is", "are"))
	}
	if n := c.starts; n > 1 {
		say("a Ralph began to work here %d times; what lies between is a break and no work", n)
	}
	if c.events > 0 && d.Log.ByType[folder.SessionEnd] == 0 {
		say("the log has no end: the session goes on, or broke off")
	}
	if len(a.outcomes) == 0 && d.Meta.Total > 0 {
		say("no file lists the tasks; their numbers are what %s says", metadataFile)
	}
	if otherwise > 0 {
		say("%s otherwise in %s than in the log; the former is used", text.Clause(otherwise, "task", "stands", "stand"), progressFile)
	}
	if c.tasks.more > 0 {
		say("there are more than %d tasks; %s of others not followed", c.tasks.most, text.Clause(c.tasks.more, "event", "is", "are"))
	}
	if n := len(d.Differences()); n > 0 {
		say("the files contradict each other in %s: `ralph sessions check` names them", text.Count(n, "point"))
	}
	return notes
}
