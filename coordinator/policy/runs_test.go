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
	if len(lines) != 6 || len(k.variables) != lines["variable"] || len(k.options) != lines["option"] || len(k.wrappers) != lines["wrapper"] {
		t.Errorf("%v: %d variables, %d options, %d wrappers", lines, len(k.variables), len(k.options), len(k.wrappers))
	}
	if w := k.wrappers["timeout"]; w.operands != 1 || w.short != "ks" || len(w.long) != 2 {
		t.Errorf("timeout: %+v", w)
	}
	if w := k.wrappers["env"]; !w.assigns || w.operands != 0 {
		t.Errorf("env: %+v", w)
	}
	for name, want := range map[string]bool{"NODE_ENV": true, "LC_ALL": true, "PATH": false, "BASH_ENV": false, "CC": false} {
		if got := (variable{name: name, value: "x", known: true}).ordinary(); got != want {
			t.Errorf("%s only tells: %v", name, got)
		}
	}
}

// A rule that denies a program denies it in the arguments of those that run another.
func TestCarriersDoNotHide(t *testing.T) {
	p, err := Compile(Rules{Sandbox: SandboxWorkspace, Confined: true, Deny: []string{`argv[0] == "terraform"`}})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"setarch -R terraform x", "setarch x86_64 -R terraform x", "linux64 terraform x", "i386 terraform x", "logsave /dev/null terraform x", "jobs -x terraform x", "memusage terraform x", "sotruss terraform x",
		"valgrind -q terraform x", "dpkg-architecture -c terraform x", "/lib64/ld-linux-x86-64.so.2 /usr/local/bin/terraform x", "choom -n 1 -- terraform x", "uclampset -m 1 terraform x", "perf stat terraform x", "capsh -- -c 'terraform x'",
		"ssh-agent terraform x", "runcon x terraform x", "direnv exec . terraform x", "mise exec -- terraform x", "pyenv exec terraform x", "eatmydata terraform x", "faketime 'x' terraform x", "bwrap --ro-bind / / terraform x", "proot terraform x",
		"firejail terraform x", "numactl -N 0 terraform x", "gosu u terraform x", "tini -- terraform x", "doppler run -- terraform x", "op run -- terraform x", "rr record terraform x", "hyperfine 'terraform x'", "ccache terraform x"} {
		if d := p.Decide(Request{Tool: "shell", Command: command, Runs: true}); d.Effect == Allow {
			t.Errorf("%q is allowed", command)
		}
	}
}
