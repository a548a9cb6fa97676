package policy_test

import (
	"os"
	"strings"
	"testing"

	"ralph/coordinator/policy"
)

// No permission paralysis: 500 commands as public projects have them run without a
// question, in the sandbox, with the network, and without it.
func TestOrdinaryCommandsAreNotAskedAbout(t *testing.T) {
	text, err := os.ReadFile("testdata/ordinary.txt")
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]*policy.Policy{
		"in the sandbox":   compile(t, policy.Rules{Sandbox: policy.SandboxWorkspace, Confined: true}),
		"with the network": compile(t, policy.Rules{Sandbox: policy.SandboxWorkspace, Confined: true, Allow: []string{"network"}}),
		"sandbox off":      compile(t, policy.Rules{Sandbox: policy.SandboxOff}),
	}
	seen := make(map[string]bool)
	for command := range strings.Lines(string(text)) {
		command = strings.TrimSpace(command)
		if command == "" || command[0] == '#' {
			continue
		}
		if seen[command] {
			t.Errorf("%q is there twice", command)
		}
		seen[command] = true
		for mode, p := range modes {
			if d := p.Decide(shell(command)); d.Effect != policy.Allow {
				t.Errorf("%s: %q: effect %v by %q", mode, command, d.Effect, d.Rule)
			}
		}
	}
	if len(seen) < 500 {
		t.Errorf("only %d commands", len(seen))
	}
}
