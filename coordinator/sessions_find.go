package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"ralph/memory"
	"ralph/memory/retention"
	"ralph/memory/session"
)

// Find returns one session and its directory, absolute. which is a number, a
// name, or a unique beginning of one; empty means the newest in which something
// was said. A word with a slash that is the path of a directory, relative to
// dir, stands for the session's folder there, which need not be this project's.
func (s *Sessions) Find(which, dir string) (retention.Session, string, error) {
	if strings.ContainsRune(which, filepath.Separator) {
		path := which
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if info, err := s.o.FS.Stat(path); err == nil && info.IsDir() {
			return retention.Session{Name: filepath.Base(path), Path: path, Elsewhere: true}, path, nil
		}
	}
	st, err := s.scan(false)
	if err != nil {
		return retention.Session{}, "", err
	}
	var found retention.Session
	if strings.TrimSpace(which) == "" {
		last, err := session.Last(s.o.FS, s.stateDir())
		if errors.Is(err, session.ErrNotFound) {
			return found, "", &Error{Op: "find session", Err: errors.New("there is none in this project yet"), Status: StatusUsage, Hint: "ralph chat begins one; ralph sessions import brings one"}
		}
		if err != nil {
			return found, "", &Error{Op: "find session", Err: err, Status: StatusFailed, Hint: "ralph doctor looks at the state directory"}
		}
		which = last.ID
	}
	if found, err = find(st.Sessions, which); err != nil {
		return found, "", err
	}
	home := session.Home(s.o.FS, filepath.Join(s.stateDir(), filepath.FromSlash(found.Path)), s.stateDir())
	return found, home, nil
}

// Learn adds entries to AGENT.md that do not stand there yet, and returns how
// many. dry only counts them.
func (s *Sessions) Learn(ctx context.Context, list []memory.Learning, dry bool) (added int, err error) {
	if dry {
		return len(list), nil
	}
	store, _, err := memory.Open(ctx, memory.Options{FS: s.o.FS, Root: s.o.Root, Now: s.o.Now, Holder: holderSessions, SessionID: s.o.RunID, LockWait: orderWait, Redact: s.redact})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for _, l := range list {
		if err := store.Learn(l); err != nil {
			return added, fmt.Errorf("add to %s: %w", memory.AgentFile, err)
		}
		added++
	}
	return added, nil
}
