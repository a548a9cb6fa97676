package scripts_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// foreignEnv names a directory with node_modules/@copilotkit/aimock in it, a
// server of the chat-completions protocol that is not ours:
//
//	npm install --prefix DIR --ignore-scripts @copilotkit/aimock@1.43.0
const foreignEnv = "RALPH_TEST_FOREIGN"

// foreignKey is the only key that the server takes.
const foreignKey = "sk-foreign-0123456789"

// foreignScript is what the server answers. A fixture applies to the number of
// answers before it (turnIndex) and demands what the tools must have said: the
// server sees the results of the calls or has no answer.
const foreignScript = `{"fixtures":[
 {"match":{"userMessage":"work on the file","turnIndex":0,"toolName":"write"},
  "response":{"content":"I look first.","toolCalls":[
   {"id":"call_a","name":"read","arguments":{"path":"in.txt"}},
   {"id":"call_b","name":"shell","arguments":{"command":"printf 'from shell %s' \"$((6*7))\""}}]}},
 {"match":{"userMessage":"work on the file","turnIndex":1,"toolCallId":"call_b","toolResultContains":"from shell 42"},
  "response":{"toolCalls":[{"id":"call_c","name":"write","arguments":{"path":"out.txt","content":"Grüße from 世界 👋\nline \"two\"\n"}}]}},
 {"match":{"userMessage":"work on the file","turnIndex":2,"toolCallId":"call_c"},
  "response":{"toolCalls":[{"name":"shell","arguments":{"command":"wc -l out.txt"}},{"id":"call_e","name":"read","arguments":{"path":"out.txt"}}]}},
 {"match":{"userMessage":"work on the file","turnIndex":3,"toolCallId":"call_e","toolResultContains":"line \"two\""},
  "response":{"content":"out.txt is written and checked.","usage":{"prompt_tokens":1234,"completion_tokens":56,"total_tokens":1290}}},
 {"match":{"userMessage":"say it plainly"},"response":{"content":"Grüße, 世界 👋 — an answer in several pieces.","reasoning":"It is a greeting."}},
 {"match":{"userMessage":"answer by schema","responseFormat":"json_schema"},"response":{"content":{"sum":42}}},
 {"match":{"userMessage":"too often","sequenceIndex":0},"response":{"error":{"message":"Rate limit reached","type":"rate_limit_error"},"status":429,"retryAfter":1}},
 {"match":{"userMessage":"too often"},"response":{"content":"after the limit"}},
 {"match":{"userMessage":"out of order","sequenceIndex":0},"response":{"error":{"message":"The server had an error","type":"server_error"},"status":500}},
 {"match":{"userMessage":"out of order"},"response":{"content":"after the error"}},
 {"match":{"userMessage":"cut in a call","sequenceIndex":0},"latency":30,"truncateAfterChunks":3,
  "response":{"toolCalls":[{"name":"shell","arguments":{"command":"touch never-here && echo a command that is cut in two"}}]}},
 {"match":{"userMessage":"cut in a call"},"response":{"content":"nothing ran"}}
]}`

// foreignDoc is what the test asks of the result document.
type foreignDoc struct {
	Status     string          `json:"status"`
	OK         bool            `json:"ok"`
	Result     string          `json:"result"`
	Structured json.RawMessage `json:"structured"`
	Turns      int             `json:"turns"`
	DurationMS int             `json:"duration_ms"`
	Usage      struct {
		Input, Output int
		Estimated     bool
	} `json:"usage"`
	ToolCalls struct {
		Total, Failed int
	} `json:"tool_calls"`
	FilesChanged []struct{ Path, Kind string } `json:"files_changed"`
	Commands     []struct {
		Command string
		Exit    int `json:"exit_code"`
	} `json:"commands"`
	Error *struct {
		Kind   string
		Status int `json:"http_status"`
	} `json:"error"`
}

// TestForeignServer runs the program against a server that is not ours: text,
// rounds of parallel calls, a schema, keys, faults.
func TestForeignServer(t *testing.T) {
	dir := os.Getenv(foreignEnv)
	if dir == "" {
		t.Skipf("%s is not set; it names a directory with node_modules/@copilotkit/aimock (.ci/run installs it)", foreignEnv)
	}
	f := startForeign(t, dir)

	t.Run("rounds of calls", func(t *testing.T) {
		work := t.TempDir()
		write(t, filepath.Join(work, "in.txt"), "content of in\n")
		code, doc := f.run(t, work, foreignKey, "work on the file")
		if code != 0 || doc.Status != "completed" || !doc.OK || doc.Result != "out.txt is written and checked." {
			t.Fatalf("exit %d, %+v", code, doc)
		}
		const want = "Grüße from 世界 👋\nline \"two\"\n"
		if b, err := os.ReadFile(filepath.Join(work, "out.txt")); err != nil || string(b) != want {
			t.Errorf("out.txt holds %q, %v", b, err)
		}
		if doc.Turns != 4 || doc.ToolCalls.Total != 5 || doc.ToolCalls.Failed != 0 || len(doc.Commands) != 2 || doc.Commands[1].Command != "wc -l out.txt" {
			t.Errorf("%+v", doc)
		}
		if len(doc.FilesChanged) != 1 || doc.FilesChanged[0].Path != "out.txt" || doc.FilesChanged[0].Kind != "added" {
			t.Errorf("files changed: %+v", doc.FilesChanged)
		}
		if doc.Usage.Estimated || doc.Usage.Input < 1234 || doc.Usage.Output < 56 {
			t.Errorf("usage %+v", doc.Usage)
		}
		f.checkSeen(t)
	})
	t.Run("text", func(t *testing.T) {
		code, doc := f.run(t, t.TempDir(), foreignKey, "say it plainly")
		if code != 0 || doc.Result != "Grüße, 世界 👋 — an answer in several pieces." || doc.Turns != 1 || doc.Usage.Estimated {
			t.Errorf("exit %d, %+v", code, doc)
		}
	})
	t.Run("schema", func(t *testing.T) {
		schema := filepath.Join(t.TempDir(), "s.json")
		write(t, schema, `{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"],"additionalProperties":false}`)
		code, doc := f.run(t, t.TempDir(), foreignKey, "--schema", schema, "answer by schema")
		if code != 0 || string(doc.Structured) != `{"sum":42}` {
			t.Errorf("exit %d, structured %s, %+v", code, doc.Structured, doc)
		}
	})
	t.Run("wrong key", func(t *testing.T) {
		code, doc := f.run(t, t.TempDir(), "sk-wrong-0123456789", "say it plainly")
		if code != 3 || doc.Error == nil || doc.Error.Kind != "auth" || doc.Error.Status != http.StatusUnauthorized {
			t.Errorf("exit %d, %+v", code, doc)
		}
	})
	t.Run("rate limit", func(t *testing.T) {
		code, doc := f.run(t, t.TempDir(), foreignKey, "too often")
		if code != 0 || doc.Result != "after the limit" || doc.DurationMS < 1000 {
			t.Errorf("exit %d, %+v", code, doc)
		}
	})
	t.Run("server error", func(t *testing.T) {
		code, doc := f.run(t, t.TempDir(), foreignKey, "out of order")
		if code != 0 || doc.Result != "after the error" {
			t.Errorf("exit %d, %+v", code, doc)
		}
	})
	t.Run("cut in a call", func(t *testing.T) {
		work := t.TempDir()
		code, doc := f.run(t, work, foreignKey, "cut in a call")
		if code != 0 || doc.Result != "nothing ran" || doc.ToolCalls.Total != 0 {
			t.Errorf("exit %d, %+v", code, doc)
		}
		if _, err := os.Lstat(filepath.Join(work, "never-here")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a call of an incomplete reply was run: %v", err)
		}
	})
}

// foreign is the server, running, and the program, built.
type foreign struct {
	url   string // without /v1
	ralph string
}

// startForeign builds the program and starts the server on a port of its own
// choice. The server ends with the test.
func startForeign(t *testing.T, dir string) *foreign {
	t.Helper()
	entry := filepath.Join(dir, "node_modules", "@copilotkit", "aimock", "dist", "cli.js")
	if _, err := os.Stat(entry); err != nil {
		t.Fatalf("%s=%s holds no server: %v", foreignEnv, dir, err)
	}
	tmp := t.TempDir()
	f := &foreign{ralph: filepath.Join(tmp, "ralph")}
	if out, err := exec.Command("go", "build", "-o", f.ralph, "ralph").CombinedOutput(); err != nil {
		t.Fatalf("build ralph: %v\n%s", err, out)
	}
	script := filepath.Join(tmp, "script.json")
	write(t, script, foreignScript)

	cmd := exec.Command("node", entry, "-h", "127.0.0.1", "-p", "0", "-f", script, "--strict", "--validate-on-load")
	cmd.Env = append(os.Environ(), "AIMOCK_API_KEYS="+foreignKey)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the server: %v", err)
	}
	in.Close()
	url, rest := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(rest)
		defer close(url)
		said := bufio.NewScanner(out)
		pattern := regexp.MustCompile(`listening on (http://127\.0\.0\.1:\d+)`)
		for said.Scan() {
			t.Log(said.Text())
			if m := pattern.FindStringSubmatch(said.Text()); m != nil {
				url <- m[1]
				break
			}
		}
		// What it says later is read so that it never waits for us.
		_, _ = io.Copy(io.Discard, out)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // its exit status says nothing about us
		kill.Stop()
		<-rest
		out.Close()
	})
	select {
	case f.url = <-url:
	case <-time.After(30 * time.Second):
	}
	if f.url == "" {
		t.Fatal("the server did not say where it listens")
	}
	return f
}

// run runs one task as a user does and returns exit code and result document.
func (f *foreign) run(t *testing.T, dir, key string, args ...string) (int, foreignDoc) {
	t.Helper()
	args = append([]string{"--base-url", f.url + "/v1", "--model", "o3", "--sandbox", "off", "--json", "--timeout", "60s"}, args...)
	cmd := exec.Command(f.ralph, args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "RALPH_API_KEY=" + key}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run ralph: %v", err)
	}
	var doc foreignDoc
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatalf("the result is no JSON document: %v\n%s\n%s", err, out, stderr.String())
	}
	if strings.Contains(string(out)+stderr.String(), key) {
		t.Errorf("the key was printed: %s %s", out, stderr.String())
	}
	t.Logf("ralph %q: exit %d\n%s", args[len(args)-1], cmd.ProcessState.ExitCode(), stderr.String())
	return cmd.ProcessState.ExitCode(), doc
}

// checkSeen asks the server's own journal what reached it: each request of the
// work goes on from the one before, and answers every call.
func (f *foreign) checkSeen(t *testing.T) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, f.url+"/__aimock/journal", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+foreignKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var seen []struct {
		Path string
		Body struct {
			Stream   bool
			Messages []struct {
				Role   string
				CallID string `json:"tool_call_id"`
				Calls  []struct{ ID string }
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&seen); err != nil {
		t.Fatalf("read the server's journal: %v", err)
	}
	var sizes []int
	for _, s := range seen {
		var answered []string
		for _, m := range s.Body.Messages {
			if m.Role == "tool" {
				answered = append(answered, m.CallID)
			}
		}
		slices.Sort(answered)
		if !s.Body.Stream || s.Path != "/v1/chat/completions" || slices.Contains(answered, "") || len(slices.Compact(slices.Clone(answered))) != len(answered) {
			t.Errorf("the server saw %+v", s)
		}
		sizes = append(sizes, len(answered))
	}
	if !slices.Equal(sizes, []int{0, 2, 3, 5}) {
		t.Errorf("answers of tools in the requests: %v", sizes)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
