package exec

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain also is the Ralph that a test kills.
func TestMain(m *testing.M) {
	Init()
	if part := os.Getenv("PROC_TEST_PART"); part == "terminal" {
		playTerminal(context.Background())
		return
	} else if part != "" {
		play(context.Background(), part)
		return
	}
	if signal.Ignored(syscall.SIGHUP) { // under nohup(1), what a command without namespaces inherits
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	goleak.VerifyTestMain(m)
}

// playVictim is a Ralph with one command that runs.
func playVictim(ctx context.Context) {
	_, err := New(testOptions()).Run(ctx, Spec{Argv: []string{"sleep", os.Getenv("PROC_TEST_MARK")}})
	fmt.Println(err)
}

// testOptions are those that the suite runs with: see TestOtherWays.
func testOptions() Options { return Options{Method: os.Getenv("PROC_TEST_METHOD"), Init: Self()} }

func newRunner(t testing.TB) *Runner {
	t.Helper()
	return newRunnerWith(t, testOptions())
}

func newRunnerWith(t testing.TB, o Options) *Runner {
	t.Helper()
	r := New(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// marker is an argument for sleep that nobody else uses, about 2000 s.
func marker() string { return fmt.Sprintf("2000.%d", time.Now().UnixNano()) }

// marked puts a marker in place of each M that is a word.
func marked(script, mark string) string {
	return regexp.MustCompile(`\bM\b`).ReplaceAllLiteralString(script, mark)
}

// alive lists the processes with a marker on their command line, by a look at
// the process table that has nothing to do with the package.
func alive(t testing.TB, mark string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("no /proc")
	}
	var found []string
	for _, e := range entries {
		b, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && bytes.Contains(b, []byte(mark)) {
			found = append(found, e.Name()+": "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

// childrenOf returns the children of a process that are not dead, and those that are
// dead and not reaped, by their state.
func childrenOf(t testing.TB, parent int) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("no /proc")
	}
	found := map[int]string{}
	for _, e := range entries {
		b, err := os.ReadFile("/proc/" + e.Name() + "/status")
		_, state, _ := strings.Cut(string(b), "\nState:\t")
		pid, bad := strconv.Atoi(e.Name())
		if err == nil && bad == nil && state != "" && strings.Contains(string(b), "\nPPid:\t"+strconv.Itoa(parent)+"\n") {
			found[pid] = state[:1]
		}
	}
	return found
}

// zombies returns our children that are dead and not reaped.
func zombies(t testing.TB) []int {
	t.Helper()
	var found []int
	for pid, state := range childrenOf(t, os.Getpid()) {
		if state == "Z" {
			found = append(found, pid)
		}
	}
	return found
}

// bury reaps the orphans of a Ralph that was killed, which are nobody else's to reap.
func bury(t testing.TB) {
	t.Helper()
	for _, pid := range zombies(t) {
		_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	}
}

func noneAlive(t testing.TB, mark string) {
	t.Helper()
	if left := alive(t, mark); len(left) > 0 {
		t.Errorf("still running:\n%s", strings.Join(left, "\n"))
	}
}

func TestSurvivorScanFindsALeak(t *testing.T) {
	mark := marker()
	cmd := exec.Command("sleep", mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if got := alive(t, mark); len(got) != 1 {
		t.Errorf("found %v", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	noneAlive(t, mark)
}
