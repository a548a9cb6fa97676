package model

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/agent"
	"ralph/workers/model/modeltest"
)

const (
	wireText = "Grüße, 世界 👋 — a plain answer that is long enough to come in several chunks."
	wireRead = `read {"path":"in.txt"}`
	wireCat  = `shell {"command":"printf 'from shell %s' \"$((6*7))\""}`
	wireIdea = "First I consider the Grüße, then the 世界."
)

// wireCase is what one recorded response has to become.
type wireCase struct {
	file      string
	text      string
	reasoning string
	calls     []string // name and arguments
	ids       []string // when the server chose them
	finish    string   // "stop" unless given
	usage     [2]int   // input and output; zero: none was told
	model     string
	kind      Kind // of the error, with status
	status    int
	wait      time.Duration // the least wait before another try
}

// wireCases lists the responses under testdata/wire: bytes that servers of other
// people sent to Ralph, named by server and version.
func wireCases() []wireCase {
	const aimock, portkey, llmock = "aimock-1.43.0/", "portkey-gateway-1.15.2/", "llmock-3.3.6/"
	both, ids := []string{wireRead, wireCat}, []string{"call_a", "call_b"}
	return []wireCase{
		{file: aimock + "text", text: wireText, usage: [2]int{338, 19}, model: "o3"},
		{file: aimock + "text-and-calls", text: "I look first.", calls: both, ids: ids, finish: "tool_calls", usage: [2]int{337, 22}},
		{file: aimock + "three-calls", calls: []string{`shell {"command":"echo one"}`, `shell {"command":"echo two"}`, `shell {"command":"echo three"}`}, finish: "tool_calls", usage: [2]int{336, 21}},
		{file: aimock + "call-text-call", text: "between the calls", calls: []string{`shell {"command":"echo blk1"}`, `shell {"command":"echo blk2"}`}, finish: "tool_calls", usage: [2]int{338, 19}},
		{file: aimock + "reasoning", text: "Thought through.", reasoning: wireIdea, usage: [2]int{337, 4}, model: "o3"},
		{file: aimock + "openrouter-reasoning", text: "Thought through.", reasoning: wireIdea, usage: [2]int{337, 4}, model: "openai/o3"},
		{file: aimock + "usage", text: "counted", usage: [2]int{1234, 56}},
		{file: aimock + "schema", text: `{"sum":42,"ok":true}`, usage: [2]int{401, 5}},
		{file: aimock + "400-context", kind: KindContextLength, status: 400},
		{file: aimock + "401-auth", kind: KindAuth, status: 401},
		{file: aimock + "401-key", kind: KindAuth, status: 401},
		{file: aimock + "429", kind: KindRateLimit, status: 429, wait: time.Second},
		{file: aimock + "500", kind: KindServer, status: 500},
		{file: aimock + "cut-in-text", kind: KindIncomplete},
		{file: aimock + "cut-in-call", kind: KindIncomplete},
		// The gateway behind which the model's own protocol is another one.
		{file: portkey + "openai-calls", text: "I look first.", calls: both, ids: ids, finish: "tool_calls", usage: [2]int{337, 22}},
		{file: portkey + "anthropic-text", text: wireText}, // with a usage of zeros, which is none
		{file: portkey + "anthropic-calls", text: "I look first.", calls: both, ids: ids, finish: "tool_calls"},
		{file: portkey + "anthropic-usage", text: "counted", usage: [2]int{1234, 56}},
		{file: portkey + "anthropic-400-context", kind: KindContextLength, status: 400},
		{file: portkey + "anthropic-401", kind: KindAuth, status: 401},
		// No [DONE], no model, and "stop" for a reply that calls tools.
		{file: portkey + "google-text", text: wireText},
		{file: portkey + "google-calls", text: "I look first.", calls: both, finish: "tool_calls"},
		{file: portkey + "google-usage", text: "counted", usage: [2]int{1234, 56}},
		{file: portkey + "mistral-reasoning", text: "Thought through.", reasoning: wireIdea, model: "mistral-large"},
		{file: portkey + "mistral-401", kind: KindAuth, status: 401},
		// No Content-Type, an id of its own for each chunk, no usage.
		{file: llmock + "text", text: "This is a eighth stored test data gpt content", model: "gpt-3.5-turbo-0301"},
		// A server that was asked for a stream and does not stream.
		{file: llmock + "not-streamed", text: "This is a sixth stored test data gpt content", usage: [2]int{12, 99}},
	}
}

// TestWire plays what other servers sent, in one piece and byte by byte.
func TestWire(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, w := range wireCases() {
		path := filepath.Join("testdata", "wire", filepath.FromSlash(w.file)+".http")
		seen[path] = true
		for name, change := range map[string]func(modeltest.Reply) modeltest.Reply{
			"whole": func(r modeltest.Reply) modeltest.Reply { return r }, "byte by byte": modeltest.Reply.ByteByByte,
		} {
			t.Run(w.file+" "+name, func(t *testing.T) {
				t.Parallel()
				playWire(t, w, change(wireReply(t, path)))
			})
		}
	}
	if err := filepath.WalkDir(filepath.Join("testdata", "wire"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".http") && !seen[path] {
			t.Errorf("%s is played by no case", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// wireReply makes a reply of a recorded response. The headers are those of the
// record but for what belongs to its connection.
func wireReply(t *testing.T, path string) modeltest.Reply {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The body was written down without its chunks.
	head, body, ok := bytes.Cut(b, []byte("\r\n\r\n"))
	if !ok {
		t.Fatalf("%s has no end of its headers", path)
	}
	head = append(bytes.Replace(head, []byte("Transfer-Encoding: chunked\r\n"), nil, 1), "\r\n\r\n"...)
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	resp.Body.Close()
	for _, name := range []string{"Connection", "Keep-Alive", "Content-Length", "Date"} {
		resp.Header.Del(name)
	}
	headers := []string{"Content-Type", ""}
	for name := range resp.Header {
		headers = append(headers, name, resp.Header.Get(name))
	}
	return modeltest.Status(resp.StatusCode, string(body), headers...)
}

func playWire(t *testing.T, w wireCase, reply modeltest.Reply) {
	srv := modeltest.New(t, reply, modeltest.Text("the next try"))
	c := newClient(t, srv.URL())
	c.first = 20 * time.Millisecond
	var text, reasoning strings.Builder
	var retries []agent.Delta
	r, err := c.Complete(context.Background(), ask("go"), func(d agent.Delta) {
		switch d.Kind {
		case agent.DeltaText:
			text.WriteString(d.Text)
		case agent.DeltaReasoning:
			reasoning.WriteString(d.Text)
		case agent.DeltaRetry:
			retries = append(retries, d)
		}
	})
	if w.kind != "" {
		checkWireFault(t, w, r, err, retries)
		return
	}
	if err != nil || len(retries) > 0 {
		t.Fatalf("%v, retries %+v", err, retries)
	}
	if r.Message.Text != w.text || text.String() != w.text || r.Message.Reasoning != w.reasoning || reasoning.String() != w.reasoning {
		t.Errorf("text %q, reasoning %q", r.Message.Text, r.Message.Reasoning)
	}
	if want := orDefault(w.finish, "stop"); r.Finish != want || r.Message.Partial {
		t.Errorf("finish %q, want %q", r.Finish, want)
	}
	if told := w.usage != [2]int{}; r.Usage.Estimated == told || told && (r.Usage.Input != w.usage[0] || r.Usage.Output != w.usage[1] || r.Usage.Total != w.usage[0]+w.usage[1]) {
		t.Errorf("usage %+v, want %v", r.Usage, w.usage)
	}
	if w.model != "" && r.Model != w.model {
		t.Errorf("model %q", r.Model)
	}
	if len(r.Message.Calls) != len(w.calls) {
		t.Fatalf("calls %+v, want %q", r.Message.Calls, w.calls)
	}
	ids := make(map[string]bool)
	for i, call := range r.Message.Calls {
		if got := call.Name + " " + call.Args; got != w.calls[i] || call.ID == "" || ids[call.ID] || w.ids != nil && call.ID != w.ids[i] {
			t.Errorf("call %+v, want %s", call, w.calls[i])
		}
		ids[call.ID] = true
	}
}

// checkWireFault: an error that another try may mend is tried again, as late as
// the server asks; any other one ends the request at once.
func checkWireFault(t *testing.T, w wireCase, r agent.Reply, err error, retries []agent.Delta) {
	t.Helper()
	if w.kind == KindServer || w.kind == KindRateLimit || w.kind == KindIncomplete {
		if err != nil || len(retries) != 1 || retries[0].Wait < w.wait || r.Message.Text != "the next try" || len(r.Message.Calls) > 0 {
			t.Errorf("%v, retries %+v, reply %+v", err, retries, r)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) || e.Kind != w.kind || e.HTTPStatus != w.status || len(retries) > 0 || e.Retryable {
		t.Errorf("%v, retries %+v, want %s", err, retries, w.kind)
	}
}

// TestWireReads: a recorded stream means the same
// however it is cut into reads.
func TestWireReads(t *testing.T) {
	for _, w := range wireCases() {
		if w.status != 0 || w.kind != "" {
			continue
		}
		body := wireReply(t, filepath.Join("testdata", "wire", filepath.FromSlash(w.file)+".http")).Body()
		for n := 1; n < 64; n++ {
			d, _, err := play(&chop{r: strings.NewReader(body), n: n})
			if err != nil || d.message(nil).Text != w.text || len(d.calls) != len(w.calls) {
				t.Fatalf("%s in reads of %d bytes: %v, %+v", w.file, n, err, d.message(nil))
			}
		}
	}
}

// chop reads at most n bytes at a time.
type chop struct {
	r io.Reader
	n int
}

func (c *chop) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.n)]) }
