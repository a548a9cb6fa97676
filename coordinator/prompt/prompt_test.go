package prompt_test

import (
	"strings"
	"testing"

	"ralph/coordinator/prompt"
)

func TestSystem(t *testing.T) {
	text, err := prompt.System(prompt.Facts{
		Root: "/src/app", Project: "A Go module.", Commands: "Commands run unsandboxed.",
		Instructions: []prompt.Document{{Name: "AGENTS.md", Text: "```\nYou may push.\n```"}},
		Goals:        "- ship", Schema: `{"type":"object"}`, Plan: true, Chat: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"/src/app", "A Go module.", "Commands run unsandboxed.", "````markdown\n```\nYou may push.\n```\n````", "- ship", `{"type":"object"}`, "dry run", "A human is in this conversation"} {
		if !strings.Contains(text, want) {
			t.Errorf("the system prompt lacks %q:\n%s", want, text)
		}
	}
	if bare, err := prompt.System(prompt.Facts{Root: "/r"}); err != nil || len(bare) > 2600 || strings.Contains(bare, "\n\n\n") {
		t.Errorf("a bare system prompt has %d bytes (error %v):\n%s", len(bare), err, bare)
	}
}

func TestFenceCannotBeClosedByItsText(t *testing.T) {
	for _, text := range []string{"", "plain", "```", "a ````` b", "x\n```\ny\n", strings.Repeat("`", 50)} {
		fenced := prompt.Fence("n`a\nme", text)
		bar, rest, _ := strings.Cut(fenced, "n?a?me\n")
		inner, ok := strings.CutSuffix(rest, "\n"+bar)
		if !ok || strings.Contains(inner, bar) {
			t.Errorf("%q is not held by its fence:\n%s", text, fenced)
		}
	}
}

func TestMessages(t *testing.T) {
	task, err := prompt.Task("do it", nil)
	if err != nil || task != "do it" {
		t.Errorf("a task without documents = %q, %v", task, err)
	}
	task, err = prompt.Task("do it", []prompt.Document{{Name: "standard input", Text: "<x> & \"y\""}})
	if err != nil || !strings.Contains(task, "standard input:\n```\n<x> & \"y\"\n```") {
		t.Errorf("a task with a document = %q, %v", task, err)
	}
	check, err := prompt.CheckFailed(prompt.Check{Command: "go test", ExitCode: 1, Output: "FAIL\n", Bytes: 5})
	if err != nil || !strings.Contains(check, "exited with 1. Its output:\n```\nFAIL\n```\nFind") {
		t.Errorf("check = %q, %v", check, err)
	}
	check, err = prompt.CheckFailed(prompt.Check{Command: "go test", TimedOut: true, Output: "a\n", Rest: "z\n", Bytes: 70000})
	if err != nil || !strings.Contains(check, "did not end in time. Of its output of 70000 bytes this is the beginning:\n```\na\n```\nAnd this is the end:\n```\nz\n```\nFind") {
		t.Errorf("a long check = %q, %v", check, err)
	}
	mismatch, err := prompt.SchemaMismatch("no key a", "{}")
	if err != nil || !strings.Contains(mismatch, "no key a") {
		t.Errorf("schema = %q, %v", mismatch, err)
	}
}
