package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// lists is an HTTP client that answers for GET …/models by host; other hosts
// refuse the connection.
func lists(seen *[]string, byHost map[string]string) *http.Client {
	return &http.Client{Transport: &fakeWire{f: func(_ int, r *http.Request) (*http.Response, error) {
		if seen != nil {
			*seen = append(*seen, r.URL.String()+" "+r.Header.Get("Authorization")+r.Header.Get("x-api-key")+r.Header.Get("api-key"))
		}
		body, ok := byHost[r.URL.Host]
		if !ok {
			return nil, errors.New("connection refused")
		}
		if body == "slow" {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return response(200, body), nil
	}}}
}

func models(names ...string) string {
	var b strings.Builder
	for i, n := range names {
		b.WriteString([]string{"", ","}[min(i, 1)] + fmt.Sprintf(`{"id":%q,"object":"model","created":"yesterday"}`, n))
	}
	return `{"object":"list","data":[` + b.String() + `]}`
}

func TestChoose(t *testing.T) {
	work := Profile{Name: "work", Model: "big", BaseURL: "https://llm.example.com/v1", Key: "wk"}
	home := Profile{Name: "home", Model: "small", BaseURL: "http://localhost:1234"}
	local := map[string]string{"127.0.0.1:1234": models("qwen"), "127.0.0.1:8080": "<html>", "127.0.0.1:8000": models("llama"), "127.0.0.1:11434": "slow"}
	for _, tt := range []struct {
		name string
		env  map[string]string
		wish Wish
		http map[string]string
		want Endpoint
	}{
		{name: "flags", wish: Wish{Model: "m", BaseURL: "http://host:9/v1/", Profiles: []Profile{work}}, env: map[string]string{"RALPH_MODEL": "no", "RALPH_BASE_URL": "http://no/v1", "RALPH_API_KEY": "rk", "OPENAI_API_KEY": "ok"},
			want: Endpoint{"custom", "http://host:9/v1", "m", "rk", "--base-url"}},
		{name: "variables", env: map[string]string{"RALPH_MODEL": "m", "RALPH_BASE_URL": "http://host/v1", "OPENAI_API_KEY": "ok"}, want: Endpoint{"custom", "http://host/v1", "m", "", "RALPH_BASE_URL"}},
		{name: "key of the configuration", wish: Wish{Model: "m", BaseURL: "http://host/v1", Key: "ck"}, want: Endpoint{"custom", "http://host/v1", "m", "ck", "--base-url"}},
		{name: "OpenAI's key for OpenAI's host", wish: Wish{Model: "m", BaseURL: "https://api.openai.com/v1"}, env: map[string]string{"OPENAI_API_KEY": "ok"}, want: Endpoint{"openai", "https://api.openai.com/v1", "m", "ok", "--base-url"}},
		{name: "no key in the clear", wish: Wish{Model: "m", BaseURL: "http://api.openai.com/v1"}, env: map[string]string{"OPENAI_API_KEY": "ok"}, want: Endpoint{"openai", "http://api.openai.com/v1", "m", "", "--base-url"}},
		{name: "no key for a host that looks alike", wish: Wish{Model: "m", BaseURL: "https://api.openai.com.evil.example/v1"}, env: map[string]string{"OPENAI_API_KEY": "ok"}, want: Endpoint{"custom", "https://api.openai.com.evil.example/v1", "m", "", "--base-url"}},
		{name: "the key of OPENAI_BASE_URL", wish: Wish{Model: "m", BaseURL: "https://proxy.example/x/v1"}, env: map[string]string{"OPENAI_API_KEY": "ok", "OPENAI_BASE_URL": "https://proxy.example/v1"}, want: Endpoint{"custom", "https://proxy.example/x/v1", "m", "ok", "--base-url"}},
		{name: "a profile's key for its host", wish: Wish{Model: "m", BaseURL: "https://llm.example.com/v2", Profiles: []Profile{home, work}}, want: Endpoint{"custom", "https://llm.example.com/v2", "m", "wk", "--base-url"}},
		{name: "a profile by name", wish: Wish{Model: "home", Profiles: []Profile{work, home}}, env: map[string]string{"RALPH_API_KEY": "rk"}, want: Endpoint{"lmstudio", "http://localhost:1234/v1", "small", "", "profile home"}},
		{name: "a profile by name with another address", wish: Wish{Model: "work", BaseURL: "http://other/v1", Profiles: []Profile{work}}, want: Endpoint{"custom", "http://other/v1", "big", "", "--base-url"}},
		{name: "the first profile", wish: Wish{Profiles: []Profile{work, home}}, env: map[string]string{"OPENAI_API_KEY": "ok"}, want: Endpoint{"custom", "https://llm.example.com/v1", "big", "wk", "profile work"}},
		{name: "another model of the first profile", wish: Wish{Model: "other", Profiles: []Profile{work}}, want: Endpoint{"custom", "https://llm.example.com/v1", "other", "wk", "profile work"}},
		{name: "a key alone", wish: Wish{Model: "claude-x"}, env: map[string]string{"RALPH_API_KEY": "sk-ant-1"}, want: Endpoint{"anthropic", "https://api.anthropic.com/v1", "claude-x", "sk-ant-1", "--model"}},
		{name: "OpenAI", wish: Wish{Model: "gpt"}, env: map[string]string{"OPENAI_API_KEY": "ok", "OPENROUTER_API_KEY": "rk"}, want: Endpoint{"openai", "https://api.openai.com/v1", "gpt", "ok", "OPENAI_API_KEY"}},
		{name: "OpenAI's protocol elsewhere", wish: Wish{Model: "gpt"}, env: map[string]string{"OPENAI_API_KEY": "ok", "OPENAI_BASE_URL": "http://localhost:8000"}, want: Endpoint{"vllm", "http://localhost:8000/v1", "gpt", "ok", "OPENAI_API_KEY"}},
		{name: "OpenAI without a name", env: map[string]string{"OPENAI_API_KEY": "ok"}, http: map[string]string{"api.openai.com": models("dall-e-3", "gpt-4o", "gpt-5.1", "gpt-5.1-codex", "gpt-4.1", "gpt-5")}, want: Endpoint{"openai", "https://api.openai.com/v1", "gpt-5.1", "ok", "OPENAI_API_KEY"}},
		{name: "OpenRouter", env: map[string]string{"OPENROUTER_API_KEY": "rk", "ANTHROPIC_API_KEY": "ak"}, want: Endpoint{"openrouter", "https://openrouter.ai/api/v1", "openrouter/auto", "rk", "OPENROUTER_API_KEY"}},
		{name: "Anthropic", env: map[string]string{"ANTHROPIC_API_KEY": "ak", "GEMINI_API_KEY": "gk"}, http: map[string]string{"api.anthropic.com": models("claude-opus-4-1-20250805", "claude-sonnet-4-20250514", "claude-sonnet-4-5-20250929", "claude-3-haiku")}, want: Endpoint{"anthropic", "https://api.anthropic.com/v1", "claude-sonnet-4-5-20250929", "ak", "ANTHROPIC_API_KEY"}},
		{name: "Gemini", env: map[string]string{"GEMINI_API_KEY": "gk"}, http: map[string]string{"generativelanguage.googleapis.com": models("models/embedding-001", "models/gemini-2.5-pro", "models/gemini-2.5-flash", "models/gemini-3-pro-preview")}, want: Endpoint{"gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro-preview", "gk", "GEMINI_API_KEY"}},
		{name: "the only model of an address", wish: Wish{BaseURL: "http://host/v1"}, http: map[string]string{"host": `{"models":[{"name":"tiny"}]}`}, want: Endpoint{"custom", "http://host/v1", "tiny", "", "--base-url"}},
		{name: "local", wish: Wish{ProbeLocal: true}, http: local, want: Endpoint{"lmstudio", "http://127.0.0.1:1234/v1", "qwen", "", "local 1234"}},
		{name: "local with a model", wish: Wish{ProbeLocal: true, Model: "llama"}, http: local, want: Endpoint{"vllm", "http://127.0.0.1:8000/v1", "llama", "", "local 8000"}},
		{name: "Azure", wish: Wish{Model: "gpt", BaseURL: "https://x.openai.azure.com", Key: "k"}, want: Endpoint{"azure", "https://x.openai.azure.com", "gpt", "k", "--base-url"}},
		{name: "a whole address", wish: Wish{Model: "gpt", BaseURL: "http://localhost:11434/v1/chat/completions"}, want: Endpoint{"ollama", "http://localhost:11434/v1", "gpt", "", "--base-url"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.wish.Getenv = func(name string) string { return tt.env[name] }
			tt.wish.HTTP = lists(nil, tt.http)
			began := time.Now()
			got, err := Choose(context.Background(), tt.wish)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestChooseNothing(t *testing.T) {
	var seen []string
	_, err := Choose(context.Background(), Wish{HTTP: lists(&seen, nil)})
	var e *Error
	if !errors.Is(err, ErrNoModel) || !errors.As(err, &e) || e.Kind != KindNoModel {
		t.Fatal(err)
	}
	for _, want := range []string{"OPENAI_API_KEY", "Ollama", "--base-url", "--model", "ralph demo"} {
		if !strings.Contains(e.Hint, want) {
			t.Errorf("the hint lacks %s: %s", want, e.Hint)
		}
	}
	if len(seen) > 0 {
		t.Errorf("asked %v", seen)
	}
	if _, err = Choose(context.Background(), Wish{HTTP: lists(nil, nil), ProbeLocal: true}); !errors.Is(err, ErrNoModel) {
		t.Error(err)
	}
	_, err = Choose(context.Background(), Wish{BaseURL: "http://host/v1", HTTP: lists(nil, map[string]string{"host": models()})})
	if !errors.Is(err, ErrNoModel) {
		t.Error(err)
	}
}

func TestChooseBadAddress(t *testing.T) {
	for base, want := range map[string]string{
		"localhost:11434":     "neither http",
		"host":                "neither http",
		"ftp://host":          "neither http",
		"http://":             "names no host",
		"http://a b/":         "is no address",
		"http://user:pw@host": "a user name",
		"http://host/v1#x":    "a fragment",
		"http://host:port/v1": "is no address",
	} {
		_, err := Choose(context.Background(), Wish{BaseURL: base, Model: "m"})
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindNoModel || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--base-url") || e.Hint == "" {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func TestProbeIsQuick(t *testing.T) {
	slow := map[string]string{}
	for _, s := range localServers() {
		slow["127.0.0.1:"+s.port] = "slow"
	}
	began := time.Now()
	_, err := Choose(context.Background(), Wish{ProbeLocal: true, HTTP: lists(nil, slow)})
	if took := time.Since(began); !errors.Is(err, ErrNoModel) || took < probeTime || took > probeTime+150*time.Millisecond {
		t.Errorf("took %v: %v", took, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("stop")
	cancel(why)
	if _, err := Choose(ctx, Wish{ProbeLocal: true, HTTP: lists(nil, slow)}); !errors.Is(err, why) {
		t.Error(err)
	}
}

// TestKeyHeaders: each provider gets its key in the header that it reads, and
// at the address that it has.
func TestKeyHeaders(t *testing.T) {
	for _, tt := range []struct{ base, provider, want string }{
		{"https://api.openai.com/v1", providerOpenAI, "https://api.openai.com/v1/chat/completions Bearer k"},
		{"https://api.anthropic.com/v1/", providerAnthropic, "https://api.anthropic.com/v1/chat/completions Bearer k"},
		{"https://x.openai.azure.com", providerAzure, "https://x.openai.azure.com/openai/deployments/gpt:4/chat/completions?api-version=2024-10-21 k"},
		{"https://x.openai.azure.com/?api-version=2025-01-01", providerAzure, "https://x.openai.azure.com/openai/deployments/gpt:4/chat/completions?api-version=2025-01-01 k"},
		{"https://x.openai.azure.com/openai/v1", providerAzure, "https://x.openai.azure.com/openai/v1/chat/completions k"},
	} {
		var seen []string
		c := New(Options{Endpoint: Endpoint{Provider: tt.provider, BaseURL: tt.base, Model: "gpt:4", Key: "k"}, Transport: lists(&seen, nil).Transport})
		c.first = 0
		_, err := c.Complete(context.Background(), ask("x"), nil)
		if err == nil || len(seen) == 0 || seen[0] != tt.want {
			t.Errorf("%s: %q", tt.base, seen)
		}
	}
}

// TestRedirects: a key stays with its host.
func TestRedirects(t *testing.T) {
	other := modeltest.New(t, modeltest.Text("stolen").Forever())
	for _, code := range []int{301, 302, 303, 307, 308} {
		srv := modeltest.New(t, modeltest.Status(code, "", "Location", other.URL()+"/chat/completions?key=x"))
		_, err := newClient(t, srv.URL()).Complete(context.Background(), ask("x"), nil)
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindProtocol || !strings.Contains(e.Message, "/chat/completions,") || !strings.Contains(e.Hint, "--base-url") {
			t.Errorf("%d: %v", code, err)
		}
	}
	if n := len(other.Requests()); n > 0 {
		t.Errorf("the other host got %d requests", n)
	}
	srv := modeltest.New(t, modeltest.Status(308, "", "Location", "/v2/chat/completions"), modeltest.Text("fine"))
	r, err := newClient(t, srv.URL()).Complete(context.Background(), ask("x"), nil)
	if err != nil || r.Message.Text != "fine" || srv.Requests()[1].Path != "/v2/chat/completions" || len(srv.Requests()[1].Messages) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestModels(t *testing.T) {
	srv := modeltest.New(t)
	srv.SetModels("a", "b")
	c := newClient(t, srv.URL())
	got, err := c.Models(context.Background())
	if err != nil || strings.Join(got, " ") != "a b" {
		t.Errorf("%v, %v", got, err)
	}
	srv.SetModels()
	var e *Error
	if _, err = c.Models(context.Background()); !errors.As(err, &e) || e.Kind != KindProtocol || e.Op != "list models" {
		t.Errorf("%v", err)
	}
	srv.Close()
	if _, err = c.Models(context.Background()); !errors.As(err, &e) || e.Kind != KindUnreachable {
		t.Errorf("%v", err)
	}
}

// TestConnectionsAreReused: the next request finds a connection that is open,
// although the reply was known before the response ended.
func TestConnectionsAreReused(t *testing.T) {
	srv := modeltest.New(t, modeltest.Text("fine").Forever())
	c := newClient(t, srv.URL())
	var conns int
	dial := c.own.DialContext
	c.own.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conns++
		return dial(ctx, network, addr)
	}
	for range 10 {
		if _, err := c.Complete(context.Background(), ask("x"), nil); err != nil {
			t.Fatal(err)
		}
		// A tool would run now; the end of the response arrives meanwhile.
		for c.drain.len() > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	if conns > 1 {
		t.Errorf("%d connections for 10 requests", conns)
	}
}

// TestHalfOpenResponseIsDropped: a response that never ends does not keep its
// connection.
func TestHalfOpenResponseIsDropped(t *testing.T) {
	srv := modeltest.New(t, modeltest.Text("fine").HangAfter())
	c := newClient(t, srv.URL())
	if _, err := c.Complete(context.Background(), ask("x"), nil); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.Close()
	if took := time.Since(began); took > 10*time.Second || c.drain.len() > 0 {
		t.Errorf("Close took %v", took)
	}
}

func TestOpenRouterUsage(t *testing.T) {
	c, _ := offline(t, func(_ int, r *http.Request) (*http.Response, error) {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(body)
		if err != nil || !strings.Contains(string(b), `"usage":{"include":true}`) {
			return response(400, string(b)), err
		}
		return response(200, modeltest.Delta(map[string]any{"content": "x"})+modeltest.Finish("stop")+
			`data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"cost":0.0123,"prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":7}}}`+"\n\n"), nil
	}, func(o *Options) { o.Endpoint.Provider = providerOpenRouter })
	r, err := c.Complete(context.Background(), ask("x"), nil)
	want := agent.Usage{Input: 100, CachedInput: 64, Output: 20, Reasoning: 7, Total: 120}
	if err != nil || r.Usage != want || r.CostUSD == nil || *r.CostUSD != 0.0123 {
		t.Errorf("%+v, %v", r, err)
	}
}

// len is how many responses are being finished.
func (d *drains) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.active)
}
