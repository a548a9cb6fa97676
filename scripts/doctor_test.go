package scripts

import (
	"context"
	"strings"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// The doctor says of each layer whether it holds, and of what is missing what
// that means and what can be done.
func TestDoctorTellsOfTheSandbox(t *testing.T) {
	for _, method := range []string{"", "session"} {
		b := newBench(t)
		b.env["RALPH_PROC"], b.init = method, exec.Self()
		runner := exec.New(exec.Options{Method: method, Init: exec.Self()})
		want := accesspolicy.Check(runner)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := runner.Close(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if code := b.run("doctor", "--json"); code != 0 {
			t.Fatalf("exit %d: %s%s", code, b.out.String(), b.err.String())
		}
		doc := b.document()
		cage := doc["sandbox"].(map[string]any)
		layers := cage["layers"].([]any)
		if cage["setting"] != "workspace" || cage["complete"] != want.Complete || len(layers) != len(want.Layers) {
			t.Errorf("method %q: %v", method, cage)
		}
		missing, optional := 0, 0
		for _, l := range want.Layers {
			if l.Optional && !l.Active {
				optional++
			}
		}
		for _, l := range layers {
			m := l.(map[string]any)
			if active := m["active"].(bool); !active {
				missing++
			}
			if (m["means"] == nil) != m["active"].(bool) || m["detail"] == "" {
				t.Errorf("method %q: %v", method, m)
			}
		}
		if missing != len(want.Missing)+optional {
			t.Errorf("method %q: %d missing, want %v", method, missing, want.Missing)
		}
		for _, c := range doc["checks"].([]any) {
			m := c.(map[string]any)
			if m["name"] == "sandbox" && ((m["status"] == "ok") != want.Complete || want.Complete != (m["hint"] == nil)) {
				t.Errorf("method %q: %v", method, m)
			}
		}
		if method == "" {
			continue
		}
		b = newBench(t)
		b.env["RALPH_PROC"] = method
		if code := b.run("doctor"); code != 0 {
			t.Fatalf("exit %d: %s", code, b.err.String())
		}
		for _, words := range []string{"lacks: mount namespace", "so names of files in the home can be seen", "RALPH_PROC", "--sandbox off"} {
			if !strings.Contains(b.out.String(), words) {
				t.Errorf("lacks %q:\n%s", words, b.out.String())
			}
		}
		b = newBench(t)
		if code := b.run("doctor", "--sandbox", "off"); code != 0 || !strings.Contains(b.out.String(), "warn  sandbox   off: commands run unsandboxed") {
			t.Errorf("exit %d:\n%s", code, b.out.String())
		}
	}
}
