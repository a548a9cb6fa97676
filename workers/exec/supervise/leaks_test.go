//go:build linux

package supervise

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"ralph/workers/exec/sandbox"
)

// plant starts a command and forgets it as if it had ended.
func plant(t *testing.T, script string) {
	t.Helper()
	g, err := startTree(shell(t, script))
	if err != nil {
		t.Fatal(err)
	}
	<-g.Exited()
	g.Reap()
	children().leave(&g.(*processTree).child)
}

// The scan finds what escaped, however it hides.
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
			until(t, "it is there", func() bool { return len(commandsWith(t, mark)) > 0 })
			var found []Process
			until(t, "it is found", func() bool { // one that is forking meanwhile can be missed by a look
				found = Leaks()
				return len(found) > 0
			})
			for _, p := range found {
				if p.Start == 0 || p.Command == "" || !BelongsToCommand(p.PID) {
					t.Errorf("%+v belongs to a command: %v", p, BelongsToCommand(p.PID))
				}
			}
			until(t, "it is gone", func() bool {
				for _, p := range Leaks() {
					kill(p, true)
				}
				bury()
				return len(commandsWith(t, mark)) == 0
			})
		})
	}
}

// bury reaps the orphans of commands that were forgotten.
func bury() {
	for _, p := range processes() {
		if p.ppid == os.Getpid() && p.state == 'Z' {
			_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// What other code in this process starts meanwhile has no tag of a command.
func TestOthersCarryNoTag(t *testing.T) {
	s := newSupervisor(t, Options{Init: Self()})
	tool := shell(t, "true")
	var stop atomic.Bool
	var commands sync.WaitGroup
	for range 2 {
		commands.Go(func() {
			for !stop.Load() {
				c := tool
				c.Tag, c.Tool = NewTag(), true
				if g, err := s.Start(c); err == nil {
					finish(t, g)
				}
				if c, err := startContainer(Self(), s.pool.features().plainUser); err == nil {
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
			t.Fatalf("a child of other code has the tag %x", n)
		}
	}
}

func TestSweepOfOthers(t *testing.T) {
	for _, owner := range []string{"", "x", "a.b.c.d." + bootID(), "1.2.3.4.another-boot", "zz.1.1.1." + bootID()} {
		if got, err := Sweep(t.Context(), owner); len(got) > 0 || err != nil && !strings.Contains(err.Error(), "proven") {
			t.Errorf("%q: %v %v", owner, got, err)
		}
	}
	mark := marker()
	g := started(t, newSupervisor(t, Options{Init: Self()}), shell(t, marked("sleep M; sleep M", mark)))
	defer finish(t, g)
	until(t, "it runs", func() bool { return len(commandsWith(t, mark)) == 2 })
	if got, err := Sweep(t.Context(), Owner()); len(got) > 0 || err == nil {
		t.Errorf("this process: %v %v", got, err)
	}
	if now := len(commandsWith(t, mark)); now != 2 {
		t.Errorf("%d of 2 are left", now)
	}
}

// Every method and way of a start carries the tag to all descendants, and Sweep ends
// them.
func TestGroupIsTaggedAndSwept(t *testing.T) {
	for name, method := range map[string]string{"container": "", "session": MethodSession} {
		t.Run(name, func(t *testing.T) {
			mark := marker()
			c := shell(t, marked(`(setsid sleep M &); sleep M & until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done; exit 4`, mark))
			g := started(t, newSupervisor(t, Options{Init: Self(), Method: method}), c)
			<-g.Exited()
			until(t, "both carry the tag", func() bool { return len(c.Tag.Processes()) == 2 })
			status, leader, dead := g.Reap()
			if !dead || status.ExitStatus() != 4 || !strings.HasPrefix(leader.Command, "bash -c") {
				t.Errorf("%v %+v %v", status, leader, dead)
			}
			killed, left := g.Sweep(dead)
			if len(killed) != 2 || len(left) > 0 || len(commandsWith(t, mark)) > 0 || len(c.Tag.Processes()) > 0 {
				t.Errorf("killed %v, left %v, %v", killed, left, commandsWith(t, mark))
			}
		})
	}
}

// Each feature works without the others.
func TestEachFeatureWorksAlone(t *testing.T) {
	p := newSupervisor(t, Options{Init: Self()}).pool
	all := p.features()
	if !all.Mounts {
		t.Skip("no mount namespaces")
	}
	box, err := p.take(all.user, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.put(box)
	for i := range 32 {
		has := func(bit int) bool { return i>>bit&1 != 0 }
		m := sandbox.Features{Mounts: has(0), Net: has(1), Filter: has(2), PIDs: has(3) && all.PIDs}
		if has(4) {
			m.Landlock = all.Landlock
		}
		if err := box.tryAgain(m); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	for abi := 1; abi < all.Landlock; abi++ {
		if err := box.tryAgain(sandbox.Features{Mounts: true, Landlock: abi}); err != nil {
			t.Errorf("Landlock as of version %d: %v", abi, err)
		}
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a) R (b)) S 7 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0"
	got, ok := parseStat([]byte(line))
	if want := (stat{pid: 42, ppid: 7, pgid: 40, sid: 41, state: 'S', start: 12345}); !ok || got != want {
		t.Errorf("%+v %v", got, ok)
	}
	for _, bad := range []string{"", "42", "42 (a", "42 (a) S", "x (a) S 7 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345"} {
		if got, ok := parseStat([]byte(bad)); ok {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	self, ok := readStat(os.Getpid())
	if !ok || self.ppid != os.Getppid() || self.start == 0 {
		t.Errorf("self: %+v", self)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) R (b)) S 7 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0"))
	f.Add([]byte("1 () S"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, ok := parseStat(b); ok && st.state == 0 {
			t.Errorf("%+v", st)
		}
	})
}

// The first process of a container, which has the tag of a command while it starts it, is
// no leak when the command has ended since it was read.
func TestLeaksBesideCommands(t *testing.T) {
	s := newSupervisor(t, Options{Init: Self()})
	if !s.Method().Survives {
		t.Skip("no containers here: ", s.Method().Detail)
	}
	tool := shell(t, "true")
	var stop atomic.Bool
	var commands sync.WaitGroup
	for range 2 {
		commands.Go(func() {
			for !stop.Load() {
				c := tool
				c.Tag = NewTag()
				if g, err := s.Start(c); err == nil {
					finish(t, g)
				}
			}
		})
	}
	defer commands.Wait()
	defer stop.Store(true)
	for range 150 {
		if got := Leaks(); len(got) > 0 {
			t.Fatalf("%+v", got)
		}
	}
}
