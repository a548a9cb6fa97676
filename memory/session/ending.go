package session

import (
	"errors"
	"path/filepath"
	"slices"
	"time"

	"ralph/memory/session/folder"
)

// maxReportLog bounds the log that is read for the report at the end of a
// session, so that ending does not take long.
const maxReportLog = 8 << 20

// ended is what End was told.
type ended struct {
	status Status
	reason string
}

// End notes how the session ends: with Close it is written. Without it a
// session ends as completed.
func (s *Session) End(status Status, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = &ended{status, s.o.Redact(reason)}
}

// Close writes how the session ended, closes its files and writes the report.
// A second Close does nothing.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.ended != nil {
		s.meta.Status, s.meta.ExitReason = s.ended.status, s.ended.reason
	}
	if s.meta.Status == InProgress {
		s.meta.Status = Completed
	}
	if s.meta.Status != Paused {
		end := s.o.Now().UTC().Truncate(time.Second)
		s.meta.EndTime = &end
	}
	s.inStep()
	if s.unsaid != "" {
		s.tell("")
	}
	err := errors.Join(s.lasting, s.syncTranscript(), s.writeMeta(), s.folder.Close())
	return errors.Join(err, s.report(), s.journal.Close())
}

// report writes the report of a session whose other files are written; mu is
// held.
func (s *Session) report() error {
	o := folder.ReportOptions{Redact: s.o.Redact, MaxLogBytes: maxReportLog, Quarantine: filepath.Join(s.o.StateDir, "quarantine")}
	if s.o.Lessons != nil && s.folder.LogBytes() <= maxReportLog {
		o.Lessons = s.o.Lessons(s.dir)
		s.found = len(o.Lessons)
	}
	return o.Write(s.o.FS, s.dir)
}

// Found is how many lessons the report holds that Close wrote; 0 before.
func (s *Session) Found() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found
}

// count notes a feature that was recorded, and that it is documented.
func (c *ContextVariables) count(id string, documented bool) {
	add := func(to *[]string) {
		if id != "" && !slices.Contains(*to, id) {
			*to = append(slices.Clone(*to), id)
		}
	}
	if add(&c.FeaturesDiscovered); documented {
		add(&c.FeaturesDocumented)
	}
}

// Features counts what the inventory holds, after a feature was recorded in it, and
// lists challenges that came with it. The inventory holds it all; Close reports
// what cannot be written.
func (s *Session) Features(challenges []string) {
	inventory := s.folder.Inventory()
	s.note(func(m *Metadata) {
		c := &m.Context
		c.AssumptionsIdentified = 0
		for _, f := range inventory.Features {
			c.count(f.FeatureID, f.Documented)
			c.AssumptionsIdentified += f.Assumptions
		}
		for _, text := range challenges {
			if text = s.o.Redact(text); len(c.ChallengesGenerated) < maxChallenges && !slices.Contains(c.ChallengesGenerated, text) {
				c.ChallengesGenerated = append(slices.Clone(c.ChallengesGenerated), text)
			}
		}
	})
}

// maxChallenges bounds the challenges that the metadata lists.
const maxChallenges = 500

// Validates lists commands among the validations that are planned, and among those
// that were executed if they were. They are on one line there, without secrets and
// not longer than a name. The log holds what came of them; Close reports what
// cannot be written.
func (s *Session) Validates(executed bool, commands ...string) {
	add := func(to *[]string) {
		grown := slices.Clone(*to)
		for _, c := range commands {
			if c = s.o.cleaned(c); c != "" && len(grown) < maxChecks && !slices.Contains(grown, c) {
				grown = append(grown, c)
			}
		}
		*to = grown
	}
	planned, done := s.Meta().Context.ValidationsPlanned, s.Meta().Context.ValidationsExecuted
	if add(&planned); executed {
		add(&done)
	}
	if c := s.Meta().Context; len(planned) == len(c.ValidationsPlanned) && len(done) == len(c.ValidationsExecuted) {
		return
	}
	s.note(func(m *Metadata) {
		if add(&m.Context.ValidationsPlanned); executed {
			add(&m.Context.ValidationsExecuted)
		}
	})
}

// maxChecks bounds the validations that the metadata lists.
const maxChecks = 500
