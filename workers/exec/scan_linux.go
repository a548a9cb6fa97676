package exec

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// stat is what /proc says about one process.
type stat struct {
	pid, ppid, pgid, sid int
	state                byte
	start                uint64 // clock ticks since boot
}

// canScan says that the process table can be read: that /proc is there, and is
// that of our pid namespace. Numbers of another one would name the wrong
// processes.
var canScan = sync.OnceValue(func() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
})

// pids lists all processes.
func pids() []int {
	if !canScan() {
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

// everyPID calls look for every process that lives, or was started, while it
// runs. One listing would miss a process that starts another and ends all the
// time, each just ahead of the listing; so all pids given out meanwhile are
// looked at, until none is.
func everyPID(look func(pid int)) {
	last := lastPID()
	for _, pid := range pids() {
		look(pid)
	}
	const most = 1000 // looks after the listing
	for range most {
		now := lastPID()
		if now == last {
			return
		}
		if now < last { // the numbers have started again, or are not told
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

// lastPID is the pid given out last; 0 if the system does not tell.
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

// processes reads the whole table.
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

// childrenOf lists the children of all threads of a process; false where the
// system does not tell, or the process is gone.
func childrenOf(pid int) (list []int, ok bool) {
	if !canScan() {
		return nil, false
	}
	at := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(at)
	if err != nil {
		return nil, false
	}
	for _, t := range threads {
		b, err := os.ReadFile(at + "/" + t.Name() + "/children")
		ok = ok || err == nil // a thread that has ended since has none
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				list = append(list, child)
			}
		}
	}
	return list, ok
}

func readStat(pid int) (stat, bool) {
	if !canScan() {
		return stat{}, false
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	return parseStat(b)
}

// parseStat reads proc_pid_stat(5). The name is in parentheses and may hold
// anything, so the fields count from the last one.
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

// thread says that a number is that of a thread, which a listing leaves out but
// a number just given out may be.
func thread(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(b), "\nTgid:\t")
	tgid, _, _ := strings.Cut(rest, "\n")
	return ok && tgid != strconv.Itoa(pid)
}

// environTags are the tags in the environment that a process was started with,
// the outermost first.
func environTags(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil
	}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(tagName+"=")); ok {
			return strings.Split(string(v), "/")
		}
	}
	return nil
}

// commandLine is a command line for people.
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

// shown cuts a command line to what a Process holds of it.
func shown(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
