package memory

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"ralph/memory/durable"
)

// maxMerges bounds how often a change is merged anew into a file that somebody
// else writes all the time.
const maxMerges = 20

// maxDrains bounds how often a file waits for the log of what others change all
// the time: some of that may then be in the file a moment before.
const maxDrains = 4

// How the goroutine paces itself: a file is written at once when nothing was
// written for a while, and then not more often than writing takes, so that a
// burst of changes to a large file costs few rewrites.
const (
	paceFactor = 4
	maxPace    = 250 * time.Millisecond
	retryTime  = time.Second
	watchTime  = 500 * time.Millisecond // between two looks, when the system tells of nothing
	surelyTime = 10 * time.Second       // and when it does
	burstTime  = 30 * time.Millisecond  // what belongs to one edit comes within
	gatherTime = 5 * time.Millisecond   // and to one burst of changes
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
	every := watchTime
	for asked := false; ; {
		if !asked && s.isWatching() {
			asked = true
			if edits, end = s.notices(); edits != nil {
				every = surelyTime
			}
		}
		due := false
		select {
		case <-s.stop:
			return
		case <-s.kick:
			due = true
			s.rest(gatherTime)
		case _, told := <-edits:
			if !told { // there is nothing to be told of any more
				edits, every = nil, watchTime
			}
			s.rest(burstTime)
		case <-timer.C:
		}
		next := s.turn(due, every)
		timer.Reset(next)
	}
}

// turn is one round of the loop; it returns when the next is due at the latest,
// which is every when there is nothing to do.
func (s *Store) turn(due bool, every time.Duration) time.Duration {
	next := every
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
	switch {
	case next == every && !s.readOnly && s.unsettled():
		next = s.settle
	case !watching && next == every && !s.waiting():
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
	for _, name := range order() {
		if f := s.files[name]; f.doc != nil {
			_ = s.look(f) // somebody may have put an older text in place; an error shows when it is written
		}
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
	if logged != nil {
		s.dropSaved()
		if len(s.unlogged) > 0 {
			errs = append(errs, logged)
		}
	}
	errs = append(errs, s.cutLog())
	note := s.note()
	s.mu.Unlock()
	s.writeNote(note)
	return again, errors.Join(errs...)
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
	if !f.dirty() && f.backup == nil && len(f.wait) == 0 && !f.unmet && !f.half {
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
	if copyOf := f.backup; copyOf != nil {
		s.mu.Unlock()
		err = s.writeBackup(f.name, copyOf)
		s.mu.Lock()
		if f.backup == copyOf && err == nil {
			f.backup = nil
		}
		if err == nil {
			s.mu.Unlock()
			return false, 0, nil // which took a while: look again
		}
	}
	for range maxDrains { // the log before the file
		if len(s.unlogged) == 0 || s.drain() != nil {
			break
		}
	}
	data, was, gen, last := f.doc.Bytes(), f.base, f.gen, f.last
	stale := f.dirty()
	same := was != nil && string(was) == string(data) && f.tried == nil
	if !stale || same {
		if same {
			s.saved(f, data, gen, last)
		}
		s.mu.Unlock()
		return true, 0, err
	}
	f.flying = true
	s.mu.Unlock()
	done, serr := s.swap(f, was, data, gen, last)
	return done, 0, errors.Join(serr, err)
}

// swap puts data in the place of was. It is not done when somebody else wrote
// the file meanwhile.
func (s *Store) swap(f *file, was, data []byte, gen, last int64) (done bool, err error) {
	before := openOld(s.fs, f.path)
	late, err := durable.Swap(s.fs, f.path, was, data, 0o644)
	var st stamp
	ours := true
	if err == nil {
		st, ours = s.verify(f, data)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.flying = false
	if late != nil {
		s.late(f, was, late) // also after an error: it is nowhere else
	}
	if late != nil || err != nil {
		before.close()
	}
	switch {
	case errors.Is(err, durable.ErrChanged):
		f.stamp = stamp{} // whatever it says: read it again
		return false, nil
	case err != nil:
		f.tried = data
		return true, err
	}
	s.saved(f, data, gen, last)
	f.stamp, f.tried, f.theirs, s.changed[f.name] = st, nil, false, true
	f.remember(was)
	if late != nil {
		return false, nil
	}
	s.rememberOld(f, before, was, "")
	return ours, nil
}

// verify reads what was just written: its stamp must not be that of what
// somebody else put there since. The zero stamp has it read again.
func (s *Store) verify(f *file, data []byte) (st stamp, ours bool) {
	v := glance(s.fs, f.path)
	now, err := durable.ReadFile(s.fs, f.path, maxStateBytes)
	if err != nil {
		return stamp{}, true
	}
	if !bytes.Equal(now, data) {
		return stamp{}, false
	}
	return v.stamp, true
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
			f.first = time.Time{}
			return 0, nil
		}
		if f.first.IsZero() {
			f.first = time.Now()
		}
		if time.Since(f.first) < maxDefer {
			return s.settle / 2, nil
		}
		return 0, nil
	}
	v := *f.broken
	if v.kind == sightRefused {
		return 0, v.err
	}
	if !s.lost(f) {
		return s.settle, nil
	}
	moved, err := s.quarantine(f.path)
	if err != nil {
		return 0, err
	}
	before := s.moved(moved, v.stamp)
	lost := lostText(f.name, v, moved)
	s.rememberOld(f, before, f.base, lost) // a slow program may still fill what it emptied
	s.tell(Pickup{File: f.name, Lost: lost})
	f.remember(f.base) // who read that may still put it there
	f.broken, f.base, f.since = nil, nil, time.Time{}
	f.stamp, f.chained = stamp{}, false
	f.gen++
	return 0, nil
}

// saved notes that data is on disk; mu is held.
func (s *Store) saved(f *file, data []byte, gen, last int64) {
	f.base, f.clean, f.saved, f.known = data, gen, max(f.saved, last), true
	s.stale = true
}
