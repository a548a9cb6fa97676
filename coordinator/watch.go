package coordinator

import (
	"encoding/json"
	"strings"
	"sync"

	"ralph/memory/text"
	"ralph/workers/agent"
)

// watchBuffer is how many events a watcher may be behind before it is cut off.
const watchBuffer = 4096

// eyes sees every event: it knows which tools run, shows the event to the face,
// and to whoever watches from outside. The emitter calls it with its mutex held,
// so it must not emit.
type eyes struct {
	face func(agent.Event)

	// mu guards what follows.
	mu       sync.Mutex
	running  []runningCall
	began    int // calls so far
	turn     int
	watchers map[*watcher]struct{}
}

// runningCall is a tool call that has not ended.
type runningCall struct {
	id, text string
}

// watcher gets events until it falls too far behind.
type watcher struct {
	events chan agent.Event
	lost   chan struct{} // closed when it was cut off
}

func (y *eyes) see(e agent.Event) {
	y.mu.Lock()
	switch {
	case e.Agent != agentName:
	case e.Type == agent.EventTurnStart:
		y.turn = e.Turn
	case e.Type == agent.EventToolStart:
		y.began++
		y.running = append(y.running, runningCall{e.CallID, callText(e)})
	case e.Type == agent.EventToolEnd:
		for i, r := range y.running {
			if r.id == e.CallID {
				y.running = append(y.running[:i:i], y.running[i+1:]...)
				break
			}
		}
	}
	for w := range y.watchers {
		select {
		case w.events <- e:
		default:
			delete(y.watchers, w)
			close(w.lost)
		}
	}
	y.mu.Unlock()
	if y.face != nil {
		y.face(e)
	}
}

// callText is a tool call in a few words: the tool and what it works on.
func callText(e agent.Event) string {
	var args map[string]any
	_ = json.Unmarshal(e.Args, &args) // what does not decode has nothing to show
	for _, key := range []string{"command", "path", "url", "pattern", "question"} {
		if content, ok := args[key].(string); ok && content != "" {
			first, _, _ := strings.Cut(content, "\n")
			return e.Tool + " " + text.ClipRunes(first, 2*maxQuote)
		}
	}
	return e.Tool
}

// now returns the calls that run and the number of the last request.
func (y *eyes) now() (running []string, turn int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, r := range y.running {
		running = append(running, r.text)
	}
	return running, y.turn
}

// rested forgets the calls of work that has ended.
func (y *eyes) rested() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.running, y.turn = nil, 0
}

// watch lets somebody see the events from now on; done ends it.
func (y *eyes) watch() (w *watcher, done func()) {
	w = &watcher{events: make(chan agent.Event, watchBuffer), lost: make(chan struct{})}
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.watchers == nil {
		y.watchers = map[*watcher]struct{}{}
	}
	y.watchers[w] = struct{}{}
	return w, func() {
		y.mu.Lock()
		defer y.mu.Unlock()
		delete(y.watchers, w)
	}
}
