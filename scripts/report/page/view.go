package page

import (
	"cmp"
	"html/template"
	"slices"
	"strings"
	"time"

	"ralph/memory/session/folder"
	"ralph/memory/text"
	"ralph/scripts/report/insights"
)

// view is what the template shows: texts that are bounded and harmless, and
// numbers that are worded.
type view struct {
	CSS      template.CSS
	Title    string
	Number   string
	Kind     string
	Status   string
	Tone     string // the class of the status
	Verdict  string
	Reason   string
	Answer   string
	Facts    []fact
	Keys     []fact
	Parts    []anchor
	Notes    [][]piece
	Time     *timeline
	Where    *whereabouts
	Tokens   *tokens
	Found    []finding
	Failures []failure
	Failed   string
	Trips    []failure
	Choices  []choice
	Chosen   string
	Sure     []reliability
	Kinds    []cells
	Slowest  []cells
	Checks   []cells
	Features []feature
	Featured string
	Made     []string
	MadeMore string
	Against  []string
	Files    []string
	MadeAt   string
}

type fact struct{ Name, Value, Sub string }

type anchor struct{ ID, Name string }

type finding struct {
	Severity, Title, Rule, Where string
	Evidence, Suggestion         []piece
}

type failure struct {
	At, Task, Type, Text, Severity, Tone string
	Solved                               []piece
}

type choice struct {
	At, Task, Kind, Action, Confidence, Why, Outcome, Tone string
}

type feature struct {
	ID, Name, Category, Status, Purpose, Documented string
}

type cells []string

// How many entries of a list stand on the page.
const (
	maxRows  = 200
	maxFiles = 300
)

func newView(in Input) *view {
	d, g := in.Data, in.Figures
	v := &view{CSS: template.CSS(styles), Number: line(cmp.Or(d.Meta.SessionID, d.Dir), 60), Kind: line(g.Kind, 30)}
	v.Number = strings.TrimPrefix(v.Number, "session-")
	v.Title = line(cmp.Or(d.Meta.Name, d.Dir, "Session"), maxTitle)
	v.Status, v.Tone = standing(cmp.Or(g.Standing, d.Meta.Status))
	v.Verdict = verdict(in)
	v.Reason = line(d.Meta.ExitReason, maxText)
	if answer := line(d.Log.Answer, maxText); v.Reason != "" && strings.HasPrefix(answer, strings.TrimSuffix(v.Reason, "…")) {
		v.Reason = "" // what was said at the end begins with it
	}
	v.Answer = block(g.Answer, maxLong)
	v.head(in)
	v.keys(in)
	v.Time = newTimeline(in.Timeline)
	v.Where = newWhereabouts(g.Time, g.Seconds)
	v.Tokens = newTokens(in)
	v.lists(in)
	for _, n := range in.Notes {
		v.Notes = append(v.Notes, rich(line(n, maxText)))
	}
	for _, p := range d.Problems {
		if len(v.Notes) < 20 {
			v.Notes = append(v.Notes, rich(line(p.File+": "+p.Err.Error(), maxText)))
		}
	}
	if !in.Generated.IsZero() {
		v.MadeAt = in.Generated.UTC().Format("2 January 2006, 15:04 UTC")
	}
	v.anchors()
	return v
}

// standing words a status, however it is worded, and gives its tone.
func standing(s string) (word, tone string) {
	w := line(strings.ReplaceAll(s, "_", " "), 40)
	l := strings.ToLower(w)
	switch {
	case l == "":
		return "status unknown", "open"
	case strings.Contains(l, "progress"), strings.Contains(l, "running"):
		tone = "running"
	case strings.Contains(l, "incomplete"):
		tone = "stopped"
	case strings.Contains(l, "complet"), strings.Contains(l, "success"), strings.Contains(l, "done"), strings.Contains(l, "ended"):
		tone = "done"
	case strings.Contains(l, "fail"), strings.Contains(l, "error"):
		tone = "failed"
	case strings.Contains(l, "pause"), strings.Contains(l, "interrupt"), strings.Contains(l, "cancel"), strings.Contains(l, "stop"):
		tone = "stopped"
	default:
		tone = "open"
	}
	return w, tone
}

// verdict says in a sentence or two how it went.
func verdict(in Input) string {
	g := in.Figures
	var b strings.Builder
	t := g.Tasks
	switch {
	case t.Total > 0:
		b.WriteString(text.Grouped(t.Done) + " of " + text.Count(t.Total, "task") + " done")
		for _, p := range []struct {
			n    int
			what string
		}{{t.Failed, "failed"}, {t.Skipped, "left out"}, {t.Running, "at work"}, {t.Open, "open"}} {
			if p.n > 0 {
				b.WriteString(", " + text.Grouped(p.n) + " " + p.what)
			}
		}
	case in.Data.Log.Events > 0:
		b.WriteString("No tasks; " + text.Count(in.Data.Log.Events, "event"))
	default:
		b.WriteString("The files of this session tell of no work")
	}
	if g.Seconds != nil && *g.Seconds > 0 {
		b.WriteString(", in " + text.Length(*g.Seconds))
	}
	b.WriteString(".")
	if g.Errors > 0 {
		b.WriteString(" " + text.Count(g.Errors, "error"))
		switch {
		case g.Resolved == g.Errors:
			b.WriteString(", all solved")
		case g.Resolved > 0:
			b.WriteString(", " + text.Grouped(g.Resolved) + " solved")
		default:
			b.WriteString(", none solved")
		}
		b.WriteString(".")
	}
	if n := len(in.Findings); n > 0 {
		b.WriteString(" " + text.Count(n, "finding") + ".")
	}
	if n := len(in.Differences); n > 0 {
		b.WriteString(" The files contradict each other in " + text.Count(n, "point") + ".")
	}
	return b.String()
}

func (v *view) head(in Input) {
	d, g := in.Data, in.Figures
	add := func(name, value string) {
		if value != "" {
			v.Facts = append(v.Facts, fact{Name: name, Value: value})
		}
	}
	start, end := d.Meta.Start, d.Meta.End
	if start.IsZero() {
		start = d.Log.First
	}
	switch {
	case start.IsZero() && end.IsZero():
	case end.IsZero():
		add("When", stampOf(start)+" – no end stated")
	case start.IsZero():
		add("When", "ended "+stampOf(end))
	case start.UTC().Format(time.DateOnly) == end.UTC().Format(time.DateOnly):
		add("When", start.UTC().Format("Mon 2 January 2006, 15:04:05")+" – "+end.UTC().Format("15:04:05 UTC"))
	default:
		add("When", stampOf(start)+" – "+stampOf(end))
	}
	add("Model", line(g.Model, maxTitle))
	add("Run", line(g.RunID, 80))
	add("Sandbox", line(g.Sandbox, maxTitle))
	if d.Meta.PhaseName != "" {
		add("Phase", line(d.Meta.PhaseName, maxTitle))
	}
}

func stampOf(t time.Time) string { return t.UTC().Format("Mon 2 January 2006, 15:04:05 UTC") }

// keys are the figures that one looks for first.
func (v *view) keys(in Input) {
	g := in.Figures
	add := func(name, value, sub string) { v.Keys = append(v.Keys, fact{name, value, sub}) }
	if g.Seconds != nil {
		add("worked", text.Length(*g.Seconds), "")
	}
	if t := g.Tasks; t.Total > 0 {
		add("tasks done", text.Grouped(t.Done)+" / "+text.Grouped(t.Total), "")
		if t.Median != nil {
			sub := ""
			if t.P95 != nil {
				sub = "95 % within " + text.Length(*t.P95)
			}
			add("median task", text.Length(*t.Median), sub)
		}
	}
	if g.Tokens.Total > 0 || g.Tokens.Requests > 0 {
		sub := ""
		if g.Tokens.Requests > 0 {
			sub = text.Count(g.Tokens.Requests, "request")
		}
		add("tokens", brief(g.Tokens.Total), sub)
		add("cost", dollars(g.Tokens.Cost), "")
	}
	if n := sumOf(g.Gates); n.N > 0 {
		add("checks passed", percent(n.Done, n.N), text.Grouped(n.Done)+" of "+text.Grouped(n.N))
	}
	if g.Errors > 0 || g.Retries > 0 {
		sub := ""
		if g.Retries > 0 {
			sub = text.Count(g.Retries, "retry")
		}
		add("errors", text.Grouped(g.Errors), sub)
	}
	if g.Interrupt.N > 0 {
		sub := ""
		if g.Interrupt.Median != nil {
			sub = "at rest after " + text.Length(*g.Interrupt.Median)
		}
		add("interrupts", text.Grouped(g.Interrupt.N), sub)
	}
	if g.Waits.N > 0 {
		sub := ""
		if g.Waits.Max != nil {
			sub = "longest " + text.Length(*g.Waits.Max)
		}
		add("waits for you", text.Grouped(g.Waits.N), sub)
	}
	if g.Breakers > 0 {
		add("breaker trips", text.Grouped(g.Breakers), "")
	}
}

func sumOf(groups []Group) (sum Group) {
	for _, g := range groups {
		sum.N, sum.Done, sum.Failed = sum.N+g.N, sum.Done+g.Done, sum.Failed+g.Failed
	}
	return sum
}

func (v *view) lists(in Input) {
	d, g := in.Data, in.Figures
	for _, f := range head(in.Findings) {
		x := finding{Severity: line(string(f.Severity), 20), Title: line(f.Title, maxTitle), Rule: line(f.Rule, 60), Evidence: rich(line(f.Evidence, maxText)), Suggestion: rich(line(f.Suggestion, maxText))}
		var where []string
		if len(f.TaskIDs) > 0 {
			where = append(where, "tasks "+strings.Join(f.TaskIDs, ", "))
		}
		if len(f.Events) > 0 {
			more := ""
			if f.Count > len(f.Events) {
				more = " … of " + text.Grouped(f.Count)
			}
			where = append(where, "events "+strings.Join(f.Events, ", ")+more)
		}
		x.Where = line(strings.Join(where, "; "), maxText)
		v.Found = append(v.Found, x)
	}
	slices.SortStableFunc(v.Found, func(a, b finding) int { return grave(b.Severity) - grave(a.Severity) })
	v.failures(d)
	v.decisions(d)
	for _, c := range g.Confident {
		if r := newReliability(c); r != nil {
			v.Sure = append(v.Sure, *r)
		}
	}
	v.groups(g)
	for _, x := range head(d.Inventory.Features) {
		f := feature{ID: line(x.FeatureID, 40), Name: line(x.Name, maxTitle), Category: line(x.Category, 40), Status: line(x.Status, 40), Purpose: line(x.Purpose, maxText), Documented: "no"}
		if x.Documented {
			f.Documented = "yes"
		}
		v.Features = append(v.Features, f)
	}
	v.Featured = beyond(len(d.Inventory.Features), len(v.Features), "feature")
	v.artifacts(d)
	for _, x := range in.Differences {
		if len(v.Against) < maxRows {
			v.Against = append(v.Against, line(x, maxText))
		}
	}
	for _, f := range d.Files {
		v.Files = append(v.Files, line(f, maxTitle))
	}
}

func grave(severity string) int {
	return slices.Index([]string{string(insights.Low), string(insights.Medium), string(insights.High)}, severity)
}

// head bounds a list.
func head[T any](list []T) []T { return list[:min(len(list), maxRows)] }

// beyond says what a bounded list leaves out.
func beyond(all, shown int, what string) string {
	if all <= shown {
		return ""
	}
	return text.Grouped(all-shown) + " more of " + text.Count(all, what) + " are in the session's files."
}

func (v *view) failures(d folder.Data) {
	for _, f := range head(d.Failures) {
		x := failure{At: short(f.Time), Task: line(f.TaskID, 24), Type: line(f.ErrorType, 60), Text: line(f.ErrorMessage, maxText), Severity: line(string(f.Severity), 20), Tone: "failed"}
		solved := "unsolved"
		if f.Resolved {
			solved, x.Tone = "solved", "done"
			if f.ResolutionTimeSeconds != nil {
				solved += " after " + text.Length(*f.ResolutionTimeSeconds)
			}
		}
		if f.RecoveryAction != "" {
			solved += ": " + line(f.RecoveryAction, maxTitle)
		}
		if f.RetryCount > 0 {
			solved += ", " + text.Count(f.RetryCount, "retry")
		}
		x.Solved = rich(solved)
		v.Failures = append(v.Failures, x)
	}
	v.Failed = beyond(d.NFailures(), len(v.Failures), "error")
	for _, t := range head(d.Trips) {
		x := failure{At: short(t.Time), Type: line(t.Condition, maxTitle), Text: line(t.ActionTaken, maxText), Tone: "failed"}
		solved := "still open"
		if t.Resolved {
			if solved, x.Tone = "closed again", "done"; t.DurationSeconds > 0 {
				solved += " after " + text.Length(t.DurationSeconds)
			}
		}
		x.Solved = rich(solved)
		v.Trips = append(v.Trips, x)
	}
}

func (v *view) decisions(d folder.Data) {
	for _, x := range head(d.Decisions) {
		c := choice{At: short(x.Time), Task: line(x.TaskID, 24), Kind: line(strings.ReplaceAll(x.DecisionType, "_", " "), 40), Action: line(x.Decision.Action, maxTitle),
			Confidence: fraction(&x.Decision.Confidence), Why: line(x.Decision.Rationale, maxText), Outcome: line(x.Outcome, maxTitle)}
		_, c.Tone = standing(c.Outcome)
		if c.Outcome == "" {
			c.Outcome = "–"
		}
		v.Choices = append(v.Choices, c)
	}
	v.Chosen = beyond(d.NDecisions(), len(v.Choices), "decision")
}

func (v *view) groups(g Figures) {
	for _, k := range head(g.Kinds) {
		v.Kinds = append(v.Kinds, cells{line(k.Name, 60), text.Grouped(k.N), text.Grouped(k.Done), text.Grouped(k.Failed), percent(k.Done, k.Done+k.Failed), maybe(k.Median)})
	}
	for _, w := range head(g.Slowest) {
		v.Slowest = append(v.Slowest, cells{line(w.ID+" "+w.Name, maxTitle), text.Length(w.Seconds), text.Grouped(w.Attempts)})
	}
	for _, k := range head(g.Gates) {
		v.Checks = append(v.Checks, cells{line(k.Name, maxTitle), text.Grouped(k.N), text.Grouped(k.Done), text.Grouped(k.Failed), maybe(k.Median)})
	}
}

func (v *view) artifacts(d folder.Data) {
	seen := map[string]bool{}
	all := 0
	add := func(list []string) {
		for _, a := range list {
			if a == "" || seen[a] {
				continue
			}
			seen[a] = true
			if all++; len(v.Made) < maxFiles {
				v.Made = append(v.Made, line(a, maxTitle))
			}
		}
	}
	for _, t := range d.Progress.Tasks {
		add(t.Artifacts)
	}
	add(d.Log.Artifacts)
	v.MadeMore = beyond(all, len(v.Made), "file")
}

// short is a time within a session.
func short(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2 Jan 15:04:05")
}

func (v *view) anchors() {
	for _, p := range []struct {
		there    bool
		id, name string
	}{
		{len(v.Found) > 0, "findings", "Findings"}, {v.Time != nil, "timeline", "Timeline"}, {v.Where != nil, "time", "Time"}, {v.Tokens != nil, "tokens", "Tokens and cost"},
		{len(v.Failures)+len(v.Trips) > 0, "errors", "Errors"}, {len(v.Sure) > 0, "confidence", "Confidence"}, {len(v.Choices) > 0, "decisions", "Decisions"},
		{len(v.Kinds)+len(v.Slowest)+len(v.Checks) > 0, "tasks", "Tasks and checks"}, {len(v.Features) > 0, "features", "Features"}, {len(v.Made) > 0, "files", "Files made"},
		{len(v.Against) > 0, "contradictions", "Contradictions"}, {len(v.Files)+len(v.Notes) > 0, "data", "Data"},
	} {
		if p.there {
			v.Parts = append(v.Parts, anchor{p.id, p.name})
		}
	}
}
