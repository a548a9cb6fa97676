package rename

import (
	"os"

	"golang.org/x/sys/unix"
)

// Exchange swaps what stands at a and b, atomically. Both must exist. Errors
// are *os.LinkError.
func Exchange(a, b string) error { return renameat2(a, b, unix.RENAME_EXCHANGE) }

// NoReplace renames from to to, and fails with an error that matches
// fs.ErrExist when there is something at to. Errors are *os.LinkError.
func NoReplace(from, to string) error { return renameat2(from, to, unix.RENAME_NOREPLACE) }

func renameat2(from, to string, flags uint) error {
	for {
		switch err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags); err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		}
	}
}
