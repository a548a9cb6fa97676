package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAgents(t *testing.T) {
	c, err := load(t, `
agents:
  mine:
    command: [/opt/my agent/run, --task, "{prompt}"]
    input: arg
    format: jsonl-claude
    model: big
    env: [MY_TOKEN, MY_*, MODE=fast]
    quota: ["purse .* empty"]
    timeout: 90m
    idle: 5m
  codex:
    args: [-c, "a=b"]
    model: other
  plain: {command: tool}
`, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Agents) != 3 || len(c.Warnings) > 0 {
		t.Fatalf("%+v, %v", c.Agents, c.Warnings)
	}
	a, ok := c.Agent("mine")
	if !ok || !slices.Equal(a.Command, []string{"/opt/my agent/run", "--task", "{prompt}"}) || a.Input != "arg" || a.Format != "claude" || a.Model != "big" ||
		!slices.Equal(a.Env, []string{"MY_TOKEN", "MY_*", "MODE=fast"}) || !slices.Equal(a.Quota, []string{"purse .* empty"}) ||
		a.Timeout != 90*time.Minute || a.Idle != 5*time.Minute || !strings.HasSuffix(a.From, "user.yaml:3") {
		t.Errorf("%+v", a)
	}
	if a, ok = c.Agent("codex"); !ok || a.Command != nil || !slices.Equal(a.Args, []string{"-c", "a=b"}) || a.Model != "other" {
		t.Errorf("%+v", a)
	}
	if a, ok = c.Agent("plain"); !ok || !slices.Equal(a.Command, []string{"tool"}) || a.Format != "" {
		t.Errorf("%+v", a)
	}
	if _, ok = c.Agent("absent"); ok {
		t.Error("an agent out of nothing")
	}
}

func TestSecretsOfAgents(t *testing.T) {
	c, err := load(t, "agents: {a: {command: [x], env: [THE_KEY=hunter22, MODE=fast-and-long-enough, OTHER_KEY]}}\n", "", nil)
	if err != nil || !slices.Equal(c.Secrets(), []string{"hunter22"}) {
		t.Errorf("%q, %v", c.Secrets(), err)
	}
}

// A repository must not name programs.
func TestProjectHasNoAgents(t *testing.T) {
	c, err := load(t, "agents: {a: {command: [mine]}}\n", "agents:\n  a: {command: [evil]}\n  b: {command: [evil]}\nprompt: evil.md\nnotify: bell\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Agents) != 1 || c.Agents[0].Command[0] != "mine" || c.Run.Prompt != "" || c.Notify != "auto" {
		t.Errorf("%+v %q %q", c.Agents, c.Run.Prompt, c.Notify)
	}
	text := strings.Join(c.Warnings, "\n")
	for _, want := range []string{`project.yaml:1: key "agents" is ignored`, `project.yaml:4: key "prompt" is ignored`, `project.yaml:5: key "notify" is ignored`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if c, err = load(t, "", "notify: off\n", nil); err != nil || c.Notify != "off" {
		t.Errorf("%v, %v", c.Notify, err)
	}
}

func TestPromptAndNotify(t *testing.T) {
	c, err := load(t, "prompt: mine.tmpl\nnotify: bell\n", "", map[string][]string{"notify": {"off"}}, "RALPH_PROMPT=other.tmpl")
	if err != nil || c.Run.Prompt != "other.tmpl" || c.Notify != "off" || c.Origin("prompt").Source != "env RALPH_PROMPT" {
		t.Errorf("%q %q %v", c.Run.Prompt, c.Notify, err)
	}
	if _, err := load(t, "notify: bel\n", "", nil); err == nil || !strings.Contains(err.Error(), `did you mean "bell"`) {
		t.Error(err)
	}
}

func TestBadAgents(t *testing.T) {
	for text, want := range map[string]string{
		"agents: [a]":                                       "user.yaml:1: key \"agents\": must hold `name: {…}` entries",
		"agents:\n  a: cmd":                                 `user.yaml:2: key "agents": "a" must hold`,
		"agents:\n  ralph: {command: [x]}":                  `user.yaml:2: agent "ralph": is Ralph's own agent`,
		"agents:\n  \"a b\": {command: [x]}":                `agent "a b": the name may have`,
		"agents:\n  -x: {command: [x]}":                     `agent "-x": the name may have`,
		"agents:\n  a: {comand: [x]}":                       `did you mean "command"?`,
		"agents:\n  a: {command: my agent}":                 `agent "a": key "command": is a list`,
		"agents:\n  a: {command: {b: c}}":                   `key "command": must be a list of texts`,
		"agents:\n  a: {command: [x], args: [y]}":           `key "args": is for an agent that Ralph knows`,
		"agents:\n  a: {command: [x], input: pipe}":         `"pipe" is not one of arg, stdin`,
		"agents:\n  a: {command: [x], format: cluade}":      `did you mean "claude"?`,
		"agents:\n  a: {command: [x], env: [A-B]}":          `"A-B" is neither NAME`,
		"agents:\n  a: {command: [x], env: ['*']}":          `"*" is neither NAME`,
		"agents:\n  a: {command: [x], timeout: 30}":         `"30" has no unit`,
		"agents:\n  a: {command: [x]}\n  a: {command: [y]}": `stands here and in line 2`,
		"agnets: {}": `did you mean "agents"?`,
	} {
		_, err := load(t, text+"\n", "", nil)
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n  got  %v\n  want %s", text, err, want)
		}
	}
}
