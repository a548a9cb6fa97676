// Package history decides what of a long conversation a model still sees: how
// many tokens a text is likely to be, which old texts matter for a task, and
// what is left out first when the model's window is full.
//
// It is pure: it opens nothing, calls nothing and changes nothing that it is
// given. It never parts a tool call from its answer, and never leaves out what
// is pinned.
//
//	var e history.Estimate
//	e.Learn(bytesSent, tokensReported, ofThemCached)
//	var x history.Index
//	for _, t := range older {
//		x.Add(t)
//	}
//	hits := x.Choose("retry the upload on 503", cost, budget)
//	fates := history.Plan(entries, e.Tokens, budget)
package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Kind tells the entries of a conversation apart.
type Kind int

// The kinds of entries.
const (
	KindSystem Kind = iota
	KindUser
	KindAssistant
	// KindTool is the answer to a call of the nearest KindAssistant before it.
	KindTool
)

// Entry is one message, as far as planning needs it.
type Entry struct {
	Kind   Kind
	Bytes  int
	Pinned bool // always kept whole
	// Relevance says how much an old entry matters for what is being done; 0 is
	// not at all. A group counts as its most relevant entry.
	Relevance float64
}

// Action says what becomes of an entry.
type Action int

// What can become of an entry.
const (
	Keep Action = iota
	// Elide keeps the entry but not its text, so that a call keeps its answer.
	Elide
	// Drop leaves the entry out, with its whole group.
	Drop
)

// Fate is what becomes of an entry, and why, in a few words for a person.
type Fate struct {
	Action Action
	// Older says that the entry is kept although it is not among the recent
	// ones: for its relevance, or because there was room.
	Older bool
	Why   string
}

// ElidedBytes is what an elided entry still costs at most, with the words that
// say what was left out: an entry that is no larger is not elided, so that none
// is elided twice.
const ElidedBytes = 100

// recentGroups are the newest groups, which are kept whole as long as anything
// else can be left out.
const recentGroups = 4

// Plan says what becomes of each entry so that the rest fits the budget. The
// newest groups, up to half of the budget, are recent. Of the older ones the
// tool answers are elided first, then whole groups are dropped, each time the
// least relevant first and of those the oldest; recent groups are touched only
// when that is not enough. The result has one Fate per entry; it may still be
// over the budget when what is pinned and the last group alone are.
func Plan(entries []Entry, tokens func(bytes int) int, budget int) []Fate {
	p := plan{entries: entries, tokens: tokens, fates: make([]Fate, len(entries))}
	groups := split(entries)
	first := p.recentFrom(groups, budget)
	old, recent := groups[:first], groups[first:]
	fits := p.size() <= budget
	p.explain(old, recent, fits)
	if fits {
		return p.fates
	}
	order := slices.Clone(old)
	slices.SortStableFunc(order, func(a, b group) int { return cmp.Compare(p.relevance(a), p.relevance(b)) })
	if p.each(order, budget, p.elide) || p.each(order, budget, p.drop) {
		return p.fates
	}
	if !p.each(recent, budget, p.elide) && len(recent) > 1 {
		p.each(recent[:len(recent)-1], budget, p.drop)
	}
	return p.fates
}

// group is entries that stand or fall together: [from, to).
type group struct{ from, to int }

func split(entries []Entry) []group {
	var groups []group
	for i, e := range entries {
		if e.Kind == KindTool && len(groups) > 0 {
			groups[len(groups)-1].to = i + 1
			continue
		}
		groups = append(groups, group{i, i + 1})
	}
	return groups
}

type plan struct {
	entries []Entry
	tokens  func(bytes int) int
	fates   []Fate
}

// recentFrom is the first of the groups that are recent.
func (p *plan) recentFrom(groups []group, budget int) int {
	first, size := len(groups), 0
	for first > 0 {
		size += p.sizeOf(groups[first-1])
		if len(groups)-first >= recentGroups && size > budget/2 {
			break
		}
		first--
	}
	return first
}

func (p *plan) explain(old, recent []group, fits bool) {
	for _, g := range recent {
		for i := g.from; i < g.to; i++ {
			p.fates[i].Why = "recent"
		}
	}
	for _, g := range old {
		relevance := p.relevance(g)
		for i := g.from; i < g.to; i++ {
			f := &p.fates[i]
			f.Older = true
			switch {
			case fits:
				f.Why, f.Older = "everything fits", false
			case relevance > 0:
				f.Why = fmt.Sprintf("matters for the task (score %.1f)", relevance)
			default:
				f.Why = "there was room"
			}
		}
	}
	for i, e := range p.entries {
		switch {
		case e.Kind == KindSystem:
			p.fates[i] = Fate{Why: "the system prompt is always in"}
		case e.Pinned:
			p.fates[i] = Fate{Why: "pinned"}
		}
	}
}

func (p *plan) relevance(g group) float64 {
	r := 0.0
	for _, e := range p.entries[g.from:g.to] {
		r = max(r, e.Relevance)
	}
	return r
}

// each applies change to one group after the other until the rest fits, and
// reports whether it does.
func (p *plan) each(groups []group, budget int, change func(group)) bool {
	size := p.size()
	for _, g := range groups {
		if size <= budget {
			return true
		}
		before := p.sizeOf(g)
		change(g)
		size -= before - p.sizeOf(g)
	}
	return size <= budget
}

func (p *plan) elide(g group) {
	for i := g.from; i < g.to; i++ {
		e := p.entries[i]
		if e.Kind == KindTool && !e.Pinned && e.Bytes > ElidedBytes && p.fates[i].Action == Keep {
			p.fates[i].Action, p.fates[i].Why = Elide, "the result of an old call makes room"
		}
	}
}

func (p *plan) drop(g group) {
	for i := g.from; i < g.to; i++ {
		if p.entries[i].Pinned || p.entries[i].Kind == KindSystem {
			return
		}
	}
	why := "old, and has nothing to do with the task"
	if r := p.relevance(g); r > 0 {
		why = fmt.Sprintf("no room: less relevant than what is kept (score %.1f)", r)
	}
	if p.fates[g.from].Why == "recent" {
		why = "no room even for what is recent"
	}
	for i := g.from; i < g.to; i++ {
		p.fates[i] = Fate{Action: Drop, Why: why}
	}
}

func (p *plan) size() int { return p.sizeOf(group{0, len(p.entries)}) }

func (p *plan) sizeOf(g group) int {
	sum := 0
	for i := g.from; i < g.to; i++ {
		switch p.fates[i].Action {
		case Keep:
			sum += p.tokens(p.entries[i].Bytes)
		case Elide:
			sum += p.tokens(ElidedBytes)
		}
	}
	return sum
}
