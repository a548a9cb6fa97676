package model

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// wire is a RoundTripper made of a function.
type wire func(n int, req *http.Request) (*http.Response, error)

type fakeWire struct {
	n atomic.Int32
	f wire
}

func (w *fakeWire) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
	}
	return w.f(int(w.n.Add(1)), req)
}

func response(status int, body string, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func offline(t *testing.T, f wire, change ...func(*Options)) (*Client, *fakeWire) {
	w := &fakeWire{f: f}
	c := newClient(t, "http://model.test/v1", append([]func(*Options){func(o *Options) { o.Transport = w }}, change...)...)
	return c, w
}

// TestPatience checks how often and for how long each sort of failure is tried,
// by a clock that does not wait.
func TestPatience(t *testing.T) {
	down := func(err error) wire {
		return func(int, *http.Request) (*http.Response, error) { return nil, err }
	}
	status := func(code int, headers ...string) wire {
		return func(int, *http.Request) (*http.Response, error) {
			return response(code, `{"error":{"message":"no"}}`, headers...), nil
		}
	}
	slow := func(d time.Duration, f wire) wire {
		return func(n int, r *http.Request) (*http.Response, error) {
			time.Sleep(d)
			return f(n, r)
		}
	}
	for _, tt := range []struct {
		name     string
		wire     wire
		kind     Kind
		min, max int // requests
		longest  time.Duration
		shortest time.Duration
		after    time.Duration
	}{
		{name: "5xx", wire: status(500), kind: KindServer, min: 5, max: 5, longest: 15 * time.Second},
		{name: "slow 5xx", wire: slow(12*time.Second, status(500)), kind: KindServer, min: 2, max: 3, longest: 42 * time.Second},
		{name: "gateway timeout", wire: slow(60*time.Second, status(504)), kind: KindServer, min: 1, max: 1, longest: 60 * time.Second},
		{name: "reset", wire: down(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), kind: KindUnreachable, min: 5, max: 5, longest: 15 * time.Second},
		{name: "refused", wire: down(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), kind: KindUnreachable, min: 3, max: 5, longest: 2 * time.Second},
		{name: "no such host", wire: down(&net.DNSError{Err: "no such host", Name: "model.test", IsNotFound: true}), kind: KindUnreachable, min: 1, max: 1},
		{name: "DNS out of order", wire: down(&net.DNSError{Err: "timeout", IsTimeout: true, IsTemporary: true}), kind: KindUnreachable, min: 5, max: 5, longest: 15 * time.Second},
		{name: "429 that says how long", wire: status(429, "Retry-After", "100"), kind: KindRateLimit, min: 6, max: 7, shortest: 600 * time.Second, longest: 610 * time.Second, after: 100 * time.Second},
		{name: "429 beyond patience", wire: status(429, "Retry-After", "601"), kind: KindRateLimit, min: 1, max: 1, after: 601 * time.Second},
		{name: "503 beyond patience", wire: status(503, "Retry-After", "601"), kind: KindRateLimit, min: 1, max: 1, after: 601 * time.Second},
		{name: "429 with nought", wire: status(429, "Retry-After", "0"), kind: KindRateLimit, min: 5, max: 5, longest: 15 * time.Second},
		{name: "429", wire: status(429), kind: KindRateLimit, min: 5, max: 5, longest: 15 * time.Second},
		{name: "silence", wire: func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, kind: KindUnreachable, min: 2, max: 2, shortest: 20 * time.Minute, longest: 20*time.Minute + 2*time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, w := offline(t, tt.wire)
				began, waits := time.Now(), time.Duration(0)
				_, err := c.Complete(context.Background(), ask("x"), func(d agent.Delta) { waits += d.Wait })
				took := time.Since(began)
				var e *Error
				if !errors.As(err, &e) || e.Kind != tt.kind {
					t.Fatalf("err %v", err)
				}
				if n := int(w.n.Load()); n < tt.min || n > tt.max {
					t.Errorf("%d requests", n)
				}
				if took > tt.longest || took < tt.shortest || waits > took {
					t.Errorf("took %v, announced %v", took, waits)
				}
				if e.RetryAfter != tt.after {
					t.Errorf("RetryAfter %v", e.RetryAfter)
				}
			})
		})
	}
}

func TestStopWhileWaiting(t *testing.T) {
	why := errors.New("stop")
	for name, f := range map[string]wire{
		"rate limit": func(int, *http.Request) (*http.Response, error) { return response(429, "", "Retry-After", "60"), nil },
		"no answer": func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := offline(t, f, func(o *Options) { o.Limiter = rate.NewLimiter(rate.Every(time.Hour), 1) })
				for range 2 { // the second waits for the limiter or the gate
					ctx, cancel := context.WithCancelCause(context.Background())
					began := time.Now()
					time.AfterFunc(10*time.Second, func() { cancel(why) })
					r, err := c.Complete(ctx, ask("x"), nil)
					if took := time.Since(began); !errors.Is(err, why) || took != 10*time.Second || !r.Message.Partial || r.Usage.Total != 0 {
						t.Errorf("took %v: %v, %+v", took, err, r)
					}
				}
			})
		})
	}
}

// chatter is a body that says something, then keeps its connection busy.
type chatter struct {
	ctx  context.Context
	text string
}

func (c *chatter) Read(p []byte) (int, error) {
	if c.text == "" {
		select {
		case <-time.After(500 * time.Millisecond):
			c.text = ": still here\n\n"
		case <-c.ctx.Done():
			return 0, c.ctx.Err()
		}
	}
	n := copy(p, c.text)
	c.text = c.text[n:]
	return n, nil
}

func (c *chatter) Close() error { return nil }

// TestChatterAfterTheEnd: keep-alives do not hold back a reply that has its
// finish reason, and a reply that is whole does not wait for anything.
func TestChatterAfterTheEnd(t *testing.T) {
	for body, longest := range map[string]time.Duration{
		modeltest.Delta(map[string]any{"content": "x"}) + modeltest.Finish("stop"): graceTime,
		modeltest.Text("x").Body(): 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := offline(t, func(_ int, r *http.Request) (*http.Response, error) {
				resp := response(200, "")
				resp.Body = &chatter{ctx: r.Context(), text: body}
				return resp, nil
			})
			began := time.Now()
			r, err := c.Complete(context.Background(), ask("x"), nil)
			if took := time.Since(began); err != nil || r.Message.Text != "x" || took > longest {
				t.Errorf("took %v: %+v, %v", took, r, err)
			}
			c.Close()
		})
	}
}

// TestSharedWait: while one request waits for a rate limit, another is not sent.
func TestSharedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := time.Now().Add(20 * time.Second)
		early := 0
		c, w := offline(t, func(n int, _ *http.Request) (*http.Response, error) {
			if n > 1 && time.Now().Before(free) {
				early++
			}
			if n == 1 {
				return response(429, "", "Retry-After", "20"), nil
			}
			return response(200, modeltest.Text("fine").Body()), nil
		})
		done := make(chan error, 5)
		for i := range 5 {
			go func() {
				time.Sleep(time.Duration(i) * time.Second)
				_, err := c.Complete(context.Background(), ask("x"), nil)
				done <- err
			}()
		}
		for range 5 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if early > 0 || w.n.Load() != 6 {
			t.Errorf("%d requests, %d too early", w.n.Load(), early)
		}
		c.Close()
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name, value string
		want        time.Duration
		ok          bool
	}{
		{"Retry-After", "7", 7 * time.Second, true},
		{"Retry-After", "1.5", 1500 * time.Millisecond, true},
		{"Retry-After", "Sat, 21 Nov 2026 10:00:30 GMT", 30 * time.Second, true},
		{"Retry-After", "Sat, 21 Nov 2026 09:00:00 GMT", 0, true},
		{"Retry-After", "2m", 2 * time.Minute, true},
		{"Retry-After-Ms", "250", 250 * time.Millisecond, true},
		{"Retry-After", "soon", 0, false},
		{"Retry-After", "-3", 0, false},
		{"Retry-After", "1e300", 0, false},
		{"Retry-After", "", 0, false},
	} {
		got, ok := retryAfter(http.Header{tt.name: {tt.value}}, now)
		if got != tt.want || ok != tt.ok {
			t.Errorf("%s: %s is %v, %v", tt.name, tt.value, got, ok)
		}
	}
	for in, want := range map[string]time.Duration{
		"please try again in 6m0s.": 6 * time.Minute, "please retry in 34.07s": 34070 * time.Millisecond, `"retrydelay": "34s"`: 34 * time.Second, "try again in 20ms": 20 * time.Millisecond, "try again later": 0,
	} {
		if got, _ := waitInWords(in); got != want {
			t.Errorf("%q is %v", in, got)
		}
	}
}

// TestDialects: what an endpoint does not take is left out or said in another
// way, at once and for good.
func TestDialects(t *testing.T) {
	for _, tt := range []struct {
		name, provider, complaint, key string
		gone, there                    string
	}{
		{"usage", "", `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`, `"stream_options"`, `"stream_options"`, ``},
		{"newer limit", "", `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}`, `"max_tokens"`, `"max_tokens"`, `"max_completion_tokens":99`},
		{"older limit", providerOpenAI, `{"detail":[{"loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted"}]}`, `"max_completion_tokens"`, `"max_completion_tokens"`, `"max_tokens":99`},
		{"schema", "", `{"error":{"message":"response_format json_schema is not available"}}`, `"response_format"`, `"response_format"`, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := modeltest.New(t)
			srv.Handle(func(r modeltest.Request) modeltest.Reply {
				if strings.Contains(string(r.Body), tt.key) {
					return modeltest.Status(400, tt.complaint)
				}
				return modeltest.Text("fine")
			})
			c := newClient(t, srv.URL(), func(o *Options) { o.Endpoint.Provider = orDefault(tt.provider, providerCustom) })
			req := ask("x")
			req.MaxOutputTokens, req.Schema = 99, []byte(`{"type":"object"}`)
			for range 2 {
				retries := 0
				if _, err := c.Complete(context.Background(), req, func(d agent.Delta) {
					if d.Kind == agent.DeltaRetry {
						retries++
					}
				}); err != nil || retries > 0 {
					t.Fatal(err, retries)
				}
			}
			reqs := srv.Requests()
			if len(reqs) != 3 {
				t.Fatalf("%d requests", len(reqs))
			}
			last := string(reqs[2].Body)
			if strings.Contains(last, tt.gone) || !strings.Contains(last, tt.there) || !strings.Contains(string(reqs[0].Body), `"json_schema":{"name":"answer","schema":{"type":"object"}`) {
				t.Errorf("last request %s", last)
			}
		})
	}
}

// TestReasoningModels: go-openai refuses max_tokens for some names before
// anything is sent.
func TestReasoningModels(t *testing.T) {
	srv := modeltest.New(t, modeltest.Text("fine").Forever())
	for _, name := range []string{"o3-mini", "gpt-5.1", "gpt-6-astra"} {
		c := newClient(t, srv.URL(), func(o *Options) { o.Endpoint.Model = name })
		req := ask("x")
		req.MaxOutputTokens, req.Tools = 99, tools("reads")
		if _, err := c.Complete(context.Background(), req, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, r := range srv.Requests() {
		if r.MaxTokens != 99 || !strings.Contains(string(r.Body), "max_completion_tokens") || len(r.Tools) != 2 {
			t.Errorf("%s", r.Body)
		}
	}
}

func TestDialectEcho(t *testing.T) {
	srv := modeltest.New(t)
	srv.Handle(func(r modeltest.Request) modeltest.Reply {
		if !strings.Contains(string(r.Body), `"reasoning_content":"because"`) {
			return modeltest.Status(400, `{"error":{"message":"The reasoning_content in the thinking mode must be passed back to the API."}}`)
		}
		return modeltest.Text("fine")
	})
	c := newClient(t, srv.URL())
	if _, err := c.Complete(context.Background(), agent.Request{Messages: transcript(3)}, nil); err != nil {
		t.Error(err)
	}
}

// TestDialectNames: Gemini wants the name of the tool with each answer, the
// protocol does not have it, and some servers refuse it.
func TestDialectNames(t *testing.T) {
	t.Parallel()
	msgs := []agent.Message{
		{Role: agent.RoleUser, Text: "go"},
		{Role: agent.RoleAssistant, Calls: []agent.Call{{ID: "a", Name: "read", Args: `{}`}, {ID: "b", Name: "shell", Args: `{}`}}},
		{Role: agent.RoleTool, CallID: "a", Text: "A"},
		{Role: agent.RoleTool, CallID: "b", Text: "B"},
		{Role: agent.RoleTool, CallID: "nobody's", Text: "C"},
	}
	const named = `{"role":"tool","content":"A","name":"read","tool_call_id":"a"},{"role":"tool","content":"B","name":"shell","tool_call_id":"b"},{"role":"tool","content":"C","tool_call_id":"nobody's"}`
	const plain = `{"role":"tool","content":"A","tool_call_id":"a"},{"role":"tool","content":"B","tool_call_id":"b"},{"role":"tool","content":"C","tool_call_id":"nobody's"}`
	needs := `[{"error":{"code":400,"message":"* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.\n","status":"INVALID_ARGUMENT"}}]`
	refuses := `{"error":{"message":"messages[2]: \"name\" is not supported by this endpoint","type":"invalid_request_error"}}`
	forbids := `{"detail":[{"type":"extra_forbidden","loc":["body","messages",2,"tool","name"],"msg":"Extra inputs are not permitted"}]}`
	for _, tt := range []struct {
		name, provider, model string
		complaint, about      string // the complaint comes when the request holds about
		want                  []string
	}{
		{"others get none", providerCustom, "test", "", "never", []string{plain, plain}},
		{"gemini gets them", providerGemini, "test", needs, plain, []string{named, named}},
		{"gemini behind a gateway", providerCustom, "google/Gemini-2.5-pro", needs, plain, []string{named, named}},
		{"learned", providerCustom, "test", needs, plain, []string{plain, named, named}},
		{"refused", providerGemini, "test", refuses, named, []string{named, plain, plain}},
		{"forbidden", providerGemini, "test", forbids, named, []string{named, plain, plain}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := modeltest.New(t)
			srv.Handle(func(r modeltest.Request) modeltest.Reply {
				if strings.Contains(string(r.Body), tt.about) {
					return modeltest.Status(400, tt.complaint)
				}
				return modeltest.Text("fine")
			})
			c := newClient(t, srv.URL(), func(o *Options) { o.Endpoint.Provider, o.Endpoint.Model = tt.provider, tt.model })
			for range 2 {
				if _, err := c.Complete(context.Background(), agent.Request{Messages: msgs}, nil); err != nil {
					t.Fatal(err)
				}
			}
			reqs := srv.Requests()
			if len(reqs) != len(tt.want) {
				t.Fatalf("%d requests, want %d", len(reqs), len(tt.want))
			}
			for i, r := range reqs {
				if !strings.Contains(string(r.Body), tt.want[i]) {
					t.Errorf("request %d: %s", i, r.Body)
				}
			}
		})
	}
	t.Run("an endpoint that wants both", func(t *testing.T) {
		srv := modeltest.New(t)
		srv.Handle(func(r modeltest.Request) modeltest.Reply {
			if strings.Contains(string(r.Body), named) {
				return modeltest.Status(400, refuses)
			}
			return modeltest.Status(400, needs)
		})
		c := newClient(t, srv.URL())
		if _, err := c.Complete(context.Background(), agent.Request{Messages: msgs}, nil); err == nil || len(srv.Requests()) > 4 {
			t.Errorf("%v after %d requests", err, len(srv.Requests()))
		}
	})
}

func TestClassify(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   Kind
	}{
		{400, `{"error":{"message":"This model's maximum context length is 4097 tokens. However, your messages resulted in 5000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`, KindContextLength},
		{400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","code":400}`, KindContextLength},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, KindContextLength},
		{400, `{"error":{"message":"input length and max_tokens exceed context limit: 199000 + 4096 > 200000"}}`, KindContextLength},
		{400, `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, KindContextLength},
		{400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000}}`, KindContextLength},
		{500, `{"error":{"code":500,"message":"context size exceeded","type":"server_error"}}`, KindContextLength},
		{400, `{"error":"Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}`, KindContextLength},
		{400, `{"error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}`, KindContextLength},
		{400, `{"error":{"message":"Please reduce the length of the messages or completion."}}`, KindContextLength},
		{400, `{"error":{"message":"Your request exceeded model token limit: 131072"}}`, KindContextLength},
		{413, `{"error":{"message":"Request too large for model in organization on tokens per minute (TPM)","code":"rate_limit_exceeded"}}`, KindContextLength},
		{429, `{"error":{"message":"Rate limit reached for requests","type":"requests","code":"rate_limit_exceeded"}}`, KindRateLimit},
		{429, `{"error":{"message":"You exceeded your current quota, please check your plan","type":"insufficient_quota","code":"insufficient_quota"}}`, KindQuota},
		{429, `{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 34.07s.","status":"RESOURCE_EXHAUSTED"}}`, KindRateLimit},
		{402, `{"error":{"message":"Insufficient Balance"}}`, KindQuota},
		{400, `{"error":{"message":"Your credit balance is too low to access the Anthropic API."}}`, KindQuota},
		{401, `{"error":{"message":"Incorrect API key provided: sk-a***b."}}`, KindAuth},
		{401, ``, KindAuth},
		{403, `{"error":{"message":"Country, region, or territory not supported"}}`, KindAuth},
		{403, `{"error":{"message":"The model x requires moderation and was flagged"}}`, KindContentFilter},
		{404, `{"error":{"message":"model \"llama9\" not found, try pulling it first","type":"api_error"}}`, KindModelNotFound},
		{404, `{"error":{"message":"The model 'gpt-9' does not exist or you do not have access to it.","code":"model_not_found"}}`, KindModelNotFound},
		{404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, KindModelNotFound},
		{400, `{"error":{"message":"gpt-99 is not a valid model ID","code":400}}`, KindModelNotFound},
		{404, `404 page not found`, KindProtocol},
		{405, `<html>`, KindProtocol},
		{400, `{"error":{"message":"registry.ollama.ai/library/x does not support tools"}}`, KindRejected},
		{422, `{"detail":"bad"}`, KindRejected},
		{500, ``, KindServer},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, KindServer},
		{408, ``, KindServer},
	} {
		f := looseFault([]byte(tt.body))
		f.status = tt.status
		e := classify(f, "x")
		if e.Kind != tt.want || e.Message == "" || strings.Contains(e.Message, "<") {
			t.Errorf("%d %s: %s, %q", tt.status, tt.body, e.Kind, e.Message)
		}
	}
}

func TestErrorTellsNoKey(t *testing.T) {
	srv := modeltest.New(t, modeltest.Status(401, `{"error":{"message":"bad key sk-test-key-0123456789"}}`))
	_, err := newClient(t, srv.URL()).Complete(context.Background(), ask("x"), nil)
	if err == nil || strings.Contains(err.Error(), "0123456789") || !strings.Contains(err.Error(), "[key]") {
		t.Error(err)
	}
	var e *Error
	if !errors.As(err, &e) || !strings.HasPrefix(e.Op, "ask ") || e.HTTPStatus != 401 || e.Hint == "" {
		t.Errorf("%+v", e)
	}
}

// A person does not wait for a rate limit that another request was told of.
func TestAgainDoesNotWait(t *testing.T) {
	t.Parallel()
	srv := modeltest.New(t, modeltest.Status(429, "{}", "Retry-After", "300"), modeltest.Text("here"))
	c := New(Options{Endpoint: Endpoint{BaseURL: srv.URL(), Model: "m"}})
	defer c.Close()
	req := agent.Request{Messages: []agent.Message{{Role: agent.RoleUser, Text: "hello"}}}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Complete(ctx, req, func(d agent.Delta) {
		if d.Kind == agent.DeltaRetry {
			cancel()
		}
	})
	if err == nil {
		t.Fatal("the first request was to be refused")
	}
	c.Again("")
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	reply, err := c.Complete(ctx, req, func(agent.Delta) {})
	if err != nil || reply.Message.Text != "here" {
		t.Errorf("the next request: %q, %v", reply.Message.Text, err)
	}
}
