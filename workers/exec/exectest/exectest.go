// Package exectest writes programs that tests run. It imports no package of Ralph.
package exectest

import (
	"os"
	"syscall"
)

// WriteProgram is os.WriteFile for a file that is executed afterwards. No process of
// this program starts while the file is open for writing: it would inherit the open
// file, and until it has executed its own program, the kernel refuses to execute this
// one with ETXTBSY (https://go.dev/issue/22315). It is safe for concurrent use.
func WriteProgram(path string, content []byte, mode os.FileMode) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, content, mode)
}
