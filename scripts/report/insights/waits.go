package insights

import (
	"fmt"
	"slices"
	"strings"

	"ralph/memory/session/folder"
	"ralph/memory/text"
)

const (
	maxAsks    = 512
	lookBehind = 64 // events that are remembered, for questions that come late in the file
)

// wait is a time in which somebody waited for a human.
type wait struct {
	proof
	seconds float64
	task    int32
	what    string
}

// ask is a question that waits for an answer; answered is when the first event
// after it came that can be one.
type ask struct {
	m        mark
	task     int32
	answered mark
	by       int8
	what     string
}

// What can end a question.
const (
	byTask  int8 = iota + 1 // something happens in its task
	byHuman                 // a human says something
	byEnd                   // a process ends or begins
	byOther                 // anything else goes on
)

type step struct {
	m    mark
	task int32
	by   int8
}

// waits finds where a human was waited for.
type waits struct {
	board *board
	list  []wait
	asks  []ask
	last  []step
	at    int
}

func newWaits(b *board) *waits { return &waits{board: b} }

// event takes in an event of the log, and says whether it is a wait for a human.
func (w *waits) event(m mark, n int32, kind folder.EventType, e folder.Event, d details) bool {
	human := forHuman(kind, e, d)
	if !human {
		w.step(step{m, n, stepOf(kind, d)})
		return false
	}
	seconds, stated := d.seconds(waitKeys()...)
	if e.Duration > 0 {
		seconds, stated = max(seconds, e.Duration.Seconds()), true
	} else if !stated {
		seconds, stated = d.seconds("duration", "elapsed", "took")
	}
	what := d.text("about", "question", "prompt", "reason", "waitingfor")
	switch {
	case stated:
		w.step(step{m, n, byHuman})
		w.add(m, n, seconds, what)
	case pending(e, d):
		w.step(step{m, n, byOther})
		w.open(m, n, what)
	default:
		w.step(step{m, n, byHuman})
	}
	return true
}

func stepOf(kind folder.EventType, d details) int8 {
	switch kind {
	case folder.SessionStart, folder.SessionEnd, folder.PhaseComplete:
		return byEnd
	case folder.Interrupted:
		return byHuman
	case folder.Message:
		if fromHuman(d) {
			return byHuman
		}
		return byOther
	case folder.GateChecked, folder.Checkpoint, folder.Tripped:
		return 0 // these come also while somebody waits
	}
	return byTask
}

// forHuman says that an event is about a wait for a human, or a question to one.
func forHuman(kind folder.EventType, e folder.Event, d details) bool {
	switch kind {
	case folder.SessionStart, folder.SessionEnd, folder.TaskStart, folder.Retried, folder.Tripped, folder.Errored:
		return false
	case folder.GateChecked, folder.Interrupted, folder.Message:
		if asksHuman(kind, e, d) {
			return true
		}
		if kind == folder.GateChecked {
			return false
		}
	case folder.Decided:
		if action := d.text("action", "choice"); action != "" && len(words(action)) <= 3 && anyWord(action, "ask", "human", "escalate", "help") && tells(e, d) {
			return true
		}
		if forAnswer(d.text("decisiontype", "kind", "type")) || anyWord(e.Result, "ask", "human", "escalate", "help") && len(words(e.Result)) <= 3 {
			return true
		}
	case folder.Handoff:
		if human(d.text("to", "target", "receiver", "handoffto")) {
			return true
		}
	case folder.TaskComplete, folder.PhaseStart, folder.PhaseComplete, folder.Checkpoint:
	default:
		switch plain(string(e.Type)) {
		case "helprequest", "humanwait", "waitforhuman", "waitingforhuman", "waiting", "wait", "idle", "humaninput", "humanintervention", "ask", "question", "approval", "approvalrequest", "permission",
			"permissionrequest", "userinput", "inputrequest", "humanidle", "idlewait":
			return true
		}
	}
	if len(d.fields) == 0 && kind != folder.Interrupted {
		return false
	}
	if human(d.text("waitingfor", "waitfor", "waitedfor", "awaiting", "blockedon", "waitson")) {
		return true
	}
	for _, f := range d.fields {
		if k := f.key; strings.Contains(k, "human") && (strings.Contains(k, "wait") || strings.Contains(k, "idle") || strings.Contains(k, "response")) {
			return true
		}
	}
	if kind == folder.Message || kind == folder.TaskComplete || kind == folder.PhaseComplete {
		return false // their texts may speak of anything
	}
	says := ""
	for _, s := range []string{e.Result, d.text("reason", "cause", "why"), d.text("how", "state", "status")} {
		says += " " + strings.ToLower(s[:min(len(s), maxWorded)])
	}
	waits := strings.Contains(says, "waiting") || strings.Contains(says, "await") || strings.Contains(says, "wait_for") || strings.Contains(says, "wait for")
	return (waits || kind != folder.Interrupted && (strings.Contains(says, "wait") || strings.Contains(says, "idle"))) && human(says)
}

// asksHuman says that a gate, an interrupt or a message is a request to a human,
// or its answer, by what it calls itself.
func asksHuman(kind folder.EventType, e folder.Event, d details) bool {
	if len(d.fields) == 0 {
		return false
	}
	switch kind {
	case folder.GateChecked:
		for _, k := range []string{"kind", "type", "gate", "gatename", "name", "check"} {
			// Approval tests are checks like others.
			s := plain(asText(d.own(k)))
			if s == "human" || anyPart(s, "approval", "signoff", "humanreview", "humancheck", "humanconfirm") && !strings.Contains(s, "test") {
				return true
			}
		}
		return false
	case folder.Message:
		if fromHuman(d) {
			_, told := d.seconds(waitKeys()...)
			return told
		}
		to := asText(d.own("to", "target", "receiver"))
		return (to == "" || human(to)) && forAnswer(asText(d.own("kind", "type", "messagetype", "messagekind", "category")))
	}
	switch plain(asText(d.own("class"))) {
	case "stop", "urgent", "ask", "steer", "later":
		return false // what a human says to Ralph
	}
	says := []string{asText(d.own("class")), asText(d.own("kind")), asText(d.own("type")), asText(d.own("category")), asText(d.own("interrupttype")), asText(d.own("action"))}
	if len(words(e.Result)) <= 3 {
		says = append(says, e.Result)
	}
	for _, s := range says {
		switch k := plain(s); {
		case k == "" || k == "ask" || strings.Contains(k, "stop") || strings.Contains(k, "interrupt"):
		case strings.Contains(k, "human") || strings.Contains(k, "intervention"):
			// It may be a human who speaks, too.
			if tells(e, d) && (forAnswer(strings.ReplaceAll(k, "human", "")) || anyPart(k, "intervention", "wait", "input", "feedback", "review", "response")) {
				return true
			}
		case forAnswer(k):
			return true
		}
	}
	return false
}

func anyPart(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}

// fromHuman says that a message is one of a human.
func fromHuman(d details) bool {
	switch plain(asText(d.own("role", "from", "sender", "author", "by"))) {
	case "user", "human", "operator":
		return true
	}
	return false
}

// tells says that an event tells how long it took.
func tells(e folder.Event, d details) bool {
	if e.Duration > 0 {
		return true
	}
	_, told := d.seconds(append(waitKeys(), "duration", "elapsed", "took")...)
	return told
}

// waitKeys begin the keys of the time that was waited for a human.
func waitKeys() []string {
	return []string{"wait", "waited", "waiting", "waittime", "humanwait", "humanwaittime", "waitforhuman", "waitedforhuman", "waitingforhuman", "idle", "idletime", "response", "responsetime",
		"humanresponse", "humanresponsetime", "blocked", "approvalwait", "approvaltime", "humanidle"}
}

// forAnswer says that a decision of this type is one that a human makes.
func forAnswer(kind string) bool {
	k := plain(kind)
	for _, w := range []string{"help", "permission", "approv", "question", "human", "escalat", "clarif", "confirm", "askuser", "userinput", "userapproval", "userdecision", "userquestion"} {
		if strings.Contains(k, w) {
			return true
		}
	}
	return k == "ask"
}

// human says that a text names a human or what only one gives.
func human(s string) bool {
	if s == "" {
		return false
	}
	s = strings.ToLower(s[:min(len(s), maxWorded)])
	for _, w := range []string{"human", "user", "operator", "person", "approv", "permission", "help", "question", "confirm", "clarif", "escalat", "answer", "reviewer", "input"} {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// pending says that an event is a question that is not answered.
func pending(e folder.Event, d details) bool {
	for _, k := range []string{"answer", "answered", "response", "reply", "by", "answeredby", "outcome"} {
		if s := asText(d.own(k)); s != "" && s != "pending" && s != "false" {
			return false
		}
	}
	if anyPart(plain(asText(d.own("kind", "type", "category"))), "response", "answer", "reply", "granted", "denied", "approved", "received") {
		return false
	}
	says := e.Result
	if says == "" {
		says = d.text("action", "status", "state")
	}
	if says == "" {
		return true
	}
	return len(words(says)) <= 4 && anyWord(says, "ask", "asked", "asking", "pending", "wait", "waiting", "awaiting", "pause", "paused", "blocked", "request", "requested", "help", "escalate", "escalated", "question",
		"needs", "open", "human")
}

// add notes a wait that was stated.
func (w *waits) add(m mark, n int32, seconds float64, what string) {
	if n >= 0 && seconds > 0 {
		w.board.tasks[n].waited += float32(seconds)
	}
	if seconds < minWait.Seconds() || len(w.list) >= maxFindings {
		return
	}
	x := wait{proof: newProof(), seconds: seconds, task: n, what: keep(what)}
	x.add(m, w.board.id(n))
	w.list = append(w.list, x)
}

// open notes a question; its answer may stand before it in the file.
func (w *waits) open(m mark, n int32, what string) {
	if m.ms == noTime || len(w.asks) >= maxAsks {
		return
	}
	a := ask{m: m, task: n, what: keep(what)}
	for _, s := range w.last {
		a.see(s)
	}
	w.asks = append(w.asks, a)
}

// step takes in what may end a question.
func (w *waits) step(s step) {
	if s.by == 0 || s.m.ms == noTime {
		return
	}
	for i := range w.asks {
		w.asks[i].see(s)
	}
	if len(w.last) < lookBehind {
		w.last = append(w.last, s)
		return
	}
	w.last[w.at] = s
	w.at = (w.at + 1) % lookBehind
}

func (a *ask) see(s step) {
	if s.m.ms <= a.m.ms || a.by != 0 && s.m.ms >= a.answered.ms {
		return
	}
	same := a.task == none || a.task == s.task
	switch s.by {
	case byEnd:
	case byHuman:
		if !same && s.task != none {
			return
		}
	default:
		if !same {
			return
		}
	}
	a.by, a.answered = s.by, s.m
}

// settle turns questions that were answered late into waits.
func (w *waits) settle() {
	for _, a := range w.asks {
		seconds := float64(a.answered.ms-a.m.ms) / 1000
		if a.by == 0 || a.by == byEnd {
			continue
		}
		if slices.ContainsFunc(w.list, func(k wait) bool { return k.during(a.m.ms, a.answered.ms) }) {
			continue
		}
		n := len(w.list)
		if w.add(a.m, a.task, seconds, a.what); len(w.list) > n {
			w.list[n].until(a.answered)
		}
	}
	w.asks = nil
}

// until adds the event that ended a wait.
func (x *wait) until(m mark) {
	x.marks = append(x.marks, m)
	x.span(m.ms)
}

func (w *waits) findings() (found []Finding) {
	for _, x := range w.list {
		in := ""
		if x.task >= 0 {
			in = " in task " + named(w.board.id(x.task))
		}
		about := ""
		if x.what != "" {
			about = fmt.Sprintf(": “%s”", named(x.what))
		}
		found = append(found, x.finding(idleForHuman, fmt.Sprintf("%s of waiting for a human%s%s.", text.Length(x.seconds), in, about)))
	}
	return found
}

// during says that a wait was, as a whole or in part, in that time. Some write
// down when it began and some when it was over.
func (x *wait) during(from, to int64) bool {
	if x.first == noTime {
		return false
	}
	took := int64(x.seconds * 1000)
	return x.first-took-sameMoment <= to && from <= x.first+took+sameMoment
}
