package coordinator_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/loop"
	"ralph/coordinator/result"
)

// geminiBin is where npm has put the real program; without it the test is
// skipped, or fails where it must not be.
func geminiBin(t *testing.T) string {
	t.Helper()
	prefix := os.Getenv("RALPH_TEST_AGENT_CLI")
	bin := filepath.Join(prefix, "node_modules", ".bin")
	if _, err := os.Stat(filepath.Join(bin, "gemini")); prefix == "" || err != nil {
		why := "RALPH_TEST_AGENT_CLI names no directory in which npm has installed @google/gemini-cli"
		if os.Getenv("RALPH_TEST_MUST_CLI") == "1" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return bin
}

// geminiModel is its model on the loopback: it asks for one command, and says the
// last word when the result of that is there.
func geminiModel(t *testing.T, command, word string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		var body json.RawMessage
		if err := json.NewDecoder(q.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		part := map[string]any{"text": word}
		if !strings.Contains(string(body), `"functionResponse"`) {
			part = map[string]any{"functionCall": map[string]any{"name": "run_shell_command", "args": map[string]any{"command": command, "description": "work"}}}
		}
		answer, err := json.Marshal(map[string]any{
			"candidates":    []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
			"usageMetadata": map[string]any{"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110},
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if strings.Contains(q.URL.Path, ":stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			answer = fmt.Appendf(nil, "data: %s\n\n", answer)
		}
		_, _ = w.Write(answer)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// The real program works on a task in the sandbox: with a copy of its state, the hosts of
// its model and no others, without the rest of the home and the user's tree, and its work is checked, committed, merged
// and counted as any other's.
func TestRealGeminiWorksOnATask(t *testing.T) {
	bin := geminiBin(t)
	needsSandbox(t)
	p := foreign(t, "exit 1\n")
	p.userConfig = "agents:\n  gemini:\n    model: gemini-2.5-flash\n" // or it asks which model to take
	delete(p.flags, "sandbox")
	home := filepath.Join(p.root, "tool", "home") // the sandbox has a /tmp of its own
	const settings = `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"general":{"disableAutoUpdate":true,"disableUpdateNag":true}}`
	for name, text := range map[string]string{
		".gemini/settings.json": settings,
		".ssh/id_rsa":           "a secret of the user", ".bashrc": "as it was\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	url := geminiModel(t, `echo good > one.txt; cat ~/.ssh/id_rsa > seen.txt; echo bad > ~/.bashrc; echo '{"hooks":{}}' > ~/.gemini/settings.json; touch ~/.gemini/its-own || echo no-state > one.txt; (exec 3<>/dev/tcp/127.0.0.2/3128 && printf 'CONNECT registry.npmjs.org:443 HTTP/1.1\r\n\r\n' >&3 && head -1 <&3) >> seen.txt; touch `+p.path("README.new")+`; echo "$OTHER_TOKEN" >> seen.txt; true`, "Written.\n\n<promise>COMPLETE</promise>")
	for name, value := range map[string]string{"HOME": home, "XDG_STATE_HOME": t.TempDir(), "PATH": bin + ":" + os.Getenv("PATH"), "GEMINI_API_KEY": "of-the-stub", "GOOGLE_GEMINI_BASE_URL": url, "OTHER_TOKEN": "a token of the user"} {
		t.Setenv(name, value)
	}
	opt := p.options()
	opt.Getenv = os.Getenv
	c, err := coordinator.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	out := c.Run(t.Context(), coordinator.Job{Task: "run", Loop: &loop.Settings{Agent: "gemini", Retries: -1}})
	p.shut(c)
	p.want(out, result.Completed)
	if p.read("one.txt") != "good\n" || !out.Verified || out.Tasks.Done != 1 || len(out.Commits) != 1 {
		t.Errorf("one.txt is %q; verified %v, %+v, commits %v; %v", p.read("one.txt"), out.Verified, out.Tasks, out.Commits, out.Warnings)
	}
	if out.Usage.Input != 200 || out.Usage.Output != 20 || out.CostUSD != nil || out.ToolCalls.Total != 1 {
		t.Errorf("usage %+v, cost %v, calls %+v", out.Usage, out.CostUSD, out.ToolCalls)
	}
	if seen := p.read("seen.txt"); strings.Contains(seen, "of the user") {
		t.Errorf("it saw %q", seen)
	}
	if rc, err := os.ReadFile(filepath.Join(home, ".bashrc")); err != nil || string(rc) != "as it was\n" || p.read("README.new") != "" {
		t.Errorf(".bashrc is %q, %v; README.new %q", rc, err, p.read("README.new"))
	}
	if text, err := os.ReadFile(filepath.Join(home, ".gemini", "settings.json")); err != nil || string(text) != settings {
		t.Errorf("its settings are %q, %v", text, err)
	}
	if entries, err := os.ReadDir(filepath.Join(home, ".gemini")); err != nil || len(entries) != 1 {
		t.Errorf("its state is %v, %v", entries, err)
	}
	if !strings.Contains(p.read("seen.txt"), "403") || !p.warned("agents: {gemini: {hosts: [registry.npmjs.org]}}") {
		t.Errorf("a host that is none of its maker's: %q, %v", p.read("seen.txt"), out.Warnings)
	}
	page := p.all(".ralph/sessions/*/iterations/*.md")
	for _, part := range []string{"agent: gemini", "run_shell_command", "Written.", "grep -q good one.txt", "merge: merged", "220 tokens"} {
		if !strings.Contains(page, part) {
			t.Errorf("the iteration's file has no %q:\n%s", part, page)
		}
	}
}
