package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/durable/faultfs"
	"ralph/memory/markdown"
)

func clock() time.Time { return time.Date(2026, 11, 21, 10, 2, 3, 0, time.UTC) }

func open(t *testing.T, o Options) (*Store, Recovery) {
	t.Helper()
	if o.Now == nil {
		o.Now = clock
	}
	s, rec, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, rec
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	must(t, err)
	return string(data)
}

func gitInit(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

func TestOpenMakesTheStateDirectory(t *testing.T) {
	root := t.TempDir()
	gitInit(t, root)
	s, rec := open(t, Options{Root: root, Holder: "chat"})
	if len(rec.Warnings) > 0 || rec.Crashed != nil || rec.ReadOnly {
		t.Errorf("%+v", rec)
	}
	if got := read(t, root, ".ralph", "FORMAT"); got != "ralph 1\n" {
		t.Errorf("FORMAT %q", got)
	}
	if n := strings.Count(read(t, root, ".git", "info", "exclude"), "**/.ralph/*\n"); n != 1 {
		t.Errorf("%d exclude lines", n)
	}
	if info, err := os.Stat(filepath.Join(root, ".ralph")); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info.Mode(), err)
	}
	var h Holder
	must(t, json.Unmarshal([]byte(read(t, root, ".ralph", "lock")), &h))
	if h.PID != os.Getpid() || h.StartTime == 0 || h.BootID == "" || h.Kind != "chat" || h.Cwd == "" || !h.AcquiredAt.Equal(clock()) {
		t.Errorf("%+v", h)
	}
	must(t, s.Close())
	must(t, s.Close())
	if got := read(t, root, ".ralph", "lock") + read(t, root, ".git", "ralph.lock"); got != "" {
		t.Errorf("notes left: %q", got)
	}
	cmd := exec.Command("git", "status", "--porcelain")
	cmd.Dir = root
	if out, err := cmd.Output(); err != nil || len(out) != 0 {
		t.Errorf("git sees %q %v", out, err)
	}
	for _, name := range []string{GoalsFile, TasksFile, TodoFile, ProgressFile, AgentFile} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			t.Errorf("%s was made though there was nothing to say", name)
		}
	}
}

func TestLock(t *testing.T) {
	for _, git := range []bool{true, false} {
		root := t.TempDir()
		other := root
		if git {
			gitInit(t, root)
			other = filepath.Join(t.TempDir(), "tree")
			cmd := exec.Command("git", "worktree", "add", "-q", "--detach", other)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
		}
		s, _ := open(t, Options{Root: root, Holder: "chat"})
		_, _, err := Open(t.Context(), Options{Root: other})
		var le *LockedError
		if !errors.Is(err, ErrLocked) || !errors.As(err, &le) {
			t.Fatalf("git %v: %v", git, err)
		}
		host, _ := os.Hostname()
		if want := fmt.Sprintf("another Ralph is running here (pid %d on %s, chat, since %s): ralph attach | ralph send | ralph stop", os.Getpid(), host, clock().Local().Format("15:04")); err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		begin := time.Now()
		_, _, err = Open(t.Context(), Options{Root: other, LockWait: 60 * time.Millisecond})
		if !errors.Is(err, ErrLocked) || time.Since(begin) < 60*time.Millisecond {
			t.Errorf("waited %v: %v", time.Since(begin), err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		time.AfterFunc(20*time.Millisecond, func() { cancel(stop) })
		if _, _, err = Open(ctx, Options{Root: other, LockWait: time.Minute}); !errors.Is(err, stop) {
			t.Errorf("%v", err)
		}
		// A read-only Store looks on.
		ro, rec := open(t, Options{Root: other, ReadOnly: true})
		if !rec.ReadOnly || !ro.ReadOnly() {
			t.Error("not read-only")
		}
		done := make(chan error, 1)
		time.AfterFunc(30*time.Millisecond, func() { done <- s.Close() })
		next, _ := open(t, Options{Root: other, LockWait: 10 * time.Second})
		must(t, <-done)
		must(t, next.Close())
	}
}

// TestLockNotes: no leftover of a dead holder blocks, and what it says is told.
func TestLockNotes(t *testing.T) {
	for _, tc := range []struct {
		note string
		pid  int
	}{{"", 0}, {"garbage", 0}, {"{", 0}, {`{"pid":0}`, 0}, {`{"pid":99999999,"acquiredAt":"2026-01-01T00:00:00Z"}`, 99999999}, {fmt.Sprintf(`{"pid":%d,"startTime":1}`, os.Getpid()), os.Getpid()}} {
		root := t.TempDir()
		must(t, os.Mkdir(filepath.Join(root, ".ralph"), 0o700))
		must(t, os.WriteFile(filepath.Join(root, ".ralph", "lock"), []byte(tc.note), 0o600))
		_, rec := open(t, Options{Root: root})
		if got := rec.Crashed; (got != nil) != (tc.pid != 0) || got != nil && got.PID != tc.pid {
			t.Errorf("%q: %+v", tc.note, got)
		}
	}
}

// TestHostileLayout: links and FIFOs in the place of our files lead nowhere
// and block nothing.
func TestHostileLayout(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(outside, []byte("precious"), 0o600))
	for name, make := range map[string]func(root string) error{
		"link to a directory": func(root string) error { return os.Symlink(filepath.Dir(outside), filepath.Join(root, ".ralph")) },
		"file":                func(root string) error { return os.WriteFile(filepath.Join(root, ".ralph"), nil, 0o600) },
		"linked lock": func(root string) error {
			return errors.Join(os.Mkdir(filepath.Join(root, ".ralph"), 0o700), os.Symlink(outside, filepath.Join(root, ".ralph", "lock")))
		},
		"fifo lock": func(root string) error {
			return errors.Join(os.Mkdir(filepath.Join(root, ".ralph"), 0o700), syscall.Mkfifo(filepath.Join(root, ".ralph", "lock"), 0o600))
		},
		"linked stamp": func(root string) error {
			return errors.Join(os.Mkdir(filepath.Join(root, ".ralph"), 0o700), os.Symlink(outside, filepath.Join(root, ".ralph", "FORMAT")))
		},
		"git file": func(root string) error {
			return os.WriteFile(filepath.Join(root, ".git"), []byte("gitdir: "+filepath.Dir(outside)), 0o600)
		},
		"linked tasks": func(root string) error { return os.Symlink(outside, filepath.Join(root, TasksFile)) },
	} {
		root := t.TempDir()
		must(t, make(root))
		s, rec := open(t, Options{Root: root})
		_, err := s.AddTask(Task{Title: "x"})
		if len(rec.Warnings) == 0 && !errors.Is(err, durable.ErrSymlink) && name != "fifo lock" && name != "git file" {
			t.Errorf("%s: nothing said: %+v %v", name, rec, err)
		}
		if err := s.Close(); err != nil && !(name == "linked tasks" && errors.Is(err, durable.ErrSymlink)) {
			t.Errorf("%s: %v", name, err)
		}
		if got := read(t, outside); got != "precious" {
			t.Fatalf("%s: written through: %q", name, got)
		}
		if entries, _ := os.ReadDir(filepath.Dir(outside)); len(entries) != 1 {
			t.Errorf("%s: made files outside: %v", name, entries)
		}
	}
}

func TestForeignStateDirectory(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, ".ralph", "sessions"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, ".ralph", "state.json"), []byte("{}"), 0o644))
	must(t, os.WriteFile(filepath.Join(root, ".ralph", "lock"), []byte("pid=4\n"), 0o644))
	gitInit(t, root)
	s, rec := open(t, Options{Root: root})
	if len(rec.Warnings) != 1 || !strings.Contains(rec.Warnings[0], "state.json") {
		t.Errorf("%q", rec.Warnings)
	}
	must(t, s.AppendRun(json.RawMessage(`{"a": 1}`)))
	must(t, s.Close())
	if read(t, root, ".ralph", "state.json") != "{}" || read(t, root, ".ralph", "lock") != "pid=4\n" {
		t.Error("a foreign file changed")
	}
	must(t, os.WriteFile(filepath.Join(root, ".ralph", "FORMAT"), []byte("ralph 2\n"), 0o600))
	if _, rec = open(t, Options{Root: root}); !rec.ReadOnly || !strings.Contains(rec.Warnings[0], "newer Ralph") {
		t.Errorf("%+v", rec)
	}
}

func TestStateFiles(t *testing.T) {
	root := t.TempDir()
	s, _ := open(t, Options{Root: root, Redact: func(x string) string { return strings.ReplaceAll(x, "s3cret", "[redacted]") }})
	task, err := s.AddTask(Task{Title: "First s3cret", Check: "make", Priority: "1"})
	must(t, err)
	if task.ID != "T-1" {
		t.Errorf("%+v", task)
	}
	_, err = s.SetTask("T-1", TaskEdit{Status: markdown.InProgress})
	must(t, errors.Join(err, s.Flush()))
	// The user edits in between; both edits stay.
	path := filepath.Join(root, TasksFile)
	must(t, os.WriteFile(path, []byte(strings.Replace(read(t, path), "First", "My words about", 1)+"\n- [ ] mine\n"), 0o644))
	must(t, s.Progress(Entry{Title: "Old T-7", Status: "completed", Summary: "one line"}))
	must(t, s.Progress(Entry{Title: "New\n## x", Status: "failed", Summary: "two\n```\n## lines s3cret", Files: []string{"a.go", "b`c"}, Commits: []string{"abc"}, Check: "go test: exit 1", RunID: "r-1"}))
	second, err := s.AddTask(Task{Title: "Second"})
	must(t, err)
	if second.ID != "T-8" {
		t.Errorf("an id that progress names was given again: %s", second.ID)
	}
	must(t, s.Flush())
	want := "# Tasks\n\nWhat Ralph works on. Edit it at any time; Ralph picks your changes up and keeps your words.\n\n" +
		"A task is a line like `- [ ] **T-N** Retry the upload`. Below it `  - after: T-M` makes it wait for another, `  - check: make test` proves it, and boxes are its criteria.\n\n" +
		"- [ ] **T-1** My words about [redacted]\n  - status: in_progress\n  - priority: 1\n  - check: make\n\n- [ ] mine\n- [ ] **T-8** Second\n  - status: pending\n"
	if got := read(t, path); got != want {
		t.Errorf("tasks:\n%s", got)
	}
	want = "# Progress\n\nWhat was done, newest first.\n\n## 2026-11-21 10:02 UTC — New ## x\n\n- Status: failed\n- Files: `a.go`, `b'c`\n- Commits: `abc`\n- Check: `go test: exit 1`\n- Run: `r-1`\n" +
		"\nSummary:\n\n````text\ntwo\n```\n## lines [redacted]\n````\n\n## 2026-11-21 10:02 UTC — Old T-7\n\n- Status: completed\n- Summary: one line\n"
	if got := read(t, root, ProgressFile); got != want {
		t.Errorf("progress:\n%s", got)
	}
	must(t, s.Learn(Learning{Type: "learning", What: "the cache", Why: "line 1\nline 2", Learning: "warm it"}))
	must(t, s.Flush())
	if got := read(t, root, AgentFile); !strings.HasSuffix(got, "\n\n## 2026-11-21T10:02:03Z - LEARNING\n\n- **What**: the cache\n\n**Why**:\n\n```text\nline 1\nline 2\n```\n- **Learning**: warm it\n") {
		t.Errorf("agent:\n%s", got)
	}
	for _, e := range []TodoEdit{{"add", "one thing"}, {"add", "other thing"}, {"done", "one"}, {"drop", "other thing"}} {
		must(t, s.Todo(e))
	}
	must(t, s.Flush())
	if got := read(t, root, TodoFile); !strings.HasSuffix(got, "\n- [x] one thing\n- [-] other thing\n") {
		t.Errorf("todo:\n%s", got)
	}
	must(t, s.Goal(GoalEdit{Action: "set", Text: "Offline mode", Acceptance: []string{"works without a network"}}))
	must(t, s.Goal(GoalEdit{Action: "set", Text: "offline mode"}))
	must(t, s.Goal(GoalEdit{Action: "met", Text: "G-1"}))
	must(t, s.Flush())
	if got := read(t, root, GoalsFile); !strings.HasSuffix(got, "\n- [x] **G-1** Offline mode\n  - status: done\n  - [ ] works without a network\n") {
		t.Errorf("goals:\n%s", got)
	}
	if err := errors.Join(s.Todo(TodoEdit{"burn", "x"})); err == nil {
		t.Error("an unknown action")
	}
	if err := s.Todo(TodoEdit{"done", "nothing like it"}); !errors.Is(err, markdown.ErrNoTask) {
		t.Error(err)
	}
	must(t, s.AppendRun(json.RawMessage("{\n \"k\": \"s3cret\"\n}")))
	if got := read(t, root, runsFile); got != "{\"k\":\"[redacted]\"}\n" {
		t.Errorf("runs: %q", got)
	}
	if got := s.Changed(); !slices.Equal(got, []string{".ralph/runs.jsonl", "AGENT.md", "RALPH_GOALS.md", "RALPH_PROGRESS.md", "RALPH_TASKS.md", "RALPH_TODO.md"}) {
		t.Errorf("changed: %q", got)
	}
	if tasks, err := s.Interrupted(); err != nil || len(tasks) != 1 || tasks[0].ID != "T-1" {
		t.Errorf("%+v %v", tasks, err)
	}
}

// TestHeldAndFlushed: a full disk loses nothing; when there is space again all
// that was recorded is written once.
func TestHeldAndFlushed(t *testing.T) {
	for n := 1; n < 60; n++ {
		base := afero.NewMemMapFs()
		must(t, base.MkdirAll("/p", 0o755))
		ff := faultfs.New(base)
		s, _ := open(t, Options{Root: "/p", FS: ff})
		ff.FailAt(n, syscall.ENOSPC)
		_, e1 := s.AddTask(Task{Title: "one"})
		e2 := s.Progress(Entry{Title: "work", Summary: "x"})
		e3 := s.AppendRun(json.RawMessage(`{"r":1}`))
		done := len(ff.Ops()) < n
		if err := errors.Join(e1, e2, e3); err != nil {
			var de *durable.Error
			if !errors.As(err, &de) || de.Hint == "" {
				t.Errorf("operation %d: %v", n, err)
			}
		}
		ff.FailAt(0, nil)
		must(t, s.Flush())
		if held := s.Held(); len(held) > 0 {
			t.Fatalf("operation %d: held %v", n, held)
		}
		for name, what := range map[string]string{TasksFile: "**T-1** one", ProgressFile: "— work", runsFile: `{"r":1}`} {
			data, err := afero.ReadFile(base, "/p/"+name)
			if c := strings.Count(string(data), what); c != 1 && !unread(name, e1, e2) {
				t.Fatalf("operation %d (%v): %s has %d of it: %v\n%s", n, errors.Join(e1, e2, e3), name, c, err, data)
			}
		}
		if done {
			if n < 20 {
				t.Errorf("only %d operations", n)
			}
			return
		}
	}
	t.Error("the operations never end")
}

// unread says that a file could not even be read, so that its change was
// refused rather than held.
func unread(name string, e1, e2 error) bool {
	var de *durable.Error
	return name == TasksFile && errors.As(e1, &de) && de.Op == "read" || name == ProgressFile && errors.As(e2, &de) && de.Op == "read"
}

func TestReadOnlyHolds(t *testing.T) {
	root := t.TempDir()
	s, _ := open(t, Options{Root: root, ReadOnly: true})
	task, err := s.AddTask(Task{Title: "one"})
	must(t, err)
	_, err = s.SetTask(task.ID, TaskEdit{Status: markdown.Done})
	must(t, errors.Join(err, s.AppendRun(json.RawMessage(`{}`)), s.Flush()))
	if tasks, err := s.Tasks(); err != nil || len(tasks) != 1 || tasks[0].Status != markdown.Done {
		t.Errorf("%+v %v", tasks, err)
	}
	if got := s.Held(); !slices.Equal(got, []string{".ralph/runs.jsonl", "RALPH_TASKS.md"}) {
		t.Errorf("held %q", got)
	}
	must(t, s.Close())
	if entries, _ := os.ReadDir(root); len(entries) != 0 {
		t.Errorf("written: %v", entries)
	}
}

func TestUnwritableProjectOpens(t *testing.T) {
	if os.Getuid() == 0 {
		ff := faultfs.New(afero.NewBasePathFs(afero.NewOsFs(), t.TempDir()))
		must(t, ff.MkdirAll("/p", 0o755))
		// After the checks of the root, nothing can be made.
		ff.FailFrom(6, syscall.EROFS)
		s, rec, err := Open(t.Context(), Options{Root: "/p", FS: ff})
		if err != nil || !rec.ReadOnly || !s.ReadOnly() || !strings.Contains(rec.Warnings[0], "nothing can be saved") {
			t.Fatalf("%v %+v", err, rec)
		}
		return
	}
	root := t.TempDir()
	must(t, os.Chmod(root, 0o555))
	s, rec := open(t, Options{Root: root})
	if !rec.ReadOnly || !s.ReadOnly() {
		t.Errorf("%+v", rec)
	}
}

func TestFeatures(t *testing.T) {
	root := t.TempDir()
	s, _ := open(t, Options{Root: root})
	must(t, os.WriteFile(filepath.Join(root, ".ralph", "feature-inventory.json"),
		[]byte(`{"extra":{"keep":1},"features":[{"feature_id":"F007","name":"Login","category":"auth","status":"discovered","odd":[1,2]}],"statistics":{"total_features":99}}`), 0o600))
	id, err := s.RecordFeature("", "001", Feature{Name: "login", Status: "documented", KeyFiles: []string{"a.go"}, Document: Document{Path: "docs/login.md", Title: "Login", Words: 120}})
	must(t, err)
	if id != "F007" {
		t.Error(id)
	}
	id, err = s.RecordFeature("", "001", Feature{Name: "Export", Category: "io"})
	must(t, err)
	if id != "F008" {
		t.Error(id)
	}
	var got struct {
		SessionID string `json:"session_id"`
		Extra     map[string]int
		Features  []map[string]any
		Stats     struct {
			Total    int            `json:"total_features"`
			By       map[string]int `json:"by_category"`
			Coverage float64        `json:"documentation_coverage"`
		} `json:"statistics"`
	}
	must(t, json.Unmarshal([]byte(read(t, root, ".ralph", "feature-inventory.json")), &got))
	if got.SessionID != "001" || got.Extra["keep"] != 1 || len(got.Features) != 2 || got.Stats.Total != 2 || got.Stats.Coverage != 0.5 || got.Stats.By["auth"] != 1 {
		t.Errorf("%+v", got)
	}
	if f := got.Features[0]; f["odd"] == nil || f["name"] != "login" || f["documented"] != true {
		t.Errorf("%+v", f)
	}
	if got := read(t, root, ".ralph", "feature-docs-generated.json"); !strings.Contains(got, `"path": "docs/login.md"`) || !strings.Contains(got, `"words": 120`) {
		t.Error(got)
	}
}

// TestCRLFStaysCRLF: an edit keeps the file's own line ends, in every file.
func TestCRLFStaysCRLF(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{TasksFile, ProgressFile, AgentFile} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte("# Mine\r\n\r\n## Old\r\n"), 0o644))
	}
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "x"})
	must(t, errors.Join(err, s.Progress(Entry{Title: "p", Summary: "a\nb"}), s.Learn(Learning{What: "w"}), s.Flush()))
	for _, name := range []string{TasksFile, ProgressFile, AgentFile} {
		got := read(t, root, name)
		if strings.Count(got, "\n") != strings.Count(got, "\r\n") || !strings.HasPrefix(got, "# Mine\r\n\r\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	root := b.TempDir()
	for b.Loop() {
		s, _, err := Open(b.Context(), Options{Root: root, Holder: "one-shot"})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzProgress(f *testing.F) {
	f.Add("# P\n\n## old\n", "title", "sum\n```\nx")
	f.Add("```\nopen", "<!-- t", "~~~\n-->")
	f.Fuzz(func(t *testing.T, before, title, summary string) {
		fsys := afero.NewMemMapFs()
		must(t, fsys.MkdirAll("/p", 0o755))
		must(t, afero.WriteFile(fsys, "/p/"+ProgressFile, []byte(before), 0o644))
		s, _ := open(t, Options{Root: "/p", FS: fsys})
		must(t, s.Progress(Entry{Title: title, Summary: summary}))
		must(t, s.Flush())
		after, err := afero.ReadFile(fsys, "/p/"+ProgressFile)
		must(t, err)
		// What was there is there still, around what was put in.
		i := 0
		for i < len(before) && i < len(after) && before[i] == after[i] {
			i++
		}
		if !bytes.HasSuffix(after, []byte(before[i:])) && !bytes.Contains(after, []byte(strings.TrimPrefix(before, "\ufeff"))) {
			t.Fatalf("%q became %q", before, after)
		}
	})
}

func TestFeaturesHoldNoSecret(t *testing.T) {
	root := t.TempDir()
	const key = "s3cret"
	s, _ := open(t, Options{Root: root, Redact: func(x string) string { return strings.ReplaceAll(x, key, "[redacted]") }})
	_, err := s.RecordFeature("", key, Feature{ID: key, Name: key, Category: key, Directory: key, Purpose: key, KeyFiles: []string{key},
		Dependencies: []string{key}, Status: key, Document: Document{Path: key, Title: key, Status: "x"}})
	must(t, err)
	for _, name := range []string{"feature-inventory.json", "feature-docs-generated.json"} {
		text := read(t, root, ".ralph", name)
		if strings.Contains(strings.ReplaceAll(text, `"session_id": "s3cret"`, ""), key) || !strings.Contains(text, "[redacted]") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
