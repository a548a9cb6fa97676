package memory

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/durable/faultfs"
	"ralph/memory/markdown"
)

// denied is the real disk, on which one file cannot be opened while it is shut,
// by any user. The Store's goroutine reads it while a test shuts it.
type denied struct {
	afero.Fs
	path string
	shut *atomic.Bool
}

func (d denied) OpenFile(name string, flag int, perm fs.FileMode) (afero.File, error) {
	if name == d.path && d.shut.Load() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	return d.Fs.OpenFile(name, flag, perm)
}

func (d denied) LstatIfPossible(name string) (fs.FileInfo, bool, error) {
	info, err := os.Lstat(name)
	return info, true, err
}

func (d denied) Rename(from, to string) error {
	if from == d.path {
		d.shut.Store(false) // the next file of that name is another one
	}
	return d.Fs.Rename(from, to)
}

func random() []byte {
	data := make([]byte, 10_000)
	_, _ = rand.Read(data)
	return data
}

// broken are the things that may stand in the place of a state file.
func broken() map[string]func(path string) error {
	replace := func(make func(path string) error) func(string) error {
		return func(path string) error { return errors.Join(os.Remove(path), make(path)) }
	}
	return map[string]func(path string) error{
		"nothing":       os.Remove,
		"0 bytes":       func(path string) error { return os.Truncate(path, 0) },
		"random bytes":  func(path string) error { return os.WriteFile(path, random(), 0o644) },
		"not UTF-8":     func(path string) error { return os.WriteFile(path, []byte("- [ ] caf\xe9\n"), 0o644) },
		"NUL bytes":     func(path string) error { return os.WriteFile(path, make([]byte, 4096), 0o644) },
		"200 MB":        func(path string) error { return os.Truncate(path, 200<<20) },
		"a directory":   replace(func(path string) error { return os.MkdirAll(filepath.Join(path, "full"), 0o755) }),
		"a FIFO":        replace(func(path string) error { return syscall.Mkfifo(path, 0o644) }),
		"a link to not": replace(func(path string) error { return os.Symlink(path+".gone", path) }),
		"a link to itself": replace(func(path string) error {
			return os.Symlink(filepath.Base(path), path)
		}),
	}
}

// fill gives each of the five files content, which it returns.
func fill(t *testing.T, s *Store) map[string]string {
	t.Helper()
	_, err := s.AddTask(Task{Title: "the task"})
	must(t, errors.Join(err, s.Progress(Entry{Title: "the entry"}), s.Todo(TodoEdit{"add", "the item"}),
		s.Goal(GoalEdit{Action: "set", Text: "the goal"}), s.Learn(Learning{What: "the learning"}), s.Flush()))
	out := map[string]string{}
	for _, name := range order() {
		out[name] = read(t, s.root, name)
	}
	return out
}

// hasty has a Store wait no longer for what may come again than for other steps.
func hasty(s *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loss = s.settle
}

// lost waits until it is told that a file was lost, and put back.
func lost(s *Store) (told string) {
	for end := time.Now().Add(20 * time.Second); told == "" && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, p := range s.Edits() {
			told += p.Lost
		}
	}
	_ = s.Flush() // what is wrong shows in the file
	return told
}

// TestBrokenFiles: whatever takes the place of a state file, while Ralph is
// closed or open, is moved away, and the file is put back; nothing is lost.
func TestBrokenFiles(t *testing.T) {
	for what, plant := range broken() {
		for _, name := range order() {
			for _, running := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s is %s, open %v", name, what, running), func(t *testing.T) {
					t.Parallel()
					brokenFile(t, what, name, plant, running)
				})
			}
		}
	}
}

func brokenFile(t *testing.T, what, name string, plant func(string) error, running bool) {
	root := t.TempDir()
	path := filepath.Join(root, name)
	s, _ := open(t, Options{Root: root})
	hasty(s)
	want := fill(t, s)
	told := ""
	if running {
		must(t, plant(path))
		told = lost(s)
	} else {
		must(t, errors.Join(s.Close(), plant(path)))
		var rec Recovery
		s, rec = open(t, Options{Root: root})
		told = strings.Join(rec.Warnings, "\n")
		for _, f := range rec.Files {
			if f.Name == name && (f.State != stateLost && f.State != stateCorrupt || f.Restored == "" || (f.Quarantined == "") != (what == "nothing")) {
				t.Errorf("%+v", f)
			}
		}
	}
	if got := read(t, path); got != want[name] || !strings.Contains(told, name) {
		t.Errorf("told %q, holds %q", told, got)
	}
	if entries, _ := os.ReadDir(s.Quarantine()); (len(entries) == 0) != (what == "nothing") {
		t.Errorf("quarantine %v", entries)
	}
	more, err := s.AddTask(Task{Title: "more"})
	must(t, errors.Join(err, s.Close()))
	if got := read(t, root, TasksFile); !strings.Contains(got, more.ID+"** more") || !strings.Contains(got, "the task") {
		t.Errorf("%s", got)
	}
}

// TestBrokenAtFirst: without anything known of it, what is no text is moved away
// and the file begun; a text in another encoding is the user's and stays.
func TestBrokenAtFirst(t *testing.T) {
	t.Parallel()
	for what, plant := range broken() {
		root := t.TempDir()
		path := filepath.Join(root, TasksFile)
		must(t, errors.Join(os.WriteFile(path, []byte("x"), 0o644), plant(path)))
		s, _ := open(t, Options{Root: root})
		hasty(s)
		_, err := s.AddTask(Task{Title: "first"})
		must(t, errors.Join(err, s.Close()))
		got := read(t, path)
		if !strings.Contains(got, "**T-1** first") || what == "not UTF-8" && !strings.HasPrefix(got, "- [ ] caf\xe9\n") {
			t.Errorf("%s: %q", what, got)
		}
		entries, _ := os.ReadDir(s.Quarantine())
		if whole := what == "nothing" || what == "0 bytes" || what == "not UTF-8"; (len(entries) == 0) != whole {
			t.Errorf("%s: quarantine %v", what, entries)
		}
	}
}

// TestUnreadableFile: a file that may not be read is moved away like any other.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} {
		root := t.TempDir()
		path := filepath.Join(root, TasksFile)
		fsys := denied{afero.NewOsFs(), path, new(atomic.Bool)}
		s, _ := open(t, Options{Root: root, FS: fsys})
		want := fill(t, s)
		if !running {
			must(t, s.Close())
		}
		fsys.shut.Store(true)
		must(t, os.Chmod(path, 0))
		if running {
			if lost(s) == "" {
				t.Error("it was not told")
			}
		} else if _, rec := open(t, Options{Root: root, FS: fsys}); rec.Files[1].State != stateCorrupt || rec.Files[1].Restored == "" {
			t.Errorf("%+v", rec)
		}
		if got := read(t, root, TasksFile); got != want[TasksFile] {
			t.Errorf("%q", got)
		}
		entries, err := os.ReadDir(filepath.Join(root, ".ralph", "quarantine"))
		if err != nil || len(entries) != 1 {
			t.Errorf("%v %v", entries, err)
		}
	}
}

// TestLinkedFile: a link to a file is neither followed nor moved; what is
// recorded is held, and merged once there is a file again.
func TestLinkedFile(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} {
		root, outside := t.TempDir(), filepath.Join(t.TempDir(), "f")
		path := filepath.Join(root, TasksFile)
		s, _ := open(t, Options{Root: root})
		fill(t, s)
		text := read(t, path)
		must(t, os.WriteFile(outside, []byte(text), 0o644))
		if !running {
			must(t, s.Close())
		}
		must(t, errors.Join(os.Remove(path), os.Symlink(outside, path)))
		if !running {
			var rec Recovery
			s, rec = open(t, Options{Root: root})
			if rec.Files[1].State != stateRefused || !strings.Contains(strings.Join(rec.Warnings, ""), "symbolic link") {
				t.Errorf("%+v", rec)
			}
		}
		_, err := s.AddTask(Task{Title: "held"})
		must(t, err)
		if err := s.Flush(); !errors.Is(err, durable.ErrSymlink) {
			t.Errorf("%v", err)
		}
		if held := s.Held(); len(held) != 1 || held[0] != TasksFile {
			t.Errorf("held %q", held)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 || read(t, outside) != text {
			t.Errorf("the link was touched: %v", err)
		}
		must(t, errors.Join(os.Remove(path), os.WriteFile(path, []byte(text+"- [ ] mine\n"), 0o644)))
		must(t, s.Flush())
		if got := read(t, path); !strings.Contains(got, "held") || !strings.Contains(got, "mine") || len(s.Held()) > 0 {
			t.Errorf("%q %s", s.Held(), got)
		}
		must(t, s.Close())
	}
}

// TestOddLog: whatever stands in the place of the log or the backups, Ralph
// works, and says what it cannot use.
func TestOddLog(t *testing.T) {
	t.Parallel()
	for what, plant := range map[string]func(root string) error{
		"log is a directory":     func(r string) error { return os.MkdirAll(filepath.Join(r, changesFile, "x"), 0o755) },
		"log is a FIFO":          func(r string) error { return syscall.Mkfifo(filepath.Join(r, changesFile), 0o644) },
		"log is a link":          func(r string) error { return os.Symlink(os.DevNull, filepath.Join(r, changesFile)) },
		"log is garbage":         func(r string) error { return os.WriteFile(filepath.Join(r, changesFile), random(), 0o644) },
		"backups is a file":      func(r string) error { return os.WriteFile(filepath.Join(r, ".ralph/backups"), nil, 0o644) },
		"note is garbage":        func(r string) error { return os.WriteFile(filepath.Join(r, ".ralph/saved.json"), random(), 0o644) },
		"note is a directory":    func(r string) error { return os.MkdirAll(filepath.Join(r, ".ralph/saved.json/x"), 0o755) },
		"lock is a directory":    func(r string) error { return os.Mkdir(filepath.Join(r, ".ralph/lock"), 0o755) },
		"lock is garbage":        func(r string) error { return os.WriteFile(filepath.Join(r, ".ralph/lock"), random(), 0o644) },
		"lock is empty":          func(r string) error { return os.WriteFile(filepath.Join(r, ".ralph/lock"), nil, 0o644) },
		"lock is another tool's": func(r string) error { return os.WriteFile(filepath.Join(r, ".ralph/lock"), []byte("4242\n"), 0o644) },
		"quarantine is a file":   func(r string) error { return os.WriteFile(filepath.Join(r, ".ralph/quarantine"), nil, 0o644) },
	} {
		root := t.TempDir()
		must(t, errors.Join(os.Mkdir(filepath.Join(root, ".ralph"), 0o700), os.WriteFile(filepath.Join(root, ".ralph", "FORMAT"), []byte("ralph 1\n"), 0o600)))
		must(t, plant(root))
		must(t, os.WriteFile(filepath.Join(root, TasksFile), []byte("- [ ] mine\n"), 0o644))
		s, rec := open(t, Options{Root: root})
		if _, _, err := Open(t.Context(), Options{Root: root}); !errors.Is(err, ErrLocked) && !rec.ReadOnly {
			t.Errorf("%s: a second Ralph: %v", what, err)
		}
		for i := range 2 {
			_, err := s.AddTask(Task{Title: fmt.Sprintf("job %d", i)})
			must(t, err)
			if err := s.Flush(); err != nil && !rec.ReadOnly {
				t.Logf("%s: %v", what, err)
			}
		}
		if tasks, err := s.Tasks(); err != nil || len(tasks) != 3 {
			t.Errorf("%s: %+v %v", what, tasks, err)
		}
		_ = s.Close()
		if rec.ReadOnly {
			if len(rec.Warnings) == 0 {
				t.Errorf("%s: read-only, and nothing said", what)
			}
			continue
		}
		if got := read(t, root, TasksFile); !strings.HasPrefix(got, "- [ ] mine\n") || !strings.Contains(got, "job 0") || !strings.Contains(got, "job 1") {
			t.Errorf("%s: %s", what, got)
		}
		s, _ = open(t, Options{Root: root})
		if tasks, err := s.Tasks(); err != nil || len(tasks) != 3 {
			t.Errorf("%s, again: %+v %v", what, tasks, err)
		}
		must(t, s.Close())
	}
}

// TestReadOnlyFilesystemHolds: on a filesystem that became read-only everything
// is held, and seen.
func TestReadOnlyFilesystemHolds(t *testing.T) {
	root := t.TempDir()
	s, _ := open(t, Options{Root: root})
	fill(t, s)
	must(t, s.Close())
	ff := faultfs.New(afero.NewOsFs())
	ff.Inject(faultfs.Fault{At: 1, Sticky: true, Err: syscall.EROFS, Ops: []string{"write", "mkdir", "rename", "sync", "remove", "truncate", "chmod", "create"}})
	for _, o := range []Options{{Root: root, FS: ff}, {Root: root, ReadOnly: true}} {
		s, rec := open(t, o)
		_, err := s.AddTask(Task{Title: "held"})
		if err != nil && !errors.Is(err, syscall.EROFS) {
			t.Error(err)
		}
		if tasks, err := s.Tasks(); err != nil || len(tasks) != 2 {
			t.Errorf("%+v: %+v %v", rec, tasks, err)
		}
		if held := strings.Join(s.Held(), " "); held != TasksFile {
			t.Errorf("held %q", held)
		}
		_ = s.Close()
		if strings.Contains(read(t, root, TasksFile), "held") {
			t.Error("written")
		}
	}
}

// TestReadOnlyOfALostFile: who only looks sees what would be restored.
func TestReadOnlyOfALostFile(t *testing.T) {
	root := t.TempDir()
	s, _ := open(t, Options{Root: root})
	fill(t, s)
	must(t, errors.Join(s.Close(), os.Remove(filepath.Join(root, TasksFile))))
	ro, rec := open(t, Options{Root: root, ReadOnly: true})
	if tasks, err := ro.Tasks(); err != nil || len(tasks) != 1 || rec.Files[1].State != stateLost || len(rec.Warnings) != 1 {
		t.Errorf("%+v %v %+v", tasks, err, rec)
	}
	must(t, ro.Close())
	if _, err := os.Stat(filepath.Join(root, TasksFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it was written")
	}
}

// TestWithoutStateDirectory: the Markdown alone is enough, and it is not taken
// for lost.
func TestWithoutStateDirectory(t *testing.T) {
	root := t.TempDir()
	s, _ := open(t, Options{Root: root})
	want := fill(t, s)
	must(t, s.Close())
	removeAll(t, filepath.Join(root, ".ralph"))
	s, rec := open(t, Options{Root: root})
	if len(rec.Warnings) > 0 {
		t.Errorf("%q", rec.Warnings)
	}
	if tasks, err := s.Tasks(); err != nil || len(tasks) != 1 {
		t.Errorf("%+v %v", tasks, err)
	}
	must(t, s.Close())
	for name, text := range want {
		if read(t, root, name) != text {
			t.Errorf("%s changed", name)
		}
	}
}

// TestSecretsAreNotLogged: what is redacted is nowhere in `.ralph/` either.
func TestSecretsAreNotLogged(t *testing.T) {
	root := t.TempDir()
	const key = "s3cret"
	s, _ := open(t, Options{Root: root, Redact: func(x string) string { return strings.ReplaceAll(x, key, "[redacted]") }})
	task, err := s.AddTask(Task{Title: "a " + key, Check: key, Result: key, Steps: []markdown.Step{{Text: key}}, After: []string{"T-0"}, Agent: key})
	must(t, err)
	_, err = s.SetTask(task.ID, TaskEdit{Title: "b " + key, Check: key + "2", Result: key + "3", Agent: key})
	must(t, errors.Join(err, s.Progress(Entry{Title: key, Summary: key, Check: key, Files: []string{key}}), s.Todo(TodoEdit{"add", key}),
		s.Goal(GoalEdit{Action: "set", Text: key, Acceptance: []string{key}}), s.Learn(Learning{Type: key, What: key}), s.AppendRun(json.RawMessage(`"`+key+`"`)), s.Close()))
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(strings.ToLower(read(t, path)), key) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	}))
}

// TestSlowSaver: a program that saves in steps is let finish.
func TestSlowSaver(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, s.Flush()))
	text := read(t, path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	_, err = s.AddTask(Task{Title: "second"})
	must(t, err)
	for i := 0; i < len(text); i += 20 {
		_, err := f.WriteString(text[i:min(i+20, len(text))])
		must(t, err)
		time.Sleep(3 * time.Millisecond)
	}
	_, err = f.WriteString("- [ ] mine\n")
	must(t, errors.Join(err, f.Close(), s.Close()))
	if got := read(t, path); strings.Count(got, "first") != 1 || !strings.Contains(got, "second") || !strings.Contains(got, "mine") {
		t.Error(got)
	}
}

// TestLargeLog has a command make the log of changes as large as it can in no time: the
// five files are used, and the log is begun anew with the next change.
func TestLargeLog(t *testing.T) {
	root := t.TempDir()
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "one"})
	must(t, errors.Join(err, s.Close(), os.Truncate(filepath.Join(root, changesFile), 20<<30)))
	s, rec := open(t, Options{Root: root})
	if len(rec.Warnings) != 1 || !strings.Contains(rec.Warnings[0], changesFile+" is too large") {
		t.Errorf("warnings: %q", rec.Warnings)
	}
	_, err = s.AddTask(Task{Title: "two"})
	must(t, errors.Join(err, s.Close()))
	if text := read(t, filepath.Join(root, TasksFile)); !strings.Contains(text, "one") || !strings.Contains(text, "two") {
		t.Errorf("tasks: %s", text)
	}
	if info, err := os.Stat(filepath.Join(root, changesFile)); err != nil || info.Size() > 1<<20 {
		t.Errorf("the log is as it was: %v, %v", info, err)
	}
	if moved, _ := filepath.Glob(filepath.Join(root, ".ralph", "quarantine", "changes.jsonl.large-*")); len(moved) != 1 {
		t.Errorf("in quarantine: %v", moved)
	}
	if _, rec = open(t, Options{Root: root}); len(rec.Warnings) > 0 {
		t.Errorf("warnings: %q", rec.Warnings)
	}
}
