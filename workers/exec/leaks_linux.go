package exec

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ownerBits tell the tags of this process from those of any other.
var ownerBits = sync.OnceValue(func() uint64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return uint64(binary.LittleEndian.Uint32(b[:]))
})

func ownerOfTag(n uint64) uint64 { return n >> tagOwnerBit & tagOwners }

// marks are the tags that a process carries: the one in its limit and the
// innermost one in its environment; 0 for none.
func marks(pid int) [2]uint64 {
	m := [2]uint64{limitTag(pid), 0}
	if env := environTags(pid); len(env) > 0 {
		if n, err := strconv.ParseUint(env[len(env)-1], 36, 64); err == nil && isTag(n) {
			m[1] = n
		}
	}
	return m
}

// elders tells the processes that cannot descend from this one: a session that
// began before it, whoever leads it still living, is joined only by being born
// in it. To read the tags of all others takes ten times as long.
func elders() func(pid int) bool {
	began, known := children().self.start, map[int]bool{}
	return func(pid int) bool {
		sid := sessionOf(pid)
		old, ok := known[sid]
		if !ok {
			st, led := readStat(sid)
			old = led && st.sid == sid && st.start < began
			known[sid] = old
		}
		return old
	}
}

// carriers are the live processes with a tag that want accepts, but for those to
// be passed over, and this one.
func carriers(pass func(pid int) bool, want func(tag uint64) bool) []Process {
	var out []Process
	seen := map[int]bool{}
	everyPID(func(pid int) {
		if seen[pid] || pid == os.Getpid() || pass != nil && pass(pid) {
			return
		}
		for _, n := range marks(pid) {
			if n == 0 || !want(n) {
				continue
			}
			if st, ok := readStat(pid); ok && st.alive() && !thread(pid) {
				seen[pid] = true
				out = append(out, Process{PID: pid, Start: st.start, Command: commandLine(pid)})
			}
			return
		}
	})
	return out
}

func (s stat) alive() bool { return s.state != 'Z' && s.state != 'X' }

func (p Process) alive() bool {
	st, ok := readStat(p.PID)
	return ok && st.start == p.Start && st.alive()
}

// running is what the process table shows of a command.
func (c *command) running() []Process {
	return carriers(nil, func(n uint64) bool { return n == c.tag.n })
}

// leaks is Leaks.
func leaks() []Process {
	found := carriers(elders(), func(n uint64) bool { return ownerOfTag(n) == ownerBits() && !children().runs(tag{n}) })
	// What was on its way out while its command ended has gone by now.
	still := found[:0]
	for _, p := range found {
		if p.alive() {
			still = append(still, p)
		}
	}
	return still
}

func (tb *table) runs(g tag) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.active[g] != nil || tb.spaces[g]
}

// ownerName is Owner.
func ownerName() string {
	if !canScan() {
		return ""
	}
	self, _ := readStat(os.Getpid())
	return strings.Join([]string{
		strconv.FormatUint(ownerBits(), 36), strconv.Itoa(os.Getpid()), strconv.FormatUint(self.start, 10),
		strconv.FormatUint(spaceOf("self"), 10), bootID(),
	}, ".")
}

// sweepOf is Sweep.
func sweepOf(ctx context.Context, owner string) ([]Process, error) {
	f := strings.SplitN(owner, ".", 5)
	if len(f) != 5 || f[4] == "" || f[4] != bootID() {
		return nil, nil // nobody, or ended with that boot
	}
	bits, err := strconv.ParseUint(f[0], 36, 64)
	pid, err2 := strconv.Atoi(f[1])
	start, err3 := strconv.ParseUint(f[2], 10, 64)
	space, err4 := strconv.ParseUint(f[3], 10, 64)
	if err := errors.Join(err, err2, err3, err4); err != nil || bits > tagOwners {
		return nil, fmt.Errorf("sweep what %q left: %w", owner, ErrUnproven)
	}
	dead := space == spaceOf("self") && bits != ownerBits() && !lives(Claim{PID: pid, Start: start, Boot: f[4]})
	if !dead {
		if len(carriers(nil, func(n uint64) bool { return ownerOfTag(n) == bits })) == 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("sweep what %q left: it may live: %w", owner, ErrUnproven)
	}
	var killed []Process
	seen := map[Process]bool{}
	deadline := time.Now().Add(killGrace)
	for clean := 0; ; {
		left := killLeft(bits)
		switch {
		case len(left) == 0 && (clean > 0 || len(killed) == 0):
			return killed, nil
		case len(left) == 0:
			clean++ // what had to be killed once is looked at twice: see tree.sweep
			continue
		case ctx.Err() != nil:
			return killed, fmt.Errorf("sweep what a dead Ralph left: %w", context.Cause(ctx))
		case time.Now().After(deadline):
			return killed, fmt.Errorf("sweep what a dead Ralph left: %w", &SurvivorError{Processes: left})
		}
		clean = 0
		for _, p := range left {
			if key := (Process{PID: p.PID, Start: p.Start}); !seen[key] {
				seen[key] = true
				killed = append(killed, p)
			}
		}
		awaitDeath(left)
	}
}

// killLeft kills on sight, with its process group, what carries a tag of that
// owner, and then what descends from that, and gives both. A command of a Ralph
// that ran inside is left to that, where it has a tag of its own.
func killLeft(bits uint64) []Process {
	spared, groups := map[int]bool{}, map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !spared[pid]; {
		spared[pid] = true
		st, _ := readStat(pid)
		groups[st.pgid] = true // a group that we are in is not killed as such
		pid = st.ppid
	}
	var out []Process
	roots := map[int]bool{}
	everyPID(func(pid int) {
		if m := marks(pid); roots[pid] || spared[pid] || ownerOfTag(m[0]) != bits && ownerOfTag(m[1]) != bits {
			return
		}
		st, ok := readStat(pid)
		if !ok || !st.alive() || thread(pid) {
			return
		}
		p := Process{PID: pid, Start: st.start, Command: commandLine(pid)}
		if kill(p, !groups[st.pgid]) {
			groups[st.pgid] = true
		}
		roots[pid] = true
		out = append(out, p)
	})
	if len(out) == 0 {
		return nil
	}
	all, parent := processes(), map[int]int{}
	for _, p := range all {
		parent[p.pid] = p.ppid
	}
	for _, p := range all {
		m := limitTag(p.pid)
		if !p.alive() || roots[p.pid] || !descends(p.pid, parent, roots, spared) || m != 0 && ownerOfTag(m) != bits {
			continue
		}
		found := Process{PID: p.pid, Start: p.start, Command: commandLine(p.pid)}
		kill(found, false)
		out = append(out, found)
	}
	return out
}

// descends says that pid comes from a root without one that is spared in
// between.
func descends(pid int, parent map[int]int, roots, spared map[int]bool) bool {
	for range len(parent) + 1 {
		switch {
		case pid <= 1 || spared[pid]:
			return false
		case roots[pid]:
			return true
		}
		pid = parent[pid]
	}
	return false
}

// carried is Carries.
func carried(pid int) bool {
	self := children().self
	if !canScan() {
		return false
	}
	for p, most := pid, 1<<16; p > 1 && most > 0; most-- {
		st, ok := readStat(p)
		if !ok {
			return true
		}
		if p == self.pid && p != pid {
			return sessionOf(pid) != self.sid
		}
		if marks(p) != [2]uint64{} {
			return true
		}
		p = st.ppid
	}
	return pid <= 0
}

func sessionOf(pid int) int {
	sid, err := unix.Getsid(pid)
	if err != nil {
		return 0
	}
	return sid
}

// spaceOf is the inode of the pid namespace of a process, "self" or its number;
// 0 if the system does not tell.
func spaceOf(pid string) uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/"+pid+"/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}
