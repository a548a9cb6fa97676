package trees

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// swap puts a staged file in the place of another one, which is then at old:
// both in one step, so that nothing which is written meanwhile is lost.
func swap(fresh, old string, at place) error {
	err := unix.Renameat2(unix.AT_FDCWD, fresh, int(at.dir.Fd()), at.base, unix.RENAME_EXCHANGE)
	if err == nil {
		return os.Rename(fresh, old)
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return swapByLink(fresh, old, at)
	}
	return &os.LinkError{Op: "exchange", Old: fresh, New: at.full, Err: err}
}

// moveIn puts a file where nothing is.
func moveIn(fresh string, at place) error {
	err := unix.Renameat2(unix.AT_FDCWD, fresh, int(at.dir.Fd()), at.base, unix.RENAME_NOREPLACE)
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return moveInByLink(fresh, at)
	}
	return &os.LinkError{Op: "rename", Old: fresh, New: at.full, Err: err}
}

// moveOut takes a file away.
func moveOut(at place, old string) error {
	if err := unix.Renameat(int(at.dir.Fd()), at.base, unix.AT_FDCWD, old); err != nil {
		return &os.LinkError{Op: "rename", Old: at.full, New: old, Err: err}
	}
	return nil
}

// statusTime is when content or status of a file changed last, which no command can
// set.
func statusTime(info fs.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Unix(1<<40, 0)
	}
	return time.Unix(st.Ctim.Unix())
}
