//go:build linux

package supervise

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// outsider starts a shell command without a Supervisor. It ends with the test.
func outsider(t *testing.T, script string) (*exec.Cmd, ProcessID) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := exec.Command("sh", "-c", script+"; : > "+ready+"; while :; do sleep 0.02; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the shell did not begin")
		}
	}
	st, ok := readStat(cmd.Process.Pid)
	if !ok {
		t.Fatal("no stat of a living process")
	}
	return cmd, ProcessID{PID: cmd.Process.Pid, Start: st.start, Boot: bootID()}
}

func TestEnd(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		stop   bool
		grace  time.Duration
		most   time.Duration
	}{
		"obeys":           {":", false, 10 * time.Second, 5 * time.Second},
		"deaf":            {"trap '' TERM", false, 50 * time.Millisecond, 5 * time.Second},
		"stopped":         {":", true, 10 * time.Second, 5 * time.Second},
		"stopped, deaf":   {"trap '' TERM", true, 50 * time.Millisecond, 5 * time.Second},
		"with no grace":   {":", false, 0, 5 * time.Second},
		"ends with words": {"trap 'exit 0' TERM", true, 10 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, id := outsider(t, c.script)
			if c.stop {
				if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			if !id.Alive() {
				t.Error("a living process does not live")
			}
			began := time.Now()
			if err := End(t.Context(), id, "", c.grace); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > c.most {
				t.Errorf("took %v", took)
			}
			for deadline := time.Now().Add(5 * time.Second); id.Alive(); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("it still lives")
				}
			}
			if err := End(t.Context(), id, "", time.Second); err != nil {
				t.Errorf("ending what is gone: %v", err)
			}
		})
	}
}

// No signal is sent to a process that is not proven to be the right one.
func TestEndRefusesWhatIsNotProven(t *testing.T) {
	cmd, id := outsider(t, ":")
	lock := filepath.Join(t.TempDir(), "lock")
	l := flock.New(lock)
	if ok, err := l.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer func() { _ = l.Close() }()
	reused, before, silent, own, first := id, id, id, id, id
	reused.Start++
	before.Boot = "another"
	silent.Start = 0
	own.PID = os.Getpid()
	first.PID = 1
	for name, c := range map[string]struct {
		id   ProcessID
		lock string
	}{"reused pid": {reused, ""}, "another boot": {before, ""}, "no start time": {silent, ""}, "ourselves": {own, ""}, "init": {first, ""}, "lock of another": {id, lock}} {
		if err := End(t.Context(), c.id, c.lock, 10*time.Millisecond); !errors.Is(err, ErrUnproven) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !id.Alive() || cmd.ProcessState != nil {
		t.Error("the process was ended")
	}
}

func TestEndObeysItsContext(t *testing.T) {
	_, id := outsider(t, "trap '' TERM")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := End(ctx, id, "", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended with %v", err)
	}
	if !id.Alive() {
		t.Error("it was killed though the wait was given up")
	}
}
