package recovery

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/session"
	"ralph/workers/exec/supervise"
)

// diedReason is the reason in the metadata of a session whose holder died.
const diedReason = CutOff + ": its holder ended without a word"

// EndSessions notes in all sessions but one that were cut off that they were
// interrupted: opening one puts a torn last record into the quarantine. The
// project's lock is held, so that none of them is under way. s may be nil.
func EndSessions(o session.Options, but string, s *Report) (told []string, err error) {
	list, err := session.List(o.FS, o.StateDir)
	errs := []error{err}
	for _, i := range list {
		cut := i.Err == nil && i.Meta.Status == session.InProgress || s != nil && s.Ended == CutOff && i.ID == s.Session
		if i.ID == but || !cut {
			continue
		}
		old, err := session.Open(o, i.ID)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if session.Empty(o.FS, filepath.Join(o.StateDir, "sessions", i.Dir)) {
			old.End(session.Completed, CutOff+" before anything was said") // there is nothing to go on with
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

// holderGrace is how long a holder may take to end in order before it is killed; a chat stops its
// work within five seconds.
const holderGrace = 8 * time.Second

// EndHolder ends the Ralph that holds the project: it is asked to, and killed
// when it does not obey. It must be proven to be the one that took the lock, on
// this host, and to be the user's own; the lock itself is never removed.
func EndHolder(ctx context.Context, locked *memory.LockedError) error {
	err := supervise.End(ctx, processOf(locked.Holder), locked.Path, holderGrace)
	if err != nil {
		return &result.Error{Op: "end the holder of", Path: filepath.Dir(locked.Path), Err: fmt.Errorf("%w; %w", err, locked), Status: result.Locked,
			Hint: "end it yourself, where it runs; --force ends only a process that is proven to hold the project"}
	}
	return nil
}
