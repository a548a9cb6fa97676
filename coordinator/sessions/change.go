package sessions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"ralph/coordinator/result"
	"ralph/memory/exchange"
	"ralph/memory/registry"
	"ralph/memory/retention"
)

// Archive moves the named sessions to the archive, or those that the retention
// policy asks for when none is named. It returns what was done, or with dry
// what would be, also before an error.
func (s *Sessions) Archive(ctx context.Context, named []string, dry bool) (done []retention.Action, err error) {
	err = s.hold(ctx, dry, false, func(st retention.State) error {
		actions, err := s.toArchive(st, named)
		if err != nil {
			return err
		}
		done, err = s.apply(ctx, actions, dry)
		return err
	})
	return done, err
}

func (s *Sessions) toArchive(st retention.State, named []string) (actions []retention.Action, err error) {
	if len(named) == 0 {
		for _, a := range retention.Plan(st, s.policy, s.o.Now()) {
			if a.Kind == retention.Archive {
				actions = append(actions, a)
			}
		}
		return actions, nil
	}
	for _, which := range named {
		x, err := find(st.Sessions, which)
		if err != nil {
			return nil, err
		}
		a, err := retention.Named(x)
		switch {
		case errors.Is(err, retention.ErrElsewhere):
			return nil, &result.Error{Op: "archive session", Path: x.ID, Err: retention.ErrElsewhere, Status: result.Usage, Hint: "move its directory yourself, and remove the link in .ralph/sessions"}
		case err != nil:
			return nil, &result.Error{Op: "archive session", Path: x.ID, Err: retention.ErrLive, Status: result.Locked, Hint: "end it first: ralph stop"}
		}
		if a == nil {
			s.warn(fmt.Sprintf("session %s is in the archive already", x.ID))
			continue
		}
		actions = append(actions, *a)
	}
	return actions, nil
}

// Prune deletes the raw files of archived sessions and the directories of
// one-shots that are older than the policy allows. Where summaries are kept,
// they are brought up to date first. With all it also drops the sessions of
// projects that are gone from the registry, which it returns.
func (s *Sessions) Prune(ctx context.Context, all, dry bool) (done []retention.Action, gone []registry.Listed, err error) {
	err = s.hold(ctx, dry, false, func(st retention.State) error {
		unread := map[string]error{}
		if s.policy.Summaries && len(st.Sessions) > 0 {
			var err error
			if done, unread, err = s.summaries(ctx, st, dry); err != nil {
				return err
			}
		}
		var actions []retention.Action
		for _, a := range retention.Plan(st, s.policy, s.o.Now()) {
			if a.Kind == retention.Archive || a.Kind == retention.Prune && unread[a.ID] != nil {
				continue
			}
			actions = append(actions, a)
		}
		more, err := s.apply(ctx, actions, dry)
		done = append(done, more...)
		return err
	})
	if err != nil || !all {
		return done, nil, err
	}
	gone, warning, err := s.registry.Drop(ctx, dry)
	if warning != "" {
		s.warn(warning)
	}
	if err != nil {
		s.warn(err.Error())
	}
	return done, gone, nil
}

// Summarize writes the summaries of the quarters in which sessions began that
// have ended.
func (s *Sessions) Summarize(ctx context.Context, dry bool) (done []retention.Action, err error) {
	err = s.hold(ctx, dry, false, func(st retention.State) (err error) {
		done, _, err = s.summaries(ctx, st, dry)
		return err
	})
	return done, err
}

func (s *Sessions) summaries(ctx context.Context, st retention.State, dry bool) (done []retention.Action, unread map[string]error, err error) {
	actions, unread, err := retention.Summaries(s.o.FS, s.stateDir(), st)
	for what, why := range unread {
		if what != "AGENT.md" {
			what = "session " + what
		}
		s.warn(fmt.Sprintf("%s is summed up without what cannot be read: %v", what, strings.ReplaceAll(why.Error(), "\n", "; ")))
	}
	if err != nil {
		return nil, unread, &result.Error{Op: "summarize sessions", Err: err, Status: result.Failed, Hint: "see what stands at the place that is named"}
	}
	done, err = s.apply(ctx, actions, dry)
	return done, unread, err
}

// apply does what is planned until something fails or ctx ends.
func (s *Sessions) apply(ctx context.Context, actions []retention.Action, dry bool) (done []retention.Action, err error) {
	if dry {
		return actions, nil
	}
	for _, a := range actions {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		if err := retention.Apply(s.o.FS, s.stateDir(), a, s.o.Now()); err != nil {
			return done, &result.Error{Op: "change sessions", Err: err, Status: result.Failed, Hint: "see what stands at the place that is named, then run it again: what was done stays done"}
		}
		done = append(done, a)
	}
	return done, nil
}

// Handoff gives session b what session a knows.
func (s *Sessions) Handoff(ctx context.Context, a, b string, dry bool) (h exchange.Handed, err error) {
	err = s.hold(ctx, dry, false, func(st retention.State) error {
		h, err = s.handOver(st, a, b, nil, dry)
		return err
	})
	return h, err
}

// HandoffLive is Handoff in a project that this process holds, with live open in it.
func (s *Sessions) HandoffLive(a, b string, live *exchange.Live) (exchange.Handed, error) {
	st, err := s.scan(true)
	if err != nil {
		return exchange.Handed{}, err
	}
	return s.handOver(st, a, b, live, false)
}

func (s *Sessions) handOver(st retention.State, a, b string, live *exchange.Live, dry bool) (exchange.Handed, error) {
	from, to, err := pair(st, a, b)
	if err != nil {
		return exchange.Handed{}, err
	}
	if to.Archived {
		return exchange.Handed{}, &result.Error{Op: "hand over to session", Path: to.ID, Err: errors.New("it is in the archive"), Status: result.Usage, Hint: "name a session that goes on: ralph sessions list"}
	}
	o := s.exchange()
	o.Live = live
	h, err := exchange.Handoff(o, from, to, s.openTasks(), dry)
	for _, w := range h.Warnings {
		s.warn(w)
	}
	return h, failed(err)
}

func pair(st retention.State, a, b string) (x, y retention.Session, err error) {
	if x, err = find(st.Sessions, a); err != nil {
		return x, y, err
	}
	if y, err = find(st.Sessions, b); err != nil {
		return x, y, err
	}
	if x.ID == y.ID {
		return x, y, &result.Error{Op: "find session", Path: b, Err: fmt.Errorf("%q and %q are the same session", a, b), Status: result.Usage, Hint: "name two sessions"}
	}
	return x, y, nil
}

// failed gives an error of the exchange its status and way out.
func failed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exchange.ErrTaken):
		return &result.Error{Op: "sessions", Err: err, Status: result.Usage, Hint: "choose another with --name NAME, or another place"}
	case errors.Is(err, exchange.ErrUnknownForm), errors.Is(err, fs.ErrNotExist):
		return &result.Error{Op: "sessions", Err: err, Status: result.Usage, Hint: "it takes a session.json of ralph-tui, a ralph-loop-FEATURE file of wiggum, a session folder, or what ralph sessions export wrote"}
	}
	return &result.Error{Op: "sessions", Err: err, Status: result.Failed, Hint: "nothing was changed by it; see what is named there"}
}

// Merge makes a new session of two.
func (s *Sessions) Merge(ctx context.Context, a, b, name string, dry bool) (m exchange.Merged, err error) {
	err = s.hold(ctx, dry, false, func(st retention.State) error {
		x, y, err := pair(st, a, b)
		if err != nil {
			return err
		}
		m, err = exchange.Merge(s.exchange(), x, y, name, dry)
		return failed(err)
	})
	for _, w := range m.Warnings {
		s.warn(w)
	}
	return m, err
}

// Import makes a session of a source of another tool, at path.
func (s *Sessions) Import(ctx context.Context, path string, format exchange.Format, name string, dry bool) (got exchange.Imported, err error) {
	src, err := exchange.Open(ctx, s.o.FS, path, format)
	if err != nil {
		return got, failed(err)
	}
	// The check comes before the lock too: what is refused makes no `.ralph`.
	if name, err = src.Check(s.exchange(), name); err != nil {
		return got, failed(err)
	}
	if dry {
		return exchange.Imported{Name: name, Format: src.Format, Differences: append([]string{}, src.Differences()...)}, nil
	}
	err = s.hold(ctx, false, true, func(retention.State) error {
		var err error
		got, err = src.Import(s.exchange(), name)
		return failed(err)
	})
	return got, err
}

// Export writes a session to target, an absolute path at which nothing stands.
func (s *Sessions) Export(which, target string, format exchange.Format, dry bool) (exchange.Exported, error) {
	st, err := s.scan(false)
	if err != nil {
		return exchange.Exported{}, err
	}
	x, err := find(st.Sessions, which)
	if err != nil {
		return exchange.Exported{}, err
	}
	if rel, err := filepath.Rel(s.stateDir(), target); err == nil && filepath.IsLocal(rel) {
		return exchange.Exported{}, &result.Error{Op: "export to", Path: target, Err: errors.New("it lies in the state directory"), Status: result.Usage, Hint: "choose a place outside of .ralph"}
	}
	got, err := exchange.Export(s.exchange(), x, target, format, dry)
	for _, w := range got.Warnings {
		s.warn(w)
	}
	return got, failed(err)
}
