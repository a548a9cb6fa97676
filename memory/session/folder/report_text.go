package folder

import (
	"fmt"
	"strings"
	"time"

	"ralph/memory/markdown"
	"ralph/memory/text"
)

const (
	// maxListed bounds every list of a report.
	maxListed = 200
	// maxInline bounds a foreign text in a line, in characters.
	maxInline = 300
	// maxCell bounds one in a table.
	maxCell = 120
	// maxLinked bounds the iterations that are linked for one task.
	maxLinked = 12
)

// page collects the text of a report.
type page struct{ b strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

func (p *page) section(title string) { p.line("\n## %s\n", title) }

// items writes a list, or that there is nothing.
func (p *page) items(items []string) {
	if len(items) == 0 {
		p.line("None recorded.")
	}
	p.list(items)
}

func (p *page) list(items []string) {
	for i, item := range items {
		if i == maxListed {
			p.line("- … and %d more", len(items)-maxListed)
			break
		}
		p.line("- %s", item)
	}
}

// table writes rows below a head; nothing when there is none.
func (p *page) table(head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	p.line("| %s |", strings.Join(head, " | "))
	p.line("|%s", strings.Repeat("---|", len(head)))
	for _, row := range rows[:min(len(rows), maxListed)] {
		p.line("| %s |", strings.Join(row, " | "))
	}
	if n := len(rows) - maxListed; n > 0 {
		p.line("\n… and %d more", n)
	}
}

// inline makes foreign text a part of a line: what Markdown would obey is
// escaped.
func inline(s string) string { return markdown.Escape(s, maxInline) }

// cell is inline for a table.
func cell(s string) string { return markdown.EscapeCell(s, maxCell) }

// code is foreign text as a span of code, which nothing in it ends.
func code(s string) string {
	s = text.ClipRunes(text.VisibleLine(strings.Join(strings.Fields(text.ClipRunes(s, 8*maxCell)), " ")), maxCell)
	if s == "" {
		return "–"
	}
	return "`" + strings.ReplaceAll(strings.ReplaceAll(s, "`", "'"), "|", "\\|") + "`"
}

func (d Data) render(lessons []string) []byte {
	p, differences := &page{}, d.Differences()
	d = d.filled()
	p.line("# Session Final Report: session-%s\n", inline(d.number()))
	date := "unknown"
	if !d.Meta.Start.IsZero() {
		date = d.Meta.Start.UTC().Format(time.DateOnly)
	}
	name := inline(d.Meta.Name)
	if name == "" {
		name = inline(d.Dir)
	}
	p.line("**Session Name:** %s\n\n**Date:** %s\n\n**Status:** %s", name, date, titled(d.Meta.Status))
	p.section("Executive Summary")
	p.line("%s", d.summary())
	if n := len(differences); n > 0 {
		p.line("\nThe files of this session contradict each other in %s; see Raw Data.", text.Count(n, "point"))
	}
	if s := strings.TrimSpace(text.Visible(d.Log.Answer)); s != "" {
		p.line("\nWhat was said at the end:\n\n%s", strings.TrimSuffix(markdown.Fence(s, "text"), "\n"))
	}
	p.section("Progress")
	d.writeProgress(p)
	p.section("Artifacts Generated")
	p.items(d.artifacts())
	p.section("Metrics")
	d.writeMetrics(p)
	p.section("Challenges & Solutions")
	p.items(d.challenges())
	p.section("Lessons Learned")
	d.writeLessons(p, each(lessons))
	p.section("Next Steps")
	p.items(d.nextSteps())
	p.section("Raw Data")
	d.writeRaw(p, differences)
	return []byte(p.b.String())
}

func each(texts []string) (items []string) {
	for _, t := range texts {
		if t = inline(t); t != "" {
			items = append(items, t)
		}
	}
	return items
}

func titled(status string) string {
	switch statusWord(status) {
	case "in_progress":
		return "In Progress"
	case "completed":
		return "Completed"
	case "paused":
		return "Paused"
	case "error":
		return "Error"
	}
	if s := inline(status); s != "" {
		return s
	}
	return "Unknown"
}

func (d Data) summary() string {
	m := d.Meta
	var s []string
	when := "When the session began is not recorded."
	if !m.Start.IsZero() {
		when = "The session began at " + moment(m.Start)
		if !m.End.IsZero() {
			when += " and ended at " + moment(m.End) + fmt.Sprintf(" (%s)", text.Length(max(0, m.End.Sub(m.Start).Seconds())))
		} else {
			when += " and has no end yet"
		}
		when += "."
	}
	s = append(s, when)
	if reason := inline(m.ExitReason); reason != "" {
		how := "It ended because: "
		if m.End.IsZero() {
			how = "It stopped because: "
		}
		s = append(s, how+strings.TrimSuffix(reason, ".")+".")
	}
	n := d.tally()
	switch total := len(d.Progress.Tasks); {
	case total > 0 && (m.Total <= total || !d.Log.fills):
		content := fmt.Sprintf("Of %s %s completed", text.Count(total, "task"), were(n[TaskCompleted]))
		for _, x := range []struct {
			n    int
			what string
		}{{n[TaskError], "given up"}, {n[TaskSkipped], "left out"}, {total - n[TaskCompleted] - n[TaskError] - n[TaskSkipped], "not finished"}} {
			if x.n > 0 {
				content += fmt.Sprintf(", %d %s", x.n, x.what)
			}
		}
		s = append(s, content+".")
	case m.Total > 0:
		s = append(s, fmt.Sprintf("Of %s %s completed.", text.Count(m.Total, "task"), were(m.Completed)))
	default:
		s = append(s, "No tasks were recorded.")
	}
	open := 0
	for _, e := range d.EachFailure() {
		if !e.Resolved {
			open++
		}
	}
	switch {
	case d.NFailures() == 0:
		s = append(s, "No errors were recorded.")
	case d.Log.heard:
		s = append(s, "The log tells of "+text.Count(d.Log.ByType[Errored], "error")+".")
	case open == 0:
		s = append(s, text.Count(d.NFailures(), "error")+", all resolved.")
	case open == d.NFailures():
		s = append(s, text.Count(open, "error")+", none resolved.")
	default:
		s = append(s, fmt.Sprintf("%s, %d not resolved.", text.Count(d.NFailures(), "error"), open))
	}
	return strings.Join(s, " ")
}

func were(n int) string {
	if n == 1 {
		return "1 was"
	}
	return fmt.Sprintf("%d were", n)
}

func (d Data) writeProgress(p *page) {
	phase := cmpText(d.Progress.Progress.PhaseName, d.Meta.PhaseName)
	if phase == "" && len(d.Progress.Tasks)+len(d.Progress.Milestones)+len(d.Progress.QualityGates) == 0 {
		p.line("None recorded.")
		return
	}
	if phase != "" {
		p.line("Phase: %s\n", inline(phase))
	}
	var rows [][]string
	for _, t := range d.Progress.Tasks {
		took := "–"
		if t.DurationSeconds != nil {
			took = text.Length(*t.DurationSeconds)
		}
		rows = append(rows, []string{strings.TrimSpace(cell(t.TaskID) + " " + cell(d.Log.tasks[t.TaskID].name)), cell(string(t.Status)), took, d.linked(t.TaskID), cell(cmpText(t.Details, string(t.Result)))})
	}
	p.table([]string{"Task", "Status", "Time", "Iterations", "Result"}, rows)
	var items []string
	for _, m := range d.Progress.Milestones {
		state := "not achieved"
		if m.Achieved {
			state = "achieved"
		}
		items = append(items, fmt.Sprintf("Milestone %s (%s): %s", inline(m.Name), inline(m.Target), state))
	}
	items = append(items, d.gates()...)
	if len(items) > 0 && len(rows) > 0 {
		p.line("")
	}
	p.list(items)
}

// gates tells of the plan's gates one by one, and of the commands that were run as
// checks only which did not pass.
func (d Data) gates() []string {
	var gates, failed []string
	checks := 0
	for _, g := range d.Progress.QualityGates {
		state := "not examined"
		switch {
		case g.Is(true):
			state = "passed"
		case g.Is(false):
			state = "not passed"
		}
		if g.Metric != "exit_code" {
			gates = append(gates, fmt.Sprintf("Gate %s (%s): %s", inline(g.Name), inline(strings.TrimSpace(g.Metric+" "+g.Operator+" "+text.Decimal(g.Threshold))), state))
			continue
		}
		if g.Passed == nil {
			continue
		}
		if checks++; !*g.Passed {
			failed = append(failed, code(g.Name))
		}
	}
	switch n := len(failed); {
	case checks == 0:
	case n == 0:
		gates = append(gates, "Checks: "+passedAll(checks))
	default:
		gates = append(gates, fmt.Sprintf("Checks: %d of %d passed; not passed: %s", checks-n, checks, text.List(failed, maxFew)))
	}
	return gates
}

func passedAll(n int) string {
	if n == 1 {
		return "the one that was run passed"
	}
	return fmt.Sprintf("all %d passed", n)
}

// linked are links to what the iterations of a task did.
func (d Data) linked(task string) string {
	var links []string
	list := d.Log.tries[task]
	for _, n := range list[max(0, len(list)-maxLinked):] {
		if name, ok := d.iterations[n]; ok {
			links = append(links, fmt.Sprintf("[%03d](%s/%s)", n, iterationsDir, name))
		} else {
			links = append(links, fmt.Sprintf("%03d", n))
		}
	}
	if len(links) == 0 {
		return "–"
	}
	if n := len(list) - len(links); n > 0 {
		links = append([]string{fmt.Sprintf("%d earlier,", n)}, links...)
	}
	return strings.Join(links, " ")
}

func cmpText(texts ...string) string {
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			return t
		}
	}
	return ""
}
