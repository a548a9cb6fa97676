package render

import (
	"fmt"
	"strings"
	"time"

	"ralph/workers/agent"
)

const (
	// runRows bounds the rows of a run above the prompt.
	runRows = 6
	// barWidth is how wide the bar of a run gets, minBar how narrow.
	barWidth, minBar = 30, 8
	// leastTitle is how much of a task's title is worth showing.
	leastTitle = 12
)

// Run is an autonomous run as the chat shows it. It is a value.
type Run struct {
	// Status is running, pausing, paused, stopping, interrupted, completed, …
	Status, Phase string
	Iteration     int
	MaxIterations int // 0 = no limit
	// Done, Failed, Skipped and Open count tasks; Open are all that are not over.
	Done, Failed, Skipped, Open int
	Active, Next                []RunTask
	// Waiting says what is waited for, "" for nothing, Until when that ends.
	Waiting string
	Until   time.Time
	// Question is what the run asks, "" for nothing.
	Question string
}

// RunTask is one task of a Run.
type RunTask struct {
	ID, Title string
	Agent     string // who works it, "" when nobody does
	Attempt   int    // from 1
	Since     time.Time
	// Doing is the agent's last action.
	Doing string
	// Beside says that it is no task of the plan, but an agent that helps.
	Beside bool
}

// Total counts the tasks.
func (t Run) Total() int { return t.Done + t.Failed + t.Skipped + t.Open }

// RunRows are the rows of a run above the prompt, at most six, each narrower than
// the terminal: how far it is, the tasks at work with their agents, and what
// comes next or what is waited for.
func (r *Renderer) RunRows(t Run, now time.Time) []string {
	rows := []string{r.bar(t)}
	last := r.ahead(t, now)
	room := runRows - 1
	if last != "" {
		room--
	}
	shown := t.Active
	if len(shown) > room {
		shown = shown[:room]
		more := fmt.Sprintf("%d more at work", len(t.Active)-room)
		if last == "" { // its row takes the place of a task
			shown, more = shown[:room-1], fmt.Sprintf("%d more at work", len(t.Active)-room+1)
		}
		last = strings.TrimSuffix(more+r.pick(" · ", " - ")+last, r.pick(" · ", " - "))
	}
	ids := 0
	for _, task := range shown {
		ids = max(ids, columns(SafeLine(task.ID)))
	}
	ids = min(ids, r.o.Width/4)
	for _, task := range shown {
		rows = append(rows, r.taskRow(task, ids, now))
	}
	if last != "" {
		rows = append(rows, r.liveRow("  "+last))
	}
	return rows
}

// liveRow cuts a row to the width and makes it matter less.
func (r *Renderer) liveRow(text string) string {
	return r.dim(clip(text, r.o.Width-1, r.pick("…", "...")))
}

// bar is how far a run is: a bar when there is room, and the numbers.
func (r *Renderer) bar(t Run) string {
	var facts []string
	if t.Status != "" && t.Status != "running" {
		facts = append(facts, SafeLine(t.Status))
	}
	if t.Total() > 0 {
		facts = append(facts, fmt.Sprintf("%d/%d done", t.Done, t.Total()))
	}
	if t.Failed > 0 {
		facts = append(facts, fmt.Sprintf("%d failed", t.Failed))
	}
	if t.Skipped > 0 {
		facts = append(facts, fmt.Sprintf("%d skipped", t.Skipped))
	}
	switch {
	case t.Iteration > 0 && t.MaxIterations > 0:
		facts = append(facts, fmt.Sprintf("iteration %d of %d", t.Iteration, t.MaxIterations))
	case t.Iteration > 0:
		facts = append(facts, fmt.Sprintf("iteration %d", t.Iteration))
	}
	if t.Phase != "" {
		facts = append(facts, SafeLine(t.Phase))
	}
	text := strings.Join(facts, r.pick(" · ", " - "))
	width := min(r.o.Width-1-2-1-columns(text), barWidth)
	if width < minBar {
		width = min(minBar, r.o.Width/4)
	}
	over, full := t.Done+t.Failed+t.Skipped, 0
	if t.Total() > 0 {
		full = over * width / t.Total()
	}
	good := 0
	if over > 0 {
		good = full * t.Done / over
	}
	bar := r.paint("32", strings.Repeat(r.pick("█", "#"), good)) +
		r.paint("33", strings.Repeat(r.pick("▓", "x"), full-good)) + r.dim(strings.Repeat(r.pick("░", "."), width-full))
	return "  " + bar + " " + r.dim(clip(text, max(r.o.Width-1-3-width, 1), r.pick("…", "...")))
}

// taskRow is a task at work: what it is, and who does what for how long.
func (r *Renderer) taskRow(t RunTask, ids int, now time.Time) string {
	dot := r.pick(" · ", " - ")
	head := "  " + r.fitted(SafeLine(t.ID), ids)
	var tail string
	if !t.Since.IsZero() {
		tail = dot + Span(now.Sub(t.Since))
	}
	if t.Attempt > 1 {
		tail = dot + fmt.Sprintf("try %d", t.Attempt) + tail
	}
	who := SafeLine(t.Agent)
	if t.Beside || who == SafeLine(t.ID) {
		who = ""
	}
	if who != "" && columns(head)+columns(tail)+columns(dot+who)+leastTitle <= r.o.Width-1 {
		tail = dot + who + tail
	}
	room := r.o.Width - 1 - columns(head) - columns(tail)
	title, doing := SafeLine(t.Title), SafeLine(t.Doing)
	switch {
	case title == "":
		title = doing
	case doing != "" && room >= 2*leastTitle+columns(dot):
		// The title may take what the action leaves, and the action what is over then.
		least := max(room-columns(dot+doing), room/2)
		title = clip(title, least, r.pick("…", "..."))
		title += dot + clip(doing, max(room-columns(title+dot), 1), r.pick("…", "..."))
	}
	return r.liveRow(head + clip(title, max(room, leastTitle), r.pick("…", "...")) + tail)
}

// ahead is the last row of a run: what it asks, what it waits for, or what comes
// next.
func (r *Renderer) ahead(t Run, now time.Time) string {
	switch {
	case t.Question != "":
		return "asks: " + Brief(t.Question)
	case t.Waiting != "" && !t.Until.IsZero():
		return "waits for " + SafeLine(t.Waiting) + r.pick(" · ", " - ") + "goes on in " + Span(t.Until.Sub(now))
	case t.Waiting != "":
		return "waits for " + SafeLine(t.Waiting)
	case len(t.Next) == 0:
		return ""
	}
	var words []string
	for _, task := range t.Next {
		words = append(words, strings.TrimSpace(SafeLine(task.ID)+" "+SafeLine(task.Title)))
	}
	return "next: " + strings.Join(words, ", ")
}

// Progress is a run in one line of text, for those who see no live rows.
func (r *Renderer) Progress(t Run) string {
	text := fmt.Sprintf("run: %d of %d done", t.Done, t.Total())
	for _, part := range []struct {
		n    int
		word string
	}{{t.Failed, "failed"}, {t.Skipped, "skipped"}, {len(t.Active), "at work"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.word)
		}
	}
	if len(t.Next) > 0 && t.Question == "" {
		text += "; next " + SafeLine(t.Next[0].ID)
	}
	return r.mark(markNote, text)
}

// ofRun is the line of an event of the loop over a plan; ok says that the event is
// one. None of them ends the block that is being written.
func (r *Renderer) ofRun(e agent.Event) (line string, ok bool) {
	text, id := SafeLine(firstRow(e.Text)), SafeLine(e.TaskID)
	switch e.Type {
	case agent.EventTaskStart:
		if _, told := r.tries[e.TaskID]; !told {
			r.tries[e.TaskID] = max(e.Attempt, 1)
		}
		return "", true // it is shown with the agent that begins
	case agent.EventTaskEnd:
		return r.taskEnd(e, id, text), true
	case agent.EventDecision:
		if e.Status == "execute" || e.Status == "retry" {
			return "", true // it begins, and /why says how that was decided
		}
		return r.mark(markNote, r.dim(decision(e, id, text))), true
	case agent.EventBreaker:
		kind := markWarning
		if e.Status == "closed" {
			kind = markOK
		}
		state := strings.ReplaceAll(SafeLine(e.Status), "_", " ")
		return r.mark(kind, reasoned(strings.TrimSpace("breaker "+state), text, SafeLine(firstRow(e.Reason)), strings.ReplaceAll(SafeLine(e.Rule), "_", " "))), true
	case agent.EventGate:
		if e.ExitCode != nil || OfHelper(e) {
			return "", false // a check
		}
		kind, verdict := markOK, "passed"
		if e.OK != nil && !*e.OK {
			kind, verdict = markFailed, "failed"
		}
		if e.Status == "errored" {
			verdict = "could not be judged"
		}
		return r.mark(kind, reasoned("gate "+verdict, text, SafeLine(firstRow(e.Reason)))), true
	case agent.EventRetry:
		if e.TaskID == "" || OfHelper(e) {
			return "", false // a request
		}
		r.tries[e.TaskID] = 0
		what := id
		if e.Attempt > 0 {
			what += fmt.Sprintf(" try %d failed", e.Attempt)
		}
		if e.Reason != "" {
			text = SafeLine(firstRow(e.Reason))
		}
		line := reasoned(what, text)
		if e.WaitMS > 0 {
			line += "; next in " + Duration(time.Duration(e.WaitMS)*time.Millisecond)
		}
		if who := SafeLine(e.Ref); who != "" {
			line += "  " + r.dim(who)
		}
		return r.mark(markRetry, line), true
	}
	return "", false
}

// decision is what was decided, once: the text may begin with it.
func decision(e agent.Event, id, text string) string {
	what, why := SafeLine(e.Status), SafeLine(firstRow(e.Reason))
	switch {
	case text != "" && (what == "" || strings.HasPrefix(text, what)):
		return strings.TrimSuffix(text+"; "+why, "; ")
	case id == "" && what == "":
		return reasoned("decided", why)
	}
	return reasoned(strings.TrimSpace(id+" "+what), text, why)
}

// taskStart tells that an agent begins with a task of a plan, unless it was told
// before that it tries again.
func (r *Renderer) taskStart(e agent.Event) string {
	try, told := r.tries[e.TaskID]
	delete(r.tries, e.TaskID)
	if told && try == 0 {
		return ""
	}
	id := SafeLine(e.TaskID)
	facts := SafeLine(e.Agent)
	if try > 1 {
		facts += r.pick(" · ", " - ") + fmt.Sprintf("try %d", try)
	}
	return r.mark(markNote, reasoned(id+" begins", strings.TrimPrefix(SafeLine(firstRow(e.Text)), id))+"  "+r.dim(facts))
}

func (r *Renderer) taskEnd(e agent.Event, id, text string) string {
	if e.Status == "retry" || e.Status == "rate_limited" {
		return "" // that it is tried again was told
	}
	delete(r.tries, e.TaskID)
	kind := markNote
	switch e.Status {
	case "done", "completed":
		kind = markOK
		if e.OK != nil && !*e.OK {
			kind = markWarning
		}
	case "failed":
		kind = markFailed
	case "skipped", "interrupted", "blocked", "partial", "needs_input", "cancelled":
		kind = markWarning
	}
	line := reasoned(strings.TrimSpace(id+" "+strings.ReplaceAll(SafeLine(e.Status), "_", " ")), text, SafeLine(firstRow(e.Reason)))
	var facts []string
	if e.Output != "" {
		facts = append(facts, SafeLine(firstRow(e.Output)))
	}
	if e.Attempt > 1 {
		facts = append(facts, fmt.Sprintf("try %d", e.Attempt))
	}
	if e.WorkedMS > 0 || e.DurationMS != nil { // on all tries, or on the one that ended
		took := e.WorkedMS
		if e.DurationMS != nil {
			took = max(took, *e.DurationMS)
		}
		facts = append(facts, Duration(time.Duration(took)*time.Millisecond))
	}
	if len(facts) > 0 {
		line += "  " + r.dim(strings.Join(facts, r.pick(" · ", " - ")))
	}
	return r.mark(kind, line)
}

// reasoned is a head, and behind a colon what there is to say about it, once.
func reasoned(head string, parts ...string) string {
	var said []string
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" && (len(said) == 0 || said[0] != p) {
			said = append(said, p)
		}
	}
	if len(said) == 0 {
		return head
	}
	return head + ": " + strings.Join(said, "; ")
}

// firstRow is the first line of a text that has something on it.
func firstRow(text string) string {
	row, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return row
}
