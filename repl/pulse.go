package repl

import (
	"fmt"
	"ralph/memory/text"
	"strings"
	"time"
)

// chatters says whether the words that a live region would show are printed.
func (s *Shell) chatters() bool { return !s.live && !s.sequential }

// Words of a plain terminal: that work began, and that it still goes on.
const (
	wordWorking = "working"
	wordStill   = "still working"
	// firstWordGap is when it is said for the first time that work still goes on; the
	// time to the next one doubles, up to lastWordGap.
	firstWordGap = 10 * time.Second
	lastWordGap  = 5 * time.Minute
	// quietBefore is for how long nothing else was printed then.
	quietBefore = 5 * time.Second
)

// pulse keeps when a plain terminal is told next that work goes on.
type pulse struct {
	next time.Time
	gap  time.Duration
}

// beat begins anew with a piece of work.
func (p *pulse) beat(now time.Time, first time.Duration) {
	p.gap = first
	if first == 0 {
		p.gap = firstWordGap
	}
	p.next = now.Add(p.gap)
}

// due says that it is time for a word; not while other words come.
func (p *pulse) due(now, printed time.Time) bool {
	switch {
	case p.next.IsZero() || now.Before(p.next):
		return false
	case now.Sub(printed) < min(quietBefore, p.gap):
		p.next = printed.Add(min(quietBefore, p.gap))
		return false
	}
	p.gap = min(2*p.gap, lastWordGap)
	p.next = now.Add(p.gap)
	return true
}

// stillWorking tells a plain terminal, in growing intervals, what goes on.
func (s *Shell) stillWorking(now time.Time) {
	if !s.chatters() || !s.busy() || len(s.questions) > 0 || !s.pulse.due(now, s.ink.lastPrinted()) {
		return
	}
	content := wordStill
	if s.stopsSoFar() > 0 {
		content = "still stopping"
	}
	var facts []string
	if tool, _ := s.ink.state(); tool != "" {
		facts = append(facts, tool)
	}
	if n := s.children(); n > 0 {
		facts = append(facts, text.Count(n, "agent"))
	}
	if v := underWay(s.standing); v != nil && len(v.Active) > 0 {
		facts = append(facts, atWork(v))
	}
	if n := s.waits(); n > 0 {
		facts = append(facts, fmt.Sprintf("%d queued", n))
	}
	if len(facts) > 0 {
		content += ": " + strings.Join(facts, ", ")
	}
	if w := s.running(); w != nil {
		content += fmt.Sprintf(" (%s)", elapsed(now.Sub(w.begun)))
	}
	s.note(content)
}
