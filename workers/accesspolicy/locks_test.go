package accesspolicy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/exec/sandbox"
)

// quietWrites keeps no record of its own.
type quietWrites struct{ place string }

func (quietWrites) Began(func()) func(bool) { return func(bool) {} }
func (quietWrites) Wrote([]sandbox.Write)   {}
func (q quietWrites) Place() string         { return q.place }

// gitLocks are the locks that git makes, by its source: of the index, HEAD and other refs,
// packed ones, the configuration, grafts, graphs, maintenance, submodules and worktrees.
func gitLocks() []string {
	return strings.Fields(`index.lock HEAD.lock ORIG_HEAD.lock MERGE_HEAD.lock refs/heads/main.lock refs/heads/a/b/c.lock refs/tags/v1.lock refs/stash.lock refs/remotes/origin/main.lock logs/HEAD.lock
		packed-refs.lock config.lock config.worktree.lock shallow.lock info/sparse-checkout.lock objects/info/commit-graph.lock objects/info/commit-graphs/commit-graph-chain.lock
		objects/info/alternates.lock objects/pack/multi-pack-index.lock objects/maintenance.lock gc.pid.lock MERGE_RR.lock modules/sub/index.lock worktrees/w/index.lock refs/ralph/x.lock`)
}

// TestLocksOfACommandGo: without a sandbox a command works on the repository itself. What
// locks it leaves, killed or not, are removed and reported; those of the user's git stay:
// one from before, one made meanwhile, and one in the place of the command's own.
func TestLocksOfACommandGo(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(func(o *accesspolicy.Options) { o.Off, o.Writes = true, quietWrites{} })
	at := func(name string) string { return filepath.Join(w.root, ".git", name) }
	w.file(at("old.lock"), "the user's")
	script := "cd .git; for f in " + strings.Join(gitLocks(), " ") + "; do mkdir -p $(dirname $f); : > $f; done; " +
		"(set -C; : > old.lock) 2>/dev/null; : > own.lock; mv own.lock own; touch ../ready; until test -e ../go; do sleep 0.01; done; (set -C; : > new.lock) 2>/dev/null; kill -9 $$"
	go func() {
		// The user's are made a tick of the file system's clock after the command's.
		ticked := func() bool {
			probe := filepath.Join(w.root, "probe")
			_ = os.WriteFile(probe, nil, 0o600)
			ready, err := os.Stat(filepath.Join(w.root, "ready"))
			now, nerr := os.Stat(probe)
			return err == nil && nerr == nil && now.ModTime().After(ready.ModTime())
		}
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && !ticked(); time.Sleep(time.Millisecond) {
		}
		for _, name := range []string{at("new.lock"), at("own.lock"), filepath.Join(w.root, "go")} {
			_ = os.WriteFile(name, []byte("the user's"), 0o600)
		}
	}()
	res, rep, err := s.Run(t.Context(), exec.Spec{Argv: []string{"sh", "-c", script}, Dir: w.root, Timeout: time.Minute}, accesspolicy.Call{})
	if err != nil {
		t.Fatal(err)
	}
	if !res.Watched {
		t.Skip("what a command writes is not seen here")
	}
	told := strings.Join(rep.Reverted, "\n")
	for _, name := range gitLocks() {
		if _, err := os.Lstat(at(name)); err == nil || !strings.Contains(told, ".git/"+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"old.lock", "new.lock", "own.lock"} {
		if text, err := os.ReadFile(at(name)); err != nil || string(text) != "the user's" || strings.Contains(told, name) {
			t.Errorf("%s, which is the user's: %q, %v", name, text, err)
		}
	}
	w.git("-c", "commit.gpgSign=false", "commit", "-q", "--allow-empty", "-m", "x")
}

// TestLocksAfterAKill: what the record of a killed Ralph's commands has is enough.
func TestLocksAfterAKill(t *testing.T) {
	w := newWorld(t, true)
	lock := filepath.Join(w.root, ".git", "index.lock")
	begun := time.Now()
	w.file(lock, "")
	long := begun.Add(-time.Hour)
	for name, tc := range map[string]struct {
		writes []sandbox.Write
		gone   bool
	}{
		"of another time":                   {[]sandbox.Write{{Path: lock, At: long}}, false},
		"was there before":                  {[]sandbox.Write{{Path: lock, At: begun, Before: long}}, false},
		"not its own":                       {[]sandbox.Write{{Path: lock + "x", At: begun}}, false},
		"elsewhere":                         {[]sandbox.Write{{Path: "/x/.git/index.lock", At: begun}}, false},
		"made after it had removed its own": {[]sandbox.Write{{Path: lock, At: begun.Add(-20 * time.Millisecond)}, {Path: lock, At: begun.Add(-10 * time.Millisecond), Before: begun}}, false},
	} {
		if got := accesspolicy.RemoveLocks(w.root, tc.writes); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	f, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	own := []sandbox.Write{{Path: lock, At: begun}, {Path: lock, At: time.Now().Add(time.Second), Before: begun}}
	if got := accesspolicy.RemoveLocks(w.root, own); len(got) > 0 {
		t.Errorf("a process has it open: %v", got)
	}
	_ = f.Close()
	if got := accesspolicy.RemoveLocks(w.root, own); len(got) != 1 {
		t.Errorf("it stays: %v", got)
	}
}
