package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ralph/workers/exec"
)

// gcWait bounds how long HoldGC waits for a git gc that runs.
const gcWait = 10 * time.Second

// gcAge is how old a gc.pid is that git no longer obeys.
const gcAge = 12 * time.Hour

// HoldGC keeps git gc from beginning in a repository until release is called: it takes
// away objects that no ref names yet, and what it takes while a ref is set to them is
// missing ever after. It waits for a git gc that runs, and for who else holds it off, but
// no longer than gcWait, and goes on without where the lock cannot be made. The lock is
// git's own, gc.pid: it counts only while the process that it names lives.
func HoldGC(ctx context.Context, commonDir string) (release func()) {
	lock := filepath.Join(commonDir, "gc.pid")
	host, err := os.Hostname()
	if err != nil {
		return func() {}
	}
	ours := fmt.Sprintf("%d %s", os.Getpid(), host)
	ctx, cancel := context.WithTimeout(ctx, gcWait)
	defer cancel()
	for {
		if info, err := os.Lstat(lock); err == nil && !info.Mode().IsRegular() {
			return func() {} // no lock of git's
		} else if err == nil && !holds(lock, info, host) {
			_ = os.Remove(lock)
		}
		err := CreateLock(lock, []byte(ours))
		if err == nil {
			// A gc that found no lock before puts its own in the place of this one.
			whileThere(ctx, lock+".lock")
			if text, err := readSmall(lock); err == nil && text == ours {
				return func() { _ = os.Remove(lock) } // one that stays counts no more when this process is gone
			}
		} else if !errors.Is(err, fs.ErrExist) {
			return func() {}
		}
		select {
		case <-ctx.Done():
			return func() {}
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// holds reports whether a gc.pid holds a git gc off, as git takes it: it names a process,
// which lives where that can be seen, and is not older than gcAge.
func holds(lock string, info fs.FileInfo, host string) bool {
	text, err := readSmall(lock)
	pid, at, _ := strings.Cut(strings.TrimSpace(text), " ")
	_, perr := strconv.Atoi(pid)
	return err == nil && perr == nil && at != "" && time.Since(info.ModTime()) <= gcAge && (at != host || !exec.Gone(pid))
}

// whileThere waits until a file is gone.
func whileThere(ctx context.Context, path string) {
	for {
		if _, err := os.Lstat(path); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
}
