package folder

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ralph/memory/text"
)

func (d Data) artifacts() []string {
	var items []string
	tasks := map[string][]string{}
	var order []string
	add := func(path, task string) {
		if _, known := tasks[path]; !known {
			order = append(order, path)
		}
		if task != "" && !slices.Contains(tasks[path], task) {
			tasks[path] = append(tasks[path], task)
		}
		tasks[path] = slices.Clip(tasks[path])
	}
	for _, t := range d.Progress.Tasks {
		for _, a := range t.Artifacts {
			by := t.TaskID
			if t.Status == TaskError {
				by += ", which failed"
			}
			add(a, by)
		}
	}
	for _, a := range d.Log.Artifacts {
		add(a, "")
	}
	for _, path := range order {
		item := inline(path)
		if by := tasks[path]; len(by) > 0 && item != "" {
			item += " (" + inline(strings.Join(by, ", ")) + ")"
		}
		if item != "" {
			items = append(items, item)
		}
	}
	if list := d.Log.spent.commits; len(list) > 0 {
		const most = 10
		var short []string
		for _, c := range list[:min(len(list), most)] {
			short = append(short, inline(c[:min(len(c), 10)]))
		}
		item := text.Count(len(list), "commit") + ": " + strings.Join(short, ", ")
		if len(list) > most {
			item += ", …"
		}
		items = append(items, item)
	}
	if n := len(d.Inventory.Features); n > 0 {
		items = append(items, fmt.Sprintf("[%s](%s): %s", inventoryFile, inventoryFile, text.Count(n, "feature")))
	}
	return items
}

func (d Data) writeMetrics(p *page) {
	m, s := d.Meta, d.Log.spent
	var rows [][]string
	add := func(name, format string, args ...any) {
		rows = append(rows, []string{name, fmt.Sprintf(format, args...)})
	}
	if d.has(metadataFile) {
		add("Duration", "%s", text.Length(m.TotalDuration))
		if m.AverageTask > 0 {
			add("Average task", "%s", text.Length(m.AverageTask))
		}
		if m.Total > 0 {
			add("Success rate", "%s %%", text.Decimal(100*min(m.SuccessRate, 1)))
		}
	}
	if len(s.models) > 0 {
		add("Model", "%s", cell(strings.Join(s.models, ", ")))
	}
	if s.runs > 0 {
		least := ""
		if s.lost > 0 {
			add("Runs", "%s; %s broke off and left no account of what was used", text.Count(s.runs+s.lost, "run"), text.Grouped(s.lost))
			least = "at least "
		}
		add("Turns", least+"%d, with %s, %d of them failed", s.turns, text.Count(s.calls, "tool call"), s.failed)
		add("Tokens", least+"%s: %s in (%s cached), %s out", text.Grouped(s.total), text.Grouped(s.input), text.Grouped(s.cached), text.Grouped(s.output))
		cost := "unknown"
		if s.priced && !s.unpriced {
			cost = least + "$" + strconv.FormatFloat(s.cost, 'f', 4, 64)
		}
		add("Cost", "%s", cost)
	}
	if d.has(metadataFile) {
		add("Errors", "%d", m.Errors)
		add("Help requests", "%d", m.HelpRequests)
		add("Human interventions", "%d", m.Interventions)
	}
	if n := d.NDecisions(); n > 0 {
		add("Decisions", "%d", n)
	}
	switch {
	case d.Log.Cut:
		add("Events", "not counted, the log has %d bytes", d.Log.Bytes)
	case d.Log.Events > 0:
		add("Events", "%s", text.Grouped(int64(d.Log.Events)))
	}
	if p.table([]string{"Figure", "Value"}, rows); len(rows)+len(d.Metrics) == 0 {
		p.line("None recorded.")
	}
	if measured := d.measured(); len(measured) > 0 {
		if len(rows) > 0 {
			p.line("")
		}
		p.table([]string{"Measured", "Value", "Target", "Times", "Source"}, measured)
	}
	if checks := d.checked(); len(checks) > 0 {
		if len(rows)+len(d.measured()) > 0 {
			p.line("")
		}
		p.table([]string{"Check", "Runs", "Passed", "Last exit code"}, checks)
	}
}

// exitCode says that a metric is what a check or the command of a gate ended with.
func exitCode(m Metric) bool {
	return m.Name == "check_exit_code" || strings.HasPrefix(m.Name, "gate_exit_code")
}

// checked are the checks that were run; those that never failed are one row.
func (d Data) checked() [][]string {
	type runs struct{ n, passed, last int }
	by := map[string]*runs{}
	var order []string
	for _, m := range d.Metrics {
		if !exitCode(m) {
			continue
		}
		r := by[m.Source]
		if r == nil {
			r = &runs{}
			by[m.Source], order = r, append(order, m.Source)
		}
		if r.n++; m.Value == 0 {
			r.passed++
		}
		r.last = int(m.Value)
	}
	var rows [][]string
	clean, all := 0, 0
	for _, source := range order {
		r := by[source]
		if r.passed == r.n && len(order) > maxFew {
			clean++
			all += r.n
			continue
		}
		rows = append(rows, []string{code(source), strconv.Itoa(r.n), strconv.Itoa(r.passed), strconv.Itoa(r.last)})
	}
	if clean > 0 {
		rows = append(rows, []string{fmt.Sprintf("%d others, which never failed", clean), strconv.Itoa(all), strconv.Itoa(all), "0"})
	}
	return rows
}

// measured are the metrics by their name and source, each with its newest value.
func (d Data) measured() [][]string {
	type key struct{ name, source string }
	newest, times := map[key]Metric{}, map[key]int{}
	var order []key
	for _, q := range d.Metrics {
		if exitCode(q) {
			continue
		}
		k := key{q.Name, q.Source}
		if times[k]++; times[k] == 1 {
			order = append(order, k)
		}
		newest[k] = q
	}
	var rows [][]string
	for _, k := range order {
		q, target := newest[k], "–"
		if q.Target != nil {
			target = text.Decimal(*q.Target)
		}
		rows = append(rows, []string{cell(q.Name), strings.TrimSpace(text.Decimal(q.Value) + " " + unitOf(q)), target, strconv.Itoa(times[k]), code(q.Source)})
	}
	return rows
}

// unitOf leaves out a unit that the name says already.
func unitOf(q Metric) string {
	if strings.Contains(q.Name, strings.ReplaceAll(q.Unit, " ", "_")) {
		return ""
	}
	return cell(q.Unit)
}

func (d Data) challenges() []string {
	type key struct {
		severity           Severity
		kind, task, text   string
		action             string
		resolved, measured bool
	}
	type sum struct {
		n, retries int
		seconds    float64
	}
	sums := map[key]*sum{}
	var order []key
	for _, e := range d.EachFailure() {
		k := key{e.Severity, e.ErrorType, e.TaskID, e.ErrorMessage, "", e.Resolved, e.Resolved && e.ResolutionTimeSeconds != nil}
		if e.Resolved {
			k.action = e.RecoveryAction
		}
		if sums[k] == nil {
			sums[k] = &sum{}
			order = append(order, k)
		}
		s := sums[k]
		s.n++
		s.retries = max(s.retries, e.RetryCount)
		if k.measured {
			s.seconds = max(s.seconds, *e.ResolutionTimeSeconds)
		}
	}
	var items []string
	for _, k := range order {
		if len(items) > maxListed { // they are only counted
			items = append(items, "")
			continue
		}
		s := sums[k]
		item := fmt.Sprintf("**%s** %s", inline(cmp.Or(string(k.severity), "unknown")), inline(k.kind))
		if k.task != "" {
			item += " in " + inline(k.task)
		}
		if s.n > 1 {
			item += fmt.Sprintf(", %d times", s.n)
		}
		item += ": " + inline(k.text) + " — "
		if d.Log.heard {
			items = append(items, item+"whether it was resolved is not recorded")
			continue
		}
		if !k.resolved {
			item += "not resolved"
		} else if item += "resolved"; k.measured {
			item += " after " + text.Length(s.seconds)
		}
		if item += ", " + text.Count(s.retries, "retry"); k.resolved {
			item += ": " + inline(cmpText(k.action, "no action recorded"))
		}
		items = append(items, item)
	}
	for _, t := range d.Trips {
		state := "still open"
		if t.Resolved {
			state = "closed again after " + text.Length(t.DurationSeconds)
		}
		items = append(items, fmt.Sprintf("Circuit breaker: %s, so %s; %s", inline(t.Condition), inline(t.ActionTaken), state))
	}
	return items
}

func (d Data) writeLessons(p *page, found []string) {
	learned := each(d.Log.Lessons)
	if len(learned)+len(found) == 0 {
		p.line("None recorded.")
		return
	}
	p.list(learned)
	if len(found) == 0 {
		return
	}
	if len(learned) > 0 {
		p.line("")
	}
	p.line("Found in what was recorded; `ralph insights %s --append` keeps it in AGENT.md:\n", d.command())
	p.list(found)
}

// command is how a command names the session.
func (d Data) command() string {
	if id := d.number(); id != "" && strings.Trim(id, "0123456789") == "" {
		return id
	}
	return "last"
}

// goOn is the command that takes the session's work up again.
func (d Data) goOn() string {
	if d.Log.spent.kind == "run" {
		return "`ralph run --continue`"
	}
	return "`ralph resume " + d.command() + "`"
}

func (d Data) nextSteps() []string {
	var open, failed, items []string
	for _, t := range d.Progress.Tasks {
		switch {
		case !t.Status.over():
			open = append(open, inline(t.TaskID)+" ("+inline(string(t.Status))+")")
		case t.Status == TaskError:
			failed = append(failed, inline(t.TaskID))
		}
	}
	if len(open) > 0 {
		items = append(items, "Go on with "+text.List(open, maxFew)+": "+d.goOn())
	}
	if len(failed) > 0 {
		items = append(items, "See why "+text.List(failed, maxFew)+" failed: "+cmpText(d.lastTries(), "`ralph logs "+d.command()+" --where 'event_type == \"error\"'`"))
	}
	for _, g := range d.Progress.QualityGates {
		if g.Is(false) {
			items = append(items, "Make it pass: "+code(g.Name))
		}
	}
	for _, step := range d.Log.NextSteps {
		if len(open) > 0 && strings.Contains(step, d.goOn()) {
			continue // it is said
		}
		if step = spans(text.ClipRunes(step, maxInline)); step != "" {
			items = append(items, step)
		}
	}
	return items
}

// spans is inline for a text whose commands stand between backquotes.
func spans(s string) string {
	parts := strings.Split(strings.Join(strings.Fields(s), " "), "`")
	if len(parts)%2 == 0 {
		return inline(s)
	}
	for i, p := range parts {
		switch {
		case i%2 == 1 && strings.TrimSpace(p) == "":
			return inline(s)
		case i%2 == 1:
			parts[i] = code(p)
		case p != "":
			parts[i] = strings.Repeat(" ", min(1, len(p)-len(strings.TrimLeft(p, " ")))) + inline(p)
			if strings.HasSuffix(p, " ") && strings.TrimSpace(p) != "" {
				parts[i] += " "
			}
		}
	}
	return strings.TrimSpace(strings.Join(parts, ""))
}

// lastTries links the last iteration of each task that failed; "" without any.
func (d Data) lastTries() string {
	var links []string
	for _, t := range d.Progress.Tasks {
		list := d.Log.tries[t.TaskID]
		if t.Status != TaskError || len(list) == 0 {
			continue
		}
		n := slices.Max(list)
		if name, ok := d.iterations[n]; ok && len(links) < maxFew {
			links = append(links, fmt.Sprintf("[%s](%s/%s)", name, iterationsDir, name))
		}
	}
	return strings.Join(links, ", ")
}

// maxFew bounds a list within a sentence.
const maxFew = 8

func (d Data) writeRaw(p *page, differences []Difference) {
	var items []string
	for _, name := range slices.Concat(d.Files, d.others) {
		items = append(items, fmt.Sprintf("[%s](%s)", name, name))
	}
	if n := len(d.iterations); n > 0 {
		items = append(items, fmt.Sprintf("[%s](%s/): %s", iterationsDir, iterationsDir, text.Count(n, "file")))
	}
	p.items(items)
	if len(d.Problems) > 0 {
		p.line("\nCould not be read:\n")
		items = nil
		for _, x := range d.Problems {
			items = append(items, inline(x.File)+": "+inline(x.Err.Error()))
		}
		p.list(items)
	}
	if len(differences) > 0 {
		p.line("\nContradictions, none of them mended:\n")
		items = nil
		for _, x := range differences {
			items = append(items, inline(x.String()))
		}
		p.list(items)
	}
}
