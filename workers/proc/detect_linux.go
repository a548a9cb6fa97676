package proc

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Detect says how trees of processes are ended here and what else the kernel
// offers. It starts nothing.
func Detect() Method {
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
	return Method{Name: name, Detail: fmt.Sprintf("uses %s; the kernel offers %s", strings.Join(used, ", "), offers())}
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
