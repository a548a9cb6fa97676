package accesspolicy

import (
	"os"
	"runtime"
	"strings"

	"ralph/workers/exec"
	"ralph/workers/exec/supervise"
)

// Status says what confines commands on this machine.
type Status struct {
	// Complete says that every layer holds.
	Complete bool
	// Layers, in the order in which they matter.
	Layers []supervise.Layer
	// Missing are the names of those that do not hold.
	Missing []string
	// NoRoom is why it could not be found out what holds: the system, or a limit of this
	// process, has no room for files, processes or memory; nil mostly. Missing is then no
	// statement about the kernel.
	NoRoom error
}

// Check tries the layers out, once in the life of r and again where there was no room. Without a runner nothing
// holds.
func Check(r *exec.Runner) Status {
	var s Status
	if r != nil {
		s.Layers = r.Layers()
	}
	for _, l := range s.Layers {
		if !l.Active && !l.Optional {
			s.Missing = append(s.Missing, l.Name)
			if s.NoRoom == nil && supervise.Exhausted(l.Err) {
				s.NoRoom = l.Err
			}
		}
	}
	s.Complete = len(s.Layers) > 0 && len(s.Missing) == 0
	return s
}

// check finds out what holds, and remembers it where there was room for that.
func (s *Sandbox) check() Status {
	if known := s.status.Load(); known != nil {
		return *known
	}
	st := Check(s.o.Proc)
	if st.NoRoom == nil {
		s.status.Store(&st)
	}
	return st
}

// None says that commands cannot be confined at all: nothing keeps them from
// writing elsewhere, or nothing keeps them from the network.
func (s Status) None() bool {
	return !s.Active("mount namespace") && !s.Active("Landlock") || !s.Active("network namespace") && !s.Active("system call filter")
}

// Active says that the layer whose name begins so holds.
func (s Status) Active(name string) bool {
	for _, l := range s.Layers {
		if l.Active && strings.HasPrefix(l.Name, name) {
			return true
		}
	}
	return false
}

// String is the status in a few words: "namespaces, Landlock (ABI 7), system call
// filter, limits", with what is missing.
func (s Status) String() string {
	var held []string
	namespaces := false
	for _, l := range s.Layers {
		switch {
		case !l.Active || l.Optional || l.Name == "no new privileges" || l.Name == "capabilities dropped":
		case !strings.HasSuffix(l.Name, " namespace"):
			held = append(held, l.Name)
		case !namespaces:
			namespaces = true
			held = append(held, "namespaces")
		}
	}
	switch {
	case s.NoRoom != nil:
		return "it cannot be tried out now: " + s.NoRoom.Error()
	case s.None():
		return "nothing confines commands here"
	case len(s.Missing) == 0:
		return strings.Join(held, ", ")
	}
	return strings.Join(held, ", ") + "; missing: " + strings.Join(s.Missing, ", ")
}

// Means is what it means for commands that the layer of that name is missing.
func Means(layer string) string {
	switch name, _, _ := strings.Cut(layer, " ("); name {
	case "process namespace":
		return "a command sees the user's other processes and, without Landlock's scopes, can signal them"
	case "mount namespace":
		return "names of files in the home can be seen and, without Landlock, the files be read, /tmp is everybody's, protected files and the git history are put back after a command, from a copy, instead of being out of its reach"
	case "network namespace":
		return "the filter of system calls refuses internet sockets instead, so a command has not even a loopback; without mounts it refuses local sockets, too"
	case guardLayer:
		return "a name that acts, which a command makes in the user's tree, is removed after the command, not refused"
	case "Landlock":
		return "only the mounts keep a command from writing elsewhere"
	case "system call filter":
		return "a command can make namespaces and reach more of the kernel than build tools need"
	case "no new privileges", "capabilities dropped":
		return "a command can become another user"
	case "limits":
		return "a command can take all memory, processes and disk"
	}
	return "commands are not confined"
}

// WaysOut says what the user can do when layers are missing, the likeliest
// first; "" when none is.
func (s Status) WaysOut() string {
	if s.Complete {
		return ""
	}
	if s.NoRoom != nil {
		return exec.RoomHint(s.NoRoom)
	}
	var ways []string
	on := func(path, value string) bool {
		b, err := os.ReadFile(path)
		return err == nil && strings.TrimSpace(string(b)) == value
	}
	if !s.Active("mount namespace") || !s.Active("network namespace") || !s.Active("process namespace") {
		switch {
		case on("/proc/sys/kernel/unprivileged_userns_clone", "0"):
			ways = append(ways, "as root: sysctl -w kernel.unprivileged_userns_clone=1")
		case on("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"):
			ways = append(ways, "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for ralph that allows userns")
		case on("/proc/sys/user/max_user_namespaces", "0"):
			ways = append(ways, "as root: sysctl -w user.max_user_namespaces=10000")
		case runtime.GOOS == "linux":
			ways = append(ways, "in a container: give it the right to make namespaces (docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined)")
		}
	}
	if runtime.GOOS == "linux" && !s.Active("Landlock") {
		ways = append(ways, "a kernel from 5.13 on with landlock in its list of security modules (lsm=landlock,… on its command line)")
	}
	if runtime.GOOS != "linux" {
		ways = append(ways, "run Ralph in a Linux container or VM")
	}
	return strings.Join(append(ways, "or --sandbox off, best in a container or VM, which is consent to commands with all your rights"), "; ")
}
