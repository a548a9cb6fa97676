//go:build !linux

package exec

import (
	"os/signal"
	"syscall"
)

// withoutTTOU calls f while SIGTTOU is ignored: the kernel lets this process change
// the terminal from the background then.
func withoutTTOU(f func()) {
	ignored := signal.Ignored(syscall.SIGTTOU)
	signal.Ignore(syscall.SIGTTOU)
	f()
	if !ignored {
		signal.Reset(syscall.SIGTTOU)
	}
}
