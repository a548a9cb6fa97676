package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ralph/memory/text"
	"ralph/scripts/report/analysis"
)

// maxRows bounds a table of a text; the JSON has more.
const maxRows = 10

// AnalysisText is the analysis of a session as Markdown that reads well as it
// is, within 80 columns.
func AnalysisText(s *Session) string {
	a, t := s.Analysis, &markdownText{}
	t.line("# Analysis of %s\n", titleOf(a.Session))
	t.line("%s\n", strings.Join(head(a), " · "))
	t.line("%s", strings.Join(verdict(a), " · "))
	t.section("Time")
	writeTime(t, a.Time)
	t.section("Tasks")
	writeTasks(t, a.Tasks)
	t.section("Tokens and cost")
	writeTokens(t, a)
	t.section("Confidence against outcome")
	writeConfidence(t, a)
	t.section("Errors, retries and checks")
	writeTrouble(t, a)
	t.section("Talk and decisions")
	writeTalk(t, a)
	if len(a.Notes) > 0 {
		t.section("About the data")
		notes := make([]string, len(a.Notes))
		for i, n := range a.Notes {
			notes[i] = noted(n)
		}
		t.items(notes)
	}
	return t.String()
}

// noted is a note in Markdown: the command that it names stays code.
func noted(n string) string {
	before, rest, found := strings.Cut(n, "`ralph ")
	if code, after, closed := strings.Cut(rest, "`"); found && closed && len(code) < 40 {
		return inline(before) + " `ralph " + code + "`" + after
	}
	return inline(n)
}

func titleOf(s analysis.Session) string {
	name := cmp.Or(s.ID, s.Dir, "a session")
	if s.ID != "" {
		name = "session " + name
	}
	name = inline(name)
	if s.Name != "" {
		name += ": " + inline(s.Name)
	}
	return name
}

// head says which session it is, in a few words.
func head(a analysis.Analysis) []string {
	s := a.Session
	words := []string{inline(cmp.Or(strings.ReplaceAll(s.Status, "_", " "), "status unknown"))}
	for _, p := range []*string{s.Kind, s.Model} {
		if p != nil {
			words = append(words, inline(*p))
		}
	}
	if s.StartedAt != nil {
		words = append(words, s.StartedAt.Format("2006-01-02 15:04")+" UTC")
	}
	if a.Time.Active != nil {
		words = append(words, length(a.Time.Active))
	}
	if a.Time.Breaks > 0 {
		words = append(words, "breaks of "+length(&a.Time.Breaks)+" not counted")
	}
	return words
}

// verdict says how it went, in a few words.
func verdict(a analysis.Analysis) []string {
	words := []string{}
	if a.Tasks.Total > 0 {
		w := fmt.Sprintf("**%s of %s done**", text.Grouped(a.Tasks.Done), text.Count(a.Tasks.Total, "task"))
		if a.Tasks.Failed > 0 {
			w += fmt.Sprintf(", %s failed", text.Grouped(a.Tasks.Failed))
		}
		words = append(words, w)
	} else {
		words = append(words, "no tasks")
	}
	if a.Tokens.Source != nil {
		words = append(words, tokens(a.Tokens.Total)+" tokens")
	}
	if a.Tokens.Cost != nil {
		words = append(words, money(a.Tokens.Cost))
	}
	words = append(words, text.Count(a.Errors.N, "error"), text.Count(a.Retries.N, "retry"), text.Count(a.Interrupts.N, "interrupt"))
	return words
}

func writeTime(t *markdownText, x analysis.Time) {
	if x.Total == nil {
		t.line("No event has a time.")
		return
	}
	row := func(name string, s analysis.Spent, n string) []string {
		return []string{name, length(s.Sum), length(s.Wall), share(s.Wall, x.Active), n}
	}
	often := func(s analysis.Spent, what string) string {
		if s.Wall == nil {
			return unknown
		}
		return text.Count(s.N, what)
	}
	rows := [][]string{row("the model", x.Model, often(x.Model, "request")), row("tools", x.Tools, often(x.Tools, "call")),
		row("checks", x.Checks, often(x.Checks, "run")), row("waiting for you", x.Human, often(x.Human, "wait"))}
	if x.Busy != nil {
		rows = append(rows, []string{"all of these", unknown, length(x.Busy), share(x.Busy, x.Active), ""})
	}
	rows = append(rows, []string{"at work otherwise", unknown, length(x.Other), share(x.Other, x.Active), ""},
		[]string{"idle", unknown, length(x.Idle), share(x.Idle, x.Active), ""})
	t.table([]string{"", "added up", "on the clock", "share", "how often"}, 1, rows)
	t.line("Agents work at the same time: added up, it can be more than the clock shows.")
	if len(x.ByTool) > 0 {
		rows = nil
		for _, r := range x.ByTool[:min(len(x.ByTool), maxRows)] {
			rows = append(rows, []string{cell(r.Name, 30), text.Grouped(r.N), text.Grouped(r.Failed), length(&r.Seconds)})
		}
		t.line("")
		t.table([]string{"tool", "calls", "failed", "time"}, 1, rows)
		t.rest(len(x.ByTool))
	}
}

// rest says what a table left out.
func (t *markdownText) rest(n int) {
	if n > maxRows {
		t.line("… and %s more; `--output json` has them.", text.Grouped(n-maxRows))
	}
}

func share(part, of *float64) string {
	if part == nil || of == nil || *of == 0 {
		return unknown
	}
	r := *part / *of
	return percent(&r)
}

func writeTasks(t *markdownText, x analysis.Tasks) {
	if x.Total == 0 {
		t.line("No tasks were recorded.")
		return
	}
	if len(x.ByStatus) > 0 {
		t.line("How they stand: %s.\n", counted(x.ByStatus, "_"))
	}
	if d := x.Durations; d.N > 0 {
		t.line("How long they took: median %s, 95 in 100 within %s, mean %s, longest %s.", length(d.Median), length(d.P95), length(d.Mean), length(d.Max))
	}
	if len(x.ByKind) > 0 {
		rows := [][]string{}
		for _, k := range x.ByKind[:min(len(x.ByKind), maxRows)] {
			rows = append(rows, []string{cell(k.Kind, 24), text.Grouped(k.N), text.Grouped(k.Done), text.Grouped(k.Failed), percent(k.SuccessRate), length(k.Median)})
		}
		t.line("")
		t.table([]string{"kind", "tasks", "done", "failed", "success", "median"}, 1, rows)
		t.rest(len(x.ByKind))
	}
	if len(x.Slowest) > 0 {
		rows := [][]string{}
		for _, s := range x.Slowest {
			rows = append(rows, []string{cell(s.ID, 14), cell(s.Name, 28), cell(strings.ReplaceAll(s.Status, "_", " "), 11), length(&s.Seconds), text.Grouped(s.Attempts)})
		}
		t.table([]string{"slowest", "title", "status", "time", "tries"}, 3, rows)
	}
}

// counted lists counts, the greatest first. blank is what is read as a space.
func counted(by map[string]int, blank string) string {
	keys := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(by[b]-by[a], cmp.Compare(a, b)) })
	parts := []string{}
	for i, k := range keys {
		if i == maxRows {
			parts = append(parts, fmt.Sprintf("%d more", len(keys)-maxRows))
			break
		}
		word := k
		if blank != "" {
			word = strings.ReplaceAll(k, blank, " ")
		}
		parts = append(parts, inline(word)+" ("+text.Grouped(by[k])+")")
	}
	return strings.Join(parts, ", ")
}

func writeTokens(t *markdownText, a analysis.Analysis) {
	x := a.Tokens
	if x.Source == nil {
		t.line("No file tells what was used.")
		return
	}
	row := func(name string, u analysis.Usage) []string {
		return []string{cell(name, 20), tokens(u.Input), tokens(u.Cached), tokens(u.Output), tokens(u.Total), money(u.Cost)}
	}
	rows := [][]string{row("all", x.Usage)}
	if len(x.ByModel) > 1 {
		for _, u := range x.ByModel {
			rows = append(rows, row(u.ID, u.Usage))
		}
	}
	t.table([]string{"", "input", "cached", "output", "total", "cost"}, 1, rows)
	facts := []string{}
	if x.Requests != nil {
		facts = append(facts, text.Count(*x.Requests, "request"))
	}
	if x.PerDoneTask != nil {
		per := int64(*x.PerDoneTask + 0.5)
		facts = append(facts, text.Grouped(per)+" tokens for each task that is done")
	}
	if x.CostPerDone != nil {
		facts = append(facts, money(x.CostPerDone)+" for each")
	}
	if x.Cost == nil {
		facts = append(facts, "the price is unknown")
	}
	if x.Estimated {
		facts = append(facts, "part of it is estimated")
	}
	t.line("%s.", strings.Join(facts, ", "))
	if len(a.Time.Agents) > 0 {
		rows = nil
		for _, g := range a.Time.Agents[:min(len(a.Time.Agents), maxRows)] {
			rows = append(rows, []string{cell(g.ID, 24), text.Grouped(g.Turns), text.Grouped(g.ToolCalls), tokens(g.Tokens), money(g.Cost), length(g.Seconds)})
		}
		t.line("")
		t.table([]string{"agent", "turns", "calls", "tokens", "cost", "time"}, 1, rows)
		t.rest(len(a.Time.Agents))
	}
	if len(x.ByTask) > 1 {
		rows = nil
		for _, u := range x.ByTask[:min(len(x.ByTask), maxRows)] {
			rows = append(rows, []string{cell(u.ID, 24), tokens(u.Total), percent(ratio(u.Total, x.Total)), money(u.Cost)})
		}
		t.table([]string{"task", "tokens", "share", "cost"}, 1, rows)
		t.rest(len(x.ByTask))
	}
}

func ratio(part, of *int64) *float64 {
	if part == nil || of == nil || *of == 0 {
		return nil
	}
	r := float64(*part) / float64(*of)
	return &r
}

func writeConfidence(t *markdownText, a analysis.Analysis) {
	x := a.Confidence
	if x.Decisions.N == 0 && x.Agents.N == 0 {
		t.line("Nothing with a confidence has an outcome.")
		return
	}
	row := func(name string, c analysis.Calibration) []string {
		return []string{name, text.Grouped(c.N), percent(c.MeanConfidence), percent(c.SuccessRate), score(c.Brier), percent(c.ECE)}
	}
	t.table([]string{"", "cases", "claimed", "came true", "Brier", "off by"}, 1,
		[][]string{row("decisions", x.Decisions), row("agents", x.Agents)})
	rows := [][]string{}
	for i, b := range x.Decisions.Bins {
		g := x.Agents.Bins[i]
		if b.N == 0 && g.N == 0 {
			continue
		}
		rows = append(rows, []string{fmt.Sprintf("%.0f%% to %.0f%%", b.From*100, b.To*100), text.Grouped(b.N), percent(b.SuccessRate), text.Grouped(g.N), percent(g.SuccessRate)})
	}
	t.table([]string{"claimed", "decisions", "came true", "agents", "came true"}, 1, rows)
	t.items([]string{
		"Decisions claim before the work, agents after it.",
		"Brier: the score of that name; 0 is perfect, 0.25 is a coin.",
		"Off by: how far claims and outcomes are apart on average.",
	})
}

func writeTrouble(t *markdownText, a analysis.Analysis) {
	items := []string{}
	if e := a.Errors; e.N == 0 {
		items = append(items, "No errors.")
	} else {
		item := text.Count(e.N, "error") + ": " + counted(e.ByType, "")
		if e.Unresolved != nil {
			item += fmt.Sprintf("; %s resolved, %s not", text.Grouped(*e.Resolved), text.Grouped(*e.Unresolved))
		}
		if d := e.Resolution; d.N > 0 {
			item += "; solved within " + length(d.Median) + " (median)"
		}
		items = append(items, item+".", "Severity: "+counted(e.BySeverity, "")+".")
	}
	if r := a.Retries; r.N > 0 {
		item := text.Count(r.N, "retry") + ": " + counted(r.ByType, "")
		if len(r.ByTask) > 0 {
			item += "; by task: " + counted(r.ByTask, "")
		}
		items = append(items, item+".")
	}
	if a.Trips > 0 {
		items = append(items, "The circuit breaker tripped "+text.Times(a.Trips)+".")
	}
	if x := a.Interrupts; x.N > 0 {
		item := text.Count(x.N, "interrupt") + ": " + counted(x.ByReason, "")
		if d := x.Latency; d.N == 1 {
			item += "; from the key to rest: " + length(d.Max)
		} else if d.N > 1 {
			item += fmt.Sprintf("; from the key to rest: median %s, 95 in 100 within %s, longest %s", length(d.Median), length(d.P95), length(d.Max))
		}
		items = append(items, item+".")
	}
	t.items(items)
	if g := a.Gates; g.N > 0 {
		rows := [][]string{}
		for _, r := range g.ByCheck[:min(len(g.ByCheck), maxRows)] {
			rows = append(rows, []string{cell(r.Name, 40), text.Grouped(r.N), text.Grouped(r.N - r.Failed), text.Grouped(r.Failed), length(&r.Seconds)})
		}
		t.line("")
		t.table([]string{"check", "runs", "passed", "failed", "time"}, 1, rows)
		t.rest(len(g.ByCheck))
	}
}

func writeTalk(t *markdownText, a analysis.Analysis) {
	items := []string{}
	if m := a.Messages; m.N > 0 {
		items = append(items, text.Count(m.N, "message")+": "+counted(m.ByRole, "")+".")
	}
	if d := a.Decisions; d.N > 0 {
		items = append(items, text.Count(d.N, "decision")+": "+counted(d.ByType, "_")+"; "+counted(d.ByAction, "_")+".")
	}
	if w := a.Time.Waits; w.N > 0 {
		items = append(items, fmt.Sprintf("Ralph waited for you %s: longest %s, median %s.", text.Times(w.N), length(w.Max), length(w.Median)))
	}
	if a.Compactions > 0 {
		items = append(items, "The conversation was compacted "+text.Times(a.Compactions)+".")
	}
	items = append(items, fmt.Sprintf("%s, %s of the journal%s.", text.Count(a.Events.N, "event"), text.Count(a.Session.Records, "record"), span(a.Events)))
	t.items(items)
}

func span(e analysis.Events) string {
	if e.First == nil || e.Last == nil {
		return ""
	}
	return fmt.Sprintf(", from %s to %s UTC", e.First.Format(time.DateTime), e.Last.Format(time.DateTime))
}
