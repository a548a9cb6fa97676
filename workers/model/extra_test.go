package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

// signature is an extra_content as Google documents it.
func signature(s string) string { return `{"google":{"thought_signature":"` + s + `"}}` }

const sigA, sigB = "CvcQAdHtim/A+8x0==", "EjQKMgEMOdbHJChLX75QUCJjyYlm"

// geminiEvent is an event in the shape of Gemini's compatible endpoint.
func geminiEvent(delta, finish string) string {
	return `data: {"choices":[{"delta":` + delta + finish + `,"index":0}],"created":1763730000,"id":"QUCJaf","model":"gemini-3-pro-preview","object":"chat.completion.chunk"}` + "\n\n"
}

// geminiCall is a call as Gemini streams it: whole, and without an index.
func geminiCall(id, name, args, extra string) string {
	if extra != "" {
		extra = `"extra_content":` + extra + `,`
	}
	a, _ := json.Marshal(args)
	return `{` + extra + `"function":{"arguments":` + string(a) + `,"name":"` + name + `"},"id":"` + id + `","type":"function"}`
}

func geminiCalls(calls ...string) string {
	return geminiEvent(`{"role":"assistant","tool_calls":[`+strings.Join(calls, ",")+`]}`, "")
}

const geminiEnd = `data: {"choices":[{"delta":{"role":"assistant"},"finish_reason":"stop","index":0}],"created":1763730000,"id":"QUCJaf","model":"gemini-3-pro-preview","object":"chat.completion.chunk","usage":{"completion_tokens":41,"prompt_tokens":120,"total_tokens":310}}` + "\n\ndata: [DONE]\n\n"

func geminiStream() string {
	return geminiEvent(`{"content":"I look first.","role":"assistant"}`, "") +
		geminiCalls(geminiCall("function-call-1", "read", `{"path":"a.go"}`, signature(sigA)), geminiCall("function-call-2", "read", `{"path":"b.go"}`, "")) + geminiEnd
}

// sentExtras are the raw extra_content of the calls of a request, "" for none.
func sentExtras(t *testing.T, body []byte) (extras []string) {
	t.Helper()
	var b struct {
		Messages []struct {
			Calls []struct {
				Extra json.RawMessage `json:"extra_content"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, m := range b.Messages {
		for _, c := range m.Calls {
			extras = append(extras, string(c.Extra))
		}
	}
	return extras
}

// answered is a transcript with an answer to each call of its last message.
func answered(msgs ...agent.Message) []agent.Message {
	for _, c := range msgs[len(msgs)-1].Calls {
		msgs = append(msgs, agent.Message{Role: agent.RoleTool, CallID: c.ID, Text: "ok"})
	}
	return msgs
}

// TestExtra: what an endpoint attached to a call goes back with that call, as it
// came. The replies are ours, written after Google's documentation.
func TestExtra(t *testing.T) {
	t.Parallel()
	long := signature(strings.Repeat("A", maxExtraBytes))
	piece := func(call string) string { return modeltest.Delta(json.RawMessage(`{"tool_calls":[` + call + `]}`)) }
	for _, tt := range []struct {
		name, body string
		want       []string // by call
	}{
		{"parallel calls, the first is signed", geminiStream(), []string{signature(sigA), ""}},
		{"an event for each call", geminiCalls(geminiCall("x1", "read", `{}`, signature(sigA))) + geminiCalls(geminiCall("x2", "read", `{}`, signature(sigB))) + geminiEnd,
			[]string{signature(sigA), signature(sigB)}},
		{"without ids", geminiCalls(geminiCall("", "read", `{"n":1}`, signature(sigA)), geminiCall("", "read", `{"n":2}`, "")) + geminiEnd, []string{signature(sigA), ""}},
		{"spaces, escapes, other names", geminiCalls(geminiCall("x", "read", `{}`, `{"vertex": {"thought_signature": "<\u00e9\/>"}, "n": [1, 2.50]}`)) + geminiEnd,
			[]string{`{"vertex": {"thought_signature": "<\u00e9\/>"}, "n": [1, 2.50]}`}},
		{"in a later piece", piece(`{"index":0,"id":"x","function":{"name":"read","arguments":"{\"a\":"}}`) +
			piece(`{"index":0,"function":{"arguments":"1}"},"extra_content":`+signature(sigA)+`}`) + piece(`{"index":0,"extra_content":null}`) + piece(`{"index":0,"extra_content":{}}`) + geminiEnd, []string{signature(sigA)}},
		{"a later one counts", geminiCalls(geminiCall("x", "read", `{}`, `{"google":{}}`)) + piece(`{"id":"x","extra_content":`+signature(sigB)+`}`) + geminiEnd, []string{signature(sigB)}},
		{"not streamed", `{"choices":[{"finish_reason":"tool_calls","index":0,"message":{"role":"assistant","tool_calls":[` +
			geminiCall("x1", "read", `{}`, "{\n  \"google\": {\n    \"thought_signature\": \""+sigA+"\"\n  }\n}") + `,` + geminiCall("x2", "read", `{}`, "") + `]}}],"model":"gemini-3-pro-preview"}`,
			[]string{"{\n  \"google\": {\n    \"thought_signature\": \"" + sigA + "\"\n  }\n}", ""}},
		{"no object", geminiCalls(geminiCall("x1", "read", `{}`, `"text"`), geminiCall("x2", "read", `{}`, `[1]`), geminiCall("x3", "read", `{}`, `null`), geminiCall("x4", "read", `{}`, `{"a":tru}`)) + geminiEnd, []string{"", "", "", ""}},
		{"no UTF-8", geminiCalls(geminiCall("x", "read", `{}`, "{\"a\":\"\xff\"}")) + geminiEnd, []string{"{\"a\":\"\uFFFD\"}"}},
		{"too long", geminiCalls(geminiCall("x", "read", `{}`, long)) + geminiEnd, []string{""}},
	} {
		for how, change := range map[string]func(modeltest.Reply) modeltest.Reply{
			"whole": func(r modeltest.Reply) modeltest.Reply { return r }, "byte by byte": modeltest.Reply.ByteByByte,
		} {
			if len(tt.body) > 100_000 && how != "whole" {
				continue
			}
			t.Run(tt.name+" "+how, func(t *testing.T) {
				t.Parallel()
				srv := modeltest.New(t, change(modeltest.Raw(tt.body)), modeltest.Text("fine"), modeltest.Text("fine"))
				c := newClient(t, srv.URL())
				req := ask("go")
				r, err := c.Complete(context.Background(), req, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Messages = answered(append(req.Messages, r.Message)...)
				if _, err := c.Complete(context.Background(), req, nil); err != nil {
					t.Fatal(err)
				}
				req.Messages = append(req.Messages, agent.Message{Role: agent.RoleUser, Text: "more"})
				if _, err := c.Complete(context.Background(), req, nil); err != nil {
					t.Fatal(err)
				}
				reqs := srv.Requests()
				for _, q := range reqs[1:] {
					if got := sentExtras(t, q.Body); !reflect.DeepEqual(got, tt.want) {
						t.Errorf("sent %q, want %q", got, tt.want)
					}
				}
				n := len(tt.want)
				for _, w := range tt.want {
					if w == "" {
						n--
					}
				}
				if got := bytes.Count(reqs[1].Body, []byte("extra_content")); got != n {
					t.Errorf("%d times extra_content, want %d: %s", got, n, reqs[1].Body)
				}
				if !bytes.HasPrefix(reqs[2].Body, bytes.TrimSuffix(reqs[1].Body, []byte("]}"))) {
					t.Error("the third request does not go on from the second")
				}
			})
		}
	}
	t.Run("in all too long", func(t *testing.T) {
		calls := ""
		for i := range maxReplyBytes/maxExtraBytes + 2 {
			calls += geminiCalls(geminiCall(fmt.Sprint(i), "read", `{}`, signature(strings.Repeat("A", maxExtraBytes-100))))
		}
		if _, _, err := play(strings.NewReader(calls + geminiEnd)); err == nil {
			t.Error("a reply beyond the bound was taken")
		}
	})
}

// TestExtraInTheTranscript: a journal keeps what was attached, the encoder sees
// when it differs, and calls without are written as ever.
func TestExtraInTheTranscript(t *testing.T) {
	m := agent.Message{Role: agent.RoleAssistant, Calls: []agent.Call{{ID: "a", Name: "read", Args: `{}`, Extra: json.RawMessage(signature(sigA))}, {ID: "b", Name: "read"}}}
	const plain = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"read","arguments":"{}"}}]}`
	signed := strings.Replace(plain, `}},`, `},"extra_content":`+signature(sigA)+`},`, 1)
	line, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back agent.Message
	if err := json.Unmarshal(line, &back); err != nil || !reflect.DeepEqual(m, back) {
		t.Fatalf("%v: %s became %+v", err, line, back)
	}
	if strings.Count(string(line), `"extra"`) != 1 {
		t.Errorf("the journal's line is %s", line)
	}
	var e encoder
	first := e.messages("x", []agent.Message{m}, style{})
	again := e.messages("x", []agent.Message{back}, style{})
	if string(first) != signed || &first[0] != &again[0] {
		t.Errorf("%s\n%s", first, again)
	}
	back.Calls[0].Extra = nil
	if got := string(e.messages("x", []agent.Message{back}, style{})); got != plain {
		t.Errorf("without: %s", got)
	}
	if got := string(e.messages("x", []agent.Message{m}, style{})); got != signed {
		t.Errorf("with: %s", got)
	}
	if got := string(e.messages("x", []agent.Message{m}, style{noExtra: true})); got != plain {
		t.Errorf("in another dialect: %s", got)
	}
}

// TestDialectExtra: an endpoint that refuses what another one attached gets it
// no more; one that misses it is not taken for one that refuses.
func TestDialectExtra(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, complaint string
		status          int
		refuses         bool
	}{
		{"fireworks", `{"error":{"message":"Extra inputs are not permitted, field: 'messages[1].tool_calls[0].extra_content', value: {}","type":"invalid_request_error"}}`, 400, true},
		{"openai", `{"error":{"message":"Unknown parameter: 'messages[1].tool_calls[0].extra_content'.","type":"invalid_request_error","param":"messages[1].tool_calls[0].extra_content","code":"unknown_parameter"}}`, 400, true},
		{"groq", `{"error":{"message":"'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1.tool_calls.0' : property 'extra_content' is unsupported)]","type":"invalid_request_error"}}`, 400, true},
		{"google", `[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"extra_content\" at 'messages[1].tool_calls[0]': Cannot find field.","status":"INVALID_ARGUMENT"}}]`, 400, true},
		{"pydantic", `{"detail":[{"type":"extra_forbidden","loc":["body","messages",1,"assistant","tool_calls",0,"extra_content"],"msg":"Extra inputs are not permitted"}]}`, 422, true},
		{"one that misses it", `{"error":{"message":"messages[1].tool_calls[1].extra_content.google.thought_signature is missing"}}`, 400, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := modeltest.New(t)
			srv.Handle(func(r modeltest.Request) modeltest.Reply {
				if bytes.Contains(r.Body, []byte("extra_content")) {
					return modeltest.Status(tt.status, tt.complaint)
				}
				return modeltest.Text("fine")
			})
			c := newClient(t, srv.URL())
			call := agent.Call{ID: "a", Name: "read", Args: `{}`, Extra: json.RawMessage(signature(sigA))}
			req := agent.Request{Messages: answered(agent.Message{Role: agent.RoleUser, Text: "go"}, agent.Message{Role: agent.RoleAssistant, Calls: []agent.Call{call}})}
			_, err := c.Complete(context.Background(), req, nil)
			if n := len(srv.Requests()); !tt.refuses {
				if err == nil || n != 1 || c.current().noExtra {
					t.Errorf("%v after %d requests", err, n)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Complete(context.Background(), req, nil); err != nil || len(srv.Requests()) != 3 {
				t.Errorf("%v after %d requests", err, len(srv.Requests()))
			}
		})
	}
}

// TestCassetteExtra: a recording holds what was attached, a replay gives it out
// again, and no request differs because of it.
func TestCassetteExtra(t *testing.T) {
	srv := modeltest.New(t, modeltest.Raw(strings.Replace(geminiStream(), sigA, sigA+key, 1)), modeltest.Text("done"))
	fs := afero.NewMemMapFs()
	rec, err := OpenRecorder(fs, "x.yaml", redact)
	if err != nil {
		t.Fatal(err)
	}
	msgs, err := extraRounds(newClient(t, srv.URL(), func(o *Options) { o.Transport = rec.Transport(nil) }), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(msgs[1].Calls[0].Extra); got != signature(sigA+key) {
		t.Errorf("the recorded run got %s", got)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := afero.ReadFile(fs, "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const note = "      extra:\n        google:\n          thought_signature: " + sigA + "[redacted]\n"
	if n := strings.Count(string(text), note); n != 1 || strings.Contains(string(text), key) {
		t.Fatalf("%d notes in\n%s", n, text)
	}
	for name, tt := range map[string]struct {
		tape, want string
		strip      bool
	}{
		"as recorded":                 {string(text), signature(sigA + "[redacted]"), false},
		"given back by nobody":        {string(text), signature(sigA + "[redacted]"), true},
		"a recording without":         {strings.Replace(string(text), note, "", 1), "", false},
		"a recording with it as text": {strings.Replace(string(text), note, "      extra: '"+signature(sigB)+"'\n", 1), signature(sigB), false},
	} {
		t.Run(name, func(t *testing.T) {
			rep, c := replayOf(t, tt.tape, "/p")
			msgs, err := extraRounds(c, tt.strip)
			if err != nil {
				t.Fatal(err)
			}
			if calls := msgs[1].Calls; !tt.strip && (string(calls[0].Extra) != tt.want || calls[1].Extra != nil) {
				t.Errorf("replayed calls %+v", calls)
			}
			if w := rep.Warnings(); len(w) > 0 {
				t.Error(w)
			}
			c.Close()
			if err := rep.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for _, bad := range []string{"      extra: text\n", "      extra: [1]\n"} {
		if _, err := ParseReplay([]byte(strings.Replace(string(text), note, bad, 1))); err == nil || !strings.Contains(err.Error(), "extra: line") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// extraRounds is a round of calls and an answer; strip drops what was attached.
func extraRounds(m agent.Model, strip bool) ([]agent.Message, error) {
	msgs := []agent.Message{{Role: agent.RoleUser, Text: "go"}}
	for {
		r, err := m.Complete(context.Background(), agent.Request{Agent: "a", Messages: msgs}, nil)
		if err != nil {
			return msgs, err
		}
		for i := range r.Message.Calls {
			if strip {
				r.Message.Calls[i].Extra = nil
			}
		}
		msgs = answered(append(msgs, r.Message)...)
		if len(r.Message.Calls) == 0 {
			return msgs, nil
		}
	}
}
