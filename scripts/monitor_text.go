package scripts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// picture is how a session stands as somebody sees it who watches.
type picture struct {
	doc    statusDocument
	recent []string
	now    time.Time
	colour bool
	mute   bool
}

// group is a part of a picture that may be shown in part.
type group struct {
	lines []string
	least int  // how many of them are kept as long as there is room
	last  bool // what is kept are the last ones
}

// lines are the picture, as many as there are rows for. What matters least is left
// out first.
func (p picture) lines(columns, rows int) []string {
	head := group{lines: p.head(columns)}
	head.least = len(head.lines)
	groups := []group{head, p.tasks(columns), p.others(), p.agents(columns), p.waiting(), p.events()}
	sum := func() (n int) {
		for _, g := range groups {
			n += len(g.lines)
		}
		return n
	}
	order := []int{5, 3, 2, 4, 1}
	for _, bound := range []func(group) int{func(g group) int { return g.least }, func(group) int { return 0 }} {
		for _, i := range order {
			if over := sum() - rows; over > 0 {
				groups[i] = groups[i].cut(max(bound(groups[i]), len(groups[i].lines)-over))
			}
		}
	}
	var out []string
	for _, g := range groups {
		out = append(out, g.lines...)
	}
	for i := range out {
		out[i] = strings.TrimRight(out[i], " ")
	}
	return out[:min(len(out), max(rows, 1))]
}

// cut keeps n lines, the first of which is the title of those that are the last.
func (g group) cut(n int) group {
	left := len(g.lines) - n
	switch {
	case left <= 0:
	case n <= 1: // a title, or a number, alone says nothing
		g.lines = nil
	case g.last:
		g.lines = append(g.lines[:1:1], g.lines[len(g.lines)-n+1:]...)
	default:
		g.lines = append(g.lines[:n-1:n-1], fmt.Sprintf("  and %d more", left+1))
	}
	return g
}

// head says which session it is, how it stands and what it has used.
func (p picture) head(columns int) []string {
	d := p.doc
	name := "ralph"
	if d.Session != nil {
		name = "session " + oneLine(*d.Session, 20)
	}
	words := []string{painted(p.colour, colourHead, name)}
	add := func(content string) {
		if content != "" && width(ansi.Strip(strings.Join(words, " · ")))+3+width(ansi.Strip(content)) <= columns {
			words = append(words, content)
		}
	}
	state := oneLine(d.State, 20)
	if p.mute {
		state += ", does not answer"
	}
	add(painted(p.colour, stateColour(d.State), state))
	if d.Since != nil {
		word := "since "
		if d.Last != nil {
			word = "" // it ended then
		}
		add(word + p.clock(*d.Since))
	}
	kind := ""
	if d.Holder != nil {
		kind = oneLine(orNothing(d.Holder.Kind), 20)
	}
	if d.About != nil && d.About.Name != kind {
		add(oneLine(d.About.Name, 40))
	}
	add(kind)
	if d.Model != nil {
		add(oneLine(*d.Model, 40))
	}
	tokens, cost := 0, d.CostUSD
	if d.Usage != nil {
		tokens = d.Usage.Total
	}
	if d.Run != nil && d.Run.Tokens > tokens { // of all attempts, also of those before a resume
		tokens = d.Run.Tokens
	}
	if cost == nil && d.Run != nil {
		cost = d.Run.CostUSD
	}
	if tokens > 0 {
		add(countText(tokens) + " tok")
	}
	if cost != nil {
		add(fmt.Sprintf("$%.2f", *cost))
	}
	out := []string{strings.Join(words, " · ")}
	if d.Task != nil && (d.Run == nil || len(d.Run.Active) == 0) {
		content := oneLine(*d.Task, 400)
		if d.Last != nil && d.Run != nil {
			content = "last at " + content
		}
		if d.Turn > 0 {
			content += " (" + text.Count(d.Turn, "turn") + ")"
		}
		out = append(out, content)
	}
	if d.Tool != nil {
		out = append(out, "  "+oneLine(*d.Tool, 400))
	}
	if d.Question != nil && (d.Run == nil || d.Run.Question == nil) { // below its bar
		out = append(out, painted(p.colour, colourWarn, "asks: "+questionText(*d.Question, p.now)))
	}
	if l := d.Last; l != nil && l.Reason != nil && *l.Reason != l.Status {
		out = append(out, oneLine(*l.Reason, 400))
	}
	return out
}

// clock is a time of day, with its date when that is not today; UTC.
func (p picture) clock(t time.Time) string {
	if t.UTC().Format(time.DateOnly) == p.now.UTC().Format(time.DateOnly) {
		return t.UTC().Format(time.TimeOnly) + " UTC"
	}
	return t.UTC().Format("2006-01-02 15:04") + " UTC"
}

// stateColour is the colour of a state, "" for none.
func stateColour(state string) string {
	switch state {
	case stateFailed, stateInterrupted, "cancelled":
		return colourBad
	case statePaused, statePausing, "stopping":
		return colourWarn
	case stateRunning, stateCompleted, "initializing":
		return colourGood
	}
	return ""
}

// run is how the tasks stand, nil when there are none.
func (p picture) run() *loop.View {
	if p.doc.Run != nil {
		return p.doc.Run
	}
	if p.doc.About != nil && p.doc.About.tasks != nil && !p.doc.Live {
		return p.doc.About.tasks
	}
	return nil
}

// tasks are the bar and the tasks at work.
func (p picture) tasks(columns int) group {
	v := p.run()
	if v == nil {
		t := p.doc.Tasks
		all := t.Open + t.Done + t.Failed + t.Skipped
		if all == 0 {
			return group{}
		}
		v = &loop.View{Counts: loop.Counts{Total: all, Done: t.Done, Failed: t.Failed, Skipped: t.Skipped, Open: t.Open}}
	}
	shown := *v
	shown.Tokens, shown.CostUSD = 0, nil // the head tells them
	rest := p.doc.Last != nil            // nobody works on it
	if rest {
		shown.StartedAt, shown.Active = time.Time{}, nil
	}
	if string(shown.Status) == p.doc.State {
		shown.Status = ""
	}
	g := group{lines: []string{barText(shown, columns, p.now)}, least: 4}
	if q := v.Question; q != nil {
		g.lines = append(g.lines, painted(p.colour, colourWarn, "? "+oneLine(q.Text, 400)))
	}
	if w := v.Waiting; w != nil {
		g.lines = append(g.lines, painted(p.colour, colourWarn, "… "+waitText(*w, p.now)))
	}
	if rest && len(v.Active) > 0 {
		g.lines = append(g.lines, painted(p.colour, colourWarn, "begun   ")+rowNames(v.Active))
		return g
	}
	for _, r := range v.Active {
		g.lines = append(g.lines, rowText(r, columns, p.now))
	}
	return g
}

// rowNames are tasks in a line.
func rowNames(rows []loop.Row) string {
	var names []string
	for _, r := range rows[:min(len(rows), maxNamed)] {
		names = append(names, strings.TrimSpace(oneLine(r.ID, 24)+" "+oneLine(r.Title, 60)))
	}
	if n := len(rows) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(names, ", ")
}

// others are the tasks that come next and those that failed.
func (p picture) others() group {
	v := p.run()
	if v == nil {
		return group{}
	}
	var g group
	if len(v.Next) > 0 {
		g.lines = append(g.lines, painted(p.colour, colourSoft, "next    ")+rowNames(v.Next))
	}
	seen := map[string]bool{}
	for _, r := range v.Recent {
		if seen[r.ID] || !strings.Contains(r.Status, "fail") && r.Status != "error" {
			seen[r.ID] = true
			continue
		}
		seen[r.ID] = true
		text := strings.TrimSpace(oneLine(r.ID, 24) + " " + oneLine(r.Title, 60))
		if r.Reason != "" {
			text += ": " + oneLine(r.Reason, 200)
		}
		g.lines = append(g.lines, painted(p.colour, colourBad, "failed  ")+text)
	}
	g.least = min(2, len(g.lines))
	return g
}

// agents are those at work first, then those that ended; the coordinator itself is
// in the head.
func (p picture) agents(columns int) group {
	var at, over []string
	for _, a := range p.doc.Agents {
		if a.Depth == 0 && (a.ID == mainAgent || a.ID == "") {
			continue
		}
		line := p.agent(a, columns)
		if a.Ended.IsZero() {
			at = append(at, line)
		} else {
			over = append(over, line)
		}
	}
	if len(at)+len(over) == 0 {
		return group{}
	}
	title := painted(p.colour, colourSoft, "agents")
	if len(at) > 0 {
		over = nil // what they did is among the last events
	}
	slices.Reverse(over) // the last ones first
	if n := len(over) - maxNamed; n > 0 {
		over = append(over[:maxNamed], "  and "+text.Count(n, "agent")+" before them")
	}
	return group{lines: append(append([]string{title}, at...), over...), least: 4}
}

// agent is a row: who, state, what it does, how much it has used.
func (p picture) agent(a crew.Agent, columns int) string {
	until := p.now
	if !a.Ended.IsZero() {
		until = a.Ended
	}
	id := strings.Repeat("  ", min(max(a.Depth, 1), 6)) + oneLine(a.ID, 40)
	id = fixed(ansi.Truncate(id, max(10, columns/4), "…"), max(10, columns/4))
	state := oneLine(string(a.State), 12)
	if a.Stalled {
		state = "stalled"
	}
	after := ago(a.Since, until)
	if columns >= 60 {
		after = fmt.Sprintf("%6s tok  %9s  %6s", countText(a.Usage.Total), text.Count(a.Turns, "turn"), after)
	}
	does := lastDone(a)
	if does == "" {
		does = oneLine(a.Label, 100)
	}
	if a.Landing != crew.Unmerged && !a.Ended.IsZero() {
		does = oneLine(string(a.Landing), 20) + "; " + does
	}
	room := columns - width(id) - 1 - 11 - 1 - 2 - width(after)
	if room < 8 {
		return id + " " + painted(p.colour, stateColour(string(a.State)), fixed(state, 11)) + " " + after
	}
	does = ansi.Truncate(does, room, "…")
	return id + " " + painted(p.colour, stateColour(string(a.State)), fixed(state, 11)) + " " + fixed(does, room) + "  " + after
}

// waiting is what was said and not delivered, and what runs beside.
func (p picture) waiting() group {
	var g group
	for _, m := range p.doc.Queue {
		g.lines = append(g.lines, painted(p.colour, colourWarn, "queue   ")+fmt.Sprintf("%s %s (%s) %s", oneLine(m.ID, 40), oneLine(m.Class, 20), ago(m.At, p.now), oneLine(m.Text, 400)))
	}
	for _, b := range p.doc.Background {
		g.lines = append(g.lines, painted(p.colour, colourSoft, "beside  ")+strings.TrimSpace(oneLine(b.ID, 40)+" "+ago(b.Since, p.now)+" "+oneLine(b.Command, 400)))
	}
	g.least = min(2, len(g.lines))
	return g
}

// events are the last things that happened.
func (p picture) events() group {
	if len(p.recent) == 0 {
		return group{}
	}
	return group{lines: append([]string{painted(p.colour, colourSoft, "last")}, p.recent...), least: 6, last: true}
}

// recent are the last events of a log as lines of a picture.
func (a statusSession) recent() []string {
	out := make([]string, 0, len(a.LastEvents))
	for _, l := range a.LastEvents {
		e := l.entry()
		stamp := "-       "
		if !e.Time.IsZero() {
			stamp = e.Time.UTC().Format(time.TimeOnly)
		}
		text := strings.ReplaceAll(oneLine(string(e.Type), 40), "_", " ")
		phase := ""
		if e.Type == folder.PhaseStart || e.Type == folder.PhaseComplete {
			phase = e.Text("name", "phase", "kind")
		}
		for _, more := range []string{oneLine(e.TaskID, 40), oneLine(e.TaskName, 60), oneLine(phase, 40)} {
			if more != "" {
				text += " " + more
			}
		}
		if end := oneLine(e.Result, 100); end != "" {
			text += ": " + end
		}
		if said, _ := e.Details["text"].(string); said != "" && e.Type == folder.Message {
			role, _ := e.Details["role"].(string)
			text += strings.TrimRight(" "+oneLine(role, 20), " ") + ": " + oneLine(said, 200)
		}
		if check, ok := e.Details["check"].(string); ok {
			text += " " + oneLine(check, 100)
		}
		out = append(out, fmt.Sprintf("%s  %-4s %s", stamp, l.ID, text))
	}
	return out
}
