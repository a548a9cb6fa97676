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

	"ralph/workers/exec/exectest"
	"ralph/workers/exec/sandbox"
	"ralph/workers/exec/supervise"
)

// What depends on the way runs again without namespaces, and as a user who needs a
// user namespace for them.
func TestOtherWays(t *testing.T) {
	if os.Getenv("PROC_TEST_AGAIN") != "" {
		t.Skip("it is one of them")
	}
	for name, way := range map[string]struct {
		method string
		uid    uint32
		tests  string
	}{
		"session":      {method: supervise.MethodSession, tests: "Run|Cancel|TimeoutLadder|Job|Close|NothingIsLeft|Killed.*|Unmarked.*|Orphans.*|OtherC.*|Foreign.*|Escapes|Confine.*|CannotConfine|Detect|Halt.*|Kill|ForkBomb|Ralph.*"},
		"unprivileged": {uid: 65534, tests: "Serve|Overlay|Escapes|Confine.*|CannotConfine|Run|CannotStart|ParentDeath|Detect|Halt|Kill|ForkBomb|Surroundings|Inside|Ralph.*|Leaks.*|BelongsToCommand"},
		"both":         {method: supervise.MethodSession, uid: 65534, tests: "CommandsReadNothing.*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := again(t, way.uid, "-test.short", "-test.timeout=60s", "-test.run=^Test("+way.tests+")$")
			cmd.Env = append(cmd.Env, "PROC_TEST_AGAIN=1", "PROC_TEST_METHOD="+way.method)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// again makes a command of this test binary, as another user if uid is not 0.
func again(t *testing.T, uid uint32, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "ralph-proc-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := os.Args[0]
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if uid != 0 && os.Geteuid() != 0 {
		return cmd // it runs as an ordinary user already
	}
	if uid != 0 {
		program = filepath.Join(dir, "proc.test")
		content, err := os.ReadFile(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := exectest.WriteProgram(program, content, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		cmd.Path, cmd.Args[0], cmd.Dir = program, program, dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	return cmd
}

// work is what runs when a stop comes; each shows M on a command line.
func work() map[string]string {
	return map[string]string{
		"streaming":            `while :; do echo M; sleep 0.01; done & sleep M`,
		"deaf":                 `trap '' INT TERM HUP; sleep M; sleep M`,
		"background":           `sleep M & echo; wait`,
		"setsid":               `(setsid sleep M &); sleep M`,
		"double fork":          `(sh -c 'setsid sh -c "sleep M & sleep M" & exit 0' &); sleep M`,
		"pipe":                 `sleep M | cat`,
		"process substitution": `cat <(sleep M) > >(cat)`,
		"fork loop":            `while :; do (sleep M & sleep M &) ; sleep 0.02; done`,
		"retry":                `while ! false; do sleep M; done`,
		"hops":                 `cat >hop <<'E'` + "\n" + `setsid sh ./hop M & exit` + "\nE\nsh ./hop M & sleep M",
		"cleared":              `trap '' INT; env -i setsid /bin/sh -c 'printf x >/proc/self/comm; sleep M; sleep M' & sleep M; sleep M`,
	}
}

// A hard stop of eight commands of each shape.
func TestHalt(t *testing.T) {
	for shape, script := range work() {
		t.Run(shape, func(t *testing.T) {
			mark := marker()
			r := newRunner(t)
			for range 8 {
				startMarked(t, r, mark, script)
			}
			began := time.Now()
			r.Stop()
			blocked := time.Since(began)
			rep := r.WaitStopped(t.Context())
			if shape == "deaf" && blocked >= rep.Took { // these get time to end by themselves
				t.Errorf("halt blocked for %v of %v", blocked, rep.Took)
			}
			t.Logf("8 commands at rest after %v, %d killed", rep.Took, len(rep.Killed))
			noneAlive(t, mark)
			if rep.Ended != 8 || !rep.Checked || len(rep.Survivors) > 0 {
				t.Errorf("%d ended, %d killed in %v, left %v", rep.Ended, len(rep.Killed), rep.Took, rep.Survivors)
			}
			if shape == "deaf" && len(rep.Killed) < 8 {
				t.Errorf("killed %v", rep.Killed)
			}
			for _, j := range r.Jobs() {
				<-j.Done()
			}
			// What comes later is not concerned.
			if res, err := r.Run(t.Context(), Spec{Argv: sh("exit 3")}); err != nil || res.ExitCode != 3 {
				t.Errorf("afterwards: %+v %v", res, err)
			}
			if rep := r.WaitStopped(t.Context()); rep.Ended != 0 || !rep.Checked {
				t.Errorf("a rest without a halt: %+v", rep)
			}
		})
	}
}

// startMarked starts a job and waits until its mark is seen in its output or on
// a command line.
func startMarked(t *testing.T, r *Runner, mark, script string) *Job {
	t.Helper()
	ready := make(chan struct{}, 1)
	trap := ""
	if strings.HasPrefix(script, "trap") {
		trap, script, _ = strings.Cut(script, ";")
	}
	j, err := r.Start(t.Context(), Spec{Dir: t.TempDir(), Argv: []string{"bash", "-c", trap + "\necho ready;" + marked(script, mark)}, OnOutput: func([]byte) {
		select {
		case ready <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-ready
	return j
}

func TestKill(t *testing.T) {
	r := newRunner(t)
	mark := marker()
	for range 4 {
		startMarked(t, r, mark, "trap '' INT TERM; sleep M; sleep M")
	}
	r.Stop()
	r.Kill()
	rep := r.WaitStopped(t.Context())
	if rep.Ended != 4 || len(rep.Survivors) > 0 {
		t.Errorf("%+v", rep)
	}
	noneAlive(t, mark)
}

func TestHaltFifty(t *testing.T) {
	r := newRunner(t)
	mark := marker()
	for range 50 {
		if _, err := r.Start(t.Context(), Spec{Argv: sh("trap '' INT; (setsid sleep " + mark + " &); sleep " + mark + "; sleep " + mark)}); err != nil {
			t.Fatal(err)
		}
	}
	var both sync.WaitGroup
	for range 2 { // a stop during a stop
		both.Go(func() {
			r.Stop()
			if rep := r.WaitStopped(t.Context()); rep.Ended != 50 || len(rep.Survivors) > 0 || !rep.Checked {
				t.Errorf("%d ended, left %v in %v", rep.Ended, rep.Survivors, rep.Took)
			}
		})
	}
	both.Wait()
	noneAlive(t, mark)
}

// A stop that comes while commands are being started ends all whose start began
// before it, and Run says so.
func TestHaltDuringStart(t *testing.T) {
	r := newRunner(t)
	mark := marker()
	for range 8 {
		var wg sync.WaitGroup
		begun := make(chan struct{}, 8)
		for range 8 {
			wg.Go(func() {
				begun <- struct{}{}
				if _, err := r.Run(t.Context(), Spec{Argv: []string{"sleep", mark}}); !errors.Is(err, ErrStopped) {
					t.Errorf("run: %v", err)
				}
			})
		}
		for range 8 {
			<-begun
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for stopped := false; !stopped; {
			r.Stop() // those that had not begun ran on past the one before
			select {
			case <-done:
				stopped = true
			case <-time.After(time.Millisecond):
			}
		}
		if rep := r.WaitStopped(t.Context()); len(rep.Survivors) > 0 || !rep.Checked {
			t.Errorf("%+v", rep)
		}
	}
	noneAlive(t, mark)
}

// Forks for ever, within a bound where the user has one.
func TestForkBomb(t *testing.T) {
	r := newRunner(t)
	bomb := `for i in 1 2 3 4 5 6 7 8; do sh ./hop M & done; sleep M`
	if os.Geteuid() != 0 {
		bomb = `ulimit -u 300; b() { b | b & }; b; sleep M`
	}
	mark := marker()
	startMarked(t, r, mark, `printf 'sh ./hop M & sh ./hop2 M & exit' >hop; printf 'exit' >hop2;`+bomb)
	<-time.After(50 * time.Millisecond)
	r.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if rep := r.WaitStopped(ctx); rep.Ended != 1 || len(rep.Survivors) > 0 || !rep.Checked {
		t.Errorf("%d ended, %d killed, left %v, %v", rep.Ended, len(rep.Killed), rep.Survivors, rep.Took)
	}
	noneAlive(t, mark)
}

// A command finds itself in the same surroundings by either method.
func TestSurroundings(t *testing.T) {
	script := `ulimit -a; umask; grep -E '^Sig(Blk|Ign|Cgt)|^Cap|^NoNewPrivs|^Groups' /proc/self/status; pwd; id -u; id -g; nice; kill -l $?; ls -ld . | cut -c1-10; tty`
	var outs []string
	for _, method := range []string{"", supervise.MethodSession} {
		res, err := newRunnerWith(t, Options{Method: method, Init: Self()}).Run(t.Context(), Spec{Argv: []string{"bash", "-c", script}, Dir: "/"})
		if err != nil {
			t.Fatal(err)
		}
		var kept []string
		for line := range strings.Lines(res.Stdout.String()) {
			// A user namespace has its own bounds; the tag differs.
			if !strings.Contains(line, "real-time non-blocking") && !strings.HasPrefix(line, "CapBnd") && !strings.HasPrefix(line, "Groups") {
				kept = append(kept, line)
			}
		}
		outs = append(outs, strings.Join(kept, ""))
	}
	if outs[0] != outs[1] {
		t.Errorf("with namespaces:\n%s\nwithout:\n%s", outs[0], outs[1])
	}
}

// Inside, a command sees its own processes and none of Ralph's memory.
func TestInside(t *testing.T) {
	r := newRunner(t)
	if !r.Method().Survives {
		t.Skip("no namespaces")
	}
	res, err := r.Run(t.Context(), Spec{Argv: []string{"bash", "-c", `echo; ps -e -o pid= | wc -l; cat /proc/1/environ 2>&1 | tr '\0' '\n' | grep -c PATH; sleep 100 & kill $!; wait $!; echo $?; kill -9 1; kill -TERM 1; kill -STOP 1; echo alive; cat <(echo substituted)`}})
	want := []string{"", "", "", "143", "alive", "substituted"}
	got := strings.Split(strings.TrimSuffix(res.Stdout.String(), "\n"), "\n")
	if err != nil || len(got) != len(want) {
		t.Fatalf("%q %v", got, err)
	}
	for i, w := range want {
		if w != "" && strings.TrimSpace(got[i]) != w {
			t.Errorf("line %d: %q, want %q", i, got[i], w)
		}
	}
	if n := strings.TrimSpace(got[1]); len(n) > 1 {
		t.Errorf("it sees %s processes", n)
	}
	if strings.TrimSpace(got[2]) != "0" {
		t.Errorf("it reads the environment of init")
	}
}

// play is what the test binary does for a test.
func play(ctx context.Context, part string) {
	if what, ok := strings.CutPrefix(part, "ask:"); ok {
		playAsk(ctx, what)
		return
	}
	switch part {
	case "victim":
		playVictim(ctx)
	case "ralph":
		playRalph(ctx)
	case "detect":
		playDetect(ctx)
	case "chain":
		dir, err := os.MkdirTemp("", "ralph-proc-")
		if err == nil {
			_, err = New(testOptions()).Start(ctx, Spec{Argv: []string{"bash", "-c", os.Getenv("PROC_TEST_MARK")}, Dir: dir})
		}
		fmt.Println(supervise.Owner(), err)
		<-ctx.Done()
	}
}

// playRalph is a Ralph with eight commands that run, until it is killed.
func playRalph(ctx context.Context) {
	mark := os.Getenv("PROC_TEST_MARK")
	r := New(testOptions())
	for shape, script := range work() {
		dir, err := os.MkdirTemp("", "ralph-proc-")
		if err == nil {
			spec := Spec{Argv: []string{"bash", "-c", marked(script, mark)}, Dir: dir}
			if os.Getenv("PROC_TEST_CONFINE") != "" {
				spec.Confine = &sandbox.Policy{Write: []string{dir}}
			}
			_, err = r.Start(ctx, spec)
		}
		if err != nil {
			fmt.Println(shape, err)
			return
		}
	}
	fmt.Println(supervise.Owner())
	<-ctx.Done()
}

// kill -9 of Ralph leaves nothing where there are namespaces; elsewhere the next
// start sweeps it. A live Ralph is never touched.
func TestRalphIsKilled(t *testing.T) {
	for _, confined := range []string{"", "yes"} {
		mark := marker()
		ralph := again(t, 0)
		ralph.Env = append(ralph.Env, "PROC_TEST_CONFINE="+confined, "PROC_TEST_PART=ralph", "PROC_TEST_MARK="+mark)
		out, err := ralph.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := ralph.Start(); err != nil {
			t.Fatal(err)
		}
		owner, err := bufio.NewReader(out).ReadString('\n')
		owner = strings.TrimSpace(owner)
		if err != nil || strings.Count(owner, ".") != 4 {
			t.Fatalf("%q %v", owner, err)
		}
		until(t, "all of it runs", func() bool { return len(alive(t, mark)) > 2*len(work()) })
		if killed, err := supervise.Sweep(t.Context(), owner); !errors.Is(err, supervise.ErrUnproven) || len(killed) > 0 {
			t.Errorf("a live one: %v %v", killed, err)
		}
		if err := ralph.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_ = ralph.Wait()
		if newRunner(t).Method().Survives {
			until(t, "all of it is gone", func() bool { return len(alive(t, mark)) == 0 })
			t.Logf("gone %v after the kill", time.Since(began))
		}
		swept, err := supervise.Sweep(t.Context(), owner)
		if err != nil {
			t.Error(err)
		}
		noneAlive(t, mark)
		if !newRunner(t).Method().Survives && len(swept) == 0 {
			t.Error("nothing was swept")
		}
		if again, err := supervise.Sweep(t.Context(), owner); len(again) > 0 || err != nil {
			t.Errorf("a second sweep: %v %v", again, err)
		}
		bury(t)
	}
}
