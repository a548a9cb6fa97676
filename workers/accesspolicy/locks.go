package accesspolicy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ralph/workers/exec"
	"ralph/workers/exec/sandbox"
)

// Where a command works on a repository itself, without a layer over it, a git of its
// that was killed leaves locks, for which every later git waits.

const (
	// clockSlack is how much earlier a file seems to be made than the call that makes it was
	// seen: file systems have a coarser clock.
	clockSlack = 15 * time.Millisecond
	// madeWithin bounds the time from when the call was seen until the file is there.
	madeWithin = 100 * time.Millisecond
)

// RemoveLocks removes the locks of git below root that are there since commands made them
// which have ended, and returns their paths. writes are what those commands wrote. What
// else has made, or has open, is left alone: a lock is taken for a command's only when it
// appeared at the time at which the command made one of that path, and the command did not
// touch the path later than that.
func RemoveLocks(root string, writes []sandbox.Write) (removed []string) {
	at := map[string][]sandbox.Write{}
	for _, w := range writes {
		if exec.IsGitLock(w.Path) && below(root, w.Path) {
			at[w.Path] = append(at[w.Path], w)
		}
	}
	for path, writes := range at {
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() && madeBy(writes, birth(path)) && !openSomewhere(path) && os.Remove(path) == nil {
			removed = append(removed, path)
		}
	}
	slices.Sort(removed)
	return removed
}

// madeBy reports whether one of the writes to a path made the file that is there since
// born.
func madeBy(writes []sandbox.Write, born time.Time) bool {
	if born.IsZero() {
		return false
	}
	for i, w := range writes {
		gone := slices.ContainsFunc(writes[i+1:], func(later sandbox.Write) bool { return !later.At.After(born) })
		if w.Before.IsZero() && !gone && !born.Before(w.At.Add(-clockSlack)) && !born.After(w.At.Add(madeWithin)) {
			return true
		}
	}
	return false
}

// openSomewhere reports whether a process that can be looked at has a file open.
func openSomewhere(path string) bool {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is ours
	return slices.ContainsFunc(links, func(link string) bool {
		to, err := os.Readlink(link)
		return err == nil && to == path
	})
}

// leftLocks removes the locks that a command left which works on the repository itself, and
// reports them.
func (s *Sandbox) leftLocks(sp exec.Spec) (told []string) {
	if sp.Confine != nil && s.overlaid() {
		return nil // they are in its layer, and whatever is here is another's
	}
	for _, path := range RemoveLocks(s.o.Root, sp.Record.Locks()) {
		told = append(told, fmt.Sprintf("removed %s, a lock that a git of the command had left", s.rel(path)))
	}
	return told
}
