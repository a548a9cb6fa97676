package tools

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// What goes into a file or into the history of the project holds no secret.
func TestKeptOutputsAndCommitsAreRedacted(t *testing.T) {
	b, run := repository(t, "")
	b.env.Redact = func(p []byte) []byte { return bytes.ReplaceAll(p, []byte("s3cret-key"), []byte("[redacted]")) }
	b.all = All(b.env)
	b.put("a.txt", "one\n")
	b.run("git", "action", "commit", "message", "add s3cret-key")
	if got := run("log", "--format=%s"); got != "add [redacted]\n" {
		t.Errorf("message %q", got)
	}
	b.put("a.txt", strings.Repeat("s3cret-key line\n", 4000))
	for tool, args := range map[string][]any{"shell": {"command", "cat a.txt"}, "git": {"action", "diff"}} {
		r := b.run(tool, args...)
		_, label, ok := strings.Cut(r.Head, "all of it: ")
		if !ok {
			t.Fatalf("%s: %q", tool, r.Head)
		}
		label, _, _ = strings.Cut(label, "\n")
		text, err := os.ReadFile(filepath.Join(b.env.OutputDir, path.Base(label)))
		if err != nil || bytes.Contains(text, []byte("s3cret")) || bytes.Count(text, []byte("[redacted]")) != 4000 {
			t.Errorf("%s: %v %.100q", tool, err, text)
		}
	}
}
