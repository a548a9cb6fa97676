package feature

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/durable/crashfs"
	"ralph/memory/durable/faultfs"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func clock() time.Time { return time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC) }

// sample is a snapshot in the middle of a run.
func sample(iteration int) Snapshot {
	at := clock()
	s := Snapshot{SessionID: "007", SessionDir: ".ralph/sessions/session-007-auth", Status: Running, Phase: "implementation",
		Phases:    []Phase{{ID: "planning", Status: "completed", StartedAt: &at, EndedAt: &at}, {ID: "implementation", Status: "running", StartedAt: &at}},
		Iteration: iteration, MaxIterations: 300, Tasks: Count{1, 3}, ActiveTaskIDs: []string{"001", "US-2"},
		Iterations: []Iteration{{Iteration: 1, Status: "completed", TaskID: "US-1", TaskTitle: "One", TaskCompleted: true, DurationMS: 1500, StartedAt: at, EndedAt: at.Add(1500 * time.Millisecond)}},
		Tokens:     Tokens{1000, 200, 300}, Git: Git{Baseline: "abc", Branch: "main", Dirty: []string{"a.go"}},
		Agent:     Agent{Plugin: "ralph", Model: "m-1", Sandbox: "workspace", Parallel: 4},
		Tracker:   Tracker{Plugin: "json", EpicIDs: []string{"E-1"}, PlanPath: "prd.json", TotalTasks: 3, Tasks: []Task{{"US-1", "One", "done", true}, {"001", "日本語 \"two\"", "in_progress", false}, {"US-2", "Three", "in_progress", false}}},
		StartedAt: at, Cwd: "/p", Run: json.RawMessage(`{"version":1,"settings":{"max_tokens":5},"odd":[1,{"a":"}]"}]}`)}
	if iteration > 1 {
		s.Iterations = append(s.Iterations, Iteration{Iteration: iteration, Status: "running", TaskID: "US-2", TaskTitle: "Three", StartedAt: at})
	}
	return s
}

func disk(t *testing.T) Options {
	t.Helper()
	return Options{StateDir: filepath.Join(t.TempDir(), ".ralph"), Now: clock, Warn: func(w string) { t.Log("warning: " + w) }}
}

func equal(t *testing.T, got, want Snapshot) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Snapshot{}), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Snapshot{}, "Version", "Feature", "UpdatedAt", "Run")); d != "" {
		t.Error(d)
	}
	var a, b any
	must(t, json.Unmarshal(got.Run, &a))
	must(t, json.Unmarshal(want.Run, &b))
	if !reflect.DeepEqual(a, b) {
		t.Errorf("run: %s, want %s", got.Run, want.Run)
	}
}

func TestSaveAndLoad(t *testing.T) {
	o := disk(t)
	s, err := Open(o, "auth")
	must(t, err)
	if _, found := s.Found(); found {
		t.Error("there was a snapshot before the first")
	}
	must(t, s.Save(sample(2)))
	l, err := Load(o, "auth")
	must(t, err)
	if !l.Live || l.Status != Running || l.Feature != "auth" || l.Version != 1 || !l.UpdatedAt.Equal(clock()) {
		t.Errorf("%+v", l)
	}
	equal(t, l.Snapshot, sample(2))
	data, err := os.ReadFile(s.Path())
	must(t, err)
	// People read it: a task a line; lists are never null.
	if !bytes.Contains(data, []byte("\n      {\"id\": \"001\", \"title\": \"日本語 \\\"two\\\"\"")) || bytes.Contains(data, []byte(": null,\n")) && !bytes.Contains(data, []byte("endedAt")) {
		t.Errorf("%s", data)
	}
	if !bytes.Contains(data, []byte(`"skippedTaskIds": []`)) {
		t.Errorf("an absent list is not empty:\n%s", data)
	}
	if _, err := Open(o, "auth"); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Errorf("a second one opened it: %v", err)
	}
	other, err := Open(o, "docs") // another feature is free
	must(t, err)
	must(t, other.Close())
	must(t, s.Close())
	must(t, s.Close())
	if err := s.Save(sample(3)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("saved after Close: %v", err)
	}
	again, err := Open(o, "auth")
	must(t, err)
	snap, found := again.Found()
	if !found || snap.Status != Interrupted || snap.PausedAt == nil || snap.Iterations[1].Status != "interrupted" || snap.Iterations[1].EndedAt.IsZero() {
		t.Errorf("%+v", snap)
	}
	must(t, again.Close())
}

// A run whose process was killed reads interrupted, everywhere, and can be opened.
func TestDeadHolder(t *testing.T) {
	if dir := os.Getenv("RALPH_TEST_HOLD"); dir != "" {
		s, err := Open(Options{StateDir: dir}, "auth")
		must(t, err)
		must(t, s.Save(sample(5)))
		fmt.Println("held")
		time.Sleep(time.Minute)
		return
	}
	o := disk(t)
	cmd := exec.Command(os.Args[0], "-test.run=TestDeadHolder$")
	cmd.Env = append(os.Environ(), "RALPH_TEST_HOLD="+o.StateDir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	buf := make([]byte, 4)
	_, err = out.Read(buf)
	must(t, err)
	l, err := Load(o, "auth")
	if err != nil || !l.Live || l.Status != Running {
		t.Errorf("while it lives: %v %v %v", l.Status, l.Live, err)
	}
	// A stopped process holds it still.
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	if _, err := Open(o, "auth"); !errors.Is(err, ErrLocked) {
		t.Errorf("a stopped holder does not count: %v", err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	l, err = Load(o, "auth")
	if err != nil || l.Live || l.Status != Interrupted || l.Iteration != 5 || !slices.Equal(l.ActiveTaskIDs, []string{"001", "US-2"}) {
		t.Errorf("after its death: %+v %v", l, err)
	}
	list, err := List(o)
	if err != nil || len(list) != 1 || list[0].Status != Interrupted {
		t.Errorf("%+v %v", list, err)
	}
	s, err := Open(o, "auth")
	must(t, err)
	must(t, s.Close())
}

func TestUnknownKeysStay(t *testing.T) {
	o := disk(t)
	s, err := Open(o, "auth")
	must(t, err)
	must(t, s.Save(sample(2)))
	must(t, s.Close())
	data, err := os.ReadFile(s.Path())
	must(t, err)
	for _, r := range [][2]string{
		{`"cwd": "/p"`, `"cwd": "/p", "x-top": {"deep": [1, 2]}`}, {`"branch": "main"`, `"branch": "main", "remote": "origin"`}, {`"model": "m-1"`, `"model": "m-1", "temperature": 0.5`},
		{`"totalTasks": 3`, `"totalTasks": 3, "mode": "fast"`}, {`"agentsPanelVisible": false`, `"agentsPanelVisible": false, "theme": "dark"`},
		{`"id": "001"`, `"owner": "ann", "id": "001"`}, {`"taskId": "US-1"`, `"taskId": "US-1", "note": "n"`}, {`"id": "planning"`, `"id": "planning", "by": "x"`},
	} {
		if !bytes.Contains(data, []byte(r[0])) {
			t.Fatalf("no %s in\n%s", r[0], data)
		}
		data = bytes.Replace(data, []byte(r[0]), []byte(r[1]), 1)
	}
	must(t, os.WriteFile(s.Path(), data, 0o600))
	s, err = Open(o, "auth")
	must(t, err)
	// The loop makes its snapshots anew, and knows nothing of those keys.
	must(t, s.Save(sample(3)))
	must(t, s.Close())
	now, err := os.ReadFile(s.Path())
	must(t, err)
	for _, want := range []string{`"x-top"`, `"remote"`, `"temperature"`, `"mode"`, `"theme"`, `"owner"`, `"note"`, `"by"`} {
		if bytes.Count(now, []byte(want)) != 1 {
			t.Errorf("%s stands %d times in\n%s", want, bytes.Count(now, []byte(want)), now)
		}
	}
	l, err := Load(o, "auth")
	must(t, err)
	equal(t, l.Snapshot, func() Snapshot { s := sample(3).Cut(); s.PausedAt = l.PausedAt; s.Iterations = l.Iterations; return s }())
	if !bytes.Contains(now, []byte(`"owner":`)) || !strings.Contains(string(now), `"id": "001", "title"`) {
		t.Errorf("%s", now)
	}
}

func TestForeign(t *testing.T) {
	for name, text := range map[string]string{
		"another tool":  `{"version":1,"sessionId":"x","trackerState":{}}`,
		"a list":        `[]`,
		"no JSON":       "PID=7\n",
		"empty":         "",
		"version 2":     `{"version":2,"feature":"auth","sessionId":"1","status":"running"}`,
		"another name":  `{"version":1,"feature":"docs","sessionId":"1","status":"paused"}`,
		"unknown word":  `{"version":1,"feature":"auth","sessionId":"1","status":"meditating"}`,
		"wrong type":    `{"version":1,"feature":"auth","sessionId":1,"status":"paused"}`,
		"negative":      `{"version":1,"feature":"auth","sessionId":"1","status":"paused","iteration":-1}`,
		"NUL bytes":     "\x00\x00\x00",
		"deep brackets": strings.Repeat("[", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			o := disk(t)
			path := o.path("auth")
			must(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must(t, os.WriteFile(path, []byte(text), 0o644))
			_, err := Open(o, "auth")
			var d *durable.Error
			if !errors.Is(err, ErrForeign) || !errors.As(err, &d) || !strings.Contains(d.Hint, "ralph sessions import") || len(err.Error()) > 600 {
				t.Errorf("opened: %v", err)
			}
			if _, err := Load(o, "auth"); !errors.Is(err, ErrForeign) {
				t.Errorf("loaded: %v", err)
			}
			list, err := List(o)
			if err != nil || len(list) != 1 || !errors.Is(list[0].Err, ErrForeign) {
				t.Errorf("listed: %+v %v", list, err)
			}
			if now, err := os.ReadFile(path); err != nil || string(now) != text {
				t.Error("it was touched")
			}
			// The lock was given back: another try says the same.
			if _, err := Open(o, "auth"); !errors.Is(err, ErrForeign) {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// Whatever stands there neither blocks nor leads elsewhere.
func TestNoRegularFile(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"FIFO":      func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"link":      func(p string) error { return os.Symlink("/etc/passwd", p) },
	} {
		t.Run(name, func(t *testing.T) {
			o := disk(t)
			must(t, os.MkdirAll(o.dir(), 0o700))
			must(t, make(o.path("auth")))
			if _, err := Open(o, "auth"); err == nil {
				t.Error("opened")
			}
			must(t, make(o.lockPath("docs")))
			if _, err := Open(o, "docs"); err == nil && name != "directory" {
				t.Error("locked")
			}
			if _, err := Load(o, "docs"); !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}

func TestBrokenFile(t *testing.T) {
	o := disk(t)
	s, err := Open(o, "auth")
	must(t, err)
	must(t, s.Save(sample(4)))
	must(t, s.Close())
	data, err := os.ReadFile(s.Path())
	must(t, err)
	must(t, os.WriteFile(s.Path(), data[:len(data)/2], 0o600))
	var warned []string
	o.Warn = func(w string) { warned = append(warned, w) }
	s, err = Open(o, "auth")
	must(t, err)
	if snap, found := s.Found(); !found || snap.Iteration != 4 || len(warned) == 0 || !strings.Contains(warned[0], "the copy") {
		t.Errorf("%v %v %q", found, snap.Iteration, warned)
	}
	must(t, s.Save(sample(5)))
	must(t, s.Close())
	if l, err := Load(o, "auth"); err != nil || l.Iteration != 5 {
		t.Errorf("%v %v", l.Iteration, err)
	}
}

// What somebody writes while the run goes on is kept aside, and the run's own
// state counts.
func TestEditedMeanwhile(t *testing.T) {
	for name, edit := range map[string]func(path string) error{
		"deleted":  os.Remove,
		"garbage":  func(p string) error { return os.WriteFile(p, []byte("oops"), 0o600) },
		"a key":    func(p string) error { return appendKey(p) },
		"replaced": func(p string) error { return errors.Join(os.Remove(p), os.WriteFile(p, []byte(`{"other":1}`), 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			o := disk(t)
			s, err := Open(o, "auth")
			must(t, err)
			must(t, s.Save(sample(2)))
			must(t, edit(s.Path()))
			must(t, s.Save(sample(3)))
			l, err := Load(o, "auth")
			if err != nil || l.Iteration != 3 {
				t.Fatalf("%+v %v", l, err)
			}
			kept, _ := os.ReadDir(filepath.Join(o.StateDir, "quarantine"))
			if want := 1; name == "deleted" && len(kept) != 0 || name != "deleted" && len(kept) != want {
				t.Errorf("%d files are kept", len(kept))
			}
			if data, _ := os.ReadFile(s.Path()); name == "a key" && !bytes.Contains(data, []byte("x-hand")) {
				t.Error("the key is gone")
			}
			must(t, s.Close())
		})
	}
}

func appendKey(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, bytes.Replace(data, []byte(`"version": 1`), []byte(`"version": 1, "x-hand": true`), 1), 0o600)
}

func TestName(t *testing.T) {
	for in, want := range map[string]string{"auth": "auth", " My Feature! ": "My-Feature", "v1.2": "v1.2", "ralph/login": "ralph-login", "../../etc": "etc", ".hidden": "hidden",
		"日本": "日本", "a..b": "a..b", "x_y": "x_y", strings.Repeat("é", 80): strings.Repeat("é", 30)} {
		if got, err := Name(in); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", in, got, err, want)
		}
		if again, err := Name(want); err != nil || again != want {
			t.Errorf("the name %q gives %q %v", want, again, err)
		}
	}
	for _, in := range []string{"", " ", "///", "..", "session-001-x", "archive", "summaries", "\x00", "-"} {
		if got, err := Name(in); err == nil {
			t.Errorf("%q: %q", in, got)
		}
	}
	for _, bad := range []string{"a/b", "../x", ".x", "session-1"} {
		if _, err := Open(disk(t), bad); err == nil {
			t.Errorf("opened %q", bad)
		}
		if _, err := Load(disk(t), bad); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("loaded %q: %v", bad, err)
		}
	}
}

// TestFaults: whatever fails whenever, what was saved is there, whole, and the next
// Save works once the disk does.
func TestFaults(t *testing.T) {
	r := faultfs.Sweep(func(ff *faultfs.FS, base afero.Fs) error {
		o := Options{FS: ff, StateDir: "/p/.ralph", Now: clock}
		acked := 0
		s, err := Open(o, "auth")
		if err != nil {
			ff.Heal()
			if s, err = Open(o, "auth"); err != nil {
				return fmt.Errorf("open again: %w", err)
			}
		}
		for i := 1; i <= 3; i++ {
			if i == 3 {
				ff.Heal()
			}
			snap := sample(i)
			if i == 3 {
				snap.Phase = "verification"
			}
			if err := s.Save(snap); err == nil {
				acked = i
			} else if i == 3 {
				return fmt.Errorf("save with a good disk: %w", err)
			}
			l, err := Load(Options{FS: base, StateDir: o.StateDir}, "auth")
			switch {
			case errors.Is(err, fs.ErrNotExist) && acked == 0:
			case err != nil:
				return err
			case l.Iteration < acked || l.Iteration > i:
				return fmt.Errorf("iteration %d is there, %d was saved", l.Iteration, acked)
			}
		}
		return s.Close()
	}, faultfs.Options{})
	t.Log(r)
	must(t, r.Err())
}

// TestPowerLoss: after a power cut the last snapshot that was saved is there, or a
// newer one.
func TestPowerLoss(t *testing.T) {
	r := crashfs.Sweep(func(fsys *crashfs.FS) error {
		s, err := Open(Options{FS: fsys, StateDir: "/p/.ralph", Now: clock}, "auth")
		if err != nil {
			return err
		}
		for i := 1; i <= 4; i++ {
			if err := s.Save(sample(i)); err != nil {
				return err
			}
			fsys.Ack(fmt.Sprint(i))
		}
		return s.Close()
	}, func(d *crashfs.FS, acked []string) error {
		s, err := Open(Options{FS: d, StateDir: "/p/.ralph", Now: clock}, "auth")
		if err != nil {
			return err
		}
		snap, found := s.Found()
		if last := len(acked); last > 0 && (!found || snap.Iteration < last) {
			return fmt.Errorf("iteration %d was saved, there is %v %d", last, found, snap.Iteration)
		}
		if err := s.Save(sample(9)); err != nil {
			return err
		}
		l, err := Load(Options{FS: d, StateDir: "/p/.ralph"}, "auth")
		if err == nil && l.Iteration != 9 {
			err = fmt.Errorf("iteration %d after saving 9", l.Iteration)
		}
		return err
	}, crashfs.Options{Images: crashfs.Count(400, 20_000)})
	t.Log(r)
	must(t, r.Err())
}

// FuzzSnapshot: nothing crashes the reader, and what it takes comes back the same.
func FuzzSnapshot(f *testing.F) {
	s := sample(2)
	s.Version, s.Feature = 1, "auth"
	seed, err := json.Marshal(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(lines(seed))
	f.Add([]byte(`{"version":1,"feature":"a","sessionId":"1","status":"paused","x":{"y":[null]},"tracker":{"tasks":[{"id":"1","z":1},{"id":"1"}]},"git":null}`))
	f.Add([]byte(`{"version":1,"feature":"a","sessionId":"1","status":"paused","FEATURE":"b","run":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		snap, err := parse(data)
		if err != nil {
			if !errors.Is(err, ErrForeign) {
				t.Fatal(err)
			}
			return
		}
		out, err := json.Marshal(snap)
		if err != nil {
			t.Fatal(err)
		}
		pretty := lines(out)
		var a, b bytes.Buffer
		if json.Compact(&a, out) != nil || json.Compact(&b, pretty) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("the lines say something else:\n%s\n%s", out, pretty)
		}
		again, err := parse(pretty)
		if err != nil {
			t.Fatalf("%v\n%s", err, pretty)
		}
		twice, err := json.Marshal(again)
		if err != nil || !bytes.Equal(out, twice) {
			t.Fatalf("not the same again: %v\n%s\n%s", err, out, twice)
		}
	})
}

// BenchmarkSave is what a boundary of a large run costs.
func BenchmarkSave(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, err := Open(Options{StateDir: filepath.Join(b.TempDir(), ".ralph")}, "auth")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			snap := sample(2)
			for i := range n {
				snap.Tracker.Tasks = append(snap.Tracker.Tasks, Task{ID: fmt.Sprintf("T-%d", i), Title: "a task of a plan that is large", Status: "open"})
			}
			for b.Loop() {
				snap.Iteration++
				if err := s.Save(snap); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
