package coordinator_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/result"
)

// Each turn that changed a file is found again, in every session and run, under
// the names that the file had, with and without a repository.
func TestTrace(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *project){"git": withGit, "no git": func(*testing.T, *project) {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := bareProject(t,
				calls(write("old.txt", strings.Repeat("a line\n", 20)), write("other.txt", "x\n")), text("made"),
				calls(shell("mkdir -p dir && mv old.txt dir/new.txt")), text("moved"),
				calls(write("other.txt", "y\n")), text("not that one"),
				calls(shell("echo more >> dir/new.txt")), text("appended"))
			prepare(t, p)
			p.session = "new"
			c := p.open()
			for i := range 3 {
				p.want(c.Run(t.Context(), coordinator.Job{Task: fmt.Sprintf("turn %d\nand more", i+1), Chat: true}), result.Completed)
			}
			p.shut(c)
			p.session = ""
			c = p.open()
			defer p.shut(c)
			p.want(c.Run(t.Context(), coordinator.Job{Task: "append"}), result.Completed)
			for _, file := range []string{"dir/new.txt", p.path("dir/new.txt"), "./dir/../dir/new.txt"} {
				steps, err := c.Trace(t.Context(), file)
				if err != nil || len(steps) != 3 {
					t.Fatalf("trace of %s: %+v, %v", file, steps, err)
				}
				first, moved, last := steps[0], steps[1], steps[2]
				if first.Path != "old.txt" || first.Kind != "added" || first.Added != 20 || first.Session != "001" || first.Turn != 1 || !strings.HasPrefix(first.Said, "turn 1") || first.Before != "" {
					t.Errorf("first %+v", first)
				}
				if moved.Path != "dir/new.txt" || moved.OldPath != "old.txt" || moved.Kind != "renamed" || moved.Before != first.After || moved.After != first.After {
					t.Errorf("moved %+v", moved)
				}
				if last.Added != 1 || last.Before != moved.After || last.After == "" || last.After == last.Before || last.Session != "r-2" || last.Said != "append" || last.Agent != "ralph" {
					t.Errorf("last %+v", last)
				}
			}
			if steps, err := c.Trace(t.Context(), "other.txt"); err != nil || len(steps) != 2 {
				t.Errorf("trace of other.txt: %+v, %v", steps, err)
			}
			if steps, err := c.Trace(t.Context(), "nosuch.txt"); err != nil || len(steps) != 0 {
				t.Errorf("trace of what nobody changed: %+v, %v", steps, err)
			}
			for _, outside := range []string{"", "../outside", "/etc/passwd"} {
				if steps, err := c.Trace(t.Context(), outside); err == nil {
					t.Errorf("trace of %q: %+v", outside, steps)
				}
			}
			// The records are what the contract says.
			n := 0
			for line := range strings.Lines(p.all(".ralph/sessions/*/journal.jsonl")) {
				var r struct {
					Kind    string
					Payload map[string]any
				}
				if json.Unmarshal([]byte(line), &r) == nil && r.Kind == "change" {
					n++
					for _, key := range []string{"turn", "path", "before_blob", "after_blob"} {
						if _, ok := r.Payload[key]; !ok {
							t.Errorf("a change lacks %s: %v", key, r.Payload)
						}
					}
				}
			}
			if n != 4 {
				t.Errorf("%d changes in the session's journal", n)
			}
		})
	}
}

// A change that the turn committed names its commit.
func TestTraceNamesTheCommit(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(write("a.txt", "1\n"), write("b.txt", "1\n")), calls(shell("git add a.txt && git commit -q -m one && echo 2 >> b.txt")), text("done"))
	p.session = "new"
	c := p.open()
	defer p.shut(c)
	out := c.Run(t.Context(), coordinator.Job{Task: "go", Chat: true})
	p.want(out, result.Completed)
	for name, want := range map[string]string{"a.txt": p.git("rev-parse", "HEAD"), "b.txt": ""} {
		steps, err := c.Trace(t.Context(), name)
		if err != nil || len(steps) != 1 || steps[0].Commit != want {
			t.Errorf("trace of %s: %+v, %v; want commit %q", name, steps, err, want)
		}
	}
}

// Journals that are damaged, or none, cost their own steps only.
func TestTraceOfDamagedJournals(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(write("a.txt", "1\n")), text("done"), calls(write("a.txt", "2\n")), text("done"))
	p.session = "new"
	c := p.open()
	defer p.shut(c)
	for range 2 {
		p.want(c.Run(t.Context(), coordinator.Job{Task: "go", Chat: true}), result.Completed)
	}
	p.write(".ralph/sessions/session-002-odd/journal.jsonl", "\x00\x00\x00\n{\"kind\":\"change\",\"payload\":7}\n{\"kind\":\"change\"\n"+`{"kind":"change","payload":{"path":"../../etc/passwd"}}`+"\nx")
	if err := os.MkdirAll(p.path(".ralph/sessions/session-003-dir/journal.jsonl"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(p.path(".ralph/sessions/session-004-link"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(p.path(".ralph/sessions/session-004-link"), "journal.jsonl")); err != nil {
		t.Fatal(err)
	}
	steps, err := c.Trace(t.Context(), "a.txt")
	if err != nil || len(steps) != 2 {
		t.Errorf("trace: %+v, %v", steps, err)
	}
}
