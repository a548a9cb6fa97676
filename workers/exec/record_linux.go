package exec

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// recordFile makes a file to which is only appended, in a directory, or in memory where
// there is none or it cannot be written.
func recordFile(place string) (*os.File, error) {
	if place != "" {
		f, err := os.OpenFile(filepath.Join(place, TempName(recordPurpose)), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if err == nil {
			return f, nil
		}
	}
	fd, err := unix.MemfdCreate(recordPurpose, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), ""), nil
}
