package repl

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/memory/text"
	"ralph/repl/line"
	"ralph/repl/render"
	"ralph/workers/agent"
)

// lender can lend the terminal to a picker.
type lender interface {
	Modal(ctx context.Context, f func(context.Context, line.Keys, io.Writer) error) error
}

// ink is the one way to the terminal: it keeps what is printed in order and
// remembers what the prompt says about a turn. Safe for concurrent use; it never
// waits for the terminal.
type ink struct {
	out line.LineReader

	mu     sync.Mutex // guards the fields below
	r      *render.Renderer
	quiet  bool
	calls  []running // tools that run now, oldest first
	tokens int       // of the session
	cost   *float64
	base   *float64           // cost of the turns before this one
	spent  map[string]float64 // by each agent since then
	atWork []crew.Agent       // as they were seen last
	run    *render.Run        // that is under way
	thinks bool               // the model reasons, and nothing of it is shown
	asked  bool               // a question waits for its answer
	at     time.Time          // when something was printed last
	taps   []*tap             // commands of the user that run
}

// running is a tool call that has begun.
type running struct{ id, text string }

func newInk(out line.LineReader, r *render.Renderer) *ink { return &ink{out: out, r: r} }

// say prints what f makes of the renderer.
func (k *ink) say(f func(*render.Renderer) string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.print(f(k.r))
}

// print prints whole lines; mu is held.
func (k *ink) print(text string) {
	if text != "" && !k.quiet {
		k.at = time.Now()
		k.out.Print(text, k.above()...)
	}
}

// lastPrinted is when something was printed last.
func (k *ink) lastPrinted() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.at
}

// show sets the prompt below what is being written, in one step with what f makes
// of the renderer, if there is an f.
func (k *ink) show(p line.Prompt, f func(*render.Renderer) string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f != nil && !k.quiet {
		p.Above = f(k.r)
	}
	k.asked = p.Ask != 0
	p.Live = k.above()
	k.out.Show(p)
}

// above is what stands between the printed text and the prompt: the tail of what
// is being written, a blank row, and the run or the children at work; mu is held.
func (k *ink) above() []string {
	rows := append(k.r.Tail(liveRows), "")
	for _, t := range k.taps[:min(len(k.taps), liveRows)] {
		rows = append(rows, strings.TrimSuffix(k.r.Row("  "+t.now(time.Now())), "\n"))
	}
	if k.run != nil {
		return append(rows, k.r.RunRows(*k.run, time.Now())...)
	}
	return append(rows, k.r.AtWork(k.atWork, k.asked, time.Now())...)
}

// runs notes the run that is under way, nil for none.
func (k *ink) runs(run *render.Run) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.run = run
}

// watch shows a command of the user's own while it runs.
func (k *ink) watch(t *tap) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taps = append(k.taps, t)
}

func (k *ink) unwatch(t *tap) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taps = slices.DeleteFunc(k.taps, func(other *tap) bool { return other == t })
}

// agents notes who is at work.
func (k *ink) agents(list []crew.Agent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.atWork = list
}

// event shows an event and learns the state from it.
func (k *ink) event(e agent.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.Type == agent.EventUsage {
		k.usage(e)
	} else if !render.OfHelper(e) {
		k.learn(e)
	}
	k.print(k.r.Event(e))
}

// learn takes the state of the coordinator's turn from an event; mu is held.
func (k *ink) learn(e agent.Event) {
	switch e.Type {
	case agent.EventReasoning:
		k.thinks = true
	case agent.EventTurnStart, agent.EventMessageDelta:
		k.thinks = false
	case agent.EventToolStart:
		k.thinks = false
		k.calls = append(k.calls, running{e.CallID, k.r.Working(e)})
	case agent.EventToolEnd:
		for i, c := range k.calls {
			if c.id == e.CallID {
				k.calls = append(k.calls[:i:i], k.calls[i+1:]...)
				break
			}
		}
	}
}

// usage adds what a request used, whoever made it; mu is held. An event has the
// sum of what its agent spent so far.
func (k *ink) usage(e agent.Event) {
	if e.Usage != nil {
		k.tokens += e.Usage.Total
	}
	if e.CostUSD == nil {
		return
	}
	if k.spent == nil {
		k.spent = map[string]float64{}
	}
	k.spent[e.Agent] = *e.CostUSD
	sum := 0.0
	if k.base != nil {
		sum = *k.base
	}
	for _, cost := range k.spent {
		sum += cost
	}
	k.cost = &sum
}

// begin notes the start of a turn.
func (k *ink) begin(t coordinator.Totals) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls, k.thinks = nil, false
	k.tokens, k.cost, k.base, k.spent = t.Usage.Total, t.CostUSD, t.CostUSD, nil
}

// end notes the end of a turn.
func (k *ink) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls, k.thinks = nil, false
}

func (k *ink) resize(cols int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.r.Resize(cols)
}

// mute drops what is printed from now on.
func (k *ink) mute() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.quiet = true
}

// state returns what the prompt says about the turn: the tool that runs, and the
// numbers.
func (k *ink) state() (tool string, parts []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.calls); n > 0 && k.run == nil && k.r.ShowsCalls(time.Now()) {
		tool = "" // it stands above the prompt
	} else if n > 0 {
		tool = k.calls[n-1].text
		if n > 1 {
			tool = strings.Join([]string{text.Count(n, "tool"), tool}, ": ")
		}
	} else if k.thinks {
		tool = "thinking"
	}
	if k.tokens > 0 {
		parts = append(parts, render.Tokens(k.tokens)+" tok")
	}
	if k.cost != nil {
		parts = append(parts, render.Cost(k.cost))
	}
	return tool, parts
}
