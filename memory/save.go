package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// maxMerges bounds how often a change is merged anew into a file that somebody
// else writes all the time.
const maxMerges = 20

// How the goroutine paces itself: a file is written at once when nothing was
// written for a while, and then not more often than writing takes, so that a
// burst of changes to a large file costs few rewrites.
const (
	paceFactor = 4
	maxPace    = 250 * time.Millisecond
	retryTime  = time.Second
	watchTime  = 500 * time.Millisecond // between two looks, when the system tells of nothing
	burstTime  = 30 * time.Millisecond  // what belongs to one edit comes within
)

// wake has the goroutine write what is recorded; mu is held.
func (s *Store) wake() {
	if s.byHand || s.readOnly || s.closed {
		return
	}
	s.begin()
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// begin starts the goroutine; mu is held.
func (s *Store) begin() {
	if !s.running && !s.closed {
		s.running = true
		go s.loop()
	}
}

// loop writes what is recorded, looks for edits while that is asked for, and
// tells of them, until Close.
func (s *Store) loop() {
	defer close(s.done)
	var edits <-chan struct{}
	end := func() {}
	defer func() { end() }()
	timer := time.NewTimer(watchTime)
	defer timer.Stop()
	for asked := false; ; {
		if !asked && s.isWatching() {
			asked = true
			edits, end = s.notices()
		}
		due := false
		select {
		case <-s.stop:
			return
		case <-s.kick:
			due = true
		case <-edits:
			s.rest(burstTime)
		case <-timer.C:
		}
		next := s.turn(due)
		timer.Reset(next)
	}
}

// turn is one round of the loop; it returns when the next is due at the latest.
func (s *Store) turn(due bool) time.Duration {
	next := watchTime
	s.mu.Lock()
	watching := s.watching
	if watching {
		s.lookAll()
	}
	due = due || s.waiting()
	s.mu.Unlock()
	if s.lookBack(false) {
		due = true
	}
	if due {
		begun := time.Now()
		again, err := s.save()
		if again > 0 {
			next = again
		} else if err != nil {
			next = retryTime
		}
		s.rest(min(paceFactor*time.Since(begun), maxPace))
	}
	s.report()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.olds) > 0 {
		next = min(next, lookBackTime)
	}
	if !watching && next == watchTime && !s.waiting() {
		next = time.Hour
	}
	return next
}

// rest waits, unless the Store is closed meanwhile.
func (s *Store) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.stop:
	case <-t.C:
	}
}

// waiting says that something is to be written; mu is held.
func (s *Store) waiting() bool {
	if len(s.unlogged) > 0 || len(s.runs) > 0 {
		return true
	}
	for _, f := range s.files {
		if f.dirty() || f.edited && f.known || f.backup != nil || len(f.wait) > 0 {
			return true
		}
	}
	return false
}

// save writes what is recorded to the state files. again is when to try again
// because somebody else is just writing one of them; 0: that is not needed.
func (s *Store) save() (again time.Duration, err error) {
	if s.readOnly {
		return 0, nil
	}
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.mu.Lock()
	if err := s.guard(); err != nil {
		s.mu.Unlock()
		return 0, err
	}
	s.keepEdits()
	logged := s.drain()
	s.mu.Unlock()
	var errs []error
	for _, name := range order() {
		wait, err := s.saveFile(s.files[name])
		again = max(again, wait)
		errs = append(errs, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if logged != nil {
		s.dropSaved()
		if len(s.unlogged) > 0 {
			errs = append(errs, logged)
		}
	}
	if err = errors.Join(errs...); err == nil && again == 0 {
		err = s.cutLog()
		s.noteSaved()
	}
	return again, err
}

// keepEdits plans a backup of what the user edited; mu is held.
func (s *Store) keepEdits() {
	for _, name := range order() {
		f := s.files[name]
		if !f.edited || !f.known || s.look(f) != nil || f.broken != nil {
			continue
		}
		s.findLog()
		if c := s.contentOf(f); c != nil {
			s.unlogged = append(s.unlogged, entry{content: c})
		}
	}
}

// saveFile writes one state file, if there is something to write.
func (s *Store) saveFile(f *file) (again time.Duration, err error) {
	for range maxMerges {
		done, again, err := s.saveOnce(f)
		if done || again > 0 || err != nil {
			s.mu.Lock()
			f.err = err
			s.mu.Unlock()
			return again, err
		}
	}
	return s.settle, fmt.Errorf("replace %q: %w, again and again", f.path, durable.ErrChanged)
}

func (s *Store) saveOnce(f *file) (done bool, again time.Duration, err error) {
	s.mu.Lock()
	if !f.dirty() && f.backup == nil && len(f.wait) == 0 && !f.unmet {
		s.mu.Unlock()
		return true, 0, nil
	}
	if err := s.look(f); err != nil {
		s.mu.Unlock()
		return true, 0, err
	}
	if again, err = s.clear(f); again > 0 || err != nil {
		s.mu.Unlock()
		return true, again, err
	}
	data, was, gen, last, copyOf := f.doc.Bytes(), f.base, f.gen, f.last, f.backup
	same := was != nil && string(was) == string(data)
	stale := f.dirty()
	f.flying = stale && !same
	s.mu.Unlock()
	if copyOf != nil {
		err = s.writeBackup(f.name, copyOf)
		s.mu.Lock()
		if f.backup == copyOf && err == nil {
			f.backup = nil
		}
		s.mu.Unlock()
		if err == nil {
			return false, 0, nil // which took a while: look again
		}
	}
	if !stale || same {
		if same {
			s.saved(f, data, gen, last)
		}
		return true, 0, err
	}
	handle, info := openOld(s.fs, f.path)
	late, serr := durable.Swap(s.fs, f.path, was, data, 0o644)
	if serr != nil {
		if handle != nil {
			_ = handle.Close()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		f.flying = false
		if errors.Is(serr, durable.ErrChanged) {
			f.stamp = stamp{} // whatever it says: read it again
			return false, 0, err
		}
		return true, 0, errors.Join(serr, err)
	}
	s.saved(f, data, gen, last)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed[f.name], f.theirs = true, false
	f.remember(was)
	if late != nil {
		s.late(f, was, late)
		if handle != nil {
			_ = handle.Close()
		}
		return false, 0, err
	}
	s.rememberOld(f, handle, info, was)
	return true, 0, err
}

// clear makes the place of a file ready to be written: what is no state file is
// moved away once it stays so, and a program that is saving the file is let
// finish. mu is held.
func (s *Store) clear(f *file) (again time.Duration, err error) {
	if f.half {
		return s.settle / 2, nil
	}
	if f.broken == nil {
		if !f.theirs || f.stamp.quiet(s.settle) {
			f.since = time.Time{}
			return 0, nil
		}
		if f.since.IsZero() {
			f.since = time.Now()
		}
		if time.Since(f.since) < maxDefer {
			return s.settle / 2, nil
		}
		return 0, nil
	}
	v := *f.broken
	if v.kind == sightRefused {
		return 0, v.err
	}
	if time.Since(f.since) < s.settle && !(v.kind == sightBroken && v.stamp.quiet(s.settle)) {
		return s.settle / 2, nil
	}
	moved, err := s.quarantine(f.path)
	if err != nil {
		return 0, err
	}
	s.tell(Pickup{File: f.name, Lost: lostText(f.name, v, moved)})
	f.broken, f.base, f.since = nil, nil, time.Time{}
	f.stamp, f.chained = stamp{}, false
	f.gen++
	return 0, nil
}

// saved notes that data is on disk.
func (s *Store) saved(f *file, data []byte, gen, last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.base, f.clean, f.saved, f.known, f.flying = data, gen, max(f.saved, last), true, false
	if info, err := lstat(s.fs, f.path); err == nil {
		f.stamp = stampOf(info)
		f.stamp.seen = time.Time{} // somebody may have written since: read it once more
	}
	s.stale = true
}

// old is a file that was replaced while somebody may have had it open.
type old struct {
	f      *file
	handle afero.File
	info   fs.FileInfo
	was    []byte
	until  time.Time
}

// Programs that had the old file open are watched for so long, so often, and
// at most so many of them.
const (
	lookBackFor  = time.Second
	lookBackTime = 100 * time.Millisecond
	maxOlds      = 16
)

func (s *Store) rememberOld(f *file, handle afero.File, info fs.FileInfo, was []byte) {
	if handle == nil {
		return
	}
	s.olds = append(s.olds, old{f: f, handle: handle, info: info, was: was, until: time.Now().Add(lookBackFor)})
}

// lookBack merges what was written to files after they were replaced. It
// reports whether there was something; last closes them all.
func (s *Store) lookBack(last bool) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.olds[:0]
	for i, o := range s.olds {
		if !unchanged(o.handle, o.info) {
			data, err := readOpen(o.handle)
			if err == nil && len(data) == 0 && !last && time.Now().Before(o.until) {
				rest = append(rest, o) // a program that empties a file will fill it
				continue
			}
			if err == nil && len(data) > 0 && string(data) != string(o.was) {
				s.late(o.f, o.was, data)
				found = true
			}
		} else if !last && time.Now().Before(o.until) && len(s.olds)-i <= maxOlds {
			rest = append(rest, o)
			continue
		}
		_ = o.handle.Close()
	}
	s.olds = rest
	return found
}

// late merges what somebody wrote to a file that Ralph had just replaced. What
// is no text is kept in quarantine. mu is held.
func (s *Store) late(f *file, was, user []byte) {
	if wholesome(user, true, !f.raw) == nil {
		s.merge(f, was, user)
		return
	}
	if len(user) == 0 {
		return
	}
	path, err := s.vacant(f.name)
	if err == nil {
		err = durable.Replace(s.fs, path, user, 0o600)
	}
	if err == nil {
		s.tell(Pickup{File: f.name, Lost: f.name + " was overwritten with what is no text: that is in " + s.rel(path)})
	}
}

// noted is what `.ralph/saved.json` says: up to which change each file has been
// written, and how it looked then. It is written without a sync and only makes
// opening cheaper: without it, or with an old one, the log is read.
type noted struct {
	N     int64                `json:"n"`
	Log   int64                `json:"log"` // how long the log is of which all is in the files
	Files map[string]notedFile `json:"files"`
}

type notedFile struct {
	N int64 `json:"n"`
	stamp
}

func (s *Store) notePath() string { return filepath.Join(s.StateDir(), "saved.json") }

// noteSaved writes the note; mu is held.
func (s *Store) noteSaved() {
	if !s.stale || len(s.unlogged) > 0 {
		return
	}
	n := noted{N: s.n, Files: map[string]notedFile{}}
	if info, err := lstat(s.fs, s.logPath()); err == nil {
		n.Log = info.Size()
	}
	for name, f := range s.files {
		if f.dirty() || f.broken != nil || len(f.wait) > 0 || f.unmet {
			return
		}
		if f.known {
			n.Files[name] = notedFile{N: f.saved, stamp: f.stamp}
		}
	}
	data, err := json.Marshal(n)
	if err != nil {
		return
	}
	temp := s.notePath() + ".new"
	_ = s.fs.Remove(temp) // of one who was killed
	h, err := s.fs.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return // only a help
	}
	_, err = h.Write(append(data, '\n'))
	if err = errors.Join(err, h.Close()); err == nil {
		err = s.fs.Rename(temp, s.notePath())
	}
	s.stale = err != nil
}

func (s *Store) readNote() noted {
	var n noted
	data, err := durable.ReadFile(s.fs, s.notePath(), 64<<10)
	if err != nil || json.Unmarshal(data, &n) != nil {
		return noted{}
	}
	return n
}
