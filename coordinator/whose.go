package coordinator

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ralph/workers/git"
)

// whose is the answer to whose a change is.
type whose int

const (
	theirs whose = iota // nothing of Ralph's wrote it
	ours
	mixed // both may have
)

// whose says whose the change of a path since a time is. had reports that it was there
// at that time.
func (l *writeLog) whose(p string, since time.Time, had bool) whose {
	l.mu.Lock()
	defer l.mu.Unlock()
	below := false
	for dir := filepath.Dir(p); dir != "." && !below; dir = filepath.Dir(dir) {
		_, below = l.paths[dir] // it was renamed
	}
	w := l.paths[p]
	switch {
	case w == nil && (below || l.holds(p)):
		return ours
	case w == nil && l.unseen(p):
		return mixed
	case w == nil:
		return theirs
	case w.Before.After(since) && (had || !l.wroteBelow(p)), !below && had && w.Before.IsZero():
		return mixed // somebody else changed it first
	case !had && !below && w.Mode != 0:
		return mixed // git ignored it then: no checkpoint has what it was
	case w.Other:
		return mixed
	case l.recent[p] != nil:
		return ours // a job that writes it still runs
	case w.After == nil: // a crash came before the end of the write
		if at := l.changed(p); at.After(w.Last.Add(shortWrite)) {
			return mixed
		}
	case *w.After != *l.stamp(p):
		return mixed // somebody else changed it afterwards
	}
	return ours
}

// holds reports whether a path is a directory, that of a submodule, in which something
// was written; mu is held.
func (l *writeLog) holds(p string) bool {
	if info, err := os.Lstat(filepath.Join(l.root, p)); err != nil || !info.IsDir() {
		return false
	}
	return l.wroteBelow(p)
}

// wroteBelow reports whether something was written below a path, which then was a directory, whose
// own time changes with what it holds; mu is held.
func (l *writeLog) wroteBelow(p string) bool {
	for path := range l.paths {
		if strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

// unseen reports whether something could have written a path unseen; mu is held.
func (l *writeLog) unseen(p string) bool {
	at := l.changed(p)
	for _, s := range l.blind {
		// Of a file that is gone nothing says when. The kernel's clock for files is
		// behind by as much as a tick.
		if at.IsZero() || !at.Before(s.From.Add(-20*time.Millisecond)) && !at.After(s.To) {
			return true
		}
	}
	return false
}

// modes returns the permissions of the files that Ralph gave others, or wrote so that they have
// others, since a time.
func (l *writeLog) modes(since time.Time) git.Modes {
	l.mu.Lock()
	list, dirs := map[string]git.Mode{}, map[string]bool{}
	for p, w := range l.paths {
		stamp, _ := l.state(p, dirs)
		m := git.Mode{Was: fs.FileMode(w.Mode)}
		if stamp.Mode&unix.S_IFMT == unix.S_IFREG {
			m.Left = fs.FileMode(stamp.Mode).Perm()
		}
		if m.Was != 0 && m.Was != m.Left {
			list[p] = m
		}
	}
	l.mu.Unlock()
	maps.DeleteFunc(list, func(p string, _ git.Mode) bool { return l.whose(p, since, true) != ours })
	return list
}
