package policy

import (
	"strings"
	"testing"
)

// The data is read whole: every line is of a known kind and found again.
func TestRunsTextIsRead(t *testing.T) {
	k, lines := runs(), map[string]int{}
	for line := range strings.Lines(runsText) {
		if kind, _, ok := strings.Cut(strings.TrimSpace(line), " "); ok && kind != "#" {
			lines[kind]++
		}
	}
	if len(lines) != 5 || len(k.variables) != lines["variable"] || len(k.options) != lines["option"] || len(k.wrappers) != lines["wrapper"] {
		t.Errorf("%v: %d variables, %d options, %d wrappers", lines, len(k.variables), len(k.options), len(k.wrappers))
	}
	if w := k.wrappers["timeout"]; w.operands != 1 || w.short != "ks" || len(w.long) != 2 {
		t.Errorf("timeout: %+v", w)
	}
	if w := k.wrappers["env"]; !w.assigns || w.operands != 0 {
		t.Errorf("env: %+v", w)
	}
	for name, want := range map[string]bool{"NODE_ENV": true, "LC_ALL": true, "PATH": false, "BASH_ENV": false, "CC": false} {
		if got := (variable{name: name, value: "x", known: true}).tells(); got != want {
			t.Errorf("%s only tells: %v", name, got)
		}
	}
}
