package folder

import (
	"iter"
	"time"
)

const (
	// maxWhole is how many decisions and errors ReadEach keeps as they are; those
	// behind them are packed.
	maxWhole = 1000
	// maxMessages is of how many errors it keeps the message, besides those that are
	// known by nothing else.
	maxMessages = 10_000
)

// packing holds what ReadEach keeps of very many decisions and errors. Why a
// decision was made, and what else could have been, is left out.
type packing struct {
	decisions []packedDecision
	failures  []packedFailure
	words     []string
	number    map[string]uint32
}

// packedTime is a time in UTC.
type packedTime struct {
	seconds int64
	nanos   int32
}

// packedDecision has its texts by their numbers.
type packedDecision struct {
	at                              packedTime
	task, kind, outcome, action, on uint32
	confidence                      float64
	risk                            *[3]float64 // shared with those before it that have the same
}

// packedFailure has its texts by their numbers, but for the message.
type packedFailure struct {
	at                           packedTime
	task, kind, severity, action uint32
	retries                      int
	message                      string
	took                         float64
	resolved, timed              bool
}

func packTime(t time.Time) packedTime { return packedTime{t.Unix(), int32(t.Nanosecond())} }

func (p packedTime) time() time.Time { return time.Unix(p.seconds, int64(p.nanos)).UTC() }

func (p *packing) word(s string) uint32 {
	n, known := p.number[s]
	if !known {
		if p.number == nil {
			p.number = map[string]uint32{}
		}
		n = uint32(len(p.words))
		p.words = append(p.words, s)
		p.number[s] = n
	}
	return n
}

// decision packs the last of a list that is too long, and takes it off.
func (p *packing) decision(list []Decision) []Decision {
	last := len(list) - 1
	if last < maxWhole {
		return list
	}
	x := &list[last]
	d := packedDecision{packTime(x.Time), p.word(x.TaskID), p.word(x.DecisionType), p.word(x.Outcome), p.word(x.Decision.Action), p.word(x.Context.CurrentTask), x.Decision.Confidence,
		&[3]float64{x.Context.Risk.Execution, x.Context.Risk.Resource, x.Context.Risk.Dependency}}
	if n := len(p.decisions); n > 0 && *p.decisions[n-1].risk == *d.risk {
		d.risk = p.decisions[n-1].risk
	}
	p.decisions = append(p.decisions, d)
	return list[:last]
}

// failure packs the last of a list that is too long, and takes it off.
func (p *packing) failure(list []Failure) []Failure {
	last := len(list) - 1
	if last < maxWhole {
		return list
	}
	x := &list[last]
	f := packedFailure{at: packTime(x.Time), task: p.word(x.TaskID), kind: p.word(x.ErrorType), severity: p.word(string(x.Severity)), action: p.word(x.RecoveryAction),
		retries: x.RetryCount, resolved: x.Resolved, timed: x.ResolutionTimeSeconds != nil}
	if len(p.failures) < maxMessages || x.ErrorType == "" {
		f.message = x.ErrorMessage
	}
	if f.timed {
		f.took = *x.ResolutionTimeSeconds
	}
	p.failures = append(p.failures, f)
	return list[:last]
}

// NDecisions and NFailures count also those that EachDecision and EachFailure
// show beyond the lists.
func (d *Data) NDecisions() int { return len(d.Decisions) + len(d.packed.decisions) }

// NFailures is NDecisions of the errors.
func (d *Data) NFailures() int { return len(d.Failures) + len(d.packed.failures) }

// EachDecision shows all decisions with their places, from 0; those that are not
// in the list without their reason, actions and alternatives.
func (d *Data) EachDecision() iter.Seq2[int, Decision] {
	return func(yield func(int, Decision) bool) {
		for i, x := range d.Decisions {
			if !yield(i, x) {
				return
			}
		}
		p := &d.packed
		for i, x := range p.decisions {
			r := Decision{Time: x.at.time(), TaskID: p.words[x.task], DecisionType: p.words[x.kind], Outcome: p.words[x.outcome]}
			r.Decision.Action, r.Decision.Confidence, r.Context.CurrentTask = p.words[x.action], x.confidence, p.words[x.on]
			r.Context.Risk.Execution, r.Context.Risk.Resource, r.Context.Risk.Dependency = x.risk[0], x.risk[1], x.risk[2]
			if !yield(len(d.Decisions)+i, r) {
				return
			}
		}
	}
}

// EachFailure shows all errors with their places, from 0; of very many, the last
// without their message where they have a type.
func (d *Data) EachFailure() iter.Seq2[int, Failure] {
	return func(yield func(int, Failure) bool) {
		for i, x := range d.Failures {
			if !yield(i, x) {
				return
			}
		}
		p := &d.packed
		for i, x := range p.failures {
			r := Failure{Time: x.at.time(), TaskID: p.words[x.task], ErrorType: p.words[x.kind], ErrorMessage: x.message, Severity: Severity(p.words[x.severity]),
				RetryCount: x.retries, RecoveryAction: p.words[x.action], Resolved: x.resolved}
			if x.timed {
				took := x.took
				r.ResolutionTimeSeconds = &took
			}
			if !yield(len(d.Failures)+i, r) {
				return
			}
		}
	}
}
