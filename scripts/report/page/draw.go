package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"ralph/memory/text"
)

// timeline is the picture of what happened when: strips under one axis.
type timeline struct {
	Range  string
	Ticks  []tick
	Folds  []rect
	Groups []group
	Notes  []string
	Legend []anchor // class and meaning of what the bars show
	Signs  []anchor // and the marks
	Bars   []cells
	Marks  []cells
	Less   []piece
}

type group struct {
	Name, Took, Foot string
	Rows             []strip
}

// strip is one row of the timeline.
type strip struct {
	ID, Name   string
	Tip        string
	Took, Foot string
	Tone       string
	Height     int
	Tall       bool
	Bars       []rect
	Marks      []sign
}

// rect is a bar: x and width in percent, y and height in pixels.
type rect struct {
	X, W  string
	Y, H  int
	Class string
	Tip   string
}

// sign is a mark of the timeline.
type sign struct {
	X     string
	Class string
	Tip   string
}

func pct(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) + "%" }

// narrowest is the width in percent that a bar has at least, to be seen.
const narrowest = 0.4

func (s scale) rect(from, to int64, y, h int, class, tip string) rect {
	x0, x1 := s.x(from), s.x(to)
	if x1-x0 < narrowest {
		x0 = min(x0, axisEnd-narrowest)
		x1 = x0 + narrowest
	}
	return rect{X: pct(x0), W: pct(x1 - x0), Y: y, H: h, Class: class, Tip: tip}
}

// axis gives the scale of all that is drawn.
func (t Timeline) axis() scale {
	var lasted []sitting
	for _, list := range [][]bar{t.taskBars, t.agentBars, t.waits} {
		for _, b := range list {
			lasted = append(lasted, sitting{b.from, b.to})
		}
	}
	for _, m := range t.marks {
		lasted = append(lasted, sitting{m.at, m.last})
	}
	for _, s := range t.sittings {
		lasted = append(lasted, sitting{s.from, s.from}, sitting{s.to, s.to})
	}
	for _, u := range t.used {
		lasted = append(lasted, sitting{u.at, u.at + t.usedWidth})
	}
	return newScale(lasted)
}

func newTimeline(t Timeline) *timeline {
	s := t.axis()
	if len(s.parts) == 0 {
		return nil
	}
	v := &timeline{Ticks: s.ticks(), Range: span(s.from(), s.to())}
	if s.instant {
		v.Range = "All at one time: " + stampOf(clock(s.from()+1))
	}
	for _, p := range s.parts {
		if p.folded {
			v.Folds = append(v.Folds, rect{X: pct(p.x0), W: pct(p.x1 - p.x0), Tip: text.Length(float64(p.to-p.from)/1000) + " in which nothing happened are left out"})
		}
	}
	if len(v.Folds) > 0 {
		v.Notes = append(v.Notes, "Time in which nothing happened is folded; the number above the fold says how much.")
	}
	if t.merged > 0 {
		v.Notes = append(v.Notes, "There is more than can be drawn: what lay close together is drawn as one, and its label says how many.")
	}
	v.work(t, s)
	v.crew(t, s)
	v.happened(t, s)
	v.tables(t)
	return v
}

// span words from when to when.
func span(from, to int64) string {
	a, b := clock(from), clock(to)
	if a.Format("2006-01-02") == b.Format("2006-01-02") {
		if to-from < 10_000 {
			return a.Format("2 January 2006, 15:04:05.000") + " – " + b.Format("15:04:05.000 UTC")
		}
		return a.Format("2 January 2006, 15:04:05") + " – " + b.Format("15:04:05 UTC")
	}
	return a.Format("2 January 2006, 15:04") + " – " + b.Format("2 January 2006, 15:04 UTC")
}

func phases(t Timeline, s scale) strip {
	row := strip{Name: "Phases", Height: 16}
	for _, p := range t.phases {
		row.Bars = append(row.Bars, s.rect(p.from, p.to, 4, 8, "phase", p.tip()))
	}
	row.Foot = text.Grouped(len(t.phases))
	return row
}

// tip is what a bar tells when one points at it, and a screen reader reads.
func (b bar) tip() string {
	t := line(b.text, maxTitle)
	if b.n > 1 {
		t += " and " + text.Grouped(b.n-1) + " more"
	} else if b.attempt > 1 {
		t += ", attempt " + text.Grouped(b.attempt)
	}
	return t + ": " + b.state.word() + ", " + text.Length(float64(b.to-b.from)/1000) + " from " + clock(b.from).Format("15:04:05")
}

func (v *timeline) work(t Timeline, s scale) {
	if len(t.taskBars) == 0 && len(t.tasks) == 0 {
		return
	}
	g := group{Name: "Tasks", Took: "worked", Foot: "result"}
	if len(t.ended) > 0 {
		g.Rows, g.Took, g.Foot = []strip{piled(t, s)}, "", ""
		v.Groups = append(v.Groups, g)
		v.Legend = append(v.Legend, anchor{"done", "done"}, anchor{"failed", "failed"})
		return
	}
	if t.manyTasks > 0 {
		row := packed(t.taskBars, s, "")
		row.Name, row.Foot = text.Grouped(t.manyTasks)+" tasks", ""
		g.Rows, g.Foot, g.Took = []strip{row}, "", ""
		v.Groups = append(v.Groups, g)
		v.states(t.taskBars)
		return
	}
	at := map[string]int{}
	for _, r := range t.tasks {
		at[r.id] = len(g.Rows)
		x := strip{ID: line(r.id, 24), Name: line(r.name, maxTitle), Height: 20, Took: maybe(r.worked), Foot: line(r.status, 40), Tone: cmp.Or(toneOf(r.status), class(r.state))}
		x.Tip = strings.TrimSpace(x.ID + " " + x.Name)
		if r.attempts > 1 {
			x.Foot += ", " + text.Grouped(r.attempts) + " tries"
		}
		g.Rows = append(g.Rows, x)
	}
	for _, b := range t.taskBars {
		if i, ok := at[b.row]; ok {
			g.Rows[i].Bars = append(g.Rows[i].Bars, s.rect(b.from, b.to, 4, 12, class(b.state), b.tip()))
		}
	}
	v.Groups = append(v.Groups, g)
	v.states(t.taskBars)
}

// piled draws how many attempts ended when, for tasks that are too many for bars.
func piled(t Timeline, s scale) strip {
	const height = 64
	all, every, most := slots(t.ended, t.endedWidth, s)
	row := strip{Name: text.Grouped(t.manyTasks) + " tasks: attempts that ended, per " + exactly(every), Height: height + 4, Took: "top: " + brief(most), Tall: true}
	for _, x := range all {
		tip := clock(x.from).Format("15:04:05") + ": " + text.Grouped(x.fresh) + " done, " + text.Grouped(x.output) + " failed"
		if x.cached > 0 {
			tip += ", " + text.Grouped(x.cached) + " other"
		}
		row.Bars = append(row.Bars, x.heaped(s, every, most, height, [3]string{"failed", "done", "open"}, tip)...)
	}
	return row
}

func toneOf(status string) string {
	if status == "" {
		return ""
	}
	_, tone := standing(status)
	return tone
}

func class(s state) string {
	if s == stateOpen {
		return "open"
	}
	return s.word()
}

// states are the ends that the legend explains.
func (v *timeline) states(list []bar) {
	seen := map[state]bool{}
	for _, b := range list {
		seen[b.state] = true
	}
	for _, s := range []state{stateDone, stateFailed, stateStopped, stateRunning, stateSkipped, stateOpen} {
		if seen[s] {
			v.Legend = append(v.Legend, anchor{class(s), s.word()})
		}
	}
}

// packed lays bars into as few lanes as they need without covering each other;
// beyond maxLanes they do.
func packed(list []bar, s scale, extra string) strip {
	const maxLanes, high = 24, 8
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b bar) int { return cmp.Compare(a.from, b.from) })
	var ends []float64
	row := strip{}
	for _, b := range list {
		x0, lane := s.x(b.from), -1
		for i, end := range ends {
			if end <= x0 {
				lane = i
				break
			}
		}
		switch {
		case lane >= 0:
		case len(ends) < maxLanes:
			lane, ends = len(ends), append(ends, 0)
		default:
			lane = slices.Index(ends, slices.Min(ends))
		}
		ends[lane] = max(s.x(b.to), x0+narrowest)
		row.Bars = append(row.Bars, s.rect(b.from, b.to, 2+lane*(high+2), high, strings.TrimSpace(extra+" "+class(b.state)), b.tip()))
	}
	row.Height, row.Tall = 4+len(ends)*(high+2), len(ends) > 2
	return row
}

func (v *timeline) crew(t Timeline, s scale) {
	if len(t.agentBars) == 0 {
		return
	}
	g := group{Name: "Agents", Took: "at work", Foot: "requests · tokens"}
	if t.manyAgents > 0 {
		row := packed(t.agentBars, s, "agent")
		row.Name = text.Grouped(t.manyAgents) + " agents"
		g.Rows, g.Took, g.Foot = []strip{row}, "", ""
		v.Groups = append(v.Groups, g)
		return
	}
	at := map[string]int{}
	for _, r := range t.agents {
		at[r.id] = len(g.Rows)
		x := strip{Name: line(r.id, 60), Tip: line(r.id+" "+r.name, maxTitle), Height: 20, Took: maybe(r.worked), Foot: text.Grouped(r.turns)}
		if r.tokens > 0 {
			x.Foot += " · " + brief(r.tokens)
		}
		g.Rows = append(g.Rows, x)
	}
	for _, b := range t.agentBars {
		if i, ok := at[b.row]; ok {
			how := "agent"
			if b.state == stateFailed {
				how += " failed"
			}
			g.Rows[i].Bars = append(g.Rows[i].Bars, s.rect(b.from, b.to, 6, 8, how, b.tip()))
		}
	}
	v.Groups = append(v.Groups, g)
}

// happened are the rows of what took no time, and of the waits for the human.
func (v *timeline) happened(t Timeline, s scale) {
	g := group{Name: "Events", Foot: "how many"}
	if len(t.phases) > 1 {
		g.Rows = append(g.Rows, phases(t, s))
	}
	if len(t.waits) > 0 {
		row := strip{Name: "Waits for the human", Height: 20}
		total := int64(0)
		n := 0
		for _, w := range t.waits {
			row.Bars = append(row.Bars, s.rect(w.from, w.to, 4, 12, "wait", line(cmp.Or(w.text, "wait"), maxTitle)+": "+text.Length(float64(w.to-w.from)/1000)))
			total, n = total+w.to-w.from, n+w.n
		}
		row.Took, row.Foot = text.Length(float64(total)/1000), text.Grouped(n)
		g.Rows = append(g.Rows, row)
	}
	for _, l := range []struct {
		name  string
		lanes []lane
	}{
		{"Messages of the human", []lane{laneSaid}}, {"Interrupts", []lane{laneInterrupt}}, {"Errors", []lane{laneError}}, {"Retries", []lane{laneRetry}},
		{"Breaker trips", []lane{laneBreaker}}, {"Checks", []lane{lanePassed, laneGateFailed}}, {"Checkpoints", []lane{laneCheckpoint}}, {"Handoffs", []lane{laneHandoff}},
	} {
		row := strip{Name: l.name, Height: 20}
		total := 0
		for _, k := range l.lanes {
			total += t.counts[k]
		}
		if total == 0 {
			continue
		}
		row.Foot = text.Grouped(total)
		if bad := t.counts[laneGateFailed]; l.name == "Checks" && bad > 0 {
			row.Foot += ", " + text.Grouped(bad) + " failed"
		}
		for _, k := range l.lanes {
			row.Marks = append(row.Marks, signs(t.marks, k, s)...)
		}
		g.Rows = append(g.Rows, row)
		for _, k := range l.lanes {
			if t.counts[k] > 0 {
				v.Signs = append(v.Signs, anchor{signOf(k), meaning(k)})
			}
		}
	}
	if len(g.Rows) > 0 {
		v.Groups = append(v.Groups, g)
	}
}

// signs are the marks of a lane; those that would cover each other are one.
func signs(list []mark, l lane, s scale) (out []sign) {
	const near = 0.55
	var of []mark
	for _, m := range list {
		if m.lane == l {
			of = append(of, m)
		}
	}
	slices.SortStableFunc(of, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	var drawn []mark
	for _, m := range of {
		if k := len(drawn) - 1; k >= 0 && s.x(m.at)-s.x(drawn[k].at) < near {
			drawn[k].n, drawn[k].last = drawn[k].n+m.n, max(drawn[k].last, m.last)
			continue
		}
		drawn = append(drawn, m)
	}
	for _, m := range drawn {
		out = append(out, sign{X: pct(s.x(m.at)), Class: signOf(l), Tip: m.tip()})
	}
	return out
}

func signOf(l lane) string {
	return [...]string{"said", "interrupt", "error", "retry", "check", "checkbad", "breaker", "checkpoint", "handoff"}[l]
}

func meaning(l lane) string {
	return [...]string{"message", "interrupt", "error", "retry", "check passed", "check failed", "breaker trip", "checkpoint", "handoff"}[l]
}

func (m mark) tip() string {
	if m.n > 1 {
		return text.Grouped(m.n) + " × " + meaning(m.lane) + ", " + clock(m.at).Format("15:04:05") + " – " + clock(m.last).Format("15:04:05")
	}
	return clock(m.at).Format("15:04:05") + " " + meaning(m.lane) + ": " + line(m.text, maxTitle)
}

// tables are the pictures' data as text.
func (v *timeline) tables(t Timeline) {
	list := slices.Concat(t.taskBars, t.waits)
	slices.SortStableFunc(list, func(a, b bar) int { return cmp.Compare(a.from, b.from) })
	for _, b := range head(list) {
		name := line(cmp.Or(b.text, b.row), maxTitle)
		if b.row != "" && b.row != b.text && t.manyTasks == 0 {
			name = line(b.row, 24) + " " + name
		}
		many := ""
		if b.n > 1 {
			many = text.Grouped(b.n)
		}
		v.Bars = append(v.Bars, cells{short(clock(b.from)), name, text.Length(float64(b.to-b.from) / 1000), b.state.word(), many})
	}
	marks := slices.Clone(t.marks)
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	for _, m := range head(marks) {
		many := ""
		if m.n > 1 {
			many = text.Grouped(m.n)
		}
		v.Marks = append(v.Marks, cells{short(clock(m.at)), meaning(m.lane), line(m.text, maxTitle), many})
	}
	if n := len(list) - len(v.Bars) + len(marks) - len(v.Marks); n > 0 {
		v.Less = rich("The tables hold the first " + text.Grouped(maxRows) + " of each; `ralph logs` shows all.")
	}
}

// whereabouts is where the time went.
type whereabouts struct {
	Parts []portion
	More  string // what the clock says, when the parts are more
}

type portion struct {
	X, W        string
	Class       string
	Name, Value string
	Share       string
}

func newWhereabouts(list []Share, worked *float64) *whereabouts {
	total := 0.0
	for _, p := range list {
		if p.Seconds > 0 && !math.IsInf(p.Seconds, 0) {
			total += p.Seconds
		}
	}
	if total == 0 {
		return nil
	}
	v, x := &whereabouts{}, 0.0
	if worked != nil && total > 1.02**worked {
		v.More = text.Length(*worked)
	}
	for _, p := range head(list) {
		if !(p.Seconds > 0) || math.IsInf(p.Seconds, 0) {
			continue
		}
		w := 100 * p.Seconds / total
		how := "other"
		if slices.Contains([]string{"model", "tools", "checks", "human", "idle"}, p.Name) {
			how = p.Name
		}
		name := line(p.Name, 40)
		if how == "human" {
			name = "waiting for the human"
		}
		v.Parts = append(v.Parts, portion{pct(x), pct(w), how, name, text.Length(p.Seconds), rate(w / 100)})
		x += w
	}
	return v
}
