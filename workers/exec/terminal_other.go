//go:build !linux

package exec

import (
	"os/signal"
	"syscall"
)

// withoutTTOU calls f while this process ignores SIGTTOU, so that the kernel lets it
// change the terminal from the background.
func withoutTTOU(f func()) {
	ignored := signal.Ignored(syscall.SIGTTOU)
	signal.Ignore(syscall.SIGTTOU)
	f()
	if !ignored {
		signal.Reset(syscall.SIGTTOU)
	}
}
