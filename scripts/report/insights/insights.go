package insights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ralph/memory/session"
	"ralph/memory/session/folder"
)

// Options are what the rules need to know of the session beforehand.
type Options struct {
	// ConfidenceThreshold is the session's confidence_threshold, from 0 to 1; 0
	// means what its metadata says, and 0.7 when they say nothing.
	ConfidenceThreshold float64
}

// Finder takes in what a session's files hold, and finds what the rules name.
// The log should come before the journal, since it knows the context windows.
// It is not safe for concurrent use.
type Finder struct {
	o        Options
	reader   *reader
	events   int   // of the log
	last     int64 // when the last event was
	gaps     []gap
	board    *board
	troubles *troubles
	retries  [2]retries // of the log, of the journal
	checks   [2]*checks // likewise
	beliefs  beliefs
	contexts *contexts
	waits    *waits
	stops    [2]stops // of the log, of the journal
	journal  *journal
}

// New returns a Finder that knows nothing of a session yet.
func New(o Options) *Finder {
	b := newBoard()
	return &Finder{o: o, reader: newReader(), last: noTime, board: b, troubles: newTroubles(b), checks: [2]*checks{newChecks(), newChecks()}, contexts: newContexts(),
		waits: newWaits(b), journal: newJournal()}
}

// Event takes in one event of the log, by its id. It keeps nothing of e.
func (f *Finder) Event(id string, e folder.Event) {
	f.events++
	m, d, kind := markOf(id, e.Time, f.events), f.reader.event(e.Details), typeOf(e.Type)
	n := f.board.of(taskOf(id, kind, e))
	if n >= 0 {
		if k := taskKind(kind, d); k != "" {
			f.board.tasks[n].kind = f.board.kind(k)
		}
	}
	f.contexts.event(m, kind, d, f.board.id(n))
	waited := f.waits.event(m, n, kind, e, d)
	switch kind {
	case folder.SessionStart:
		f.resumed(m)
		f.contexts.began(m, d)
	case folder.TaskStart:
		f.board.start(n, m, d)
	case folder.TaskComplete:
		f.board.end(n, m, e.Result, e.Duration.Seconds(), d)
	case folder.Decided:
		f.beliefs.decided(f.board, m, n, e, d)
	case folder.Errored:
		f.troubles.event(m, n, e, d)
	case folder.Retried:
		f.retries[0].add(m, n)
	case folder.GateChecked:
		f.checks[0].event(m, f.board.id(n), e, d)
	case folder.Interrupted:
		if !waited {
			f.stops[0].event(m, n, e, d)
		}
	}
	if m.ms != noTime {
		f.last = max(f.last, m.ms)
	}
}

// resumed notes that a process begins: what was between it and the last event
// is no time of the session.
func (f *Finder) resumed(m mark) {
	if f.last != noTime && m.ms > f.last && len(f.gaps) < maxFindings {
		f.gaps = append(f.gaps, gap{f.last, m.ms})
	}
}

// Result returns what the rules found, given everything else that the session's
// files say: the most severe first. It is called once, at the end.
func (f *Finder) Result(d folder.Data) []Finding {
	threshold := cmp.Or(f.o.ConfidenceThreshold, d.Meta.Config.ConfidenceThreshold, defaultConfidence)
	if threshold > 1 && threshold <= 100 {
		threshold /= 100
	}
	f.journal.tell(f)
	f.waits.settle()
	f.board.track(d.Progress.Tasks)
	var found []Finding
	for _, list := range [][]Finding{
		f.troubles.findings(&d),
		f.storms(&d),
		flaky(f.checks, f.board),
		f.beliefs.findings(f.board, &d, threshold),
		f.contexts.findings(),
		f.board.tooBig(f.gaps),
		f.waits.findings(),
		slow(f.stops, f.board),
	} {
		found = append(found, list[:min(len(list), maxFindings)]...)
	}
	slices.SortStableFunc(found, func(x, y Finding) int {
		_, i := ruleNamed(x.Rule)
		_, j := ruleNamed(y.Rule)
		return cmp.Or(-cmp.Compare(weight(x.Severity), weight(y.Severity)), cmp.Compare(i, j), firstOf(x, y), strings.Compare(x.Evidence, y.Evidence))
	})
	if found == nil {
		found = []Finding{}
	}
	return found
}

func firstOf(x, y Finding) int {
	switch {
	case x.First == nil && y.First == nil:
		return 0
	case x.First == nil:
		return 1
	case y.First == nil:
		return -1
	}
	return x.First.Compare(*y.First)
}

func weight(s Severity) int {
	switch s {
	case High:
		return 3
	case Medium:
		return 2
	}
	return 1
}

// Notes say what was left out because there was too much of it; none is the
// rule.
func (f *Finder) Notes() []string {
	notes := []string{}
	if f.board.lost > 0 {
		notes = append(notes, fmt.Sprintf("the rules looked at the first %d tasks only", maxTasks))
	}
	return notes
}

// taskOf is the id of an event's task. A task that has a name but no id is known
// by its name, and one that is complete and has neither is one of its own.
func taskOf(id string, kind folder.EventType, e folder.Event) string {
	switch {
	case e.TaskID != "":
		return e.TaskID
	case kind != folder.TaskStart && kind != folder.TaskComplete:
		return ""
	case e.TaskName != "":
		return e.TaskName
	case kind == folder.TaskComplete:
		return nameless + id
	}
	return ""
}

// typeOf is the type of an event in Ralph's words.
func typeOf(t folder.EventType) folder.EventType {
	switch t {
	case folder.SessionStart, folder.TaskStart, folder.TaskComplete, folder.Decided, folder.Errored, folder.Retried, folder.Interrupted, folder.Message,
		folder.PhaseStart, folder.PhaseComplete, folder.GateChecked, folder.Tripped, folder.Checkpoint, folder.Handoff, folder.SessionEnd:
		return t
	}
	switch plain(string(t)) {
	case "sessionstart", "sessionstarted", "sessionresume", "sessionresumed", "resume":
		return folder.SessionStart
	case "sessionend", "sessionended", "sessioncomplete", "sessioncompleted":
		return folder.SessionEnd
	case "taskstart", "taskstarted", "taskbegin":
		return folder.TaskStart
	case "taskcomplete", "taskcompleted", "taskend", "taskended", "taskdone", "taskfinished", "taskfailed", "taskfinish":
		return folder.TaskComplete
	case "decision", "decisionmade":
		return folder.Decided
	case "error", "erroroccurred", "failure", "exception":
		return folder.Errored
	case "retry", "retried", "retryattempt", "taskretry":
		return folder.Retried
	case "gate", "qualitygate", "check", "gatecheck", "gateresult", "checkresult":
		return folder.GateChecked
	case "interrupt", "interrupted", "interruption", "userinterrupt", "stop", "hardstop":
		return folder.Interrupted
	case "message", "usermessage", "assistantmessage":
		return folder.Message
	}
	return t
}

// Record takes in one record of the journal. It keeps nothing of r.
func (f *Finder) Record(r session.Record) {
	f.journal.record(f, r)
}
