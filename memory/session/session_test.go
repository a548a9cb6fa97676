package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"
	yaml "go.yaml.in/yaml/v4"

	"ralph/memory/durable/faultfs"
)

func clock() time.Time { return time.Date(2026, 11, 21, 10, 2, 3, 0, time.UTC) }

func options(fsys afero.Fs, dir string) Options {
	return Options{FS: fsys, StateDir: dir, Now: clock, Redact: func(s string) string { return strings.ReplaceAll(s, "s3cret", "[redacted]") }}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func records(t *testing.T, s *Session) (got []string, bad int) {
	t.Helper()
	err := s.Records(func(r Record) error {
		got = append(got, fmt.Sprintf("%d %d %s %s", r.Seq, r.Epoch, r.Kind, r.Payload))
		return nil
	})
	must(t, err)
	_, bad = s.Journal().Damage()
	return got, bad
}

func appendOne(s *Session, epoch uint64, kind, payload string) error {
	return s.Journal().Append(epoch, Record{Kind: kind, Payload: json.RawMessage(payload)})
}

func TestSession(t *testing.T) {
	for name, fsys := range map[string]afero.Fs{"disk": afero.NewBasePathFs(afero.NewOsFs(), t.TempDir()), "memory": afero.NewMemMapFs()} {
		s, err := Create(options(fsys, "/.ralph"), "Fix the Login: ünï!")
		must(t, err)
		if s.ID() != "001" || filepath.Base(s.Dir()) != "session-001-fix-the-login-n" {
			t.Errorf("%s %s", s.ID(), s.Dir())
		}
		must(t, appendOne(s, 0, "message", `{"text":"<tag>"}`))
		must(t, s.Journal().Append(4, Record{Kind: "tool", Payload: json.RawMessage(`{"a": [1, 2]}`)}, Record{Kind: "none"}))
		if err := appendOne(s, 4, "broken", `{`); err == nil {
			t.Error("a payload that is no JSON")
		}
		s.Say("you", "hello s3cret\n# not a heading\n```")
		s.Say("ralph", "")
		must(t, s.Update(func(m *Metadata) { m.Phase, m.PhaseName, m.TasksTotal = 1, "work", 3 }))
		must(t, s.Progress(1, 2, 3))
		s.End(Completed, "all s3cret done")
		must(t, s.Close())
		must(t, s.Close())
		if err := s.Update(func(*Metadata) {}); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := appendOne(s, 0, "x", "1"); err == nil {
			t.Error("appended after Close")
		}
		want := []string{`1 0 message {"text":"\u003ctag\u003e"}`, `2 4 tool {"a":[1,2]}`, `3 4 none null`}
		if got, bad := records(t, s); !slices.Equal(got, want) || bad != 0 {
			t.Errorf("%s: %q %d", name, got, bad)
		}
		text, err := afero.ReadFile(fsys, filepath.Join(s.Dir(), ConversationFile))
		must(t, err)
		if want := "## 2026-11-21 10:02:03 you\n\n> hello [redacted]\n> # not a heading\n> ```\n\n"; string(text) != want {
			t.Errorf("%q", text)
		}
		infos, err := List(fsys, "/.ralph")
		must(t, err)
		if len(infos) != 1 || infos[0].Err != nil || infos[0].Meta.Status != Completed || infos[0].Meta.EndTime == nil || infos[0].Meta.ExitReason != "all [redacted] done" || infos[0].Meta.TasksTotal != 3 {
			t.Errorf("%+v", infos)
		}
	}
}

// TestNewest: no more sessions are read than are asked for, and those are the last.
func TestNewest(t *testing.T) {
	fsys := afero.NewMemMapFs()
	for range 5 {
		s, err := Create(options(fsys, "/r/.ralph"), "")
		must(t, err)
		must(t, s.Close())
	}
	for limit, want := range map[int][]string{0: nil, 2: {"004", "005"}, 5: {"001", "002", "003", "004", "005"}, 9: {"001", "002", "003", "004", "005"}} {
		infos, err := Newest(fsys, "/r/.ralph", limit)
		must(t, err)
		var got []string
		for _, info := range infos {
			got = append(got, info.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d: %q, want %q", limit, got, want)
		}
	}
}

// TestMetadataKeys: the file has exactly the documented keys, ids are strings.
func TestMetadataKeys(t *testing.T) {
	fsys := afero.NewMemMapFs()
	o := options(fsys, "/r")
	o.Kind = "chat"
	s, err := Create(o, "")
	must(t, err)
	data, err := afero.ReadFile(fsys, filepath.Join(s.Dir(), MetadataFile))
	must(t, err)
	want := `session_id: session-001
session_name: chat
start_time: "2026-11-21T10:02:03Z"
end_time: null
status: in_progress
phase: 0
phase_name: ""
tasks_completed: 0
tasks_total: 0
ralph_runtime_config:
  max_iterations: 300
  confidence_threshold: 0.7
  human_intervention: ask_first
  learning_rate: 0.1
context_variables:
  features_discovered: []
  features_documented: []
  assumptions_identified: 0
  challenges_generated: []
  validations_planned: []
  validations_executed: []
performance_metrics:
  total_duration_seconds: 0
  average_task_duration: 0
  success_rate: 0
  error_count: 0
  help_requests: 0
  human_interventions: 0
`
	if string(data) != want {
		t.Errorf("%s", data)
	}
}

func TestUnknownKeysStay(t *testing.T) {
	fsys := afero.NewMemMapFs()
	s, err := Create(options(fsys, "/r"), "a")
	must(t, err)
	path := filepath.Join(s.Dir(), MetadataFile)
	data, err := afero.ReadFile(fsys, path)
	must(t, err)
	text := strings.Replace(string(data), "learning_rate: 0.1", "learning_rate: 0.1\n  theirs: {a: 1}", 1) + "custom: [x]\n"
	must(t, afero.WriteFile(fsys, path, []byte(text), 0o600))
	s.End(Paused, "stopped by the user")
	must(t, s.Close())
	again, err := Open(options(fsys, "/r"), "1")
	must(t, err)
	if m := again.Meta(); m.Status != Paused || m.EndTime != nil || m.ExitReason == "" {
		t.Errorf("%+v", m)
	}
	must(t, again.Update(func(m *Metadata) { m.TasksCompleted = 2 }))
	data, err = afero.ReadFile(fsys, path)
	must(t, err)
	var got map[string]any
	must(t, yaml.Load(data, &got))
	if got["custom"] == nil || got["ralph_runtime_config"].(map[string]any)["theirs"] == nil || got["status"] != "in_progress" || got["exit_reason"] != nil || got["tasks_completed"] != 2 {
		t.Errorf("%s", data)
	}
	must(t, afero.WriteFile(fsys, path, []byte("{{{"), 0o600))
	must(t, again.Update(func(*Metadata) {}))
	if kept, err := afero.ReadFile(fsys, "/r/quarantine/session-001-a.session-metadata.yaml.broken-1"); err != nil || string(kept) != "{{{" {
		t.Errorf("%q %v", kept, err)
	}
}

func TestNumbersAreNeverReused(t *testing.T) {
	root := t.TempDir()
	fsys := afero.NewOsFs()
	must(t, os.MkdirAll(filepath.Join(root, "sessions", "archive", "session-007-old"), 0o755))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := Create(options(fsys, root), "race")
			if err == nil {
				err = s.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	infos, err := List(fsys, root)
	must(t, err)
	ids := map[string]bool{}
	for _, i := range infos {
		ids[i.ID] = true
	}
	if len(ids) != 8 || !ids["008"] || !ids["015"] {
		t.Errorf("%v", ids)
	}
	must(t, os.RemoveAll(filepath.Join(root, "sessions", "session-015-race")))
	s, err := Create(options(fsys, root), "next")
	must(t, err)
	if s.ID() != "016" {
		t.Error(s.ID())
	}
	must(t, s.Close())
}

func TestPick(t *testing.T) {
	fsys := afero.NewMemMapFs()
	for _, name := range []string{"alpha one", "alpha two", "beta"} {
		s, err := Create(options(fsys, "/r"), name)
		must(t, err)
		must(t, s.Close())
	}
	for which, want := range map[string]string{"last": "003", "002": "002", "2": "002", "Beta": "003", "session-001": "001", "alpha-t": "002", "alpha one": "001", "b": "003"} {
		s, err := Open(options(fsys, "/r"), which)
		if err != nil || s.ID() != want {
			t.Errorf("%s: %v", which, err)
			continue
		}
		must(t, s.Close())
	}
	for which, want := range map[string]error{"alpha": ErrAmbiguous, "gamma": ErrNotFound, "": ErrNotFound, "00": ErrAmbiguous} {
		if _, err := Open(options(fsys, "/r"), which); !errors.Is(err, want) {
			t.Errorf("%q: %v", which, err)
		}
	}
	for _, tc := range [][2]string{{"new", "004"}, {"gamma", "005"}, {"gam", "005"}, {"last", "005"}, {"2", "002"}} {
		s, err := Resume(options(fsys, "/r"), tc[0])
		if err != nil || s.ID() != tc[1] {
			t.Fatalf("%s: %v", tc[0], err)
		}
		must(t, s.Close())
	}
	for _, which := range []string{"77", "session-077"} {
		if _, err := Resume(options(fsys, "/r"), which); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", which, err)
		}
	}
	if _, err := Resume(options(fsys, "/none"), "last"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, err := Open(options(fsys, "/none"), "last"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// TestLastIsOneWithAConversation: a session that was opened and left again does
// not stand between the user and the conversation before it.
func TestLastIsOneWithAConversation(t *testing.T) {
	fsys := afero.NewMemMapFs()
	for i := range 3 {
		s, err := Create(options(fsys, "/r"), "")
		must(t, err)
		if i == 1 {
			must(t, s.Journal().Append(0, Record{Kind: "message", Payload: []byte(`{}`)}))
		}
		must(t, s.Close())
	}
	s, err := Open(options(fsys, "/r"), "last")
	must(t, err)
	if s.ID() != "002" {
		t.Errorf("last is %s, want 002", s.ID())
	}
	must(t, s.Close())
}

// TestJournalAtEveryCut: a journal cut at any byte, or with any byte changed,
// opens; each record that is whole is read, and the next append is too.
func TestJournalAtEveryCut(t *testing.T) {
	base := afero.NewMemMapFs()
	s, err := Create(options(base, "/r"), "a")
	must(t, err)
	for i := range 3 {
		must(t, appendOne(s, 0, "k", fmt.Sprint(i)))
	}
	must(t, s.Close())
	path := filepath.Join(s.Dir(), JournalFile)
	whole, err := afero.ReadFile(base, path)
	must(t, err)
	ends := []int{0}
	for i, c := range whole {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	for cut := range len(whole) + 1 {
		must(t, afero.WriteFile(base, path, whole[:cut], 0o600))
		n := 0
		for n+1 < len(ends) && cut >= ends[n+1]-1 { // the line end itself may be missing
			n++
		}
		checkJournal(t, base, path, fmt.Sprintf("cut at %d", cut), n, 0)
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 0x20
		must(t, afero.WriteFile(base, path, changed, 0o600))
		checkJournal(t, base, path, fmt.Sprintf("byte %d changed", i), -1, -1)
	}
}

func checkJournal(t *testing.T, fsys afero.Fs, path, label string, wantWhole, wantBad int) {
	t.Helper()
	j, err := OpenJournal(fsys, path, "/r/quarantine", nil)
	if err != nil {
		t.Fatalf("%s: %v", label, err)
	}
	must(t, j.Append(0, Record{Kind: "next", Payload: json.RawMessage(`"x"`)}))
	var got []string
	must(t, j.Records(func(r Record) error { got = append(got, r.Kind); return nil }))
	_, bad := j.Damage()
	must(t, j.Close())
	if len(got) == 0 || got[len(got)-1] != "next" {
		t.Fatalf("%s: the next record is lost: %q", label, got)
	}
	if wantWhole >= 0 && (len(got) != wantWhole+1 || bad != wantBad) {
		t.Fatalf("%s: %d records and %d bad lines, want %d and %d", label, len(got)-1, bad, wantWhole, wantBad)
	}
	if wantWhole < 0 && len(got) < 2 {
		t.Fatalf("%s: only %q is left", label, got)
	}
}

// TestDiskFull: an append that fails leaves no trace, and the numbers have no
// gap when the disk works again.
func TestDiskFull(t *testing.T) {
	for n := 1; ; n++ {
		ff := faultfs.New(afero.NewMemMapFs())
		s, err := Create(options(ff, "/r"), "a")
		must(t, err)
		ff.FailAt(n, syscall.ENOSPC)
		for i := range 2 {
			if appendOne(s, 0, "k", fmt.Sprint(i)) != nil {
				must(t, appendOne(s, 0, "k", fmt.Sprint(i)))
			}
		}
		done := len(ff.Ops()) < n
		ff.FailAt(0, nil)
		if got, bad := records(t, s); !slices.Equal(got, []string{"1 0 k 0", "2 0 k 1"}) || bad != 0 {
			t.Fatalf("operation %d: %q, %d bad", n, got, bad)
		}
		must(t, s.Close())
		if done {
			return
		}
	}
}

func FuzzDecode(f *testing.F) {
	line, err := (seal{}).encode(Record{Seq: 1, Time: clock(), Kind: "k", Payload: json.RawMessage(`{"a":1}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"seq":1,"sum":"0123456789abcdef"}`))
	f.Add([]byte("\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, ok := (seal{}).decode(data)
		if !ok {
			return
		}
		if again, err := (seal{}).encode(r); err != nil || !json.Valid(again) {
			t.Fatalf("%q decodes but does not encode: %v", data, err)
		}
	})
}
