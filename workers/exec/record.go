package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ralph/workers/exec/sandbox"
	"ralph/workers/exec/supervise"
	"ralph/workers/regular"
)

// recordInterval bounds how long the report of a write comes after its beginning.
const recordInterval = 10 * time.Millisecond

// recordPurpose is in the names of records that outlive Ralph.
const recordPurpose = "record"

// Record is what one command writes below a directory. It is a file, to which the init of
// the command appends what that is about to write. It needs no process to take it, so that
// a write costs the command little, and it is whole whatever is killed. It is safe for
// concurrent use.
type Record struct {
	dir, place string
	tell       func([]sandbox.Write)

	mu         sync.Mutex // guards what follows
	file       *os.File   // nil before the start and after the end of the command
	size       int64      // of what has been read
	rest       []byte     // begin of a line that was being written
	begun, gap bool
	refused    Refusals
	locks      []sandbox.Write

	over     chan struct{}
	followed chan struct{} // closed when follow has returned
}

// NewRecord returns a Record of what a command will write below dir, which has no symbolic
// links. Its file is in the directory place while the command runs, so that LeftRecords has
// it when Ralph is killed; without a place it is in memory. tell is called with the writes
// that began, in their order and soon after, one call at a time, on another goroutine or
// that of Read, and never after Run has returned or the job is done.
func NewRecord(dir, place string, tell func([]sandbox.Write)) *Record {
	return &Record{dir: dir, place: place, tell: tell}
}

// Refusals are what a command was not allowed to make or change, see sandbox.Guard.
type Refusals struct {
	Names []Refusal // in their order, each once
	// Freed are the paths, absolute, of names that act elsewhere and that were made, see
	// acts.Rules.Frees.
	Freed []string
	// Undone says that git was to change one of them, and that all else that it had changed of
	// the tree until then was taken back. Left are the paths, absolute, that could
	// not be.
	Undone bool
	Left   []string
	// Sockets are the paths of sockets of others that it was not connected to.
	Sockets []string
}

// Refusal is one name.
type Refusal struct {
	Path  string // absolute
	Class string // one of acts.Classes
	Key   string // a configuration of git was made at Path without it; "" for a name that was not made
}

// maxRefusals bounds how many refusals of one command are kept.
const maxRefusals = 100

// Refused returns what the command was not allowed so far; nothing for a nil Record.
func (r *Record) Refused() Refusals {
	if r == nil {
		return Refusals{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.refused
	out.Names, out.Left, out.Sockets, out.Freed = slices.Clone(out.Names), slices.Clone(out.Left), slices.Clone(out.Sockets), slices.Clone(out.Freed)
	return out
}

// maxLocks bounds how many writes of locks of one command are kept.
const maxLocks = 10000

// IsGitLock reports whether a path has the name of a lock in a repository.
func IsGitLock(path string) bool {
	return strings.HasSuffix(path, ".lock") && strings.Contains(path, "/.git/")
}

// Locks returns the writes of the command to locks of git, in their order; nothing for a
// nil Record.
func (r *Record) Locks() []sandbox.Write {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.locks)
}

// LeftRecord holds what a Record had when its Ralph was killed.
type LeftRecord struct {
	File   string
	Writes []sandbox.Write
	// Unseen is since when the command may have written what is not on record; zero for
	// never.
	Unseen time.Time
}

// LeftRecords reads the records in place. The caller runs no command, and removes them.
func LeftRecords(place string) []LeftRecord {
	entries, err := os.ReadDir(place)
	if err != nil {
		return nil
	}
	var list []LeftRecord
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix(recordPurpose)) {
			continue
		}
		left := LeftRecord{File: filepath.Join(place, e.Name())}
		if f, err := regular.Open(left.File, syscall.O_NOFOLLOW); err == nil {
			r := Record{file: f, tell: func(list []sandbox.Write) { left.Writes = list }}
			r.read()
			if info, err := f.Stat(); err == nil && (!r.begun || r.gap) {
				left.Unseen = info.ModTime()
			}
			_ = f.Close() // it was only read
		}
		list = append(list, left)
	}
	return list
}

// Read reports all writes that began before the call, unless the command has ended.
func (r *Record) Read() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read()
}

// open makes the file. Where the system has none nothing is on record.
func (r *Record) open() error {
	if r == nil {
		return nil
	}
	f, err := recordFile(r.place)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.file = f
	return err
}

// follow reads the record every recordInterval, on another goroutine.
func (r *Record) follow() {
	if r == nil || r.file == nil {
		return
	}
	r.over, r.followed = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(r.followed)
		tick := time.NewTicker(recordInterval)
		defer tick.Stop()
		for {
			select {
			case <-r.over:
				return
			case <-tick.C:
				r.Read()
			}
		}
	}()
}

// close reads the rest, once nothing of the command is left, and returns whether
// everything that the command wrote was on record.
func (r *Record) close() (complete bool) {
	if r == nil || r.file == nil {
		return false
	}
	if r.followed != nil {
		close(r.over)
		<-r.followed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read()
	_ = r.file.Close()
	if r.place != "" {
		_ = os.Remove(r.file.Name()) // one that stays is removed before the next turn
	}
	r.file = nil
	return r.begun && !r.gap && len(r.rest) == 0
}

// read reports what was added; mu is held.
func (r *Record) read() {
	if r.file == nil {
		return
	}
	added, err := io.ReadAll(io.NewSectionReader(r.file, r.size, 1<<62))
	r.size += int64(len(added))
	r.gap = r.gap || err != nil
	lines := bytes.Split(append(r.rest, added...), []byte{'\n'})
	r.rest = lines[len(lines)-1]
	var list []sandbox.Write
	for _, line := range lines[:len(lines)-1] {
		var s supervise.Seen
		err := json.Unmarshal(line, &s)
		r.begun, r.gap = r.begun || s.Begun, r.gap || s.Gap || err != nil
		if no := (Refusal{Path: string(s.Refused), Class: s.Class, Key: s.Key}); no.Path != "" && no.Class == "" {
			if len(r.refused.Freed) < maxRefusals && !slices.Contains(r.refused.Freed, no.Path) {
				r.refused.Freed = append(r.refused.Freed, no.Path)
			}
		} else if no.Path != "" && len(r.refused.Names) < maxRefusals && !slices.Contains(r.refused.Names, no) {
			r.refused.Names = append(r.refused.Names, no)
		}
		if path := string(s.Foreign); path != "" && len(r.refused.Sockets) < maxRefusals && !slices.Contains(r.refused.Sockets, path) {
			r.refused.Sockets = append(r.refused.Sockets, path)
		}
		r.refused.Undone = r.refused.Undone || s.Undone
		for _, rel := range s.Left {
			r.refused.Left = append(r.refused.Left, string(rel))
		}
		if len(s.Path) > 0 {
			list = append(list, sandbox.Write{Path: string(s.Path), At: s.At, Before: s.Before, Mode: s.Mode})
			if IsGitLock(string(s.Path)) && len(r.locks) < maxLocks {
				r.locks = append(r.locks, list[len(list)-1])
			}
		}
	}
	if len(list) > 0 {
		r.tell(list)
	}
}
