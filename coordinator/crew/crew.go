package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator/prompt"
	"ralph/memory/durable"
	"ralph/memory/identity"
	"ralph/workers"
	"ralph/workers/agent"
	"ralph/workers/git/trees"
)

// Options say what a Crew works with. All but Trees, FS, Now, Landing and Over are
// needed.
type Options struct {
	// Pool runs the agents and bounds how many there are.
	Pool *workers.Pool
	// Trees gives each agent a tree of its own; nil: all work in one, and what
	// one changes is locked for the others until it has ended.
	Trees *trees.Trees
	// Root is the project in the user's tree, Repository the root of that tree.
	Root, Repository string
	FS               afero.Fs
	Now              func() time.Time
	// Dir is where transcripts are kept, a directory per agent; "" keeps none. It
	// is asked whenever an agent begins. Quarantine takes what is broken there.
	Dir, Quarantine func() string
	// Key returns the key that authenticates the agents' journals. Without it only
	// damage is detected.
	Key func() identity.Key
	// Equip makes what an agent works with. Its tree is there already.
	Equip func(ctx context.Context, a Agent) (*Gear, error)
	// Prove runs the checks that an agent's work has to pass, in its tree, and says
	// what a failed one said; "" when all passed, or there are none. tree is the git
	// tree that they looked at, "" for none: nothing else is merged. The error is why
	// that is not known. end is how its last words came.
	Prove func(ctx context.Context, a Agent, end agent.End) (failed, tree string, err error)
	// Inspect names what in the changes of an agent makes a check or a test prove
	// less; nil: that is not looked for.
	Inspect func(ctx context.Context, a Agent) ([]string, error)
	// MaxSpawned bounds how many agents may be spawned in one turn, or below one
	// attempt at a task, in all; 0: no bound.
	MaxSpawned int
	// Roomy reports whether there is memory for agents side by side. Where there is none
	// the coordinator's children begin one after the other.
	Roomy func() bool
	// Retries is how often an agent is told that a check failed.
	Retries int
	// Landing is called before the user's tree is changed; nil: nobody is.
	Landing func(ctx context.Context)
	// Budget is the coordinator's node of the budget tree, which its children share.
	Budget func() *workers.Budget
	Emit   func(agent.Event)
	Warn   func(string)
	// Over is called when an agent has ended, before that is told; nil: nobody is.
	Over func(id string)
	// Behind does something when a stop is over, beside the conversation, with a
	// context that the stop did not end.
	Behind func(func(context.Context))
	// Redact takes secrets out of what is kept; nil keeps all.
	Redact func([]byte) []byte
	// Top is the coordinator's own name.
	Top string
}

// Gear is what an agent works with.
type Gear struct {
	// Loop drives it. Record, Inbox, Hold, Emit, Limits and Spent are completed by
	// the crew, after what the fields hold already.
	Loop *agent.Loop
	// Drive runs it instead of Loop.Run, whose fields it uses; nil: the loop does.
	Drive func(ctx context.Context, l *agent.Loop, talk []agent.Message) agent.End
	// System is the system prompt, Task what opens the conversation.
	System, Task string
	// Last is asked when the agent's work has ended in order: what is to be said to
	// it then goes on with it.
	Last func() []agent.Message
	// Close gives everything back when the agent has ended, until ctx ends. After a
	// stop it is called behind it.
	Close func(ctx context.Context)
}

// Crew is the coordinator's children and theirs. It is safe for concurrent use;
// its agents run on goroutines of the pool, which ends them.
type Crew struct {
	o     Options
	locks locks

	// landing is held by the one merge that changes the user's tree.
	landing sync.Mutex

	// mu guards what follows, and the members; it is held for moments only, and
	// nothing is called with it held.
	mu      sync.Mutex
	members []*member
	ctx     context.Context // that the agents live in: of the work that goes on
	told    bool            // that all work in one tree
	round   int             // counts the pieces of work
	spawned map[string]int  // in the round, by turn
	pulse   chan struct{}   // closed, and made anew, whenever an agent has ended
}

// member is an agent with what only the crew knows. What is not said
// otherwise is guarded by Crew.mu.
type member struct {
	Agent
	check   string
	files   []string
	mends   string        // the agent whose conflict it resolves
	early   bool          // that conflict is of what waited before; its work comes after it
	proven  string        // the git tree that its checks passed on last; "" for none
	tries   int           // of resolving what does not fit
	news    []prompt.Said // that it was not told yet
	untold  bool          // its end was not told to its parent
	ended   bool          // its end was told by an event
	landed  Landing       // that was told by an event
	goText  string        // what it was resumed with
	resumed bool
	past    bool // it is of an earlier Ralph, and not compared with its tree yet
	spent   agent.Spent
	before  agent.Spent // of it was used for earlier work
	did     Tally       // for the present work, without what it used
	budget  *workers.Budget
	came    State // what its work came to, which counts once it has ended
	ending  bool  // it has ended, and that is being told
	cancel  error // why it was stopped by itself
	fault   error // that ended it, nil when it ended by itself
	limit   workers.Limit
	fresh   bool     // it goes on in its tree with a new conversation
	base    string   // the commit that it began with
	content string   // the files that it began with, when others
	root    string   // of the project in its tree
	linked  []string // directories of the user's tree that are links in it, absolute
	round   int      // of the work for which it was begun, or resumed, last
	dir     string   // that has the directory of its journal
	wake    chan struct{}

	// recording guards record.
	recording sync.Mutex
	record    record

	// talk belongs to its goroutine while it works.
	talk []agent.Message
}

// New makes a Crew in which nobody works.
func New(o Options) *Crew {
	if o.FS == nil {
		o.FS = durable.Disk()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Over == nil {
		o.Over = func(string) {}
	}
	if o.Landing == nil {
		o.Landing = func(context.Context) {}
	}
	return &Crew{o: o, locks: locks{owner: map[string]string{}}, pulse: make(chan struct{}), spawned: map[string]int{}}
}

// Begin sets what the agents that are spawned from now on live in: they end with
// ctx.
func (c *Crew) Begin(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx = ctx
	c.round++
	c.spawned = map[string]int{}
}

// ErrNoAgent is matched when there is no agent of the name.
var ErrNoAgent = errors.New("there is no such agent")

// ErrNotStopped is matched when an agent cannot be resumed.
var ErrNotStopped = errors.New("it was not stopped")

// errNotBegun is why an agent was not begun whose work depends on another.
var errNotBegun = errors.New("not begun")

func newMember(a Agent) *member {
	return &member{Agent: a, wake: make(chan struct{}, 1)}
}

// inLine counts the children of a parent that wait for others and are not in the
// pool yet; mu is held.
func (c *Crew) inLine(parent string) int {
	n := 0
	for _, m := range c.members {
		if m.Parent == parent && m.State == Waiting {
			n++
		}
	}
	return n
}

// find is the member of an id, nil for none; mu is held.
func (c *Crew) find(id string) *member {
	for _, m := range c.members {
		if m.ID == id {
			return m
		}
	}
	return nil
}

func names(list []*member) string {
	var ids []string
	for _, m := range list {
		ids = append(ids, m.ID)
	}
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(ids, ", ")
}

// schedule begins all that wait for nobody any more, and ends those that wait for
// work which will not come. Then those are woken who wait for an end.
func (c *Crew) schedule() {
	for again := true; again; {
		var ready, hopeless []*member
		roomy := c.o.Roomy()
		c.mu.Lock()
		ctx := c.ctx
		for _, m := range c.members {
			if m.State != Waiting {
				continue
			}
			switch can, state, why := c.ready(m); {
			case why != "":
				m.State, m.Problem, m.Ended, m.ending = state, errNotBegun.Error()+": "+why, c.o.Now().UTC(), true
				hopeless = append(hopeless, m)
			case can && !roomy && m.Depth == 1 && c.alive():
				// It begins when those that are at work have ended.
			case can:
				m.State = Queued
				ready = append(ready, m)
			}
		}
		c.mu.Unlock()
		for _, m := range hopeless {
			c.ended(m)
		}
		for _, m := range ready {
			c.launch(ctx, m)
		}
		again = len(hopeless) > 0
	}
	c.changed()
}

// alive reports whether a child of the coordinator has begun and not ended; mu is held.
func (c *Crew) alive() bool {
	return slices.ContainsFunc(c.members, func(m *member) bool { return m.Depth == 1 && m.State != Waiting && !m.settled() })
}

// ready says whether all that a member needs is merged, or why that will not come
// by itself, and how the member ends then; mu is held. One that had begun has what
// it needs in its tree.
func (c *Crew) ready(m *member) (can bool, state State, why string) {
	can = true
	if m.base != "" || m.Turns > 0 {
		return can, "", ""
	}
	for _, id := range m.After {
		switch d := c.find(id); {
		case d == nil:
			return false, Failed, id + " is not there any more"
		case d.Landing == Merged || d.Landing == Unchanged && d.State == Done:
		case !d.settled() || d.Landing == Conflict && c.mending(id):
			can = false
		case d.State == Interrupted:
			return false, Interrupted, "it needs the work of " + id + ", which was interrupted"
		default:
			return false, Failed, fmt.Sprintf("it needs the work of %s, which ended as %s", id, d.standing())
		}
	}
	return can, "", ""
}

// mending says that somebody resolves the conflict of an agent; mu is held.
func (c *Crew) mending(id string) bool {
	return slices.ContainsFunc(c.members, func(m *member) bool { return m.mends == id && !m.settled() })
}

// launch hands a member to the pool.
func (c *Crew) launch(ctx context.Context, m *member) {
	spec := workers.Spec{ID: m.ID, Parent: m.Parent, Label: m.Label, Depth: m.Depth}
	err := c.o.Pool.Spawn(ctx, spec, func(ctx context.Context) error { return c.work(ctx, m) }, func(err error) { c.over(m, err) })
	if err != nil {
		c.over(m, err)
		return
	}
	c.mu.Lock()
	cancel := m.cancel
	c.mu.Unlock()
	if cancel != nil { // it was stopped before the pool knew it
		c.o.Pool.Cancel(m.ID, cancel)
	}
}

// AtWork says that an agent is at work, or waits to be.
func (a Agent) AtWork() bool { return !a.settled() }

// settled says that a member will not go on by itself.
func (a Agent) settled() bool {
	switch a.State {
	case Done, Partial, Failed, Interrupted, Orphaned:
		return true
	}
	return false
}

// busy says that there is an end of a member to wait for; mu is held.
func (m *member) busy() bool { return m.ending || !m.settled() }

// standing is how an agent stands in a word or two.
func (a Agent) standing() string {
	if a.Landing == Conflict || a.Landing == Held {
		return string(a.State) + ", " + string(a.Landing)
	}
	return string(a.State)
}

// Stop ends one agent and all that work for it; what it did is kept, and it can
// be resumed.
func (c *Crew) Stop(id string, cause error) error {
	c.mu.Lock()
	m := c.find(id)
	if m == nil {
		defer c.mu.Unlock()
		return fmt.Errorf("stop %s: %w; there are: %s", id, ErrNoAgent, names(c.members))
	}
	if m.settled() {
		defer c.mu.Unlock()
		return fmt.Errorf("stop %s: it has ended already: %s", id, m.standing())
	}
	var waiting []*member
	for _, x := range c.members {
		switch {
		case x.settled() || !c.under(x, id):
		case x.State == Waiting:
			x.State, x.Ended, x.Problem, x.ending = Interrupted, c.o.Now().UTC(), cause.Error(), true
			waiting = append(waiting, x)
		case x.cancel == nil:
			x.cancel = cause
		}
	}
	c.mu.Unlock()
	c.o.Pool.Cancel(id, cause)
	for _, x := range waiting {
		c.ended(x)
	}
	if len(waiting) > 0 {
		c.schedule()
	}
	return nil
}

// under says that a member is the agent of an id or works for it, at any depth;
// mu is held.
func (c *Crew) under(m *member, id string) bool {
	for range c.members { // parents that go round in a circle end here
		if m == nil || m.ID == id {
			break
		}
		if m.Parent == id {
			return true
		}
		m = c.find(m.Parent)
	}
	return m != nil && m.ID == id
}

// ErrNotYours is matched when an agent wants to decide about one that does not
// work for it.
var ErrNotYours = errors.New("it does not work for you")

// Owns says whether who may decide about the agent of an id: its own, at any
// depth; the coordinator about all. The error matches ErrNotYours.
func (c *Crew) Owns(who, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(id)
	if who == c.o.Top || m == nil || id != who && c.under(m, who) {
		return nil
	}
	return fmt.Errorf("%s: %w", id, ErrNotYours)
}

// maxUnread bounds the messages that an agent has not read.
const maxUnread = 100

// Tell leaves a message of one agent for another; it reads it at its next
// boundary.
func (c *Crew) Tell(from, id, text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(id)
	switch {
	case m == nil:
		return fmt.Errorf("message to %s: %w; there are: %s", id, ErrNoAgent, names(c.members))
	case m.settled():
		return fmt.Errorf("message to %s: it has ended: %s", id, m.standing())
	case len(m.news) >= maxUnread:
		return fmt.Errorf("message to %s: it has not read the last %d yet", id, maxUnread)
	}
	m.news = append(m.news, prompt.Said{From: from, Text: text})
	poke(m.wake)
	return nil
}

// Wake has an agent that waits for its children look for what came. It answers
// false for one of the crew that has ended.
func (c *Crew) Wake(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.find(id)
	if m == nil {
		return true
	}
	poke(m.wake)
	return !m.settled()
}

func poke(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
