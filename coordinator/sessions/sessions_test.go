package sessions

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/config"
	"ralph/memory/registry"
	"ralph/memory/retention"
	"ralph/memory/session"
)

// sessionsOf opens the sessions of a fresh project with so many sessions in it.
func sessionsOf(t *testing.T, names ...string) (*Sessions, *[]string) {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		s, err := session.Create(session.Options{StateDir: filepath.Join(root, ".ralph")}, name)
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var warnings []string
	s := Open(Options{Root: root, Config: &config.Config{}}, func(w string) { warnings = append(warnings, w) })
	return s, &warnings
}

func TestFindSession(t *testing.T) {
	s, _ := sessionsOf(t, "alpha one", "alpha two", "beta")
	st, err := s.scan(false)
	if err != nil {
		t.Fatal(err)
	}
	for which, want := range map[string]string{"1": "001", "002": "002", "Beta": "003", "alpha t": "002", "session-003": "003", " b ": "003"} {
		if x, err := find(st.Sessions, which); err != nil || x.ID != want {
			t.Errorf("%q: %s %v", which, x.ID, err)
		}
	}
	for which, says := range map[string]string{"alpha": "several fit", "": "no such", "gamma": "no such", "9": "no such"} {
		_, err := find(st.Sessions, which)
		var e *result.Error
		if !errors.As(err, &e) || e.Status != result.Usage || e.Hint == "" || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", which, err)
		}
	}
	_, err = find(st.Sessions, "btea")
	var e *result.Error
	if !errors.As(err, &e) || e.Status != result.Usage || !strings.Contains(e.Hint, `"beta"`) {
		t.Errorf("%+v", e)
	}
}

// TestHolderWorksInOneSession: of all that say they are at work only one can be.
func TestHolderWorksInOneSession(t *testing.T) {
	came := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	at := func(id string, changed time.Duration, status session.Status) retention.Session {
		return retention.Session{ID: id, Status: status, Changed: came.Add(changed)}
	}
	for name, tc := range map[string]struct {
		holder   string
		sessions []retention.Session
		live     string
	}{
		"the newest":  {"", []retention.Session{at("001", time.Second, session.InProgress), at("002", time.Minute, session.InProgress), at("003", time.Hour, session.Completed)}, "002"},
		"the named":   {"001", []retention.Session{at("001", -time.Hour, session.InProgress), at("002", time.Minute, session.InProgress)}, "001"},
		"none":        {"r-1", []retention.Session{at("001", -time.Hour, session.InProgress)}, ""},
		"not at work": {"", []retention.Session{at("001", time.Hour, session.Paused)}, ""},
	} {
		markLive(tc.sessions, memory.Holder{SessionID: tc.holder, AcquiredAt: came})
		got := ""
		for _, s := range tc.sessions {
			if s.Live {
				got += s.ID
			}
		}
		if got != tc.live {
			t.Errorf("%s: %q is live", name, got)
		}
	}
}

func TestSessionsOfAHeldProject(t *testing.T) {
	s, warnings := sessionsOf(t, "one", "two")
	store, _, err := memory.Open(t.Context(), memory.Options{Root: s.o.Root, Holder: "chat"})
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(dry bool) error{
		"archive":   func(dry bool) error { _, err := s.Archive(t.Context(), []string{"1"}, dry); return err },
		"prune":     func(dry bool) error { _, _, err := s.Prune(t.Context(), false, dry); return err },
		"summarize": func(dry bool) error { _, err := s.Summarize(t.Context(), dry); return err },
		"handoff":   func(dry bool) error { _, err := s.Handoff(t.Context(), "1", "2", dry); return err },
		"merge":     func(dry bool) error { _, err := s.Merge(t.Context(), "1", "2", "", dry); return err },
	} {
		if err := do(false); !errors.Is(err, memory.ErrLocked) {
			t.Errorf("%s: %v", name, err)
		}
		if err := do(true); err != nil {
			t.Errorf("%s, dry: %v", name, err)
		}
	}
	if rows, err := s.List(t.Context(), false); err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Archive(t.Context(), []string{"1"}, false); err != nil || len(done) != 1 {
		t.Errorf("%v %v %q", done, err, *warnings)
	}
	if rows, err := s.List(t.Context(), true); err != nil || len(rows) != 2 || !rows[0].Archived {
		t.Errorf("%+v %v", rows, err)
	}
}

// TestPruneKeepsWhatIsNotSummedUp: raw files of which the summary could not say
// everything stay.
func TestPruneKeepsWhatIsNotSummedUp(t *testing.T) {
	s, warnings := sessionsOf(t, "old")
	s.o.Now = func() time.Time { return time.Now().Add(1000 * 24 * time.Hour) }
	s.policy = retention.Policy{ArchiveAfter: time.Hour, DeleteRawAfter: 2 * time.Hour, Summaries: true}
	if done, err := s.Archive(t.Context(), nil, false); err != nil || len(done) != 1 {
		t.Fatal(done, err)
	}
	dir := filepath.Join(s.stateDir(), "sessions", "archive", "session-001-old")
	journal := filepath.Join(dir, session.JournalFile)
	bad := filepath.Join(dir, "decision-history.json")
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Prune(t.Context(), false, false); err != nil || len(*warnings) == 0 {
		t.Errorf("%v %q", err, *warnings)
	}
	if _, err := os.Stat(journal); err != nil {
		t.Errorf("the journal is gone: %v", err)
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Prune(t.Context(), false, false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(journal); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the journal is there: %v", err)
	}
}

// TestRegister: the registry is never necessary.
func TestRegister(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ralph", "sessions.json")
	r := registry.New(registry.Options{Path: path})
	if w := Register(context.Background(), r, "/p", "001", os.Getpid(), registry.Running, nil); w != "" {
		t.Error(w)
	}
	listed, _, err := r.List(t.Context())
	if err != nil || len(listed) != 1 || listed[0].Status != registry.Running || !listed[0].Gone {
		t.Errorf("%+v %v", listed, err)
	}
	if w := Register(context.Background(), registry.New(registry.Options{}), "/p", "001", 1, registry.Running, nil); w != "" {
		t.Errorf("no home: %q", w)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"version":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if w := Register(context.Background(), r, "/p", "001", 1, registry.Running, nil); !strings.Contains(w, "newer Ralph") {
		t.Errorf("%q", w)
	}
}
