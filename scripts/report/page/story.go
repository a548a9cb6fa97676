package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// sitting is a time in which a Ralph worked on the session.
type sitting struct{ from, to int64 }

// task is what is known of one while its events go by.
type task struct {
	id, name string
	first    int64
	from     int64 // of the attempt that is open
	last     int64 // when the last attempt ended
	open     bool
	attempts int
	worked   int64
	state    state
	seen     bool // an attempt has ended
}

// story follows what the log tells.
type story struct {
	n        int
	last     int64 // the latest time
	tasks    map[string]*task
	rows     []*task // the first maxTaskRows+1
	total    int     // tasks, as far as they can be told apart
	bars     bars
	waits    bars
	phases   bars
	marks    marks
	ended    flow // attempts: fresh are done, output failed, cached the rest
	sittings []sitting
	sitting  bool
	phase    map[string]int64
}

func newStory() story {
	return story{tasks: map[string]*task{}, phase: map[string]int64{}, bars: bars{limit: maxTaskBars}, waits: bars{limit: maxWaitBars}, phases: bars{limit: 20}}
}

func (s *story) event(at int64, e folder.Event) {
	if s.n++; s.n == 1 {
		s.last = at
	}
	s.last = max(s.last, at)
	s.sit(at, e.Type)
	switch e.Type {
	case folder.SessionEnd:
		for _, t := range s.running() {
			s.end(t, at, stateStopped)
		}
	case folder.TaskStart:
		s.start(at, e)
	case folder.TaskComplete:
		s.complete(at, e)
	case folder.Errored:
		s.mark(at, laneError, cmp.Or(e.Text("kind", "error_type", "type"), "error")+": "+cmp.Or(e.Result, e.Text("error_message", "message", "error")), e.TaskID)
		if t := s.tasks[e.TaskID]; t != nil && t.open && e.TaskID != "" {
			s.end(t, at, stateFailed)
		}
	case folder.Retried:
		s.mark(at, laneRetry, e.Result, e.TaskID)
	case folder.Interrupted:
		content := cmp.Or(e.Result, e.Text("how"), "interrupt")
		if e.Duration > 0 {
			content += ", at rest after " + text.Length(e.Duration.Seconds())
		}
		s.mark(at, laneInterrupt, content, e.TaskID)
	case folder.GateChecked:
		l := laneGateFailed
		if folder.TaskStatus(e.Result).Meant() == folder.TaskCompleted {
			l = lanePassed
		}
		s.mark(at, l, cmp.Or(e.Text("check", "name", "gate", "command"), "check"), e.TaskID)
	case folder.Tripped:
		s.mark(at, laneBreaker, strings.Trim(e.Text("condition")+": "+e.Result, ": "), e.TaskID)
	case folder.Message:
		if who := e.Text("role", "from"); who == "user" || who == "human" {
			s.mark(at, laneSaid, e.Text("text", "content", "message"), e.TaskID)
		}
	case folder.Checkpoint:
		s.mark(at, laneCheckpoint, cmp.Or(e.Result, e.Text("ref"), "checkpoint"), e.TaskID)
	case folder.Handoff:
		s.mark(at, laneHandoff, e.Result, e.TaskID)
	case folder.Decided:
		kind := e.Text("decision_type", "type")
		if e.Duration > 0 && (kind == folder.DecisionHelp || kind == "permission") {
			s.waits.add(bar{from: at - e.Duration.Milliseconds(), to: at, text: shorten(strings.TrimSpace(kind + " " + e.Text("about", "text")))})
		}
	case folder.PhaseStart, folder.PhaseComplete:
		s.inPhase(at, e)
	}
}

func (s *story) mark(at int64, l lane, text, task string) {
	if task != "" {
		text = task + " · " + text
	}
	s.marks.add(mark{at: at, lane: l, text: shorten(text)})
}

// maxKeptBytes bounds a foreign text while it is kept.
const maxKeptBytes = 160

// shorten cuts a text that may be of any size; what is drawn is made harmless
// later. The copy lets go of the whole.
func shorten(s string) string {
	if len(s) > maxKeptBytes {
		s = strings.ToValidUTF8(s[:maxKeptBytes], "") + "…"
	}
	return strings.Clone(s)
}

func (s *story) sit(at int64, kind folder.EventType) {
	switch {
	case kind == folder.SessionStart || len(s.sittings) == 0 || !s.sitting && len(s.sittings) < maxSittings:
		if s.sitting = true; len(s.sittings) < maxSittings {
			s.sittings = append(s.sittings, sitting{at, at})
		}
	case kind == folder.SessionEnd:
		s.sitting = false
	}
	x := &s.sittings[len(s.sittings)-1]
	x.from, x.to = min(x.from, at), max(x.to, at)
	if len(s.sittings) > 1 && kind != folder.SessionStart {
		x.from = max(x.from, min(x.to, s.sittings[len(s.sittings)-2].to))
	}
}

// of finds a task, or makes room for it.
func (s *story) of(at int64, e folder.Event) *task {
	id := shorten(e.TaskID)
	t := s.tasks[id]
	if t == nil {
		if len(s.tasks) >= maxTracked {
			s.forget(at)
		}
		t = &task{id: id, first: at, state: stateOpen}
		s.tasks[id] = t
		if s.total++; len(s.rows) <= maxTaskRows {
			s.rows = append(s.rows, t)
		}
	}
	if e.TaskName != "" {
		t.name = shorten(e.TaskName)
	}
	return t
}

// running are the tasks that are open, the first first.
func (s *story) running() []*task {
	list := slices.DeleteFunc(slices.Collect(maps.Values(s.tasks)), func(t *task) bool { return !t.open })
	slices.SortFunc(list, func(a, b *task) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.id, b.id)) })
	return list
}

// forget lets go of tasks that are over, or of all when none is.
func (s *story) forget(at int64) {
	for id, t := range s.tasks {
		if !t.open {
			delete(s.tasks, id)
		}
	}
	if len(s.tasks) < maxTracked {
		return
	}
	for _, t := range s.running() {
		s.end(t, at, stateOpen)
	}
	clear(s.tasks)
}

func (s *story) start(at int64, e folder.Event) {
	t := s.of(at, e)
	if t.open {
		s.end(t, at, stateStopped)
	}
	t.open, t.from, t.state = true, at, stateRunning
	t.attempts++
}

func (s *story) end(t *task, at int64, how state) {
	t.open, t.seen, t.last, t.state = false, true, max(at, t.from), how
	t.worked += t.last - t.from
	s.count(t.last, how)
	s.bars.mixed = s.total > maxTaskRows
	s.bars.add(bar{from: t.from, to: t.last, row: t.id, state: how, attempt: t.attempts, text: cmp.Or(t.name, t.id)})
}

// count notes that an attempt ended.
func (s *story) count(at int64, how state) {
	a := amount{cached: 1}
	switch how {
	case stateDone:
		a = amount{fresh: 1}
	case stateFailed:
		a = amount{output: 1}
	}
	s.ended.add(timed{at, a})
}

// complete ends the attempt that is open. Foreign logs tell of ends without a
// beginning: then the duration says where it began, and nothing else does when
// attempts were drawn.
func (s *story) complete(at int64, e folder.Event) {
	t, how := s.of(at, e), ending(e.Went())
	switch {
	case t.open:
	case !t.seen:
		t.from, t.attempts = at-e.Duration.Milliseconds(), max(1, t.attempts)
	case how == stateDone && at > t.last:
		t.from = t.last // it went on after an error
	default:
		t.state = how
		return
	}
	s.end(t, at, how)
}

// ending is the state in which something ended.
func ending(how folder.TaskStatus) state {
	switch how {
	case folder.TaskError:
		return stateFailed
	case folder.TaskSkipped:
		return stateSkipped
	case folder.TaskPaused:
		return stateStopped
	}
	return stateDone
}

func (s *story) inPhase(at int64, e folder.Event) {
	name := shorten(e.Text("name", "phase", "phase_name"))
	if name == "" {
		return
	}
	if e.Type == folder.PhaseStart {
		if len(s.phase) < maxAgentRows {
			s.phase[name] = at
		}
		return
	}
	from, ok := s.phase[name]
	if !ok {
		from = at - e.Duration.Milliseconds()
	}
	delete(s.phase, name)
	s.phases.add(bar{from: from, to: at, row: name, state: ending(e.Went()), text: name})
}

// row is a line of the timeline: a task or an agent.
type row struct {
	id, name string
	status   string
	state    state
	worked   *float64 // seconds
	attempts int
	turns    int
	tokens   int64
}

// result gives the rows and the bars of the tasks, and how many tasks there are
// when they are too many for a row each.
func (s *story) result(d folder.Data, running bool) (rows []row, list []bar, many int) {
	open := stateOpen
	if running {
		open = stateRunning
	}
	b := bars{limit: maxTaskBars, mixed: s.bars.mixed, list: slices.Clone(s.bars.list)}
	for _, t := range s.running() {
		b.add(bar{from: t.from, to: max(s.last, t.from), row: t.id, state: open, attempt: t.attempts, text: cmp.Or(t.name, t.id)})
	}
	known := map[string]int{}
	for _, t := range s.rows {
		r := row{id: t.id, name: t.name, state: t.state, status: t.state.word(), attempts: t.attempts}
		if worked := t.worked; t.open {
			r.state, r.status = open, open.word()
			r.worked = ptr(float64(worked+max(s.last, t.from)-t.from) / 1000)
		} else if t.seen && (t.attempts > 0 || worked > 0) { // else it was never begun
			r.worked = ptr(float64(worked) / 1000)
		}
		known[t.id] = len(rows)
		rows = append(rows, r)
	}
	for _, p := range d.Progress.Tasks {
		i, ok := known[p.TaskID]
		if !ok && len(s.tasks) < maxTracked && s.tasks[p.TaskID] == nil {
			i = len(rows)
			known[p.TaskID] = i
			rows = append(rows, row{id: shorten(p.TaskID)})
			fromProgress(&b, p)
		} else if !ok {
			continue
		}
		r := &rows[i]
		r.status = shorten(strings.ReplaceAll(string(p.Status), "_", " "))
		if p.Status == folder.TaskCompleted {
			r.status = "done"
		} else if p.Status == folder.TaskError {
			r.status = "failed"
		}
		if p.DurationSeconds != nil && *p.DurationSeconds >= 0 {
			r.worked = p.DurationSeconds
		}
	}
	if total := max(s.total+len(rows)-len(s.rows), len(rows)); total > maxTaskRows {
		return nil, b.list, total
	}
	return rows, b.list, 0
}

// fromProgress draws a task of which only progress-tracking.yaml tells.
func fromProgress(b *bars, p folder.TaskState) {
	if p.StartedAt == nil {
		return
	}
	from, ok := millis(*p.StartedAt)
	if !ok {
		return
	}
	to, how := from, stateOpen
	if p.CompletedAt != nil {
		to, _ = millis(*p.CompletedAt)
		if how = stateDone; p.Status != folder.TaskCompleted {
			how = ending(p.Status.Meant())
		}
	}
	b.add(bar{from: from, to: to, row: p.TaskID, state: how, attempt: 1, text: p.TaskID})
}

func ptr(f float64) *float64 { return &f }

// clock gives a time of the timeline as one reads it, UTC.
func clock(at int64) time.Time { return time.UnixMilli(at).UTC() }
