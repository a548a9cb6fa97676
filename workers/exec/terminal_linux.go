package exec

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// withoutTTOU calls f while this thread blocks SIGTTOU, so that the kernel lets it
// change the terminal from the background.
func withoutTTOU(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, old unix.Sigset_t
	bit := uint(syscall.SIGTTOU) - 1
	word := uint(8 * unsafe.Sizeof(set.Val[0]))
	set.Val[bit/word] |= 1 << (bit % word)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }()
	}
	f()
}
