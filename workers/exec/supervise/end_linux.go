package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killWait bounds the wait for the end of a process that was killed.
const killWait = 3 * time.Second

// end implements End.
func end(ctx context.Context, id ProcessID, lock string, grace time.Duration) error {
	fd, err := prove(id, lock)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end process %d: %w", id.PID, err)
	}
	defer func() { _ = unix.Close(fd) }()
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGCONT} {
		if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end process %d: %w", id.PID, err)
		}
	}
	if gone, err := awaitEnd(ctx, fd, grace); gone || err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process %d: %w", id.PID, err)
	}
	gone, err := awaitEnd(ctx, fd, killWait)
	if !gone && err == nil {
		err = &SurvivorError{Processes: []Process{{PID: id.PID, Start: id.Start, Command: commandLine(id.PID)}}}
	}
	return err
}

// alive implements ProcessID.Alive.
func alive(id ProcessID) bool {
	st, ok := readStat(id.PID)
	return ok && st.alive() && id.Start != 0 && st.start == id.Start && id.Boot == bootID()
}

// prove opens a descriptor of the process and then checks that it is the right one.
// The caller closes it.
func prove(id ProcessID, lock string) (fd int, err error) {
	if id.PID <= 1 || id.PID == os.Getpid() {
		return -1, fmt.Errorf("%w: %d is no process to end", ErrUnproven, id.PID)
	}
	if id.Start == 0 || id.Boot == "" {
		return -1, fmt.Errorf("%w: its start time is unknown", ErrUnproven)
	}
	if id.Boot != bootID() {
		return -1, fmt.Errorf("%w: it runs on another host, or ran before the last boot", ErrUnproven)
	}
	if !CanScan() {
		return -1, fmt.Errorf("%w: the process table cannot be read", ErrUnproven)
	}
	fd, err = unix.PidfdOpen(id.PID, 0)
	if err != nil {
		return -1, err
	}
	if err := id.check(lock); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// check returns nil, ESRCH for a process that has ended, or what is not proven.
func (id ProcessID) check(lock string) error {
	st, ok := readStat(id.PID)
	if !ok {
		return syscall.ESRCH
	}
	if st.start != id.Start {
		return fmt.Errorf("%w: the pid belongs to another process now", ErrUnproven)
	}
	if !st.alive() {
		return syscall.ESRCH
	}
	info, err := os.Stat("/proc/" + strconv.Itoa(id.PID))
	if err != nil {
		return syscall.ESRCH
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: it belongs to another user", ErrUnproven)
	}
	if lock != "" && !mayHold(id.PID, lock) {
		return fmt.Errorf("%w: another process holds the lock", ErrUnproven)
	}
	return nil
}

// mayHold reports whether a process holds a flock on a file, or the system does not
// show its holders.
func mayHold(pid int, path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return true
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	text, err := os.ReadFile("/proc/locks")
	if err != nil || !ok {
		return true
	}
	named := false
	for line := range strings.Lines(string(text)) {
		// 1: FLOCK  ADVISORY  WRITE 4242 08:01:1234 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], ":"+strconv.FormatUint(sys.Ino, 10)) {
			continue
		}
		if f[4] == strconv.Itoa(pid) {
			return true
		}
		named = named || f[4] != "0" && f[4] != "-1"
	}
	return !named
}

// awaitEnd waits until the process of a descriptor has ended.
func awaitEnd(ctx context.Context, fd int, wait time.Duration) (gone bool, err error) {
	const look = 50 * time.Millisecond // how late the end of ctx may be noticed
	deadline := time.Now().Add(wait)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return false, nil
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(min(left, look).Milliseconds(), 1)))
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return false, fmt.Errorf("wait for a process to end: %w", err)
		}
		if n > 0 {
			return true, nil
		}
	}
}

// bootID returns the kernel's boot id; "" if it is unknown.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
