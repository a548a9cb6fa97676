//go:build linux && !(amd64 || arm64)

package proc

import "syscall"

// forkInit refuses: the fork without exec was only proven on amd64 and arm64.
func forkInit(*initArgs) (int, syscall.Errno) { return 0, syscall.ENOSYS }
