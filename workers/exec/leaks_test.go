//go:build linux

package exec

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ralph/workers/exec/supervise"
)

// What runs is no leak, nor what has ended.
func TestLeaksSparesWhatRuns(t *testing.T) {
	r := newRunner(t)
	for range 4 {
		startMarked(t, r, marker(), "(setsid sleep M &) ; sleep M")
	}
	for range 20 {
		if got := supervise.Leaks(); len(got) > 0 {
			t.Fatalf("%v", got)
		}
		if _, err := r.Run(t.Context(), Spec{Argv: sh("sleep 1 & exit")}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCarries(t *testing.T) {
	for _, method := range []string{"", supervise.MethodSession} {
		r := newRunnerWith(t, Options{Method: method, Init: Self()})
		mark := marker()
		startMarked(t, r, mark, `env -i setsid bash -c 'ulimit -R unlimited; exec sleep M' & sleep M`)
		until(t, "it runs", func() bool { return len(alive(t, mark)) > 1 })
		for _, p := range alive(t, mark) {
			pid, _, _ := strings.Cut(p, ":")
			if n, err := strconv.Atoi(pid); err != nil || !supervise.BelongsToCommand(n) {
				t.Errorf("%s: not recognised (%v)", p, err)
			}
		}
		// One without any mark is not taken for that of a command in namespaces.
		beside := newRunnerWith(t, Options{})
		startMarked(t, beside, marker(), "sleep M; sleep M")
		r.Stop()
		if rep := r.WaitStopped(t.Context()); rep.Ended != 1 || len(rep.Survivors) > 0 {
			t.Errorf("%+v", rep)
		}
		if beside.Method().Survives {
			noneAlive(t, mark)
		}
	}
	other := exec.Command("sleep", marker())
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	pid := other.Process.Pid
	inside := os.Getenv("RALPH_TAG") != "" // this test itself may be run by a Ralph
	if supervise.BelongsToCommand(pid) != inside || supervise.BelongsToCommand(os.Getpid()) != inside || supervise.BelongsToCommand(1) {
		t.Errorf("a child of other code: %v, this process: %v, init: %v", supervise.BelongsToCommand(pid), supervise.BelongsToCommand(os.Getpid()), supervise.BelongsToCommand(1))
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if !supervise.BelongsToCommand(pid) || !supervise.BelongsToCommand(0) || !supervise.BelongsToCommand(-1) {
		t.Error("what is gone is taken for the human")
	}
}

// playDetect says what is used, runs a command, closes the way to it if it can,
// and runs another.
func playDetect(ctx context.Context) {
	say := func() {
		r := New(testOptions())
		res, err := r.Run(ctx, Spec{Argv: []string{"sh", "-c", "sleep ${PROC_TEST_MARK:-100} & echo ran"}})
		fmt.Printf("%+v %s %d %v\n", r.Method(), strings.TrimSpace(res.Stdout.String()), len(res.Killed), err)
		if !r.WaitStopped(ctx).Checked {
			fmt.Println("not proven", supervise.Owner())
		}
	}
	say()
	if os.WriteFile("/proc/sys/user/max_pid_namespaces", []byte("0"), 0) == nil {
		say()
	}
}

// Where namespaces are refused, from the start or at some later time, commands
// run without them, and Method has the reason.
func TestWithoutNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to set the scene")
	}
	self := again(t, 65534)
	detect := func(script string) []string {
		t.Helper()
		cmd := exec.Command("unshare", "-m", "sh", "-c", script)
		cmd.Dir = self.Dir
		cmd.Env = append(self.Env, "PROC_TEST_PART=detect", "SELF="+self.Path)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Skipf("the scene: %v %s", err, out)
		}
		t.Logf("%s", out)
		var lines []string
		for line := range strings.Lines(string(out)) {
			if !strings.HasPrefix(line, "==") { // the race detector misses its /proc, too
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	// Without a process table of one's own nothing is taken for proven, and no
	// process of the other one is mistaken for ours.
	mark := marker()
	got := detect("export PROC_TEST_MARK=" + mark + "; umount -l /proc && exec $SELF")
	if len(got) != 2 || !strings.Contains(got[0], "no process table") || !strings.Contains(got[0], "ran 0 <nil>") || got[1] != "not proven" {
		t.Errorf("no /proc: %q", got)
	}
	noneAlive(t, mark)
	got = detect("export PROC_TEST_MARK=" + mark + "; unshare -p -f sh -c '$SELF; exit $?'")
	if len(got) != 2 || !strings.Contains(got[0], "ran 0 <nil>") || got[1] != "not proven" {
		t.Errorf("another's /proc: %q", got)
	}
	noneAlive(t, mark)
	nobody := "exec setpriv --reuid 65534 --regid 65534 --clear-groups "
	got = detect("mount -t tmpfs x /proc/sys && " + nobody + "$SELF")
	if len(got) != 1 || !strings.Contains(got[0], "no namespaces: mount proc on /proc: operation not permitted") || !strings.Contains(got[0], "ran 1 <nil>") {
		t.Errorf("a /proc with covered parts: %q", got)
	}
	got = detect(nobody + "unshare -Ur $SELF")
	if len(got) != 2 || !strings.Contains(got[0], "pid+mount namespaces") || !strings.Contains(got[0], "Survives:true} ran 1 <nil>") {
		t.Fatalf("a namespace of one's own: %q", got)
	}
	if !strings.Contains(got[1], "no namespaces: no space left on device") || !strings.Contains(got[1], "ran 1 <nil>") {
		t.Errorf("no more of them: %q", got[1])
	}
	got = detect(nobody + "unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_pid_namespaces; exec $SELF'")
	if !strings.Contains(got[0], "no namespaces: no space left on device") || !strings.Contains(got[0], "ran 1 <nil>") {
		t.Errorf("none of them: %q", got)
	}
}

// Locks, terminals and lifelines of others are not held by an init.
func TestInitHoldsNothing(t *testing.T) {
	r := newRunner(t)
	if !r.Method().Survives || os.Geteuid() != 0 {
		t.Skip("needs namespaces, and root to look")
	}
	lock, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	inherited, err := syscall.Dup(int(lock.Fd())) // as of a shell that holds a lock around Ralph
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(inherited) }()
	for range 3 {
		startMarked(t, r, marker(), "sleep M; sleep M")
	}
	inits := 0
	for pid, state := range childrenOf(t, os.Getpid()) {
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); state == "Z" || string(comm) != "ralph-init\n" {
			continue
		}
		inits++
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil || len(fds) == 0 {
			t.Errorf("descriptors: %v %v", fds, err)
		}
		for _, fd := range fds {
			what, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
			if err == nil && what != os.DevNull && !strings.HasPrefix(what, "socket:") && !strings.HasPrefix(what, "anon_inode:") && !strings.HasPrefix(what, "/sys/fs/cgroup/") {
				t.Errorf("it holds %s", what)
			}
		}
		smaps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		for line := range strings.Lines(string(smaps)) {
			if strings.HasPrefix(line, "Private_Dirty") || strings.HasPrefix(line, "Pss:") || strings.HasPrefix(line, "Rss") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
	if inits < 3 {
		t.Errorf("%d inits", inits)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r.Stop()
	if rep := r.WaitStopped(ctx); rep.Ended != 3 {
		t.Errorf("%+v", rep)
	}
}
