// Package modeltest is a scripted server of the chat-completions protocol for
// the tests and benchmarks of every package that talks to a model.
//
// It owns a listener on loopback and a script of replies, which it plays in
// order, whole, in pieces, slowly, or with any of the faults of real endpoints.
// It refuses to think: a request beyond the script is answered with status 400,
// so that a test fails at once instead of being retried.
//
//	srv := modeltest.New(t,
//		modeltest.Calls(modeltest.Call{Name: "read", Args: `{"path":"a.go"}`}),
//		modeltest.Text("done"))
//	c := model.New(model.Options{Endpoint: model.Endpoint{BaseURL: srv.URL(), Model: "test"}})
package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// TB is what New needs of a *testing.T or *testing.B.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Server answers requests on loopback. It is safe for concurrent use; whoever
// calls Start calls Close.
type Server struct {
	http *http.Server
	addr string
	stop chan struct{} // closed by Close: ends every wait
	once sync.Once
	wg   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	script   []Reply
	handler  func(Request) Reply
	requests []Request
	models   []string
}

// Request is a request as it arrived.
type Request struct {
	Method string
	Path   string // with the query
	Header http.Header
	Body   []byte
	// The rest is decoded from the body of a completion.
	Model     string
	Messages  []Message
	Tools     []string // names
	Stream    bool
	MaxTokens int             // by either name
	Schema    json.RawMessage // of response_format
}

// Message is one message of a request. Content is text; a null content is "".
type Message struct {
	Role    string
	Content string
	Calls   []Call
	CallID  string
}

// Call is a tool call, of a request or for a reply.
type Call struct {
	ID   string
	Name string
	Args string
}

// New starts a server with a script and closes it when the test ends.
func New(t TB, script ...Reply) *Server {
	t.Helper()
	s, err := Start(script...)
	if err != nil {
		t.Fatalf("start model server: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start starts a server with a script.
func Start(script ...Reply) (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	s := &Server{addr: ln.Addr().String(), stop: make(chan struct{}), script: script, models: []string{"test"}}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve)}
	s.wg.Go(func() {
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			panic(fmt.Sprintf("serve model: %v", err))
		}
	})
	return s, nil
}

// Close ends the server and every reply that hangs, and waits for its end.
func (s *Server) Close() {
	s.once.Do(func() {
		close(s.stop)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if s.http.Shutdown(ctx) != nil {
			s.http.Close()
		}
		s.wg.Wait()
	})
}

// URL is the base URL; it ends in /v1.
func (s *Server) URL() string { return "http://" + s.addr + "/v1" }

// Add appends replies to the script.
func (s *Server) Add(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, replies...)
}

// Handle makes f answer every completion from now on instead of the script. It
// is called on the goroutine of the request, for several at once.
func (s *Server) Handle(f func(Request) Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = f
}

// SetModels sets what GET /models lists; without names it answers 404.
func (s *Server) SetModels(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models = names
}

// Requests returns the completions that were asked for so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Left is how many replies of the script were not asked for; a repeated last
// one counts while it was never used.
func (s *Server) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.script)
	if n > 0 && s.script[n-1].used {
		n--
	}
	return n
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/models") {
		s.list(w)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	s.next(decode(r, body)).play(w, r, s.stop)
}

func (s *Server) list(w http.ResponseWriter) {
	s.mu.Lock()
	names := s.models
	s.mu.Unlock()
	if len(names) == 0 {
		http.Error(w, `{"error":{"message":"no list here"}}`, http.StatusNotFound)
		return
	}
	type entry struct {
		ID     string `json:"id"`
		Object string `json:"object"`
	}
	var list struct {
		Object string  `json:"object"`
		Data   []entry `json:"data"`
	}
	list.Object = "list"
	for _, n := range names {
		list.Data = append(list.Data, entry{n, "model"})
	}
	w.Header().Set("Content-Type", "application/json")
	// The client may be gone, which is its own affair.
	_ = json.NewEncoder(w).Encode(list)
}

// next records a request and picks its reply.
func (s *Server) next(req Request) Reply {
	s.mu.Lock()
	s.requests = append(s.requests, req)
	if f := s.handler; f != nil {
		s.mu.Unlock()
		return f(req)
	}
	defer s.mu.Unlock()
	if len(s.script) == 0 {
		return Status(http.StatusBadRequest, fmt.Sprintf(`{"error":{"message":"modeltest: the script has no reply for request %d"}}`, len(s.requests)))
	}
	reply := s.script[0]
	if reply.repeat && len(s.script) == 1 {
		s.script[0].used = true
	} else {
		s.script = s.script[1:]
	}
	return reply
}

// decode reads what tests ask about out of a request.
func decode(r *http.Request, body []byte) Request {
	req := Request{Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header.Clone(), Body: body}
	var b struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Max      int    `json:"max_tokens"`
		MaxNew   int    `json:"max_completion_tokens"`
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
			CallID  string `json:"tool_call_id"`
			Calls   []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		Format struct {
			Schema struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if json.Unmarshal(body, &b) != nil {
		return req // a test sees an empty request
	}
	req.Model, req.Stream, req.MaxTokens, req.Schema = b.Model, b.Stream, max(b.Max, b.MaxNew), b.Format.Schema.Schema
	for _, m := range b.Messages {
		text, _ := m.Content.(string)
		msg := Message{Role: m.Role, Content: text, CallID: m.CallID}
		for _, c := range m.Calls {
			msg.Calls = append(msg.Calls, Call{ID: c.ID, Name: c.Function.Name, Args: c.Function.Arguments})
		}
		req.Messages = append(req.Messages, msg)
	}
	for _, t := range b.Tools {
		req.Tools = append(req.Tools, t.Function.Name)
	}
	return req
}
