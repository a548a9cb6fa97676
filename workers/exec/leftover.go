package exec

import (
	"crypto/rand"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// TempName makes a name for a temporary file that says who made it:
// ".ralph-<purpose>-<pid>-<random>". The purpose has no dash.
func TempName(purpose string) string {
	return ".ralph-" + purpose + "-" + strconv.Itoa(os.Getpid()) + "-" + rand.Text()
}

// Leftover says that a file name is one of TempName for purpose whose maker is
// no more, so that nobody will finish or remove the file.
func Leftover(name, purpose string) bool {
	rest, ok := strings.CutPrefix(name, ".ralph-"+purpose+"-")
	pid, random, dash := strings.Cut(rest, "-")
	return ok && dash && len(random) == len(rand.Text()) && Gone(pid)
}

// Gone says that no process has the number pid. A text that is no number names
// nobody of whom that could be said.
func Gone(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && n > 1 && syscall.Kill(n, 0) == syscall.ESRCH
}
