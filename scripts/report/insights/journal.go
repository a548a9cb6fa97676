package insights

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"ralph/memory/session"
)

const (
	maxOpen  = 1000
	maxTries = 50_000
)

// entry is what the rules need of an event in the journal.
type entry struct {
	Type       string `json:"type"`
	Agent      string `json:"agent"`
	Model      string `json:"model"`
	CallID     string `json:"call_id"`
	Text       string `json:"text"`
	Reason     string `json:"reason"`
	Status     string `json:"status"`
	TaskID     string `json:"task_id"`
	Ref        string `json:"ref"`
	OK         *bool  `json:"ok"`
	ExitCode   *int   `json:"exit_code"`
	DurationMS *int64 `json:"duration_ms"`
	Usage      *struct {
		Input int64 `json:"input"`
	} `json:"usage"`
}

// question is one that was asked and is not answered.
type question struct {
	m    mark
	task int32
	what string
}

// pause is a question with its answer.
type pause struct {
	question
	to mark
}

// try is a retry with the type of the error that came before it.
type try struct {
	m    mark
	task int32
	typ  string
}

// journal is what the journal tells of what the log may not.
type journal struct {
	open   map[string]question
	pauses []pause
	tries  []try
	spent  map[int32]int64 // on the attempts of a task that is not over, in ms
}

func newJournal() *journal { return &journal{open: map[string]question{}, spent: map[int32]int64{}} }

// entryOf decodes the payload of an event that matters here.
func entryOf(payload json.RawMessage) (x entry, ok bool) {
	// Most events are none of ours: the type stands first in what Ralph writes.
	if rest, first := bytes.CutPrefix(payload, []byte(`{"type":"`)); first {
		end := bytes.IndexByte(rest, '"')
		if end < 0 || !matters(string(rest[:end])) {
			return x, false
		}
	}
	// A payload of another shape is no event.
	return x, json.Unmarshal(payload, &x) == nil && matters(x.Type)
}

func matters(t string) bool {
	switch t {
	case "usage", "retry", "interrupt", "ask", "permission", "task_start", "task_end", "decision", "gate", "start":
		return true
	}
	return false
}

func (j *journal) record(f *Finder, r session.Record) {
	if r.Kind != "event" {
		return
	}
	x, ok := entryOf(r.Payload)
	if !ok {
		return
	}
	m := mark{ms: millis(r.Time), n: uint32(min(max(r.Seq, 0), math.MaxUint32)), file: 'j'}
	n := f.board.of(x.TaskID)
	alone := f.events == 0 // there is no log
	switch x.Type {
	case "usage":
		if x.Usage != nil {
			f.contexts.usage(m, x.Agent, x.Model, float64(x.Usage.Input))
		}
	case "retry":
		f.retries[1].add(m, n)
		// The tries of one request are one trouble, which the errors tell.
		if alone && x.Status != "" && len(j.tries) < maxTries {
			j.tries = append(j.tries, try{m, n, keep(x.Status)})
		}
	case "gate":
		f.checks[1].add(m, x.TaskID, x.Text, x.Ref, gateOf(x))
	case "interrupt":
		if x.Status == "stopped" && x.DurationMS != nil {
			f.stops[1].add(stop{m: m, task: n, seconds: float64(*x.DurationMS) / 1000, reason: x.Reason})
		}
	case "ask", "permission":
		j.asked(m, n, x)
	case "start":
		clear(j.open) // whoever asked is gone
		if alone {
			f.resumed(m)
		}
	default:
		if alone {
			j.task(f.board, m, n, x)
		}
	}
	if alone && m.ms != noTime {
		f.last = max(f.last, m.ms)
	}
}

func gateOf(x entry) verdict {
	switch {
	case x.OK != nil && *x.OK, x.OK == nil && x.ExitCode != nil && *x.ExitCode == 0:
		return good
	case x.OK != nil || x.ExitCode != nil:
		return bad
	}
	return unknown
}

// asked takes in a question or its answer.
func (j *journal) asked(m mark, n int32, x entry) {
	key := keep(x.Type + "\x00" + x.Agent + "\x00" + x.CallID)
	if x.Status == "asked" {
		if len(j.open) < maxOpen {
			j.open[key] = question{m, n, keep(x.Text)}
		}
		return
	}
	q, ok := j.open[key]
	delete(j.open, key)
	if ok && q.m.ms != noTime && m.ms-q.m.ms >= minWait.Milliseconds() && len(j.pauses) < maxFindings {
		j.pauses = append(j.pauses, pause{q, m})
	}
}

// task takes in what happens to a task.
func (j *journal) task(b *board, m mark, n int32, x entry) {
	if n < 0 {
		return
	}
	switch x.Type {
	case "task_start":
		b.start(n, m, details{})
	case "decision":
		if _, rest, ok := strings.Cut(x.Text, ": confidence "); ok && acts("", x.Status) {
			if c, err := strconv.ParseFloat(strings.TrimSpace(rest), 64); err == nil && c >= 0 && c <= 1 {
				b.tasks[n].believe(m, c, 2)
			}
		}
	case "task_end":
		if x.DurationMS != nil {
			j.spent[n] += *x.DurationMS
		}
		if v := outcome(x.Status); v == good || v == bad {
			b.end(n, m, x.Status, float64(j.spent[n])/1000, details{})
			delete(j.spent, n)
		}
	}
}

// tell adds what the log did not tell.
func (j *journal) tell(f *Finder) {
	for _, p := range j.pauses {
		told := slices.ContainsFunc(f.waits.list, func(w wait) bool { return w.during(p.m.ms, p.to.ms) })
		if told {
			continue
		}
		n := len(f.waits.list)
		if f.waits.add(p.m, p.task, float64(p.to.ms-p.m.ms)/1000, p.what); len(f.waits.list) > n {
			f.waits.list[n].until(p.to)
		}
	}
	if f.events > 0 {
		return
	}
	for _, t := range j.tries {
		f.troubles.add(t.m, t.task, t.typ, "")
	}
}
