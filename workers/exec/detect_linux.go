package exec

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// method is how this Runner ends commands.
func (r *Runner) method() Method {
	m := sessions()
	if r.plain {
		m.Detail = "chosen; " + m.Detail
		return m
	}
	f := r.boxes.features()
	if f.space != nil {
		m.Detail = fmt.Sprintf("no namespaces: %v; %s; the kernel offers %s", f.space, m.Detail, offers())
		return m
	}
	m = Method{Name: "pid+mount namespaces", Survives: true}
	if f.user {
		m.Name = "user+pid+mount namespaces"
	}
	m.Detail = "Ralph executed again as the first process of each, parent-death signal, lifeline, limit and environment tags; the kernel offers " + offers()
	return m
}

// sessions is the method without namespaces.
func sessions() Method {
	tb := children()
	tb.mu.Lock()
	subreaper, tagged := tb.subreaper, tb.tagged
	tb.mu.Unlock()
	name := "session+tag sweep"
	if subreaper {
		name = "session+subreaper+tag sweep"
	}
	used := []string{"parent-death signal"}
	if fd, err := unix.PidfdOpen(os.Getpid(), 0); err == nil {
		_ = unix.Close(fd)
		used = append(used, "pidfd")
	}
	if tagged {
		used = append(used, "inherited limit tag")
	}
	used = append(used, "environment tag")
	if !canScan() {
		used = append(used, "but no process table of this pid namespace in /proc: only process groups are ended, and nothing is proven")
	}
	return Method{Name: name, Detail: "uses " + strings.Join(used, ", ")}
}

// offers names what a sandbox could use.
func offers() string {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	landlock := "no landlock"
	if errno == 0 {
		landlock = fmt.Sprintf("landlock ABI %d", abi)
	}
	user := "no user namespaces"
	if namespace("user") && setting("/proc/sys/user/max_user_namespaces") != "0" &&
		setting("/proc/sys/kernel/unprivileged_userns_clone") != "0" {
		user = "user namespaces"
		if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
			user = "user namespaces (restricted by AppArmor)"
		}
	}
	pid := "no pid namespaces"
	if namespace("pid") && setting("/proc/sys/user/max_pid_namespaces") != "0" {
		pid = "pid namespaces"
	}
	return strings.Join([]string{user, pid, landlock}, ", ")
}

func namespace(kind string) bool {
	_, err := os.Lstat("/proc/self/ns/" + kind)
	return err == nil
}

// setting is a kernel setting, "" where it does not exist.
func setting(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
