package supervise

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// endFirst makes a process, and what it starts, the first that the kernel ends for lack of
// memory. pid may be "self". A kernel that has no such setting chooses by itself.
func endFirst(pid string) {
	_ = os.WriteFile("/proc/"+pid+"/oom_score_adj", []byte("1000"), 0)
}

// Memory returns the bytes of memory that the processes of each group use for themselves:
// anonymous memory and shared memory that they have mapped, of which what several of them
// share counts for each.
func Memory(groups []Group) []int64 {
	out := make([]int64, len(groups))
	spaces, tags := map[uint64]int{}, map[uint64]int{}
	for i, g := range groups {
		switch g := g.(type) {
		case *containerGroup:
			spaces[g.box.inode] = i
		case *processTree:
			tags[g.tag.n] = i
		}
	}
	for _, pid := range pids() {
		i, found := spaces[pidNamespace(strconv.Itoa(pid))]
		if !found && len(tags) > 0 {
			i, found = tags[limitTag(pid)]
		}
		if found {
			out[i] += memoryOf(pid)
		}
	}
	return out
}

// memoryOf returns the bytes that one process uses, of proc_pid_status(5).
func memoryOf(pid int) (bytes int64) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0 // it has ended
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && (f[0] == "RssAnon:" || f[0] == "RssShmem:") {
			n, _ := strconv.ParseInt(f[1], 10, 64) // the kernel writes numbers
			bytes += n << 10
		}
	}
	return bytes
}

// HalfOfMemory returns half of the memory that this process may use: of the machine's, or of
// what its control group has, in bytes.
func HalfOfMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	all := int64(info.Totalram) * int64(info.Unit)
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, _ := os.ReadFile(path) // there is only one, or none
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
			all = min(all, n)
		}
	}
	return all / 2
}
