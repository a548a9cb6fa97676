package insights

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ralph/memory/text"
)

const (
	// maxListed bounds the ids and the tasks that a finding names.
	maxListed = 20
	// maxNameRunes bounds a foreign text in a finding.
	maxNameRunes = 120
)

// noTime is the time of what has none.
const noTime = math.MinInt64

// mark is one event: its id and when it was, in milliseconds since 1970. It is
// kept small, since there may be a million.
type mark struct {
	ms   int64
	n    uint32
	file byte // the letter of its id
}

func markOf(id string, t time.Time, position int) mark {
	m := mark{ms: millis(t), file: 'e', n: uint32(min(position, math.MaxUint32))}
	if len(id) > 1 {
		if n, err := strconv.ParseUint(id[1:], 10, 32); err == nil {
			m.file, m.n = id[0], uint32(n)
		}
	}
	return m
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return noTime
	}
	return t.UnixMilli()
}

func (m mark) id() string { return string(rune(m.file)) + strconv.FormatUint(uint64(m.n), 10) }

func (m mark) at() *time.Time {
	if m.ms == noTime {
		return nil
	}
	t := time.UnixMilli(m.ms).UTC()
	return &t
}

// byTime orders marks by time, and where there is none by their place.
func byTime(a, b mark) int {
	return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.file, b.file), cmp.Compare(a.n, b.n))
}

// proof is what shows a finding.
type proof struct {
	n           int
	marks       []mark
	tasks       []string
	first, last int64
}

func newProof() proof { return proof{first: noTime, last: noTime} }

// add takes in an event; the task may be empty.
func (p *proof) add(m mark, task string) {
	p.n++
	p.span(m.ms)
	if len(p.marks) < maxListed {
		p.marks = append(p.marks, m)
	}
	p.in(task)
}

func (p *proof) span(ms int64) {
	if ms == noTime {
		return
	}
	if p.first == noTime || ms < p.first {
		p.first = ms
	}
	p.last = max(p.last, ms)
}

func (p *proof) in(task string) {
	if task != "" && len(p.tasks) < maxListed && !slices.Contains(p.tasks, task) {
		p.tasks = append(p.tasks, task)
	}
}

// finding makes a finding of a rule.
func (p *proof) finding(rule, evidence string) Finding {
	r, _ := ruleNamed(rule)
	x := Finding{Rule: r.Name, Title: r.Title, Severity: r.Severity, Threshold: r.Threshold, Suggestion: r.Suggestion, Evidence: evidence,
		Count: p.n, Events: []string{}, TaskIDs: []string{}, First: mark{ms: p.first}.at(), Last: mark{ms: p.last}.at()}
	slices.SortStableFunc(p.marks, byTime)
	for _, m := range p.marks {
		x.Events = append(x.Events, m.id())
	}
	for _, t := range p.tasks {
		x.TaskIDs = append(x.TaskIDs, named(t))
	}
	return x
}

// keep is a copy of a foreign text to be shown later: no longer than it can be
// shown, and not held by the buffer that it came in.
func keep(s string) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(len(s), 4*maxNameRunes)], ""))
}

// named is a foreign text in one short line.
func named(s string) string {
	if len(s) > 4*maxNameRunes {
		s = strings.ToValidUTF8(s[:4*maxNameRunes], "")
	}
	s = text.VisibleLine(strings.TrimSpace(s))
	if r := []rune(s); len(r) > maxNameRunes {
		return string(r[:maxNameRunes-1]) + "…"
	}
	return s
}

func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return strconv.Itoa(n) + " times"
}
