package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// elders returns a test for processes that cannot descend from this one: those in a
// session whose leader lives and is older, since a process joins a session only by a
// fork. Reading the tags of all other processes takes ten times as long.
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

// carriers returns the live processes with a tag that want accepts, without this one
// and those that pass excludes.
func carriers(pass func(pid int) bool, want func(tag uint64) bool) []Process {
	var out []Process
	seen := map[int]bool{}
	everyPID(func(pid int) {
		if seen[pid] || pid == os.Getpid() || pass != nil && pass(pid) {
			return
		}
		for _, n := range tagsOf(pid) {
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

// leaks implements Leaks.
func leaks() []Process {
	escaped := func(n uint64) bool { return ownerOfTag(n) == ownerBits() && !children().runs(Tag{n}) }
	const looks = 10
	for i := 1; ; i++ {
		found := carriers(elders(), escaped)
		n := len(found)
		// A process that was ending while its command ended has ended by now, and the first
		// process of a container has the tag only while it starts the command.
		found = slices.DeleteFunc(found, func(p Process) bool {
			tags := tagsOf(p.PID)
			return !p.alive() || !slices.ContainsFunc(tags[:], escaped)
		})
		// One that is gone may have started another that the look missed.
		if n == 0 || len(found) > 0 || i == looks {
			return found
		}
	}
}

// runs reports whether the command with a tag runs.
func (tb *table) runs(g Tag) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return tb.active[g] != nil || tb.boxed[g]
}

// ownerName implements Owner.
func ownerName() string {
	if !CanScan() {
		return ""
	}
	self, _ := readStat(os.Getpid())
	return strings.Join([]string{
		strconv.FormatUint(ownerBits(), 36), strconv.Itoa(os.Getpid()), strconv.FormatUint(self.start, 10),
		strconv.FormatUint(pidNamespace("self"), 10), bootID(),
	}, ".")
}

// sweepOwner implements Sweep.
func sweepOwner(ctx context.Context, owner string) ([]Process, error) {
	f := strings.SplitN(owner, ".", 5)
	if len(f) != 5 || f[4] == "" || f[4] != bootID() {
		return nil, nil // none, or ended with that boot
	}
	bits, err := strconv.ParseUint(f[0], 36, 64)
	pid, err2 := strconv.Atoi(f[1])
	start, err3 := strconv.ParseUint(f[2], 10, 64)
	space, err4 := strconv.ParseUint(f[3], 10, 64)
	if err := errors.Join(err, err2, err3, err4); err != nil || bits > tagOwners {
		return nil, fmt.Errorf("sweep what %q left: %w", owner, ErrUnproven)
	}
	dead := space == pidNamespace("self") && bits != ownerBits() && !alive(ProcessID{PID: pid, Start: start, Boot: f[4]})
	if !dead {
		if len(carriers(nil, func(n uint64) bool { return ownerOfTag(n) == bits })) == 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("sweep what %q left: it may live: %w", owner, ErrUnproven)
	}
	var killed []Process
	seen := map[Process]bool{}
	deadline := time.Now().Add(KillGrace)
	for clean := 0; ; {
		left := killLeft(bits)
		switch {
		case len(left) == 0 && (clean > 0 || len(killed) == 0):
			return killed, nil
		case len(left) == 0:
			clean++ // after a kill two looks must find nothing: see processTree.Sweep
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

// killLeft kills at sight, with its process group, what carries a tag of an owner, then
// what descends from that, and returns both. Commands of a Ralph that ran inside have
// tags of its own and are left to it.
func killLeft(bits uint64) []Process {
	spared, groups := map[int]bool{}, map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !spared[pid]; {
		spared[pid] = true
		st, _ := readStat(pid)
		groups[st.pgid] = true // the groups of this process are not killed as such
		pid = st.ppid
	}
	var out []Process
	roots := map[int]bool{}
	everyPID(func(pid int) {
		if m := tagsOf(pid); roots[pid] || spared[pid] || ownerOfTag(m[0]) != bits && ownerOfTag(m[1]) != bits {
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

// descends reports whether pid descends from a root, with nothing spared in between.
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

// belongs implements BelongsToCommand.
func belongs(pid int) bool {
	self := children().self
	if !CanScan() {
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
		if tagsOf(p) != [2]uint64{} {
			return true
		}
		p = st.ppid
	}
	return pid <= 0
}

// sessionOf returns the session of a process; 0 if it is unknown.
func sessionOf(pid int) int {
	sid, err := unix.Getsid(pid)
	if err != nil {
		return 0
	}
	return sid
}

// pidNamespace returns the inode of the pid namespace of a process, "self" or its
// number; 0 if it is unknown.
func pidNamespace(pid string) uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/"+pid+"/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}
