package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// stat is what /proc shows of one process.
type stat struct {
	pid, ppid, pgid, sid int
	state                byte
	start                uint64 // clock ticks since boot
}

// scans reports whether /proc is there and shows the current pid namespace: the
// numbers of another one would name the wrong processes.
var scans = sync.OnceValue(func() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
})

// CanScan reports whether the process table can be read, so that Sweep and Leaks prove
// what they return.
func CanScan() bool { return scans() }

// pids returns the numbers of all processes.
func pids() []int {
	if !CanScan() {
		return nil
	}
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil
	}
	out := make([]int, 0, len(names))
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// everyPID calls look for every process that exists while it runs. One listing would
// miss a chain of processes that each start the next and end, ahead of the listing, so
// it continues with all pids that were allocated meanwhile until there are none.
func everyPID(look func(pid int)) {
	last := lastPID()
	for _, pid := range pids() {
		look(pid)
	}
	const most = 1000 // rounds after the listing
	for range most {
		now := lastPID()
		if now == last {
			return
		}
		if now < last { // the numbers have wrapped around, or are unknown
			for _, pid := range pids() {
				look(pid)
			}
		}
		for pid := last + 1; pid <= now; pid++ {
			look(pid)
		}
		last = now
	}
}

// lastPID returns the pid that was allocated last; 0 if it is unknown.
func lastPID() int {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	s := strings.TrimSpace(string(b))
	pid, err := strconv.Atoi(s[strings.LastIndexByte(s, ' ')+1:])
	if err != nil {
		return 0
	}
	return pid
}

// processes returns all processes.
func processes() []stat {
	var out []stat
	seen := map[int]bool{}
	everyPID(func(pid int) {
		if st, ok := readStat(pid); ok && !seen[pid] {
			seen[pid] = true
			out = append(out, st)
		}
	})
	return out
}

// childrenOf returns the children of all threads of a process; false where the system
// does not list them, or the process has ended.
func childrenOf(pid int) (list []int, ok bool) {
	if !CanScan() {
		return nil, false
	}
	at := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(at)
	if err != nil {
		return nil, false
	}
	for _, t := range threads {
		b, err := os.ReadFile(at + "/" + t.Name() + "/children")
		ok = ok || err == nil // a thread may have ended meanwhile
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				list = append(list, child)
			}
		}
	}
	return list, ok
}

// readStat returns the stat of a process; false if it does not exist or cannot be read.
func readStat(pid int) (stat, bool) {
	if !CanScan() {
		return stat{}, false
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	return parseStat(b)
}

// parseStat parses proc_pid_stat(5). The name is in parentheses and may contain
// anything, so the fields count from the last parenthesis.
func parseStat(b []byte) (stat, bool) {
	open, last := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || last < open {
		return stat{}, false
	}
	f := bytes.Fields(b[last+1:])
	if len(f) < 20 || len(f[0]) != 1 || f[0][0]|0x20 < 'a' || f[0][0]|0x20 > 'z' {
		return stat{}, false
	}
	var st stat
	var bad bool
	number := func(b []byte) int {
		n, err := strconv.Atoi(string(b))
		bad = bad || err != nil
		return n
	}
	st.pid = number(bytes.TrimSpace(b[:open]))
	st.state = f[0][0]
	st.ppid, st.pgid, st.sid = number(f[1]), number(f[2]), number(f[3])
	start, err := strconv.ParseUint(string(f[19]), 10, 64)
	st.start = start
	return st, !bad && err == nil
}

// thread reports whether a number is that of a thread, as everyPID may find among
// those allocated meanwhile.
func thread(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(b), "\nTgid:\t")
	tgid, _, _ := strings.Cut(rest, "\n")
	return ok && tgid != strconv.Itoa(pid)
}

// commandLine returns the command line of a process for people.
func commandLine(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil && len(b) > 0 {
		return shown(strings.TrimRight(strings.ReplaceAll(string(b), "\x00", " "), " "))
	}
	b, err = os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "gone"
	}
	return "[" + strings.TrimSpace(string(b)) + "]"
}

// shown returns a command line as Process.Command holds it.
func shown(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// kill kills a process, and with group its process group, which is in the same session
// and so of the same command, and reports whether it did. A group is killed at once,
// so that forks do not escape. No descriptor names a group, whose leader may be dead;
// but the process was in it a moment ago, and the kernel uses a number again only
// after all others.
func kill(p Process, group bool) (ended bool) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == unix.ESRCH {
		return false
	}
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
	}
	st, ok := readStat(p.PID)
	if !ok || st.start != p.Start || !st.alive() {
		return false
	}
	if group && st.pgid > 1 {
		_ = unix.Kill(-st.pgid, unix.SIGKILL)
	}
	// Errors are ignored: the next round finds what is still alive.
	if err != nil {
		_ = unix.Kill(p.PID, unix.SIGKILL)
	} else {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
	return true
}
