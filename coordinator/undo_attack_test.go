package coordinator_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/memory/identity"
)

// Whatever a command does to the project, repository and state included, the files
// come back, also in another process: checkpoints are out of its reach.
func TestUndoAfterTheProjectWasDestroyed(t *testing.T) {
	t.Parallel()
	for name, destroy := range map[string]string{
		"loose objects":   `rm -rf .git/objects/??`,
		"packs":           `git repack -q -a -d; rm -rf .git/objects/pack`,
		"refs":            `rm -rf .git/refs/ralph; git for-each-ref --format='delete %(refname)' refs/ralph | git update-ref --stdin; rm -rf .git/packed-refs`,
		"collected":       `git for-each-ref --format='delete %(refname)' refs/ralph | git update-ref --stdin; git reflog expire --expire=now --all; git gc -q --prune=now`,
		"no repository":   `rm -rf .git`,
		"another one":     `rm -rf .git; git init -q .`,
		"HEAD":            `echo garbage > .git/HEAD`,
		"index":           `echo garbage > .git/index`,
		"config":          `echo '[' > .git/config`,
		"state":           `rm -rf .ralph/checkpoint* .ralph/shadow.git .ralph/id .ralph/runs .ralph/backups`,
		"state and git":   `rm -rf .git .ralph/id .ralph/shadow.git`,
		"a file for .git": `rm -rf .git; echo "gitdir: /nonexistent" > .git`,
		"empty objects":   `find .git/objects -type f -exec sh -c 'chmod u+w "$1"; : > "$1"' _ {} \;`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, calls(shell("echo two > a.txt; rm b.txt; { "+destroy+"; } >/dev/null 2>&1; echo new > new.txt")), text("done"))
			p.ask = func(context.Context, permission.Question) (string, error) { return "yes", nil }
			p.write("a.txt", "one\n")
			p.write("b.txt", "b\n")
			p.git("add", "-A")
			p.git("commit", "-q", "-m", "before")
			c := p.open()
			c.Run(t.Context(), coordinator.Job{Task: "go"})
			if p.read("a.txt") != "two\n" || p.read("new.txt") != "new\n" {
				t.Fatal("the command did nothing")
			}
			p.shut(c)
			o := p.options()
			o.NoModel = true
			c, err := coordinator.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer p.shut(c)
			if _, err := c.Undo(t.Context(), 1, nil); err != nil && !strings.Contains(err.Error(), "the files are as they were") {
				t.Errorf("undo: %v", err)
			}
			if p.read("a.txt") != "one\n" || p.read("b.txt") != "b\n" || p.read("new.txt") != "" {
				t.Errorf("a.txt %q, b.txt %q, new.txt %q", p.read("a.txt"), p.read("b.txt"), p.read("new.txt"))
			}
		})
	}
}

// The user's git shows nothing of checkpoints and may collect what it likes.
func TestCheckpointsAreNotInTheUsersRepository(t *testing.T) {
	t.Parallel()
	p := newProject(t, calls(shell("echo two > a.txt")), text("done"))
	p.write("a.txt", "one\n")
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "before")
	was := p.git("for-each-ref") + p.git("log", "--all", "--format=%H") + p.git("count-objects", "-v")
	c := p.open()
	defer p.shut(c)
	p.want(c.Run(t.Context(), coordinator.Job{Task: "go"}), result.Completed)
	if is := p.git("for-each-ref") + p.git("log", "--all", "--format=%H") + p.git("count-objects", "-v"); is != was {
		t.Errorf("the user's repository was\n%s\nand is\n%s", was, is)
	}
	p.git("gc", "-q", "--prune=now")
	if _, err := c.Undo(t.Context(), 1, nil); err != nil || p.read("a.txt") != "one\n" {
		t.Errorf("undo: %v; a.txt %q", err, p.read("a.txt"))
	}
}

// Without a directory for checkpoints work goes on, and that is said once.
func TestWithoutADirectoryForCheckpoints(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]func(*testing.T) string{
		"none": func(*testing.T) string { return "" },
		"a file": func(t *testing.T) string {
			file := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return file
		},
		"cannot be written": func(*testing.T) string { return "/proc/ralph" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, calls(shell("echo two > a.txt")), text("done"), calls(shell("echo three > a.txt")), text("done"))
			o := p.options()
			home := dir(t)
			o.Getenv = func(name string) string {
				if name == "RALPH_STATE_DIR" {
					return home
				}
				return ""
			}
			c, err := coordinator.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer p.shut(c)
			p.want(c.Run(t.Context(), coordinator.Job{Task: "go", Chat: true}), result.Completed)
			out := c.Run(t.Context(), coordinator.Job{Task: "go", Chat: true})
			p.want(out, result.Completed)
			said := 0
			for _, w := range out.Warnings {
				if strings.Contains(w, "no undo and no resume") {
					said++
				}
			}
			if said != 1 || len(out.Warnings) != 1 || p.read("a.txt") != "three\n" {
				t.Errorf("said %d times: %q", said, out.Warnings)
			}
		})
	}
}

// What an older Ralph left in the project is taken over once, can be undone, and is
// gone from where it was.
func TestCheckpointsOfAnOlderRalph(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]string{"git": ".git", "no git": ".ralph/shadow.git"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := bareProject(t, calls(shell("echo two > a.txt; rm b.txt")), text("done"))
			if name == "git" {
				withGit(t, p)
			}
			p.write("a.txt", "one\n")
			p.write("b.txt", "b\n")
			c := p.open()
			p.want(c.Run(t.Context(), coordinator.Job{Task: "go"}), result.Completed)
			p.shut(c)
			// As an older Ralph had it.
			dir := identity.CheckpointDir(identity.Home(getenv(p.root)), p.root)
			store := filepath.Join(dir, "files.git")
			if name != "git" {
				p.git("init", "-q", "--bare", where)
			}
			p.git("--git-dir="+where, "-c", "protocol.file.allow=always", "fetch", "-q", store, "+refs/checkpoints/*:refs/ralph/checkpoints/*")
			for i, mark := range []string{"before", "after"} {
				subject := fmt.Sprintf("ralph checkpoint %d %x", i+1, sha256.Sum256([]byte(p.root)))
				ref := "refs/ralph/checkpoints/r-1/1." + mark
				commit := p.git("--git-dir="+where, "-c", "user.name=R", "-c", "user.email=r", "commit-tree", "-m", subject[:len("ralph checkpoint 1 ")+12], ref+"^{tree}")
				p.git("--git-dir="+where, "update-ref", ref, commit)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if refs := p.git("--git-dir="+where, "for-each-ref", "refs/ralph"); strings.Count(refs, "\n") != 1 {
				t.Fatalf("refs %q", refs)
			}
			c = p.open()
			defer p.shut(c)
			if name == "git" {
				if refs := p.git("for-each-ref", "refs/ralph"); refs != "" {
					t.Errorf("refs stay: %s", refs)
				}
			} else if _, err := os.Stat(p.path(where)); err == nil {
				t.Error("the shadow repository stays")
			}
			if _, err := c.Undo(t.Context(), 1, nil); err != nil || p.read("a.txt") != "one\n" || p.read("b.txt") != "b\n" {
				t.Errorf("undo: %v; a.txt %q, b.txt %q", err, p.read("a.txt"), p.read("b.txt"))
			}
		})
	}
}
