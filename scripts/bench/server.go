package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	rounds      = 50
	longTokens  = 20_000
	flushTokens = 16
	slowEvery   = 20 * time.Millisecond
	slowTokens  = 3_000 // a minute's worth: nothing waits for a run that was forgotten
)

// server is the loopback endpoint. The path's first part names the run, the
// model names the work: one, rounds, long, keep or slow.
type server struct {
	http http.Server
	url  string
	done chan struct{}

	// mu guards runs and parts.
	mu    sync.Mutex
	runs  map[string]*trace
	parts map[string]http.Handler
}

// trace is what the server saw of one run.
type trace struct {
	requests int
	sent     time.Time // when the last byte of the last answer was written
	between  []time.Duration
	bodies   []int // bytes of each request
	tokens   chan struct{}
}

func serve() (*server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + ln.Addr().String(), done: make(chan struct{}), runs: map[string]*trace{}, parts: map[string]http.Handler{}}
	s.http.Handler = http.HandlerFunc(s.answer)
	go func() {
		defer close(s.done)
		_ = s.http.Serve(ln) // ends with ErrServerClosed
	}()
	return s, nil
}

func (s *server) close() error {
	err := s.http.Close()
	<-s.done
	return err
}

// run returns the trace of a run, making it at its first mention.
func (s *server) run(name string) *trace {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[name] == nil {
		s.runs[name] = &trace{tokens: make(chan struct{}, slowTokens)}
	}
	return s.runs[name]
}

// cast gives a run to somebody else.
func (s *server) cast(name string, h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[name] = h
}

func (s *server) part(name string) http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[name]
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if h := s.part(name); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	tr := s.run(name)
	var body struct{ Model string }
	counted := &counter{r: r}
	if err := json.NewDecoder(counted).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if tr.requests > 0 {
		tr.between = append(tr.between, arrived.Sub(tr.sent))
	}
	tr.requests++
	tr.bodies = append(tr.bodies, counted.n)
	w.Header().Set("Content-Type", "text/event-stream")
	switch body.Model {
	case "rounds":
		if tr.requests <= rounds {
			callShell(w, tr.requests)
			break
		}
		fallthrough
	case "one":
		token(w, "ok")
		finish(w, "stop")
	case "long":
		long(w)
	case "keep":
		callTask(w, tr.requests)
	case "slow":
		slow(w, r, tr)
	}
	w.(http.Flusher).Flush()
	tr.sent = time.Now()
}

type counter struct {
	r *http.Request
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Body.Read(p)
	c.n += n
	return n, err
}

func token(w http.ResponseWriter, text string) {
	quoted, _ := json.Marshal(text) // a string always encodes
	fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","model":"bench","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`+"\n\n", quoted)
}

func finish(w http.ResponseWriter, reason string) {
	fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","model":"bench","choices":[{"index":0,"delta":{},"finish_reason":%q}]}`+"\n\n", reason)
	fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","model":"bench","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":10,"total_tokens":1010}}`+"\n\ndata: [DONE]\n\n")
}

func callShell(w http.ResponseWriter, n int) {
	call(w, n, "shell", fmt.Sprintf(`{"command":"echo round %d"}`, n))
	finish(w, "tool_calls")
}

// callTask has a new task kept in each round, for ever.
func callTask(w http.ResponseWriter, n int) {
	call(w, n, "task", fmt.Sprintf(`{"title":"work %d of this life","status":"in_progress"}`, n))
	finish(w, "tool_calls")
}

func call(w http.ResponseWriter, n int, name, args string) {
	callAt(w, 0, fmt.Sprint("call_", n), name, args)
}

func callAt(w http.ResponseWriter, index int, id, name, args string) {
	quoted, _ := json.Marshal(args) // a string always encodes
	fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","model":"bench","choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}]},"finish_reason":null}]}`+"\n\n", index, id, name, quoted)
}

// long streams a Markdown answer of 20,000 tokens.
func long(w http.ResponseWriter) {
	words := strings.Fields("## Heading\n\n the quick **brown** fox `jumps` over - a list of _many_ words and 12 numbers")
	for i := range longTokens {
		text := words[i%len(words)] + " "
		if i%40 == 39 {
			text = "\n\n"
		}
		token(w, text)
		if i%flushTokens == 0 {
			w.(http.Flusher).Flush()
		}
	}
	finish(w, "stop")
}

// slow sends a token every 20 ms until the client goes away.
func slow(w http.ResponseWriter, r *http.Request, tr *trace) {
	tick := time.NewTicker(slowEvery)
	defer tick.Stop()
	for range slowTokens {
		token(w, "tick ")
		w.(http.Flusher).Flush()
		tr.tokens <- struct{}{}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
	finish(w, "stop")
}
