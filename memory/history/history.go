// Package history decides what of a long conversation a model still sees: how
// many tokens a text is likely to be, and what is left out first when the
// model's window is full.
//
// It is pure: it sees sizes and kinds, not texts, and changes nothing. It never
// parts a tool call from its answer, and never leaves out what is pinned.
//
//	var e history.Estimate
//	e.Learn(bytesSent, tokensReported)
//	plan := history.Plan(entries, e.Tokens, budget)
package history

import "sync"

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

// ElidedBytes is what an elided entry still costs at most, with the words that
// say what was left out: an entry that is no larger is not elided, so that none
// is elided twice.
const ElidedBytes = 100

// recentGroups are the newest groups, which are kept whole as long as anything
// else can be left out.
const recentGroups = 4

// Plan says what becomes of each entry so that the rest fits the budget. It
// elides old tool answers first, the oldest first, then drops whole old groups,
// and touches recent groups only when that is not enough. The result has one
// Action per entry; it may still be over the budget when what is pinned alone
// is.
func Plan(entries []Entry, tokens func(bytes int) int, budget int) []Action {
	p := plan{entries: entries, tokens: tokens, actions: make([]Action, len(entries))}
	groups := split(entries)
	old := groups[:max(0, len(groups)-recentGroups)]
	for _, step := range []func([]group) bool{
		func(gs []group) bool { return p.each(gs, budget, p.elide) },
		func(gs []group) bool { return p.each(gs, budget, p.drop) },
	} {
		if step(old) {
			return p.actions
		}
	}
	recent := groups[len(old):]
	if !p.each(recent, budget, p.elide) && len(recent) > 1 {
		p.each(recent[:len(recent)-1], budget, p.drop)
	}
	return p.actions
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
	actions []Action
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
		if e.Kind == KindTool && !e.Pinned && e.Bytes > ElidedBytes && p.actions[i] == Keep {
			p.actions[i] = Elide
		}
	}
}

func (p *plan) drop(g group) {
	for i := g.from; i < g.to; i++ {
		if p.entries[i].Pinned || p.entries[i].Kind == KindSystem {
			return
		}
	}
	for i := g.from; i < g.to; i++ {
		p.actions[i] = Drop
	}
}

func (p *plan) size() int { return p.sizeOf(group{0, len(p.entries)}) }

func (p *plan) sizeOf(g group) int {
	sum := 0
	for i := g.from; i < g.to; i++ {
		switch p.actions[i] {
		case Keep:
			sum += p.tokens(p.entries[i].Bytes)
		case Elide:
			sum += p.tokens(ElidedBytes)
		}
	}
	return sum
}

const (
	// firstBytesPerToken is where an Estimate begins: English and code lie at
	// three to five bytes a token with the usual vocabularies of 100,000 to
	// 200,000 entries.
	firstBytesPerToken = 4.0
	// learnWeight is how much one report moves the estimate.
	learnWeight = 0.3
)

// Estimate turns bytes into tokens, and learns from what the endpoint reports.
// The zero value is ready; it is safe for concurrent use.
type Estimate struct {
	// mu guards bytesPerToken.
	mu            sync.Mutex
	bytesPerToken float64
}

// Tokens estimates how many tokens so many bytes are, at least one for any.
func (e *Estimate) Tokens(bytes int) int {
	if bytes <= 0 {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(1, int(float64(bytes)/e.ratio()))
}

func (e *Estimate) ratio() float64 {
	if e.bytesPerToken == 0 {
		return firstBytesPerToken
	}
	return e.bytesPerToken
}

// Learn takes in that a request of so many bytes was reported as so many
// tokens. Reports that no vocabulary could explain (under half a byte or over
// 16 bytes a token) are passed over.
func (e *Estimate) Learn(bytes, tokens int) {
	if bytes <= 0 || tokens <= 0 {
		return
	}
	seen := float64(bytes) / float64(tokens)
	if seen < 0.5 || seen > 16 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytesPerToken = e.ratio()*(1-learnWeight) + seen*learnWeight
}
