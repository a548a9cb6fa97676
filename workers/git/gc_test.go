package git

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ralph/workers/exec"
)

// While Ralph makes commits the user's git gc does not begin, and Ralph's work does not
// while that runs; the lock of a process that is gone holds nobody up.
func TestHoldGC(t *testing.T) {
	w := newRepo(t)
	w.write("a", "1")
	w.commitAll("one")
	dir := w.path(".git")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	w.write(".git/gc.pid", fmt.Sprintf("%d %s", 1<<30, host))
	release := HoldGC(t.Context(), dir)
	if text := w.read(".git/gc.pid"); text != fmt.Sprintf("%d %s", os.Getpid(), host) {
		t.Errorf("the lock reads %q", text)
	}
	res, err := w.proc.Run(t.Context(), exec.Spec{Argv: []string{"git", "gc", "--prune=now"}, Dir: w.root, Env: exec.Environ(os.Environ())})
	if err != nil || res.ExitCode == 0 || !strings.Contains(res.Stdout.String(), "already running") {
		t.Errorf("git gc runs: %v, exit %d: %s", err, res.ExitCode, res.Stdout.String())
	}
	release()
	w.git("gc", "--prune=now", "-q")

	// One that lives is waited for.
	running := fmt.Sprintf("%d %s", os.Getpid(), host)
	w.write(".git/gc.pid", running)
	held := make(chan func())
	go func() { held <- HoldGC(t.Context(), dir) }()
	select {
	case <-held:
		t.Fatal("a gc that runs was not waited for")
	case <-time.After(50 * time.Millisecond):
	}
	w.remove(".git/gc.pid")
	(<-held)()
	if w.exists(".git/gc.pid") {
		t.Error("the lock stays")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	w.write(".git/gc.pid", running)
	HoldGC(over, dir)()
	if w.read(".git/gc.pid") != running {
		t.Error("the lock of another was removed")
	}
}
