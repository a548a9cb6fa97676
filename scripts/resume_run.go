package scripts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/memory/feature"
	"ralph/memory/session"
)

// meant finds the session that a word means, or without one the newest that did
// not end in order. run is the name of the run of a plan that it keeps, "" for
// none.
func (inv *invocation) meant(list, open []session.Info, which string) (id, run string, err error) {
	named, err := feature.Load(inv.features(inv.warning), which)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		named = feature.Listed{}
	case err != nil:
		if _, serr := findSession(list, which, ""); serr != nil {
			return "", "", err // it means this file, and the file is not ours
		}
		named = feature.Listed{}
	}
	switch {
	case which != "":
		info, err := findSession(list, which, named.SessionID)
		if err != nil && named.Name != "" && errors.Is(err, session.ErrNotFound) {
			return named.SessionID, named.Name, nil // its session is gone, the run can go on
		}
		if err != nil {
			return "", "", err
		}
		id = info.ID
	case len(open) > 0:
		id = open[0].ID
	default:
		return "", "", nil
	}
	if named.Name != "" && named.SessionID == id {
		return id, named.Name, nil
	}
	runs, err := feature.List(inv.features(nil))
	if err != nil {
		return "", "", broken("io", "see that .ralph/sessions is a directory that you can read", err, "resume")
	}
	for _, l := range runs {
		if l.Err == nil && l.SessionID == id && l.Status.Resumable() {
			return id, l.Name, nil
		}
	}
	return id, "", nil
}

// resumeRun goes on with the run of a plan.
func (inv *invocation) resumeRun(ctx context.Context, name, which string) error {
	l, err := feature.Load(inv.features(inv.warning), name)
	if err != nil {
		return err
	}
	// What is being worked was not interrupted, whatever was saved of it last.
	if err := inv.elsewhere("resume"); err != nil && !inv.force {
		return err
	}
	if err := inv.runGoesOn(l, which); err != nil {
		return err
	}
	if err := inv.targets(); err != nil {
		return err
	}
	return inv.goOnRun(ctx, l)
}

// answersHere reports whether a person at this terminal can answer a question.
func (inv *invocation) answersHere() bool { return isTerminal(inv.Stdin) && inv.form == outputText }

// waits is the fault of a command that needs an answer which nobody here can give.
func waits(hint, format string, args ...any) error {
	return &fault{status: result.NeedsInput, kind: "needs_input", text: fmt.Sprintf(format, args...), hint: hint}
}

// runGoesOn refuses what resume does not go on with: a run that ended, and without a
// terminal one that was not named, or whose breaker asks a person to look.
func (inv *invocation) runGoesOn(l feature.Listed, which string) error {
	if !l.Status.Resumable() {
		return broken("nothing_to_resume", fmt.Sprintf("ralph run --new --feature %s begins it anew", l.Name), nil, "the run %q is %s: nothing of it was interrupted", l.Name, l.Status)
	}
	refuse := func(hint, format string, args ...any) error {
		for _, line := range runLines(l.Snapshot, inv.Now()) {
			inv.note(line)
		}
		return waits(hint, format, args...)
	}
	if inv.answersHere() {
		return nil
	}
	if which == "" {
		return refuse("name it: ralph resume "+l.Name, "which session goes on is not guessed without a terminal: the newest is the run %q", l.Name)
	}
	if q := loop.Seen(l.Snapshot).Question; q != nil && q.Kind == loop.KindBreaker {
		return refuse(fmt.Sprintf("ralph run --continue --feature %s answers go; ralph status shows the question", l.Name), "the run %q waits for an answer: %s", l.Name, q.Text)
	}
	return nil
}
