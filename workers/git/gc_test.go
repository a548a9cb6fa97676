package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
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

	// What is no lock to git, by git-gc(1) or its source, holds nobody up.
	for _, plant := range []func(string) error{
		func(path string) error { return os.WriteFile(path, []byte("nobody"), 0o600) },
		func(path string) error { return os.WriteFile(path, nil, 0o600) },
		func(path string) error { return syscall.Mkfifo(path, 0o600) },
		func(path string) error { return os.Symlink("/dev/zero", path) },
		func(path string) error { return os.Mkdir(path, 0o700) },
		func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(running), 0o600), os.Chtimes(path, time.Time{}, time.Now().Add(-13*time.Hour)))
		},
	} {
		if err := plant(w.path(".git/gc.pid")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		HoldGC(t.Context(), dir)()
		if took := time.Since(began); took > gcWait/2 {
			t.Errorf("it took %v", took)
		}
		_ = os.Remove(w.path(".git/gc.pid")) // it may be gone
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	w.write(".git/gc.pid", running)
	HoldGC(over, dir)()
	if w.read(".git/gc.pid") != running {
		t.Error("the lock of another was removed")
	}
}
