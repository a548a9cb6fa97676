package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ralph/workers/agent"
	"ralph/workers/exec/supervise"
)

// stub is a model on the loopback that speaks Gemini's protocol: it asks for one
// command, and says the last word when its result is there.
type stub struct {
	*httptest.Server
	command string
	word    string

	mu       sync.Mutex // guards all below
	status   int        // of every answer; 0 is 200
	header   map[string]string
	requests []string // bodies of the requests for an answer
	hang     bool
	reached  chan struct{} // closed by the first request
}

func newStub(t *testing.T, command, word string) *stub {
	t.Helper()
	s := &stub{command: command, word: word, reached: make(chan struct{})}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *stub) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var body json.RawMessage
	if err := json.NewDecoder(q.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	if len(s.requests) == 0 {
		close(s.reached)
	}
	s.requests = append(s.requests, string(body))
	status, hang, header := s.status, s.hang, s.header
	s.mu.Unlock()
	if hang {
		<-q.Context().Done()
		return
	}
	for name, value := range header {
		w.Header().Set(name, value)
	}
	if status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":"the stub says %d","status":%q}}`, status, status, map[int]string{401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}[status])
		return
	}
	part := map[string]any{"text": s.word}
	if !strings.Contains(string(body), `"functionResponse"`) {
		part = map[string]any{"functionCall": map[string]any{"name": "run_shell_command", "args": map[string]any{"command": s.command, "description": "write"}}}
	}
	answer, err := json.Marshal(map[string]any{
		"candidates":    []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": map[string]any{"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110},
		"modelVersion":  "stub",
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if strings.Contains(q.URL.Path, ":stream") {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: %s\n\n", answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

// realGemini is a request for the real program, with a home of its own and a
// model on the loopback.
func realGemini(t *testing.T, s *stub) Request {
	t.Helper()
	prefix := os.Getenv("RALPH_TEST_AGENT_CLI")
	bin := filepath.Join(prefix, "node_modules", ".bin")
	why := ""
	switch {
	case prefix == "":
		why = "RALPH_TEST_AGENT_CLI names no directory in which npm has installed @google/gemini-cli"
	case executable(filepath.Join(bin, "gemini")) != nil:
		why = "there is no gemini in " + bin
	}
	if _, err := find("node", os.Getenv("PATH"), ""); why == "" && err != nil {
		why = "there is no node in PATH"
	}
	switch {
	case why != "" && os.Getenv("RALPH_TEST_MUST_CLI") == "1":
		t.Fatal(why)
	case why != "":
		t.Skip(why)
	}
	home := t.TempDir()
	settings := `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"general":{"disableAutoUpdate":true,"disableUpdateNag":true}}`
	if err := os.MkdirAll(filepath.Join(home, ".gemini"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".gemini", "settings.json"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := Find(Builtin(), "gemini")
	if err != nil {
		t.Fatal(err)
	}
	return Request{
		Adapter: a, Prompt: "- write hello into out.txt\n\nWhen the task is complete, end with the line\n" + promise, Dir: t.TempDir(), Model: "gemini-2.5-flash",
		Environ: []string{
			"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, "GEMINI_API_KEY=of-the-stub", "GOOGLE_GEMINI_BASE_URL=" + s.URL,
			"OPENAI_API_KEY=of-somebody-else", "MY_SECRET_TOKEN=nobodys",
		},
		Timeout: 60 * time.Second, Idle: 40 * time.Second, Start: newRunner(t).Run,
	}
}

func TestRealGemini(t *testing.T) {
	s := newStub(t, "env > env.txt; echo hello > out.txt", "Written.\n\n"+promise)
	q := realGemini(t, s)
	var events []agent.EventType
	q.Events = func(e agent.Event) { events = append(events, e.Type) }
	res := Run(t.Context(), q)
	if !res.Declared || !res.Clean || res.Err != nil || res.Exit != 0 {
		t.Fatalf("%+v", res)
	}
	if res.Usage.Input != 200 || res.Usage.Output != 20 || res.ToolCalls != 1 || res.ToolErrors != 0 || res.Session == "" || !strings.HasPrefix(res.Final, "Written.") {
		t.Errorf("%+v", res)
	}
	if text, err := os.ReadFile(filepath.Join(q.Dir, "out.txt")); err != nil || string(text) != "hello\n" {
		t.Errorf("out.txt: %q, %v", text, err)
	}
	for _, want := range []agent.EventType{agent.EventToolStart, agent.EventToolEnd, agent.EventMessage, agent.EventUsage} {
		if !slices.Contains(events, want) {
			t.Errorf("no event %s in %v", want, events)
		}
	}
	env, err := os.ReadFile(filepath.Join(q.Dir, "env.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(env); !strings.Contains(text, "BEADS_NO_DAEMON=1") || strings.Contains(text, "of-somebody-else") || strings.Contains(text, "nobodys") {
		t.Errorf("the environment of its command:\n%s", text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) < 2 || !strings.Contains(s.requests[0], "write hello into out.txt") {
		t.Errorf("%d requests", len(s.requests))
	}
}

// A prompt that is too long for an argument goes in whole.
func TestRealGeminiTakesALongPrompt(t *testing.T) {
	s := newStub(t, "true", promise)
	q := realGemini(t, s)
	q.Prompt = strings.Repeat("a long text that says little\n", 8000) + "THE-END-OF-IT"
	res := Run(t.Context(), q)
	if !res.Declared {
		t.Fatalf("%+v", res)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.Contains(s.requests[0], "THE-END-OF-IT") || len(s.requests[0]) < len(q.Prompt) {
		t.Errorf("a request of %d bytes", len(s.requests[0]))
	}
}

func TestRealGeminiFails(t *testing.T) {
	for _, tc := range []struct {
		status int
		kind   Kind
		err    error
		quota  bool
	}{{401, KindPermission, ErrAccess, false}, {429, KindResource, ErrQuota, true}} {
		s := newStub(t, "true", promise)
		s.status = tc.status
		q := realGemini(t, s)
		q.patience = 3 * time.Second // it would wait for minutes by itself
		res := Run(t.Context(), q)
		if res.Clean || res.Declared || res.Kind != tc.kind || !errors.Is(res.Err, tc.err) || res.Quota != tc.quota {
			t.Errorf("%d: kind %q, quota %v, %v; exit %d\n%s", tc.status, res.Kind, res.Quota, res.Err, res.Exit, res.Stderr)
		}
		if res.Took > 20*time.Second {
			t.Errorf("%d: took %s", tc.status, res.Took)
		}
		t.Logf("%d: exit %d after %s: %v", tc.status, res.Exit, res.Took, res.Err)
	}
}

// A hard stop in the middle of a command of it leaves no process, though it is
// deaf to TERM.
func TestRealGeminiIsStopped(t *testing.T) {
	s := newStub(t, "setsid sleep 300 & touch begun; sleep 300", promise)
	q := realGemini(t, s)
	runner := newRunner(t)
	q.Start = runner.Run
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	reason := errors.New("the human said stop")
	done := make(chan Result, 1)
	go func() { done <- Run(ctx, q) }()
	begun := filepath.Join(q.Dir, "begun")
	for end := time.Now().Add(40 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the command did not begin")
		}
	}
	at := time.Now()
	stop(reason)
	res := <-done
	if took := time.Since(at); took > 20*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if !res.Interrupted || !errors.Is(res.Err, reason) || res.Kind != KindNone || res.Declared {
		t.Errorf("%+v", res)
	}
	if left := supervise.Leaks(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
