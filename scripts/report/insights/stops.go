package insights

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/memory/session/folder"
	"ralph/memory/text"
)

// stop is a hard stop and how long it took.
type stop struct {
	m       mark
	task    int32
	seconds float64
	reason  string
}

// stops are those that one file tells, and those of which it tells the begin and
// the end apart.
type stops struct {
	list         []stop
	begun, ended []stop
}

func (s *stops) add(x stop) {
	if len(s.list) < maxFindings {
		x.reason = keep(x.reason)
		s.list = append(s.list, x)
	}
}

// event takes in an interrupt of the log.
func (s *stops) event(m mark, n int32, e folder.Event, d details) {
	if !isStop(e.Result, d) {
		return
	}
	x := stop{m: m, task: n, reason: d.text("reason", "cause", "signal", "trigger", "key")}
	if x.reason == "" {
		x.reason = e.Result
	}
	var stated bool
	if x.seconds, stated = stopTook(m, e.Duration, d); stated {
		s.add(x)
		return
	}
	says := e.Result + " " + d.text("how", "state", "status", "phase", "stage", "action")
	switch {
	case m.ms == noTime:
	case anyWord(says, "requested", "request", "received", "pressed", "stopping", "begin", "began", "started", "start") && len(s.begun) < maxFindings:
		s.begun = append(s.begun, x)
	case anyWord(says, "stopped", "rest", "rested", "complete", "completed", "done", "ended", "finished", "idle", "end") && len(s.ended) < maxFindings:
		s.ended = append(s.ended, x)
	}
}

// isStop says that an interrupt is a hard stop: neither a message of another
// class, nor a pause, nor an end that nobody pressed a key for.
func isStop(result string, d details) bool {
	how := d.text("how", "state")
	if plain(how) == "stopped" {
		return true
	}
	says := []string{how, d.text("class", "kind", "type", "level", "action", "mode"), d.text("interruptclass", "interrupttype")}
	if len(words(result)) <= 3 {
		says = append(says, result) // longer ones are what somebody said
	}
	for _, s := range says {
		if anyWord(s, "pause", "paused", "pausing", "resume", "resumed", "go", "conversation", "late", "later", "steer", "urgent", "ask", "message", "timeout", "polite", "graceful", "wait", "waiting", "idle",
			"question", "help", "approval", "permission", "intervention", "input", "feedback", "confirmation", "clarification", "review", "answer", "reply", "response", "instruction", "correction",
			"redirect", "comment", "note", "status") && !anyWord(s, "stop", "stopped", "hard") {
			return false
		}
	}
	why := strings.ToLower(d.text("reason", "cause"))
	for _, w := range []string{"timeout", "timed out", "deadline", "budget", "polite", "waiting for"} {
		if strings.Contains(why, w) {
			return false
		}
	}
	return true
}

// stopTook is the time from the press to rest, as an event states it. What the
// details say counts more: the event's duration may be how long it rested.
func stopTook(m mark, duration time.Duration, d details) (float64, bool) {
	if f, ok := d.seconds("latency", "stoplatency", "interruptlatency", "latencytorest", "presstorest", "timetorest", "timetostop", "stoptime", "stop", "cancellatency", "responselatency", "resttime", "torest",
		"rest", "stopduration", "stoptook", "stoppedafter", "stoppedin", "restafter", "lastprocess", "lastprocessgone", "processesgone", "allgone", "took", "settled", "settletime"); ok {
		return f, true
	}
	at := func(keys ...string) int64 {
		t, err := time.Parse(time.RFC3339Nano, d.text(keys...))
		if err != nil {
			return noTime
		}
		return t.UnixMilli()
	}
	from, to := at("pressedat", "requestedat", "receivedat", "stoprequestedat", "signaledat", "pressed", "requested"), at("restat", "atrestat", "restedat", "stoppedat", "atrest", "completedat", "endedat")
	if from != noTime && to == noTime {
		to = m.ms
	}
	if to != noTime && from == noTime {
		from = m.ms
	}
	if from != noTime && to != noTime && to > from {
		return float64(to-from) / 1000, true
	}
	if duration > 0 {
		return duration.Seconds(), true
	}
	return d.seconds("duration", "elapsed", "response", "delay")
}

// paired adds the stops of which two events tell.
func (s *stops) paired() []stop {
	list := slices.Clone(s.list)
	order := func(x, y stop) int { return byTime(x.m, y.m) }
	slices.SortStableFunc(s.begun, order)
	slices.SortStableFunc(s.ended, order)
	for i, x := range s.begun {
		for _, y := range s.ended {
			if y.m.ms < x.m.ms {
				continue
			}
			if i+1 == len(s.begun) || y.m.ms < s.begun[i+1].m.ms {
				x.seconds = float64(y.m.ms-x.m.ms) / 1000
				list = append(list, x)
			}
			break
		}
	}
	return list
}

// slow makes the findings of both files; the journal tells of the stops that the
// log does not.
func slow(both [2]stops, b *board) (found []Finding) {
	told := both[0].paired()
	list := slices.Clone(told)
	for _, x := range both[1].paired() {
		if !slices.ContainsFunc(told, func(k stop) bool { return k.m.ms-x.m.ms <= sameMoment && x.m.ms-k.m.ms <= sameMoment }) {
			list = append(list, x)
		}
	}
	for _, x := range list {
		if x.seconds <= maxStop.Seconds() {
			continue
		}
		p := newProof()
		p.add(x.m, b.id(x.task))
		why := ""
		if x.reason != "" {
			why = fmt.Sprintf(" (%s)", named(x.reason))
		}
		found = append(found, p.finding(slowStop, fmt.Sprintf("The stop%s took %s until everything was at rest.", why, text.Length(x.seconds))))
	}
	return found
}
