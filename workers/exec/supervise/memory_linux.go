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
// anonymous memory, and of shared memory what they have mapped or, where that is more, what
// the files hold that memfd_create(2) made and they have open, and those in a /dev/shm of
// their own. What several processes have mapped counts for each. Files that no process has
// open any more, as in a message between sockets, are not seen.
func Memory(groups []Group) []int64 {
	uses := make([]memoryUse, len(groups))
	spaces, tags := map[uint64]int{}, map[uint64]int{}
	for i, g := range groups {
		switch g := g.(type) {
		case *containerGroup:
			spaces[g.box.inode] = i
		case *processTree:
			tags[g.tag.n] = i
		}
	}
	var own unix.Stat_t
	_ = unix.Stat("/dev/shm", &own) // where there is none, no command has another
	for _, pid := range pids() {
		i, found := spaces[pidNamespace(strconv.Itoa(pid))]
		if !found && len(tags) > 0 {
			i, found = tags[limitTag(pid)]
		}
		if found {
			uses[i].add("/proc/"+strconv.Itoa(pid), own.Dev)
		}
	}
	out := make([]int64, len(groups))
	for i, u := range uses {
		out[i] = u.anonymous + max(u.mapped, u.filed)
	}
	return out
}

// memoryUse is what the processes of a group use, in bytes.
type memoryUse struct {
	anonymous, mapped, filed int64
	seen                     map[inode]bool // files and file systems that are in filed
}

type inode struct{ dev, ino uint64 }

// add adds what a process uses, of proc_pid_status(5); dir is its directory in /proc, shm
// the device of the caller's /dev/shm. Of a process that has ended nothing is added.
func (u *memoryUse) add(dir string, shm uint64) {
	text, _ := os.ReadFile(dir + "/status")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && (f[0] == "RssAnon:" || f[0] == "RssShmem:") {
			n, _ := strconv.ParseInt(f[1], 10, 64) // the kernel writes numbers
			if f[0] == "RssAnon:" {
				u.anonymous += n << 10
			} else {
				u.mapped += n << 10
			}
		}
	}
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(dir+"/root/dev/shm", &st) == nil && st.Dev != shm && u.first(inode{dev: st.Dev}) && unix.Statfs(dir+"/root/dev/shm", &fs) == nil {
		u.filed += int64(fs.Blocks-fs.Bfree) * fs.Bsize
	}
	open, _ := os.ReadDir(dir + "/fd")
	for _, d := range open {
		path := dir + "/fd/" + d.Name()
		if name, err := os.Readlink(path); err == nil && strings.HasPrefix(name, "/memfd:") && unix.Stat(path, &st) == nil && u.first(inode{st.Dev, st.Ino}) {
			u.filed += st.Blocks * 512
		}
	}
}

// first reports whether a file is not in filed yet.
func (u *memoryUse) first(f inode) bool {
	if u.seen[f] {
		return false
	}
	if u.seen == nil {
		u.seen = map[inode]bool{}
	}
	u.seen[f] = true
	return true
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
