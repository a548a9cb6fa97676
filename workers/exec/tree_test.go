//go:build linux

package exec

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ralph/workers/exec/supervise"
)

// shapes of running work; M is the marker. Each leaves something behind when
// the script ends.
func shapes() map[string]string {
	return map[string]string{
		"plain":                `:`,
		"deaf":                 `trap '' INT TERM HUP; sleep M &`,
		"background":           `sleep M &`,
		"setsid":               `(setsid sleep M &)`,
		"double fork":          `(sh -c 'sleep M & exit 0' &)`,
		"pipe":                 `sleep M | cat &`,
		"process substitution": `cat <(sleep M) > >(cat) &`,
		"fork loop":            `for i in 1 2 3 4 5 6 7 8 9 10; do (sleep M & sleep M &) & done`,
		"cleared environment":  `env -i setsid /bin/sh -c 'setsid sleep M & exit 0' &`,
		"holds the pipe":       `sleep M 2>&1 & (setsid sleep M &)`,
		"stopped":              `sleep M & kill -STOP $!`,
		"stopped in a session": `setsid sh -c 'kill -STOP $$; sleep M' & sleep 0.02`,
		"hops":                 `cat >hop <<'E'` + "\n" + `[ "$1" -gt 0 ] && setsid sh ./hop $(($1-1)) M & exit` + "\nE\nsh ./hop 100 M &",
	}
}

func TestNothingIsLeft(t *testing.T) {
	bury(t) // of the Ralphs that earlier tests killed
	r := newRunner(t)
	ends := map[string]struct {
		wait    string
		timeout time.Duration
		cancel  time.Duration
	}{
		"normal end": {},
		"timeout":    {wait: "while :; do sleep M; done", timeout: 150 * time.Millisecond},
		"cancel":     {wait: "while :; do sleep M; done", cancel: 100 * time.Millisecond},
	}
	t.Run("all", func(t *testing.T) {
		for shape, script := range shapes() {
			for how, end := range ends {
				t.Run(shape+"/"+how, func(t *testing.T) {
					t.Parallel()
					mark := marker()
					text := marked(script+"\n"+end.wait+"\nexit 7", mark)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if end.cancel > 0 {
						defer time.AfterFunc(end.cancel, cancel).Stop()
					}
					start := time.Now()
					res, err := r.Run(ctx, Spec{Argv: []string{"bash", "-c", text}, Dir: t.TempDir(), Timeout: end.timeout})
					took := time.Since(start)
					noneAlive(t, mark)
					switch {
					case end.cancel > 0:
						if !errors.Is(err, context.Canceled) || res.TimedOut {
							t.Errorf("cancelled: %+v %v", res, err)
						}
					case err != nil:
						t.Error(err)
					case end.timeout > 0:
						if !res.TimedOut || res.ExitCode <= 128 || res.Signal == "" {
							t.Errorf("timed out: %+v", res)
						}
					case res.ExitCode != 7 || res.TimedOut:
						t.Errorf("ended: %+v", res)
					}
					if took > 6*time.Second {
						t.Errorf("took %v", took)
					}
				})
			}
		}
	})
	// An idle container too many is killed, and reaped in the background.
	until(t, "all are reaped", func() bool { return len(zombies(t)) == 0 })
}

func TestKilledNamesWhatWasLeft(t *testing.T) {
	mark := marker()
	res, err := newRunner(t).Run(t.Context(), Spec{Argv: []string{"sh", "-c", "sleep " + mark + " & while [ \"$(cat /proc/$!/comm)\" != sleep ]; do :; done"}})
	if err != nil || len(res.Killed) != 1 || res.Killed[0].Command != "sleep "+mark || res.Killed[0].PID == 0 || res.Killed[0].Start == 0 {
		t.Errorf("%+v %v", res.Killed, err)
	}
}

// An orphan without any mark is still a child of ours.
func TestUnmarkedOrphan(t *testing.T) {
	mark := marker()
	script := `bash -c 'ulimit -R unlimited 2>/dev/null; exec env -i setsid /bin/sh -c "setsid sleep M & exit 0"' & sleep 0.1`
	res, err := newRunner(t).Run(t.Context(), Spec{Argv: []string{"bash", "-c", marked(script, mark)}})
	if err != nil || len(res.Killed) != 1 {
		t.Errorf("%+v %v", res, err)
	}
	noneAlive(t, mark)
}

// Eight commands end beside one whose only process is an orphan with a cleared
// environment in a session of its own. It must not be taken for theirs.
func TestRunsDoNotKillEachOther(t *testing.T) {
	r := newRunner(t)
	dir := t.TempDir()
	script := `env -i /usr/bin/setsid /bin/sh -c '(setsid sh -c "sleep 0.6; echo alive >alive" &)'; while [ ! -e alive ]; do sleep 0.02; done`
	long, err := r.Start(t.Context(), Spec{Argv: []string{"sh", "-c", script}, Dir: dir, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			mark := marker()
			// It ends when both are what they are to be.
			script := marked(`sleep M & (setsid sh -c 'echo $$ >pid; exec sleep M' &)
is() { read -r name <"/proc/$1/comm" && [ "$name" = sleep ]; }
until is $! && [ -s pid ] && is "$(cat pid)"; do sleep 0.01; done; rm pid`, mark) + fmt.Sprintf("; exit %d", i)
			dir := t.TempDir()
			for range 4 {
				res, err := r.Run(t.Context(), Spec{Argv: []string{"sh", "-c", script}, Dir: dir})
				if err != nil || res.ExitCode != i || len(res.Killed) != 2 {
					t.Errorf("run %d: %+v %v", i, res, err)
				}
			}
			noneAlive(t, mark)
		})
	}
	wg.Wait()
	select {
	case <-long.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the long one hangs")
	}
	if res, _ := long.Result(); res.ExitCode != 0 || res.TimedOut {
		t.Errorf("the long one was hurt: %+v", res)
	}
}

// A script that waits for its daemon to go away must see it go: as the subreaper
// we have to reap it.
func TestOrphansAreReapedWhileTheCommandRuns(t *testing.T) {
	script := `pid=$(sh -c 'sleep 0.1 >/dev/null 2>&1 & echo $!'); while kill -0 $pid 2>/dev/null; do sleep 0.01; done; echo gone`
	res, err := newRunner(t).Run(t.Context(), Spec{Argv: []string{"sh", "-c", script}, Timeout: 5 * time.Second})
	if err != nil || res.TimedOut || res.Stdout.String() != "gone\n" {
		t.Errorf("%+v %v", res, err)
	}
}

// Children of other code in this process are neither killed nor reaped.
func TestOtherChildrenAreLeftAlone(t *testing.T) {
	mark := marker()
	other := exec.Command("sh", "-c", "sleep 0.2; exit 5 # "+mark)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t)
	for range 20 {
		if res, err := r.Run(t.Context(), Spec{Argv: []string{"sh", "-c", "sleep 0.01 & sleep 0.01"}}); err != nil {
			t.Errorf("%+v %v", res, err)
		}
	}
	err := other.Wait()
	var ee *exec.ExitError
	if !errors.As(err, &ee) || ee.ExitCode() != 5 {
		t.Errorf("the other child: %v", err)
	}
}

// kill -9 of Ralph takes the leader along.
func TestParentDeath(t *testing.T) {
	mark := marker()
	ralph := exec.Command(os.Args[0])
	ralph.Env = append(os.Environ(), "PROC_TEST_PART=victim", "PROC_TEST_MARK="+mark)
	if err := ralph.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the command runs", func() bool {
		for _, p := range alive(t, mark) {
			if strings.Contains(p, "sleep "+mark) {
				return true
			}
		}
		return false
	})
	if err := ralph.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = ralph.Wait()
	until(t, "the command is gone", func() bool { return len(alive(t, mark)) == 0 })
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so after 10 s: %s", what)
		}
	}
}

// A pipe that something outside the tree holds open does not delay the end, and
// what was written before it is not lost.
func TestForeignHolderOfThePipe(t *testing.T) {
	dir, mark := t.TempDir(), marker()
	r := newRunner(t)
	start := time.Now()
	j, err := r.Start(t.Context(), Spec{Argv: []string{"sh", "-c", "while [ ! -e held ]; do sleep 0.01; done; head -c 60000 /dev/zero # " + mark}, Dir: dir, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	pid, _, _ := strings.Cut(alive(t, mark)[0], ":")
	held, err := os.OpenFile("/proc/"+pid+"/fd/1", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if err := os.WriteFile(filepath.Join(dir, "held"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-j.Done()
	if res, _ := j.Result(); res.Stdout.Bytes != 60000 || res.TimedOut {
		t.Errorf("%d bytes, %+v", res.Stdout.Bytes, res)
	}
	if took := time.Since(start); took > 2500*time.Millisecond {
		t.Errorf("took %v", took)
	}
}

func TestNestedTag(t *testing.T) {
	t.Setenv("RALPH_TAG", "outer")
	res, err := newRunner(t).Run(t.Context(), Spec{Argv: []string{"sh", "-c", "echo $RALPH_TAG"}})
	if err != nil || !strings.HasPrefix(res.Stdout.String(), "outer/") {
		t.Errorf("%q %v", res.Stdout.String(), err)
	}
}

func TestDetect(t *testing.T) {
	m := newRunner(t).Method()
	t.Logf("%+v", m)
	if m.Detail == "" || m.Survives != strings.Contains(m.Name, "namespaces") || m.Survives == strings.Contains(m.Name, "session") {
		t.Errorf("%+v", m)
	}
	plain := New(Options{Method: supervise.MethodSession}).Method()
	if plain.Survives || !strings.Contains(plain.Name, "session") || !strings.Contains(plain.Detail, "chosen") {
		t.Errorf("%+v", plain)
	}
}

func BenchmarkRun(b *testing.B) {
	for name, argv := range map[string][]string{
		"clean": {"true"}, "leftovers": {"sh", "-c", "sleep 100 & (setsid sleep 100 &)"},
	} {
		b.Run(name, func(b *testing.B) {
			r := newRunner(b)
			for b.Loop() {
				if _, err := r.Run(b.Context(), Spec{Argv: argv}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("beside a job", func(b *testing.B) {
		r := newRunner(b)
		if _, err := r.Start(b.Context(), Spec{Argv: []string{"sleep", "100"}}); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := r.Run(b.Context(), Spec{Argv: []string{"true"}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("os/exec", func(b *testing.B) {
		for b.Loop() {
			if _, err := exec.Command(filepath.Join("/bin", "true")).CombinedOutput(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A chain whose processes each start the next and end, and whose leader is
// dead, is swept although nobody is there to signal its group through:
// RALPH_TEST_SWEEP=1 tries it often.
func TestSweepOfAChain(t *testing.T) {
	chains := map[string]string{
		"one group": `f() { sleep 0.01; f & }; for i in 1 2 3 4; do f; done; while :; do (:); done # M`,
		"new ones":  `printf 'exec 2>/dev/null; (exec -a M sleep 0.01); setsid bash ./hop M & exit' >hop; bash ./hop M`,
	}
	load := exec.Command("bash", "-c", `for i in 1 2 3 4; do while :; do (:); done & done; wait`)
	load.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-load.Process.Pid, syscall.SIGKILL); _ = load.Wait() }()
	n := 6
	if os.Getenv("RALPH_TEST_SWEEP") != "" {
		n = 200
	}
	for name, script := range chains {
		t.Run(name, func(t *testing.T) {
			worst, lost := time.Duration(0), 0
			for range n {
				mark := marker()
				ralph := again(t, 0)
				ralph.Env = append(ralph.Env, "PROC_TEST_PART=chain", "PROC_TEST_METHOD=session", "PROC_TEST_MARK="+marked(script, mark))
				out, err := ralph.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := ralph.Start(); err != nil {
					t.Fatal(err)
				}
				owner, err := bufio.NewReader(out).ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				owner = strings.Fields(owner)[0]
				time.Sleep(30 * time.Millisecond)
				_ = ralph.Process.Kill()
				_ = ralph.Wait()
				began := time.Now()
				if _, err := supervise.Sweep(t.Context(), owner); err != nil {
					t.Error(err)
				}
				worst = max(worst, time.Since(began))
				time.Sleep(30 * time.Millisecond)
				if left, err := supervise.Sweep(t.Context(), owner); len(left) > 0 || err != nil {
					lost++
					t.Errorf("left: %v %v", left, err)
				}
				bury(t)
			}
			t.Logf("%d sweeps, %d lost, the longest took %v", n, lost, worst)
		})
	}
}
