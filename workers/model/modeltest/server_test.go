package modeltest

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func post(t *testing.T, s *Server, body string) (int, string, error) {
	t.Helper()
	resp, err := http.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestServer(t *testing.T) {
	s := New(t, Text("hello 👋 world").Using(7, 9), Text("cut").Cut(30), Reset(), Status(503, "no", "Retry-After", "3"), Text("again").Forever())
	const body = `{"model":"m","stream":true,"max_tokens":5,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"i","function":{"name":"n","arguments":"{}"}}]}],"tools":[{"function":{"name":"n"}}]}`
	code, got, err := post(t, s, body)
	if err != nil || code != 200 || !strings.Contains(got, `"prompt_tokens":7`) || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("%d %s %v", code, got, err)
	}
	if _, got, err = post(t, s, body); err == nil || len(got) != 30 {
		t.Errorf("%q %v", got, err)
	}
	if _, _, err = post(t, s, body); err == nil {
		t.Error("no reset")
	}
	if code, got, err = post(t, s, body); code != 503 || got != "no" || err != nil {
		t.Errorf("%d %s %v", code, got, err)
	}
	if s.Left() != 1 {
		t.Errorf("%d left", s.Left())
	}
	for range 3 {
		if _, got, err = post(t, s, body); err != nil || !strings.Contains(got, "again") {
			t.Errorf("%s %v", got, err)
		}
	}
	r := s.Requests()
	if len(r) != 7 || s.Left() != 0 {
		t.Fatalf("%d requests, %d left", len(r), s.Left())
	}
	q := r[0]
	if q.Model != "m" || !q.Stream || q.MaxTokens != 5 || len(q.Tools) != 1 || len(q.Messages) != 2 || q.Messages[1].Calls[0] != (Call{"i", "n", "{}"}) || q.Path != "/v1/chat/completions" {
		t.Errorf("%+v", q)
	}
}

func TestCloseEndsWhatHangs(t *testing.T) {
	defer goleak.VerifyNone(t)
	s, err := Start(Hang(), Text("x").HangAfter())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, _, err := post(t, s, "{}")
			done <- err
		}()
	}
	for len(s.Requests()) < 2 {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	s.Close()
	for range 2 {
		if err := <-done; err == nil {
			t.Error("a reply that hangs has ended well")
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("Close took %v", took)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestNoReplyLeft(t *testing.T) {
	s := New(t)
	if code, got, err := post(t, s, "{}"); code != 400 || !strings.Contains(got, "no reply for request 1") || err != nil {
		t.Errorf("%d %s %v", code, got, err)
	}
}

func TestFaultsAreNamedOnce(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range Faults() {
		if seen[f.Name] || f.Requests < 1 || len(f.Replies) != f.Requests {
			t.Errorf("fault %q", f.Name)
		}
		seen[f.Name] = true
	}
	if len(seen) < 70 {
		t.Errorf("%d faults", len(seen))
	}
}
