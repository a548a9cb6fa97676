package supervise

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// containerGroup is a command in a container.
type containerGroup struct {
	box    *container
	pool   *pool
	tag    Tag
	leader Process       // its pid is set when the process table shows it
	inner  int           // pid of the leader in the container
	over   chan struct{} // closed when the leader is dead
	// The three are set before over is closed.
	status syscall.WaitStatus
	ended  bool // false when the container was killed first
	left   bool // more than the leader was there when it ended

	killed []Process // what was there when the container was killed
}

// watch waits for the end of the leader or of the container.
func (s *containerGroup) watch() {
	defer close(s.over)
	if r, ok := <-s.box.replies; ok && r.Exited != nil {
		s.status, s.left, s.ended = r.Exited.Status, r.Exited.Left, true
	}
}

// Exited implements Group.
func (s *containerGroup) Exited() <-chan struct{} { return s.over }

// Signal implements Group. The first process signals the leader's process group;
// SIGKILL ends the container.
func (s *containerGroup) Signal(sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		s.killed = s.freeze(stopNaming)
		s.box.end()
		return
	}
	s.ask(request{Signal: sig})
}

// ask sends a request. A container that does not take it has ended or will be
// killed, so the error is ignored.
func (s *containerGroup) ask(r request) { _ = s.box.send(r) }

// freeze stops and returns what is about to be killed, as far as that takes no longer
// than most. Without the stop a fork bomb would have more members all the time.
func (s *containerGroup) freeze(most time.Duration) []Process {
	s.ask(request{Freeze: true})
	return s.members(most)
}

// Reap implements Group.
func (s *containerGroup) Reap() (status syscall.WaitStatus, leader Process, dead bool) {
	select {
	case <-s.over:
		return s.status, s.leader, s.ended
	default:
		return 0, s.leader, false
	}
}

// Sweep implements Group. A container in which nothing is left is used again.
func (s *containerGroup) Sweep(dead bool) (killed, left []Process) {
	defer children().settled(s.tag)
	killed = s.killed
	if dead && s.left {
		killed = append(killed, s.freeze(sweepNaming)...)
		s.ask(request{Sweep: true})
	}
	if dead && (!s.left || s.swept()) {
		s.pool.put(s.box)
		return killed, nil
	}
	s.box.end()
	t := time.NewTimer(KillGrace)
	defer t.Stop()
	select {
	case <-s.box.gone:
		return killed, nil
	case <-t.C:
		return killed, append(s.members(stopNaming), Process{PID: s.box.PID, Start: s.box.Start, Command: "init of: " + s.leader.Command})
	}
}

// swept waits for the reply that nothing is left.
func (s *containerGroup) swept() bool {
	t := time.NewTimer(KillGrace)
	defer t.Stop()
	select {
	case r, ok := <-s.box.replies:
		return ok && r.Swept
	case <-t.C:
		return false
	}
}

// The time for naming the members of a container before they are killed.
const (
	stopNaming  = 20 * time.Millisecond // at a hard stop
	sweepNaming = time.Second           // after the leader has ended
)

// members returns the live processes of the container without the first one and
// without the leader, whose pid it records. All of them descend from the first
// process, which adopts orphans; where the system does not list children, every
// process is examined.
func (s *containerGroup) members(most time.Duration) []Process {
	var out []Process
	look := func(pid int) {
		st, ok := readStat(pid)
		if !ok || !st.alive() {
			return
		}
		p := Process{PID: pid, Start: st.start, Command: commandLine(pid)}
		if !s.hasEnded() && st.ppid == s.box.PID && innerPID(pid) == strconv.Itoa(s.inner) {
			s.leader = p
			return
		}
		out = append(out, p)
	}
	first, ok := childrenOf(s.box.PID)
	if !ok {
		for _, pid := range pids() {
			if pid != s.box.PID && s.holds(pid) {
				look(pid)
			}
		}
		return out
	}
	seen := map[int]bool{s.box.PID: true}
	deadline := time.Now().Add(most)
	for next := first; len(next) > 0 && time.Now().Before(deadline); next = next[1:] {
		if pid := next[0]; !seen[pid] {
			seen[pid] = true
			look(pid)
			below, _ := childrenOf(pid)
			next = append(next, below...)
		}
	}
	return out
}

// hasEnded reports whether the leader is known to have ended.
func (s *containerGroup) hasEnded() bool {
	select {
	case <-s.over:
		return s.ended
	default:
		return false
	}
}

// holds reports whether a process is in the container: by its pid namespace, or by
// the command's tag where that is a nested one or cannot be read.
func (s *containerGroup) holds(pid int) bool {
	in := pidNamespace(strconv.Itoa(pid))
	return in != 0 && in == s.box.inode || in != pidNamespace("self") && limitTag(pid) == s.tag.n
}

// innerPID returns the pid of a process in its own namespace; "" if it is unknown.
func innerPID(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	f := strings.Fields(line)
	if len(f) == 0 {
		return ""
	}
	return f[len(f)-1]
}
