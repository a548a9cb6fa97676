// Package rename holds the two kinds of rename on the real disk that afero
// lacks: one that exchanges two names, and one that never takes a name away.
// It knows no other filesystem than the real one.
//
//	err := rename.Exchange("f.tmp", "f") // both names stay, each with the other's file
package rename

import (
	"errors"
	"syscall"
)

// Unsupported says that err, of Exchange or NoReplace, means that this system or
// this filesystem cannot do it at all: nothing was changed.
func Unsupported(err error) bool {
	return errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, errors.ErrUnsupported)
}
