package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// MemoryGroup is a control group that bounds the memory of commands: what their processes
// use, with files in memory that they have made, in bytes. When it is full, the kernel ends
// the largest process. It is safe for concurrent use; its maker closes it. Nil bounds
// nothing.
type MemoryGroup struct {
	dir    string
	procs  *os.File // takes pids; open, as threads that move processes may open nothing
	events string   // file that counts the processes that were ended
}

// memoryGroupName begins the name of the directory of a MemoryGroup; the pid of its maker
// follows.
const memoryGroupName = "ralph-"

// NewMemoryGroup makes a control group for at most the given bytes. The error matches
// errors.ErrUnsupported where this process is granted none.
func NewMemoryGroup(most int64) (*MemoryGroup, error) {
	for _, p := range memoryParents() {
		if unix.Access(filepath.Join(p.dir, "cgroup.procs"), unix.W_OK) != nil {
			continue // from where processes come
		}
		removeEnded(p.dir)
		dir, err := os.MkdirTemp(p.dir, memoryGroupName+strconv.Itoa(os.Getpid())+"-")
		if err != nil {
			continue
		}
		procs, err := os.OpenFile(filepath.Join(dir, "cgroup.procs"), os.O_WRONLY, 0)
		if err == nil {
			if err = os.WriteFile(filepath.Join(dir, p.limit), []byte(strconv.FormatInt(most, 10)), 0); err == nil {
				return &MemoryGroup{dir, procs, filepath.Join(dir, p.events)}, nil
			}
			_ = procs.Close() // nothing was written
		}
		_ = os.Remove(dir) // the controller is not delegated there
	}
	return nil, missing("no control group for memory is granted")
}

// memoryParent is a directory that a MemoryGroup may be made in, with the names of its files.
type memoryParent struct{ dir, limit, events string }

// memoryParents returns the control group of this process and, in the second version, the
// one above: there a group with processes has no controllers for groups below it (cgroups(7),
// "no internal processes").
func memoryParents() (list []memoryParent) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		first := memoryParent{limit: "memory.limit_in_bytes", events: "memory.oom_control"}
		second := memoryParent{limit: "memory.max", events: "memory.events"}
		switch {
		case f[1] == "memory":
			if first.dir = mountedGroup(string(mounts), "cgroup", "memory", f[2]); first.dir != "" {
				list = append(list, first)
			}
		case f[1] == "":
			if second.dir = mountedGroup(string(mounts), "cgroup2", "", f[2]); second.dir != "" {
				above := second
				above.dir = filepath.Dir(second.dir)
				list = append(list, second, above)
			}
		}
	}
	return list
}

// mountedGroup returns where a control group is mounted, by proc_pid_mountinfo(5); "" for
// nowhere.
func mountedGroup(mounts, kind, controller, group string) string {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		at, of := strings.Fields(before), strings.Fields(after)
		if len(at) < 5 || len(of) < 3 || of[0] != kind || controller != "" && !strings.Contains(","+of[2]+",", ","+controller+",") {
			continue
		}
		if rel, err := filepath.Rel(at[3], group); err == nil && filepath.IsLocal(rel) {
			return filepath.Join(at[4], rel)
		}
	}
	return ""
}

// removeEnded removes the groups of processes that were killed.
func removeEnded(dir string) {
	found, _ := filepath.Glob(filepath.Join(dir, memoryGroupName+"*-*")) // the pattern is good
	for _, path := range found {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), memoryGroupName), "-")
		if n, err := strconv.Atoi(pid); err == nil && n > 0 && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = os.Remove(path) // one that holds processes stays
		}
	}
}

// add moves a process, with all that it starts from then on, into the group.
func (g *MemoryGroup) add(pid int) error {
	if g == nil {
		return nil
	}
	if _, err := g.procs.WriteString(strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("bound the memory of process %d: %w", pid, err)
	}
	return nil
}

// Ended returns how many processes the kernel has ended because the group was full.
func (g *MemoryGroup) Ended() int {
	if g == nil {
		return 0
	}
	text, err := os.ReadFile(g.events)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
			n, _ := strconv.Atoi(f[1]) // the kernel writes numbers
			return n
		}
	}
	return 0
}

// Close removes the group. One in which processes are left stays; the next NewMemoryGroup
// after the end of this process removes it.
func (g *MemoryGroup) Close() error {
	if g == nil {
		return nil
	}
	err := os.Remove(g.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err = errors.Join(err, g.procs.Close()); err != nil {
		return fmt.Errorf("remove control group: %w", err)
	}
	return nil
}
