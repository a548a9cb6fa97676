package coordinator

import (
	"errors"
	"fmt"
	"path/filepath"

	"ralph/memory/session"
)

// diedReason is the reason in the metadata of a session whose holder died.
const diedReason = endedCutOff + ": its holder ended without a word"

// endCutOff notes in the sessions that were cut off and do not go on that they
// were interrupted. mu is held, and the project's lock.
func (b *book) endCutOff(o session.Options) error {
	if !b.untidy {
		return nil
	}
	_, err := endAll(o, b.session.ID(), b.c.opt.Situation)
	return err
}

// endAll notes in all sessions but one that were cut off that they were
// interrupted: opening one puts a torn last record into the quarantine. The
// project's lock is held, so that none of them is under way. s may be nil.
func endAll(o session.Options, but string, s *Situation) (told []string, err error) {
	list, err := session.List(o.FS, o.StateDir)
	errs := []error{err}
	for _, i := range list {
		cut := i.Err == nil && i.Meta.Status == session.InProgress || s != nil && s.Ended == endedCutOff && i.ID == s.Session
		if i.ID == but || !cut {
			continue
		}
		old, err := session.Open(o, i.ID)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if session.Empty(o.FS, filepath.Join(o.StateDir, "sessions", i.Dir)) {
			old.End(session.Completed, endedCutOff+" before anything was said") // there is nothing to go on with
			errs = append(errs, old.Close())
			continue
		}
		switch torn, bad := old.Journal().Damage(); {
		case torn.Whole:
			told = append(told, fmt.Sprintf("session %s: its journal was too large, for what it holds, and is in %s; what was before the damage is used", i.ID, torn.Moved))
		case torn.Moved != "" || bad > 0:
			told = append(told, fmt.Sprintf("session %s: an incomplete last record is in %s", i.ID, torn.Moved))
		}
		old.End(session.Paused, diedReason)
		told = append(told, fmt.Sprintf("session %s is interrupted now: ralph resume %s goes on with it", i.ID, i.ID))
		errs = append(errs, old.Close())
	}
	return told, errors.Join(errs...)
}
