package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ralph/memory/text"

	"github.com/spf13/afero"
)

// Headers between the two ends of a replay's connection.
const (
	agentHeader    = "Ralph-Agent"
	mismatchHeader = "Ralph-Mismatch"
)

// Replay plays a cassette: a real HTTP server behind an in-process connection,
// so that a Client does all that it does with an endpoint. It is safe for
// concurrent use; whoever opens it closes it.
type Replay struct {
	tape   *cassette
	ln     *pipes
	server *http.Server
	rt     *http.Transport
	stop   chan struct{} // closed by Close: ends replies that are held
	serve  sync.Once
	wg     sync.WaitGroup // the server and its replies

	mu         sync.Mutex // guards the fields below
	veil       veil
	agents     map[string]*tapeAgent
	mismatches []*MismatchError
	warnings   []string
	closed     bool
}

// OpenReplay reads a cassette. It fails on one that is damaged.
func OpenReplay(fs afero.Fs, path string) (*Replay, error) {
	data, err := afero.ReadFile(fs, path)
	if err != nil {
		return nil, fmt.Errorf("replay %q: %w", path, err)
	}
	r, err := ParseReplay(data)
	if err != nil {
		return nil, fmt.Errorf("replay %q: %w", path, err)
	}
	return r, nil
}

// ParseReplay reads a cassette from its text.
func ParseReplay(data []byte) (*Replay, error) {
	tape, err := parseCassette(data)
	if err != nil {
		return nil, err
	}
	r := &Replay{tape: tape, ln: newPipes(), stop: make(chan struct{}), agents: make(map[string]*tapeAgent)}
	r.veil.rules, r.veil.root = tape.Mask, "/root-of-the-project"
	for i := range tape.Entries {
		e := &tape.Entries[i]
		a := r.agents[e.Agent]
		if a == nil {
			a = &tapeAgent{results: make(map[string]*resultNote), ids: make(map[string]bool)}
			r.agents[e.Agent] = a
		}
		if err := a.add(e); err != nil {
			return nil, fmt.Errorf("parse cassette: exchanges[%d]: %w", i, err)
		}
	}
	r.server = &http.Server{Handler: http.HandlerFunc(r.answer)}
	r.rt = &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return r.ln.dial(ctx) },
		MaxIdleConnsPerHost: 24,
		DisableCompression:  true,
	}
	return r, nil
}

// SetRoot names the project's root, which the cassette calls ${root}, and sets
// the function that took secrets out of the recording, nil for none. It is
// called before the first request.
func (r *Replay) SetRoot(dir string, redact func(string) string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.veil.root, r.veil.redact = dir, redact
}

// Endpoint is what a Client has to be given to talk to the cassette.
func (r *Replay) Endpoint() Endpoint {
	return Endpoint{
		Provider: orDefault(r.tape.Provider, providerCustom),
		BaseURL:  "http://cassette.invalid/v1",
		Model:    orDefault(r.tape.Model, "recorded"),
		Source:   "--replay",
	}
}

// Transport connects a Client to the cassette.
func (r *Replay) Transport() http.RoundTripper {
	r.serve.Do(func() {
		r.wg.Go(func() {
			// Serve ends when Close closes its listener, and for no other reason.
			_ = r.server.Serve(r.ln)
		})
	})
	return &replaying{r}
}

// Warnings tells what differs from the recording without failing the replay:
// the system prompt, the tools.
func (r *Replay) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.warnings)
}

// Close ends the server and waits for it. Its error tells which exchanges were
// never asked for.
func (r *Replay) Close() error {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()
	if first {
		close(r.stop)
		r.ln.Close()
		r.server.Close()
	}
	r.wg.Wait()
	r.rt.CloseIdleConnections()
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, name := range sortedKeys(r.agents) {
		a := r.agents[name]
		if left := len(a.exchanges) - a.next; left > 0 {
			errs = append(errs, fmt.Errorf("replay: %d of %d recorded requests of agent %q were not made", left, len(a.exchanges), name))
		}
	}
	return errors.Join(errs...)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// replaying is the Client's end of the connection.
type replaying struct{ r *Replay }

// RoundTrip carries a request to the cassette; a request that differs from the
// recorded one comes back as a *MismatchError.
func (t *replaying) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set(agentHeader, agentOf(req.Context()))
	resp, err := t.r.rt.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if h := resp.Header.Get(mismatchHeader); h != "" {
		resp.Body.Close()
		return nil, t.r.mismatch(h)
	}
	return resp, nil
}

func (r *Replay) mismatch(header string) error {
	n, err := strconv.Atoi(header)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || n < 0 || n >= len(r.mismatches) {
		return fmt.Errorf("replay: unexpected %s %q", mismatchHeader, header)
	}
	return r.mismatches[n]
}

// answer is the server's end: it checks a request and plays the reply.
func (r *Replay) answer(w http.ResponseWriter, req *http.Request) {
	if !r.enter() {
		panic(http.ErrAbortHandler)
	}
	defer r.wg.Done()
	if strings.HasSuffix(req.URL.Path, "/models") {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"data":[{"id":%s}]}`, appendString(nil, r.Endpoint().Model))
		return
	}
	asked, err := decodeWire(req.Body)
	if err != nil {
		http.Error(w, `{"error":{"message":`+string(appendString(nil, err.Error()))+`}}`, http.StatusBadRequest)
		return
	}
	note, v, differs := r.match(req.Header.Get(agentHeader), asked)
	if differs >= 0 {
		w.Header().Set(mismatchHeader, strconv.Itoa(differs))
		w.WriteHeader(http.StatusConflict)
		return
	}
	p := player{note: note, veil: v, w: w, gone: req.Context().Done(), stop: r.stop}
	p.play()
}

// enter counts a reply that is being played, so that Close can wait for it.
func (r *Replay) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.wg.Add(1)
	return true
}

// match finds the recorded reply to a request. differs is the index of the
// mismatch, -1 when there is none.
func (r *Replay) match(name string, asked *wireRequest) (note *replyNote, v veil, differs int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.agents[name]
	if a == nil {
		a = &tapeAgent{}
		r.agents[name] = a
	}
	asked.tools.Digest = digest(r.veil.write(asked.toolText))
	diff, warnings := a.compare(asked, &r.veil, r.tape.Strict)
	for _, warning := range warnings {
		if warning = fmt.Sprintf("agent %q: %s", name, warning); !slices.Contains(r.warnings, warning) {
			r.warnings = append(r.warnings, warning)
		}
	}
	if diff != "" {
		r.mismatches = append(r.mismatches, &MismatchError{Agent: name, Exchange: a.next + 1, Diff: text.Clip(diff, maxDiffBytes)})
		return nil, veil{}, len(r.mismatches) - 1
	}
	note = a.exchanges[a.next].Reply
	a.next++
	return note, r.veil, -1
}

// wireRequest is a request as the server's end sees it.
type wireRequest struct {
	messages []wireMessage
	tools    toolsNote
	toolText string
}

// decodeWire reads the body of a request.
func decodeWire(body io.Reader) (*wireRequest, error) {
	var b struct {
		Messages []struct {
			Role    string  `json:"role"`
			Content *string `json:"content"`
			CallID  string  `json:"tool_call_id"`
			Calls   []struct {
				ID       string `json:"id"`
				Function struct {
					Name string `json:"name"`
					Args string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools json.RawMessage `json:"tools"`
	}
	if err := json.NewDecoder(body).Decode(&b); err != nil {
		return nil, fmt.Errorf("decode request: %w", err)
	}
	var named []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if len(b.Tools) > 0 {
		if err := json.Unmarshal(b.Tools, &named); err != nil {
			return nil, fmt.Errorf("decode tools: %w", err)
		}
	}
	out := &wireRequest{toolText: string(b.Tools)}
	for _, t := range named {
		out.tools.Names = append(out.tools.Names, t.Function.Name)
	}
	for _, m := range b.Messages {
		msg := wireMessage{role: m.Role, callID: m.CallID}
		if m.Content != nil {
			msg.text = *m.Content
		}
		for _, c := range m.Calls {
			msg.calls = append(msg.calls, wireCall{c.ID, c.Function.Name, compact(c.Function.Args)})
		}
		out.messages = append(out.messages, msg)
	}
	return out, nil
}

// pipes is a listener whose connections never leave the process.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept waits for a connection.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr names the listener.
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "cassette" }
