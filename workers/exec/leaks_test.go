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
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// plant starts a command and forgets it as if it had ended.
func plant(t *testing.T, script string) {
	t.Helper()
	g := newTag()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	fd := null.Fd()
	env := environ(Spec{}, g.text())
	f, err := startTree(g, "/bin/bash", []string{"bash", "-c", script}, &syscall.ProcAttr{Dir: t.TempDir(), Env: env, Files: []uintptr{fd, fd, fd}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-f.exited()
	f.reap()
	children().leave(f.(*tree))
}

// The scan finds what got away, however it hides; it does not know the runner.
func TestLeaksFindsPlanted(t *testing.T) {
	if got := Leaks(); len(got) > 0 {
		t.Fatalf("before: %v", got)
	}
	for name, script := range map[string]string{
		"background":  `sleep M &`,
		"setsid":      `setsid sleep M &`,
		"double fork": `(sh -c 'setsid sleep M & exit 0' &) `,
		"env -i":      `env -i setsid /bin/sh -c '/bin/sleep M & exit 0' &`,
		"name":        `(exec -a innocent sleep M) & sh -c 'printf innocent >/proc/self/comm; exec -a x sleep M; sleep M' 2>/dev/null &`,
		"no limit":    `ulimit -R unlimited; setsid sleep M &`,
		"stopped":     `sleep M & kill -STOP $!`,
	} {
		t.Run(name, func(t *testing.T) {
			mark := marker()
			plant(t, marked(script, mark))
			until(t, "it is there", func() bool { return len(alive(t, mark)) > 0 })
			rep := newRunner(t).Rest(t.Context())
			if len(rep.Survivors) == 0 || !rep.Checked {
				t.Errorf("not found: %+v; there is %v", rep, alive(t, mark))
			}
			for _, p := range rep.Survivors {
				if p.Start == 0 || p.Command == "" || !Carries(p.PID) {
					t.Errorf("%+v carries %v", p, Carries(p.PID))
				}
			}
			until(t, "it is gone", func() bool {
				for _, p := range Leaks() {
					kill(p, true)
				}
				bury()
				return len(alive(t, mark))+len(zombies(t)) == 0
			})
		})
	}
}

// What other code in this process starts meanwhile has no mark of a command.
func TestOthersCarryNoMark(t *testing.T) {
	r := newRunner(t)
	var stop atomic.Bool
	var commands sync.WaitGroup
	for range 2 {
		commands.Go(func() {
			for !stop.Load() {
				_, _ = r.Run(t.Context(), Spec{Argv: []string{"true"}, Tool: true})
				if c, err := startContainer(Self(), r.boxes.features().plainUser); err == nil {
					c.end()
					<-c.gone
				}
			}
		})
	}
	defer commands.Wait()
	defer stop.Store(true)
	for range 300 {
		cmd := exec.Command("bash", "-c", "ulimit -R")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 64); err == nil && isTag(n) {
			t.Fatalf("a child of other code has the mark %x", n)
		}
	}
}

// bury reaps the orphans of no command that runs, which are nobody's to reap.
func bury() {
	for _, p := range processes() {
		if p.ppid == os.Getpid() && p.state == 'Z' {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// What runs is no leak, nor what has ended.
func TestLeaksSparesWhatRuns(t *testing.T) {
	r := newRunner(t)
	for range 4 {
		startMarked(t, r, marker(), "(setsid sleep M &) ; sleep M")
	}
	for range 20 {
		if got := Leaks(); len(got) > 0 {
			t.Fatalf("%v", got)
		}
		if _, err := r.Run(t.Context(), Spec{Argv: sh("sleep 1 & exit")}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCarries(t *testing.T) {
	for _, method := range []string{"", methodSession} {
		r := newRunnerWith(t, Options{Method: method, Init: Self()})
		mark := marker()
		startMarked(t, r, mark, `env -i setsid bash -c 'ulimit -R unlimited; exec sleep M' & sleep M`)
		until(t, "it runs", func() bool { return len(alive(t, mark)) > 1 })
		for _, p := range alive(t, mark) {
			pid, _, _ := strings.Cut(p, ":")
			if n, err := strconv.Atoi(pid); err != nil || !Carries(n) {
				t.Errorf("%s: not recognised (%v)", p, err)
			}
		}
		// One without any mark is not taken for that of a command in namespaces.
		beside := newRunnerWith(t, Options{})
		startMarked(t, beside, marker(), "sleep M; sleep M")
		r.Halt()
		if rep := r.Rest(t.Context()); rep.Ended != 1 || len(rep.Survivors) > 0 {
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
	inside := os.Getenv(tagName) != "" // this test itself may be run by a Ralph
	if Carries(pid) != inside || Carries(os.Getpid()) != inside || Carries(1) {
		t.Errorf("a child of other code: %v, this process: %v, init: %v", Carries(pid), Carries(os.Getpid()), Carries(1))
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if !Carries(pid) || !Carries(0) || !Carries(-1) {
		t.Error("what is gone is taken for the human")
	}
}

func TestSweepOfNobody(t *testing.T) {
	for _, owner := range []string{"", "x", "a.b.c.d." + bootID(), "1.2.3.4.another-boot", "zz.1.1.1." + bootID()} {
		if got, err := Sweep(t.Context(), owner); len(got) > 0 || err != nil && !strings.Contains(err.Error(), "proven") {
			t.Errorf("%q: %v %v", owner, got, err)
		}
	}
	r := newRunner(t)
	mark := marker()
	startMarked(t, r, mark, "sleep M; sleep M")
	until(t, "it runs", func() bool { return len(alive(t, mark)) == 2 })
	if got, err := Sweep(t.Context(), Owner()); len(got) > 0 || err == nil {
		t.Errorf("ourselves: %v %v", got, err)
	}
	if now := len(alive(t, mark)); now != 2 {
		t.Errorf("%d of 2 are left", now)
	}
}

// playDetect says what is used, runs a command, closes the way to it if it can,
// and runs another.
func playDetect(ctx context.Context) {
	say := func() {
		r := New(testOptions())
		res, err := r.Run(ctx, Spec{Argv: []string{"sh", "-c", "sleep ${PROC_TEST_MARK:-100} & echo ran"}})
		fmt.Printf("%+v %s %d %v\n", r.Method(), strings.TrimSpace(res.Stdout.String()), len(res.Killed), err)
		if !r.Rest(ctx).Checked {
			fmt.Println("not proven", Owner())
		}
	}
	say()
	if os.WriteFile("/proc/sys/user/max_pid_namespaces", []byte("0"), 0) == nil {
		say()
	}
}

// Where namespaces are refused, from the start or at some later time, commands
// run without them, and Detect says why.
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
	for _, pid := range pids() {
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(comm) != "ralph-init\n" {
			continue
		}
		st, ok := readStat(pid)
		if !ok || !st.alive() || st.ppid != os.Getpid() {
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
	r.Halt()
	if rep := r.Rest(ctx); rep.Ended != 3 {
		t.Errorf("%+v", rep)
	}
}
