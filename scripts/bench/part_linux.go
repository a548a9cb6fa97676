package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// reply is how a part answers one request.
type reply struct {
	commands []string // shell calls: all but the last go to the background
	all      bool     // the last one, too
	stream   bool     // tokens until the client leaves, once the part is released
	refuse   bool     // 503, again and again: the client waits ever longer
	text     string   // otherwise
}

// part is what the server plays for one lane: each request that brings tools
// takes the next reply, every other one gets a word.
type part struct {
	mu        sync.Mutex // guards the fields below
	replies   []reply
	otherwise *reply // when there is no next
	answers   string // a request whose last message holds this is answered with a word
	released  chan struct{}

	// Each has room for more than a run needs; what nobody reads is dropped.
	arrived chan arrival
	tokens  chan struct{}
	refused chan struct{}
}

// arrival is a request, and when the whole of it was there.
type arrival struct {
	at   time.Time
	body []byte
}

func newPart() *part {
	return &part{released: make(chan struct{}), arrived: make(chan arrival, 256), tokens: make(chan struct{}, 4096), refused: make(chan struct{}, 16)}
}

// plays sets what comes next.
func (p *part) plays(list ...reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies, p.otherwise, p.released = list, nil, make(chan struct{})
	for len(p.tokens)+len(p.refused)+len(p.arrived) > 0 {
		select {
		case <-p.tokens:
		case <-p.refused:
		case <-p.arrived:
		}
	}
}

// repeats sets what comes whenever there is nothing else, and the text that is
// only answered.
func (p *part) repeats(r reply, answers string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.otherwise, p.answers = &r, answers
}

// release lets the streams begin.
func (p *part) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.released)
}

func (p *part) take(body []byte) (reply, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !bytes.Contains(body, []byte(`"tools":[{`)):
	case p.answers != "" && bytes.Contains(lastMessage(body), []byte(p.answers)):
	case len(p.replies) > 0:
		r := p.replies[0]
		if !r.refuse {
			p.replies = p.replies[1:]
		}
		return r, p.released
	case p.otherwise != nil:
		return *p.otherwise, p.released
	}
	return reply{text: "ok"}, p.released
}

// lastMessage is the last message of a request.
func lastMessage(body []byte) []byte {
	var r struct{ Messages []json.RawMessage }
	if json.Unmarshal(body, &r) != nil || len(r.Messages) == 0 {
		return nil
	}
	return r.Messages[len(r.Messages)-1]
}

func (p *part) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		http.Error(w, "not here", http.StatusNotFound)
		return
	}
	offer(p.arrived, arrival{time.Now(), body})
	next, released := p.take(body)
	if next.refuse {
		http.Error(w, `{"error":{"message":"busy"}}`, http.StatusServiceUnavailable)
		offer(p.refused, struct{}{})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush
	switch {
	case next.stream:
		token(w, "so ")
		flush()
		select {
		case <-released:
		case <-r.Context().Done():
			return
		}
		p.streams(w, r)
	case len(next.commands) > 0:
		for i, command := range next.commands {
			args, _ := json.Marshal(map[string]any{"command": command, "background": next.all || i < len(next.commands)-1, "timeout_seconds": 3600}) // always encodes
			callAt(w, i, fmt.Sprintf("call_%d_%d", time.Now().UnixNano(), i), "shell", string(args))
		}
		finish(w, "tool_calls")
	default:
		token(w, next.text)
		finish(w, "stop")
	}
	flush()
}

// streams sends a token every 20 ms until the client leaves.
func (p *part) streams(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(slowEvery)
	defer tick.Stop()
	for range slowTokens {
		token(w, "tick ")
		w.(http.Flusher).Flush()
		offer(p.tokens, struct{}{})
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
	finish(w, "stop")
}

func offer[T any](ch chan T, v T) {
	select {
	case ch <- v:
	default:
	}
}
