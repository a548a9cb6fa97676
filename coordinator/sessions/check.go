package sessions

import (
	"context"

	"ralph/coordinator/result"
	"ralph/memory/feature"
	"ralph/memory/registry"
	"ralph/memory/retention"
	"ralph/memory/session/check"
)

// located is a session and its directory, absolute.
type located struct {
	retention.Session
	dir string
}

// Check holds the files of sessions against each other, against the snapshot of
// their run and against the registry, and calls each for one after the other as
// they are done. Without a name it takes all sessions of the project, the
// archived ones too; names are those that Find takes, dir is what a path among
// them is relative to. An error of each ends it and is returned.
func (s *Sessions) Check(ctx context.Context, which []string, dir string, each func(x retention.Session, dir string, found check.Report) error) error {
	list, err := s.toCheck(which, dir)
	if err != nil || len(list) == 0 {
		return err
	}
	snapshots, registered := s.snapshots(), s.registered(ctx)
	for _, x := range list {
		o := check.Options{FS: s.o.FS, Dir: x.dir, Live: x.Live}
		if x.ID != "" {
			o.Root, o.Snapshot, o.Registered = s.o.Root, snapshots[x.ID], registered[registry.ID(s.o.Root, x.ID)]
		}
		found, err := check.Run(ctx, o)
		if err != nil {
			return &result.Error{Op: "check session", Path: x.ID, Err: err, Status: result.Failed, Hint: "ralph doctor looks at the state directory"}
		}
		if err := each(x.Session, x.dir, found); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// toCheck finds the sessions, each once.
func (s *Sessions) toCheck(which []string, dir string) ([]located, error) {
	var list []located
	if len(which) == 0 {
		st, err := s.scan(false)
		if err != nil {
			return nil, err
		}
		for _, x := range st.Sessions {
			list = append(list, located{x, s.home(x)})
		}
		return list, nil
	}
	seen := map[string]bool{}
	for _, w := range which {
		x, home, err := s.Find(w, dir)
		if err != nil {
			return nil, err
		}
		if !seen[home] {
			list = append(list, located{x, home})
		}
		seen[home] = true
	}
	return list, nil
}

// snapshots are those of the project's runs, by the session that each names.
func (s *Sessions) snapshots() map[string]*feature.Snapshot {
	features, err := feature.List(feature.Options{FS: s.o.FS, StateDir: s.stateDir()})
	if err != nil {
		s.warn("the snapshots of runs are left out: " + err.Error())
	}
	found := map[string]*feature.Snapshot{}
	for _, f := range features {
		// The first is the one that was changed last.
		if _, ok := found[f.SessionID]; !ok && f.Err == nil {
			found[f.SessionID] = &f.Snapshot
		}
	}
	return found
}

// registered gives the status of each session that the registry knows.
func (s *Sessions) registered(ctx context.Context) map[string]string {
	found := map[string]string{}
	listed, _, err := s.registry.List(ctx)
	if err != nil {
		return found // without a registry nothing contradicts it
	}
	for _, e := range listed {
		found[e.SessionID] = string(e.Status)
	}
	return found
}
