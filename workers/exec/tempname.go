package exec

import (
	"crypto/rand"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// TempName returns a name for a temporary file that contains the pid of its maker:
// ".ralph-<purpose>-<pid>-<random>". The purpose has no dash.
func TempName(purpose string) string {
	return tempPrefix(purpose) + strconv.Itoa(os.Getpid()) + "-" + rand.Text()
}

func tempPrefix(purpose string) string { return ".ralph-" + purpose + "-" }

// Leftover reports whether a file name is one of TempName for purpose whose maker has
// ended, so that no process will finish or remove the file.
func Leftover(name, purpose string) bool {
	rest, ok := strings.CutPrefix(name, tempPrefix(purpose))
	pid, random, dash := strings.Cut(rest, "-")
	return ok && dash && len(random) == len(rand.Text()) && Gone(pid)
}

// Gone reports whether no process has the number pid; false for a text that is no
// number.
func Gone(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && n > 1 && syscall.Kill(n, 0) == syscall.ESRCH
}
