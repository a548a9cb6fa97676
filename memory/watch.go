package memory

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ralph/memory/markdown"
)

// Pickup is what the user did to one of the five files while Ralph runs.
type Pickup struct {
	File string
	// Changes are what became of which tasks.
	Changes []markdown.Change
	// Conflicts are what Ralph had changed otherwise; the file holds both.
	Conflicts []markdown.Conflict
	// Text says that other text than tasks changed.
	Text bool
	// Lost says, as a sentence, that the file was gone or no text any more, and
	// what became of it; empty otherwise. Ralph's version was put back.
	Lost string
}

// tell keeps a pickup for Edits; mu is held.
func (s *Store) tell(p Pickup) {
	s.told = false
	for i := range s.pickups {
		have := &s.pickups[i]
		if have.File == p.File && have.Lost == "" && p.Lost == "" {
			have.Changes = append(have.Changes, p.Changes...)
			have.Conflicts = append(have.Conflicts, p.Conflicts...)
			have.Text = have.Text || p.Text
			return
		}
	}
	s.pickups = append(s.pickups, p)
}

// Edits returns what the user changed since it was last asked, oldest first. It
// looks at the disk now, and waits a moment for a program that is just saving a
// file; where that takes longer, what it saves is told the next time. What was
// lost a while ago is put back; what just vanished is, later, unless it comes
// again by itself.
func (s *Store) Edits() []Pickup {
	s.mu.Lock()
	s.lookAll()
	open := s.unsettled()
	s.mu.Unlock()
	for deadline := time.Now().Add(5 * s.settle); open && !s.readOnly && time.Now().Before(deadline); {
		// An error shows in Held, and in Flush.
		again, err := s.save()
		if again <= 0 || err != nil {
			break
		}
		time.Sleep(again)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.lookAll() // whoever sleeps may be woken late
	}
	out := s.pickups
	s.pickups = nil
	if len(out) > 0 || s.unsettled() {
		s.wake()
	}
	return out
}

// untell takes back that a file was lost, unless that was told.
func (s *Store) untell(lost string) {
	s.pickups = slices.DeleteFunc(s.pickups, func(p Pickup) bool { return p.Lost == lost })
}

// Watch has the Store look for edits by itself from now on, and call OnEdit;
// Close ends it.
func (s *Store) Watch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("watch project %q: it is closed", s.root)
	}
	var errs []error
	for _, name := range order() {
		if err := s.look(s.files[name]); err != nil {
			errs = append(errs, err)
		}
	}
	s.watching = true
	s.begin()
	select {
	case s.kick <- struct{}{}:
	default:
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("watch project %q: %w", s.root, err)
	}
	return nil
}

// lookAll picks up what the user did to any file; mu is held.
func (s *Store) lookAll() {
	for _, name := range order() {
		f := s.files[name]
		if f.doc == nil && f.stamp == (stamp{}) && !f.known {
			if v := glance(s.fs, f.path); v.kind != sightWhole {
				continue // there was none and there is none
			}
		}
		first := f.doc == nil
		was := f.stamp
		if s.look(f) == nil && first && f.base != nil && was.Size+was.Mtime > 0 && !was.same(f.stamp) {
			s.tell(Pickup{File: name, Text: true}) // what it said before was never read
		}
	}
}

// unsettled says that a file is lost, or that somebody is just writing one; mu
// is held.
func (s *Store) unsettled() bool {
	for _, f := range s.files {
		if f.half || f.broken != nil && f.broken.kind != sightRefused {
			return true
		}
	}
	return false
}

// report calls OnEdit once for what was picked up.
func (s *Store) report() {
	s.mu.Lock()
	tell := len(s.pickups) > 0 && !s.told && s.onEdit != nil
	if tell {
		s.told = true
	}
	s.mu.Unlock()
	if tell {
		s.onEdit()
	}
}

func (s *Store) isWatching() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watching
}
