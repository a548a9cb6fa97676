//go:build linux

package exec

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ralph/workers/exec/sandbox"
)

// What programs need still works in a confinement.
func TestConfinedWork(t *testing.T) {
	r := newRunner(t)
	bare := !mounts(r)
	tests := map[string]struct {
		script string
		want   string
		bare   bool
	}{
		"write":            {`echo x >new && cat new && rm new && mkdir d && mv src/main d/ && ln d/main src/again && chmod 700 d && touch -d 2001-01-01 d/main && stat -c %Y d/main | cut -c1-3`, "x\n978\n", true},
		"write in .git":    {`echo x >.git/objects/new && cat .git/objects/new`, "x\n", true},
		"read":             {`cat $OUT/file .git/config; head -c4 /etc/passwd | wc -c`, "content\ncontent\n4\n", true},
		"temp":             {`echo x >/tmp/mine && cat /var/tmp/mine $TEMP/mine && mktemp -p /tmp >/dev/null`, "x\nx\n", false},
		"temp by name":     {`echo x >$TEMP/mine && cat $TEMP/mine`, "x\n", true},
		"devices":          {`echo x >/dev/null && head -c3 /dev/zero | wc -c && head -c3 /dev/urandom | wc -c && echo x >/dev/full`, "3\n3\nbash: line 1: echo: write error: No space left on device\n", true},
		"standard files":   {`echo a >/dev/stdout; echo b >/dev/stderr; echo c >/proc/self/fd/1; cat /dev/stdin; cat <(echo d)`, "a\nb\nc\nd\n", true},
		"shared memory":    {`echo x >/dev/shm/x && cat /dev/shm/x && mkfifo /dev/shm/f`, "x\n", false},
		"terminals":        {`script -qec 'test -t 0 && echo tty' /dev/null </dev/null | tr -d '\r'`, "tty\n", false},
		"loopback":         {ask("serve"), "127.0.0.1 ok\n::1 ok\n", false},
		"local sockets":    {ask("local"), "ok\n", false},
		"hidden is empty":  {`ls -A $SECRET; wc -c <.env; test -d $SECRET && test -f .env && echo there`, "0\nthere\n", false},
		"only its own":     {`ls /tmp | grep -c -v -e "^$(echo $BASE | cut -d/ -f3)$" -e "^$(echo $SELF | cut -d/ -f3)$"; ls -A /run /dev/mqueue 2>/dev/null | grep -v : | wc -l | tr -d ' '`, "0\n0\n", false},
		"own processes":    {`ls /proc | grep -c '^[0-9]'`, "", false},
		"background":       {`sleep 0.01 & wait $!; echo $?; sleep 100 & kill $!; wait $!; echo $?`, "0\n143\n", true},
		"git":              {`git init -q repo && cd repo && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --format=%s`, "x\n", true},
		"threads":          {`seq 200 | xargs -P 20 -n 10 echo >/dev/null && echo ok`, "ok\n", true},
		"sub-sandbox":      {`setpriv --no-new-privs true && echo ok`, "ok\n", true},
		"directory":        {`pwd | sed "s,$BASE,,"`, "/proj\n", true},
		"capabilities":     {`grep -c 'NoNewPrivs:	1' /proc/self/status`, "1\n", true},
		"the whole device": {`test -e $OUT/file && ls -d $BASE/tools | wc -l`, "1\n", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if bare && !tt.bare {
				t.Skip("not without namespaces")
			}
			y := newYard(t)
			res := y.run(t, r, tt.script, &y.held)
			if got := res.Stdout.String(); res.ExitCode != 0 && name != "devices" && name != "only its own" || tt.want != "" && got != tt.want {
				t.Errorf("%d %q, want %q", res.ExitCode, got, tt.want)
			}
		})
	}
}

// serveTwice serves on both loopback addresses and calls itself.
func serveTwice() error {
	for _, ip := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			return err
		}
		if err := call(l); err != nil {
			return err
		}
		fmt.Println(ip, "ok")
	}
	return nil
}

func call(l net.Listener) error {
	defer func() { _ = l.Close() }()
	c, err := net.DialTimeout(l.Addr().Network(), l.Addr().String(), time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

func serveLocal() error {
	l, err := net.Listen("unix", filepath.Join(os.Getenv("PROJ"), "socket"))
	if err != nil {
		return err
	}
	if err := call(l); err != nil {
		return err
	}
	fmt.Println("ok")
	return nil
}

// With the network, the host's is there, but not who listens in the abstract.
func TestConfinedNetwork(t *testing.T) {
	r := newRunner(t)
	serve := listen(t)
	y := newYard(t)
	y.env = append(y.env, serve(t, y)...)
	y.held.Network = true
	if res := y.run(t, r, ask("tcp"), &y.held); res.ExitCode != 0 {
		t.Errorf("the host's network is not there: %s", res.Stdout.String())
	}
	for _, l := range r.Layers() {
		if strings.HasPrefix(l.Name, "Landlock (ABI ") && strings.Contains(l.Detail, "abstract") {
			if res := y.run(t, r, ask("abstract"), &y.held); res.ExitCode == 0 {
				t.Error("an abstract socket of the host is reached")
			}
		}
	}
	if mounts(r) {
		if res := y.run(t, r, ask("unix"), &y.held); res.ExitCode == 0 {
			t.Error("a socket in a file is reached")
		}
	}
}

// What cannot be confined as asked for is not run.
func TestCannotConfine(t *testing.T) {
	r := newRunner(t)
	y := newYard(t)
	in := func(name string) string { return filepath.Join(y.base, name) }
	if err := os.Symlink(in("out"), in("proj/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(in("proj"), in("way")); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(c *sandbox.Policy)
		path   string
	}{
		"missing":         {func(c *sandbox.Policy) { c.Write = []string{in("none")} }, in("none")},
		"symlink":         {func(c *sandbox.Policy) { c.Write = []string{in("proj/link")} }, in("proj/link")},
		"through symlink": {func(c *sandbox.Policy) { c.Write = []string{in("way/src")} }, in("way/src")},
		"relative":        {func(c *sandbox.Policy) { c.Write = []string{"src"} }, "src"},
		"not clean":       {func(c *sandbox.Policy) { c.Write = []string{in("proj") + "/../out"} }, ""},
		"everything":      {func(c *sandbox.Policy) { c.Write = []string{"/"} }, "/"},
		"missing temp":    {func(c *sandbox.Policy) { c.Temp = in("none") }, in("none")},
		"symlink as temp": {func(c *sandbox.Policy) { c.Temp = in("way") }, in("way")},
	} {
		t.Run(name, func(t *testing.T) {
			held := y.held
			tt.change(&held)
			_, err := r.Run(t.Context(), Spec{Argv: sh("touch " + in("proj/ran")), Dir: in("proj"), Confine: &held})
			var pe *Error
			if !errors.As(err, &pe) || pe.Op == "" || tt.path != "" && pe.Path != tt.path {
				t.Errorf("got %#v", err)
			}
			if _, err := os.Lstat(in("proj/ran")); err == nil {
				t.Error("it ran")
			}
		})
	}
	if _, err := r.Run(t.Context(), Spec{Argv: sh("true"), Dir: in("none"), Confine: &y.held}); err == nil {
		t.Error("it ran nowhere")
	}
	held := y.held
	held.Protect, held.Hide = append(held.Protect[:len(held.Protect):len(held.Protect)], in("proj/absent")), append(held.Hide[:1:1], in("absent"))
	if res := y.run(t, r, "true", &held); res.ExitCode != 0 {
		t.Errorf("with absent places: %+v", res)
	}
}

// A place that is exchanged for a symbolic link all the time never leads out.
func TestConfineRace(t *testing.T) {
	r := newRunner(t)
	y := newYard(t)
	in := func(name string) string { return filepath.Join(y.base, name) }
	if err := os.MkdirAll(in("proj/work"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = os.Rename(in("proj/work"), in("proj/away"))
			_ = os.Symlink(in("out"), in("proj/work"))
			_ = os.Remove(in("proj/work"))
			_ = os.Rename(in("proj/away"), in("proj/work"))
			time.Sleep(time.Millisecond)
		}
	}()
	held := y.held
	held.Write = []string{in("proj/work")}
	ran, refused := 0, 0
	for range 40 {
		_, err := r.Run(t.Context(), Spec{Argv: sh("echo x >" + in("out/file") + "; echo x >" + in("proj/work/file")), Dir: in("tools"), Confine: &held})
		var pe *Error
		switch {
		case err == nil:
			ran++
		case errors.As(err, &pe):
			refused++
		default:
			t.Error(err)
		}
	}
	cancel()
	<-done
	t.Logf("%d ran, %d refused", ran, refused)
	if got, err := os.ReadFile(in("out/file")); err != nil || string(got) != "content\n" {
		t.Errorf("outside: %q %v", got, err)
	}
}

// Limits hold, and the bound of processes is the command's own.
func TestConfinedLimits(t *testing.T) {
	r := newRunner(t)
	y := newYard(t)
	y.held.Limits.Processes, y.held.Limits.FileBytes = 40, 1<<20
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("no perl")
	}
	data := "unlimited"
	if !raced { // the first process of the container is bounded, too
		y.held.Limits.MemoryBytes, data = 256<<20, "262144"
	}
	setting := func() string { b, _ := os.ReadFile("/proc/sys/kernel/pid_max"); return strings.TrimSpace(string(b)) }
	before := setting()
	script := `ulimit -f; ulimit -d; head -c 2000000 /dev/zero >big; stat -c %s big
		perl -e '$| = 1; while ($n < 600 && defined($p = fork)) { if (!$p) { sleep 100; exit } $n++ } print "$n\n"; kill KILL, -getpgrp'`
	res := y.run(t, r, script, &y.held)
	lines := strings.Fields(res.Stdout.String())
	if len(lines) < 3 || lines[0] != "1024" || lines[1] != data || !strings.Contains(res.Stdout.String(), "1048576\n") {
		t.Errorf("%q", res.Stdout.String())
	}
	if after := setting(); after != before {
		t.Errorf("the system's bound of pids was %s and is %s", before, after)
	}
	var running int
	_, _ = fmt.Sscan(lines[len(lines)-1], &running)
	t.Logf("%d of 600 ran", running)
	bound := 0
	for _, l := range r.Layers() {
		if l.Name == "limits" && strings.Contains(l.Detail, "counted by") {
			bound = 40
			if os.Geteuid() == 0 {
				bound = 345 // the first 300 numbers count once
			}
		}
	}
	if bound > 0 && running > bound {
		t.Errorf("%d ran, the bound is %d", running, bound)
	}
}

// A hard stop ends confined commands as fast as others.
func TestConfinedHalt(t *testing.T) {
	r := newRunner(t)
	mark := marker()
	for shape, script := range work() {
		if shape == "hops" {
			continue // it writes into its directory before it begins
		}
		y := newYard(t)
		trap := ""
		if strings.HasPrefix(script, "trap") {
			trap, script, _ = strings.Cut(script, ";")
		}
		ready := make(chan struct{}, 1)
		_, err := r.Start(t.Context(), Spec{Dir: filepath.Join(y.base, "proj"), Argv: []string{"bash", "-c", trap + "\necho ready;" + marked(script, mark)}, Confine: &y.held,
			OnOutput: func([]byte) {
				select {
				case ready <- struct{}{}:
				default:
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		<-ready
	}
	r.Stop()
	rep := r.WaitStopped(t.Context())
	t.Logf("%d at rest after %v", rep.Ended, rep.Took)
	noneAlive(t, mark)
	if rep.Ended != len(work())-1 || !rep.Checked || len(rep.Survivors) > 0 || rep.Took > 3*time.Second {
		t.Errorf("%+v", rep)
	}
}

// A timeout and output as without.
func TestConfinedRun(t *testing.T) {
	r := newRunner(t)
	y := newYard(t)
	res, err := r.Run(t.Context(), Spec{Argv: sh("trap '' INT; echo out; echo err >&2; sleep 100 & wait; exit 3"), Split: true, Timeout: 50 * time.Millisecond,
		Dir: filepath.Join(y.base, "proj"), Confine: &y.held})
	if err != nil || !res.TimedOut || res.Stdout.String() != "out\n" || res.Stderr.String() != "err\n" {
		t.Errorf("%+v %v", res, err)
	}
	if res := y.run(t, r, "exit 3", &y.held); res.ExitCode != 3 {
		t.Errorf("%+v", res)
	}
	if res := y.run(t, r, "kill -KILL $$", &y.held); res.Signal != "SIGKILL" || res.ExitCode != 128+int(syscall.SIGKILL) {
		t.Errorf("%+v", res)
	}
	var pe *Error
	if _, err := r.Run(t.Context(), Spec{Argv: []string{"/etc/passwd"}, Confine: &y.held}); !errors.As(err, &pe) || pe.Hint == "" {
		t.Errorf("%v", err)
	}
}

// Changes below an overlay go to its upper layer, for each command anew, and what is
// protected below it stays so.
func TestOverlay(t *testing.T) {
	r := newRunner(t)
	if !mounts(r) {
		t.Skip("not without namespaces")
	}
	y := newYard(t)
	dir := func(name string) string {
		path := filepath.Join(y.base, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // the kernel leaves a directory there that nobody may read
		for _, name := range []string{"work", "work2"} {
			_ = os.Chmod(filepath.Join(y.base, name, "work"), 0o700)
		}
	})
	store, second := dir("proj/sto:re,x"), dir("second")
	write(filepath.Join(store, "kept"), "kept\n")
	write(filepath.Join(store, "config"), "user's\n")
	write(filepath.Join(store, "gone"), "gone\n")
	write(filepath.Join(second, "below"), "below\n")
	held := y.held
	held.Overlays = []sandbox.Overlay{{Path: store, Lower: []string{store, second}, Upper: dir("upper"), Work: dir("work")}}
	held.Protect = append(held.Protect, filepath.Join(store, "config"))
	res := y.run(t, r, `cd "sto:re,x" && cat kept below && echo new >new && rm gone && echo more >>kept && mkdir -p a/b && ! echo x 2>/dev/null >config && cat config`, &held)
	if got := res.Stdout.String(); res.ExitCode != 0 || got != "kept\nbelow\nuser's\n" {
		t.Fatalf("%d %q", res.ExitCode, got)
	}
	for name, want := range map[string]string{"kept": "kept\n", "gone": "gone\n", "config": "user's\n"} {
		if b, err := os.ReadFile(filepath.Join(store, name)); err != nil || string(b) != want {
			t.Errorf("%s below the overlay: %q %v", name, b, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(store, "new")); err == nil {
		t.Error("it wrote below the overlay")
	}
	for name, want := range map[string]string{"kept": "kept\nmore\n", "new": "new\n"} {
		if b, err := os.ReadFile(filepath.Join(y.base, "upper", name)); err != nil || string(b) != want {
			t.Errorf("%s in the upper layer: %q %v", name, b, err)
		}
	}
	// The next command sees what is below now, without what the first one wrote.
	write(filepath.Join(store, "later"), "later\n")
	held.Overlays[0].Upper, held.Overlays[0].Work = dir("upper2"), dir("work2")
	if res := y.run(t, r, `cd "sto:re,x" && cat later gone && ls`, &held); res.Stdout.String() != "later\ngone\nbelow\nconfig\ngone\nkept\nlater\n" {
		t.Errorf("%d %q", res.ExitCode, res.Stdout.String())
	}
	held.Overlays[0].Upper = filepath.Join(y.base, "none")
	var pe *Error
	if _, err := r.Run(t.Context(), Spec{Argv: sh("true"), Confine: &held}); !errors.As(err, &pe) || !strings.Contains(pe.Op, "overlay") {
		t.Errorf("without an upper layer: %v", err)
	}
}

// A command that changes what the next one would inherit from the first process of
// the container changes nothing for it.
func TestNothingIsInherited(t *testing.T) {
	r := newRunner(t)
	if !mounts(r) {
		t.Skip("not without namespaces")
	}
	const look = `ulimit -a | grep -v real-time.non; nice; ionice -p $$; taskset -p $$ | sed 's/.*://'; cat /proc/self/oom_score_adj /proc/sys/kernel/pid_max; ls /dev/shm; ipcs -m | tail -n +4`
	for name, script := range map[string]string{
		"limits":           `prlimit --pid 1 --nofile=10:10 --fsize=0:0 --cpu=1:1`,
		"niceness":         `for t in $(seq 1 60); do renice -n 19 -p $t; done; renice -n 19 -u $(id -u)`,
		"affinity":         `for t in $(seq 1 60); do taskset -p 1 $t; done`,
		"policy":           `for t in $(seq 1 60); do chrt -i -p 0 $t; done`,
		"priority of i/o":  `for t in $(seq 1 60); do ionice -c 3 -p $t; done`,
		"score":            `echo 1000 >/proc/1/oom_score_adj`,
		"bound of pids":    `echo 302 >/proc/sys/kernel/pid_max`,
		"shared memory":    `echo x >/dev/shm/left; ipcmk -M 100`,
		"death of init":    `kill -KILL 1; kill -TERM 1; kill -STOP 1; kill -SEGV 1`,
		"stopped on a tty": `kill -STOP 1; kill -TSTP 1`,
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			before := y.run(t, r, look, &y.held).Stdout.String()
			y.run(t, r, "("+script+") >/dev/null 2>&1", &y.held)
			if after := y.run(t, r, look, &y.held).Stdout.String(); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// A confined command does not see the first process, which has other namespaces.
func TestFirstProcessIsUnseen(t *testing.T) {
	r := newRunner(t)
	if !mounts(r) {
		t.Skip("not without namespaces")
	}
	y := newYard(t)
	const look = `ls -d /proc/1 /proc/1/net/route /proc/1/mountinfo 2>/dev/null; ls -d /proc/self/net/route`
	if out := y.run(t, r, look, &y.held).Stdout.String(); out != "/proc/self/net/route\n" {
		t.Errorf("it sees %q", out)
	}
}

// No command leaves a file that others run with the rights of its owner, by any call that
// gives a mode; other modes are given.
func TestNoSetuidFiles(t *testing.T) {
	y := newYard(t)
	r := newRunner(t)
	script := `cp /bin/true base; install -m 4755 /bin/true a; cp /bin/true b; chmod 4755 b; chmod u+s b; cp /bin/true c; chmod 6755 c
command -v perl >/dev/null && perl -e 'use Fcntl; umask 0; sysopen(F, "d", O_CREAT|O_WRONLY, 04755); sysopen(F, "e", O_CREAT|O_WRONLY, 0755); chmod 04755, *F; syscall(85, "f", 04755); syscall(133, "g", 0104755, 0)'
command -v python3 >/dev/null && python3 -c '
import os
os.umask(0)
f = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755)
os.link("/proc/self/fd/%d" % f, "h", src_dir_fd=0, follow_symlinks=True)'
chmod 755 base && chmod 2755 base && mkdir -m 1777 dir && touch x && umask 077 && touch y && ls -d base dir x y >/dev/null && echo done; find . -perm -4000`
	if res := y.run(t, r, script, &y.held); !strings.HasSuffix(res.Stdout.String(), "done\n") {
		t.Errorf("%d %q", res.ExitCode, res.Stdout.String())
	}
}
