package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/crew"
	"ralph/workers/agent"
)

const (
	// wideTree is the width from which an agent of the tree stands on one row.
	wideTree = 120
	// shownAtWork bounds the rows of agents above the prompt, shownCalls those of
	// tools.
	shownAtWork, shownCalls = 8, 4
	// longCall is how long a tool runs before it has a row of its own.
	longCall = time.Second
)

// leaf is an agent with its place in the tree.
type leaf struct {
	crew.Agent
	head string // the lines of the tree before its name
	next string // before the rows below it
}

// Agents draws agents as a tree by their parents: who, how it stands, for how
// long, what it spent, what it does or came to, and where its work is.
func (r *Renderer) Agents(list []crew.Agent, now time.Time) string {
	leaves := r.grow(list)
	cells := make([][]string, len(leaves))
	widths := make([]int, 6)
	for i, l := range leaves {
		cells[i] = r.figures(l, now)
		for j, text := range cells[i] {
			widths[j] = max(widths[j], columns(text))
		}
	}
	wide := r.o.Raw || r.o.Width >= wideTree
	room := r.o.Width - 1
	widths[0] = min(widths[0], max(room*2/5, minWrap))
	shown := fitting(widths, room)
	branches := 0
	for _, l := range leaves {
		branches = max(branches, columns(r.where(l.Agent)))
	}
	if !r.o.Raw {
		branches = min(branches, room/4)
	}
	var b strings.Builder
	for i, l := range leaves {
		row := r.fitted(cells[i][0], widths[0])
		for j := 1; j < shown; j++ {
			text, gap := cells[i][j], strings.Repeat(" ", max(widths[j]-columns(cells[i][j]), 0))
			if j == 1 {
				row += r.paint(stateColour(l.Agent), text) + gap + "  "
			} else {
				row += gap + text + "  "
			}
		}
		about, where := r.about(l.Agent), r.where(l.Agent)
		if wide {
			if branches > 0 {
				row += r.dim(r.fitted(where, branches))
			}
			b.WriteString(r.oneRow(row, about, room))
			continue
		}
		b.WriteString(strings.TrimRight(row, " ") + "\n")
		for _, text := range []string{about, where} {
			if text != "" {
				b.WriteString(r.oneRow("  "+l.next+"  ", text, room))
			}
		}
	}
	return b.String()
}

// oneRow is head and as much of text as there is room for.
func (r *Renderer) oneRow(head, text string, room int) string {
	if !r.o.Raw {
		text = clip(text, max(room-columns(head), minWrap), r.pick("…", "..."))
	}
	return strings.TrimRight(head+r.dim(text), " ") + "\n"
}

// fitting is how many of the columns have room beside each other.
func fitting(widths []int, room int) int {
	used := 0
	for i, w := range widths {
		if used += w + 2; used > room+2 && i > 2 {
			return i
		}
	}
	return len(widths)
}

// grow puts agents into the order of the tree. One whose parent is not among
// them is a root; none is left out, whatever the parents say.
func (r *Renderer) grow(list []crew.Agent) []leaf {
	ids, below := map[string]bool{}, map[string][]crew.Agent{}
	for _, a := range list {
		ids[a.ID] = true
	}
	var roots []crew.Agent
	for _, a := range list {
		if a.Parent == a.ID || !ids[a.Parent] {
			roots = append(roots, a)
			continue
		}
		below[a.Parent] = append(below[a.Parent], a)
	}
	var leaves []leaf
	seen := map[string]bool{}
	var add func(a crew.Agent, head, next string)
	add = func(a crew.Agent, head, next string) {
		if seen[a.ID] {
			return
		}
		seen[a.ID] = true
		at := len(leaves)
		leaves = append(leaves, leaf{a, head, next})
		for i, child := range below[a.ID] {
			if i == len(below[a.ID])-1 {
				add(child, next+r.pick("└─ ", "`- "), next+"   ")
				continue
			}
			add(child, next+r.pick("├─ ", "|- "), next+r.pick("│  ", "|  "))
		}
		if len(leaves) > at+1 {
			leaves[at].next += r.pick("│", "|") // its rows stand before the lines of its children
		}
	}
	for _, a := range append(roots, list...) { // those of a circle have no root
		add(a, "", "")
	}
	return leaves
}

// figures are the cells of an agent that stand in columns.
func (r *Renderer) figures(l leaf, now time.Time) []string {
	cells := []string{"  " + l.head + SafeLine(l.ID), stateWord(l.Agent), "", "", "", ""}
	if !l.Since.IsZero() {
		cells[2] = Span(ageOf(l.Agent, now))
	}
	if l.Turns > 0 {
		cells[3] = turns(l.Turns)
	}
	if l.Usage.Total > 0 {
		cells[4] = Tokens(l.Usage.Total) + " tok"
	}
	if l.CostUSD != nil {
		cells[5] = Cost(l.CostUSD)
	}
	return cells
}

func turns(n int) string {
	if n == 1 {
		return "1 turn"
	}
	return fmt.Sprintf("%d turns", n)
}

func stateWord(a crew.Agent) string {
	if a.Stalled && a.Ended.IsZero() {
		return "stalled"
	}
	return SafeLine(string(a.State))
}

// stateColour is the colour of how an agent stands.
func stateColour(a crew.Agent) string {
	switch {
	case a.Stalled && a.Ended.IsZero():
		return "33"
	case a.State == crew.Running:
		return "36"
	case a.State == crew.Done:
		return "32"
	case a.State == crew.Failed:
		return "31"
	case a.State == crew.Interrupted, a.State == crew.Partial, a.State == crew.Orphaned:
		return "33"
	}
	return "2"
}

// ageOf is how long an agent works, worked, or waits.
func ageOf(a crew.Agent, now time.Time) time.Duration {
	switch {
	case a.Since.IsZero():
		return 0
	case !a.Ended.IsZero():
		return a.Ended.Sub(a.Since)
	}
	return now.Sub(a.Since)
}

// Span is a length of time that may still grow, in whole seconds: "12 s",
// "2m05s".
func Span(d time.Duration) string {
	if d = max(d, 0); d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return Duration(d)
}

// about is what an agent is for, and what it does or came to.
func (r *Renderer) about(a crew.Agent) string {
	text := SafeLine(a.Label)
	more := SafeLine(lastWord(a))
	switch {
	case more == "" || more == text:
		return text
	case text == "":
		return more
	}
	return text + r.pick(" · ", " - ") + more
}

// lastWord is the last action of an agent at work, whom one that waits waits for,
// and the first line of what an ended one came to.
func lastWord(a crew.Agent) string {
	switch {
	case a.State == crew.Waiting && len(a.After) > 0:
		return "after " + strings.Join(a.After, ", ")
	case active(a):
		return a.Doing
	case a.Problem != "":
		return stoppedBy(a.Problem)
	}
	row, _, _ := strings.Cut(strings.TrimSpace(a.Result), "\n")
	return row
}

// active says that an agent works, or will.
func active(a crew.Agent) bool {
	switch a.State {
	case crew.Waiting, crew.Queued, crew.Running, crew.Paused, crew.Stopping:
		return true
	}
	return false
}

// where is the branch of an agent's work and how far that has come.
func (r *Renderer) where(a crew.Agent) string {
	text := SafeLine(strings.TrimPrefix(a.Branch, "refs/heads/"))
	if a.Landing != crew.Unmerged {
		text = strings.TrimSpace(text + " " + SafeLine(string(a.Landing)))
	}
	if a.Commit != "" && a.Landing != crew.Unmerged {
		text += " " + SafeLine(a.Commit[:min(len(a.Commit), 8)])
	}
	return text
}

// AtWork are the rows above the prompt: the tools that run for more than a moment,
// and the children that work, each with its last action, and how many more there
// are. All stand in the same columns. asked says that a question waits for the
// user.
func (r *Renderer) AtWork(list []crew.Agent, asked bool, now time.Time) []string {
	var names, waiting, more int
	var rows []workRow
	if !asked { // a tool that waits for an answer does nothing
		rows = r.longCalls(now)
	}
	for _, a := range list {
		switch {
		case !active(a):
		case a.State == crew.Waiting || a.State == crew.Queued:
			waiting++
		case len(rows) >= shownAtWork:
			more++
		default:
			doing := SafeLine(a.Doing)
			if a.State != crew.Running || doing == "" || a.Stalled {
				doing = stateWord(a)
			}
			rows = append(rows, workRow{SafeLine(a.ID), doing, ageOf(a, now)})
		}
	}
	for _, row := range rows {
		names = max(names, columns(row.who))
	}
	names = min(names, r.o.Width/3)
	var out []string
	for _, row := range rows {
		tail := r.pick(" · ", " - ") + Span(row.age)
		head := "  " + r.fitted(row.who, names)
		doing := clip(row.does, max(r.o.Width-1-columns(head)-columns(tail), minWrap), r.pick("…", "..."))
		out = append(out, r.liveRow(head+doing+tail))
	}
	var rest []string
	if more > 0 {
		rest = append(rest, fmt.Sprintf("%d more", more))
	}
	if waiting > 0 {
		rest = append(rest, fmt.Sprintf("%d waiting", waiting))
	}
	if len(rest) > 0 {
		out = append(out, r.liveRow("  and "+strings.Join(rest, ", ")+"; /agents shows all"))
	}
	return out
}

// ShowsCalls says that AtWork has a row for a tool of the coordinator.
func (r *Renderer) ShowsCalls(now time.Time) bool { return len(r.longCalls(now)) > 0 }

// workRow is one thing at work.
type workRow struct {
	who, does string
	age       time.Duration
}

// longCalls are the tools of the coordinator that run for more than a moment, the
// oldest first.
func (r *Renderer) longCalls(now time.Time) []workRow {
	var calls []agent.Event
	for _, e := range r.calls {
		if !e.Time.IsZero() && now.Sub(e.Time) >= longCall {
			calls = append(calls, e)
		}
	}
	slices.SortFunc(calls, func(a, b agent.Event) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.CallID, b.CallID)) })
	var rows []workRow
	for _, e := range calls[:min(len(calls), shownCalls)] {
		rows = append(rows, workRow{SafeLine(e.Tool), Detail(e.Tool, e.Args), now.Sub(e.Time)})
	}
	return rows
}

// Agent tells all that is known of one agent.
func (r *Renderer) Agent(a crew.Agent, now time.Time) string {
	state := stateWord(a)
	if d := ageOf(a, now); d > 0 {
		state += ", " + Span(d)
	}
	rows := [][]string{{"agent", a.ID}, {"state", state}}
	add := func(name, text string) {
		if text != "" {
			rows = append(rows, []string{name, text})
		}
	}
	add("for", a.Parent)
	add("label", a.Label)
	add("after", strings.Join(a.After, ", "))
	add("does", activeText(a))
	if a.Turns > 0 || a.Usage.Total > 0 {
		add("spent", fmt.Sprintf("%s, %s tokens, %s", turns(a.Turns), Tokens(a.Usage.Total), Cost(a.CostUSD)))
	}
	add("problem", stoppedBy(a.Problem))
	branch := strings.TrimPrefix(a.Branch, "refs/heads/")
	add("branch", branch)
	add("merge", string(a.Landing))
	add("commit", a.Commit)
	add("files", strings.Join(a.Files, ", "))
	add("worktree", a.Worktree)
	add("transcript", a.Transcript)
	if branch != "" {
		add("look", "/diff "+a.ID+"   or   git diff HEAD..."+branch)
	}
	out := r.Table(rows)
	if a.Task != "" {
		out += r.aside("task", a.Task)
	}
	if a.Result != "" {
		head := "result"
		if a.Cut {
			head = "result, as far as it came"
		}
		out += r.aside(head, a.Result)
	}
	r.last = kindLine
	return out
}

func activeText(a crew.Agent) string {
	if active(a) {
		return a.Doing
	}
	return ""
}

// mainAgent is the agent whose work the conversation shows.
const mainAgent = "ralph"

// OfHelper says that an event is of an agent beside the coordinator: a child, or
// a helper of the conversation.
func OfHelper(e agent.Event) bool { return e.Agent != "" && e.Agent != mainAgent }

// child is the line of an event of an agent beside the coordinator, which says
// little: what it does is in the tree.
func (r *Renderer) child(e agent.Event) string {
	who := SafeLine(e.Agent)
	switch {
	case e.TaskID == "":
	case e.Type == agent.EventChildStart:
		r.children[e.Agent] = true
		return r.taskStart(e)
	case e.Type == agent.EventChildEnd:
		return "" // the end of its task tells it
	}
	switch e.Type {
	case agent.EventChildStart:
		if e.From == "" && e.Reason == "" && e.Ref == "" {
			return "" // a helper of the conversation
		}
		r.children[e.Agent] = true
		if e.From != "" {
			return r.mark(markNote, who+": "+SafeLine(e.Text))
		}
		return r.mark(markNote, who+" begins: "+SafeLine(e.Text))
	case agent.EventChildEnd:
		if e.From == "" && !r.children[e.Agent] && e.Ref == "" {
			return ""
		}
		return r.childEnd(who, e)
	case agent.EventWarning:
		return r.mark(markWarning, who+": "+SafeLine(e.Text))
	case agent.EventPermission:
		if e.Status != "denied" {
			return "" // the question names the agent
		}
		return r.mark(markDenied, strings.TrimSpace(fmt.Sprintf("%s: denied %s %s  %s", who, SafeLine(e.Tool), SafeLine(e.Text), r.dim(SafeLine(e.Rule)))))
	}
	return ""
}

// childEnd tells how an agent ended, or what became of its work.
func (r *Renderer) childEnd(who string, e agent.Event) string {
	kind, text := markNote, who+" "+SafeLine(e.Status)
	if e.Status == "" {
		text = who + " ended"
	}
	switch {
	case crew.Landing(e.Status) == crew.Merged:
		kind = markOK
		text += " " + SafeLine(e.Ref[:min(len(e.Ref), 8)])
	case crew.Landing(e.Status) == crew.Held, crew.Landing(e.Status) == crew.Conflict, crew.State(e.Status) == crew.Interrupted, crew.State(e.Status) == crew.Partial:
		kind = markWarning
	case e.OK != nil && !*e.OK:
		kind = markFailed
	case e.OK != nil:
		kind = markOK
	}
	var more []string
	for _, s := range []string{e.Text, stoppedBy(e.Reason)} {
		if s = SafeLine(strings.TrimSpace(s)); s != "" && (len(more) == 0 || more[0] != s) {
			more = append(more, s)
		}
	}
	text = strings.TrimSpace(text)
	if crew.State(e.Status) == crew.Interrupted && len(more) > 0 {
		// What it was about to say is kept; of many agents it is a wall of words.
		more = more[len(more)-1:]
	}
	if len(more) > 0 {
		text += ": " + strings.Join(more, "; ")
	}
	return r.mark(kind, text)
}

// stoppedBy is why an agent ended, as a person knows a stop: by what they did.
func stoppedBy(why string) string {
	switch rest, ok := strings.CutPrefix(why, "interrupted by "); {
	case !ok:
		return why
	case rest == "SIGINT":
		return "you pressed Ctrl-C"
	case rest == "SIGHUP":
		return "the terminal was closed"
	case rest == "SIGTERM":
		return "Ralph was told to end"
	}
	return why
}
