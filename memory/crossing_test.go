package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/markdown"
)

// killed drops a Store as a kill does: nothing more is written, the lock is free.
func killed(t *testing.T, s *Store) {
	t.Helper()
	s.mu.Lock()
	s.closed = true
	lock := s.lock
	s.lock = nil
	s.mu.Unlock()
	must(t, lock.drop())
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%s: waited in vain", what)
			return
		}
	}
}

// TestRefusedChangeAfterAnEdit: a change that fails leaves the log such that it
// still knows what the user wrote before the next one.
func TestRefusedChangeAfterAnEdit(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	s, _ := open(t, Options{Root: root, byHand: true})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, s.Flush()))
	time.Sleep(fineTick + 5*time.Millisecond)
	must(t, appendTo(path, "- [ ] mine\n"))
	if _, err := s.SetTask("T-99", TaskEdit{Status: markdown.Done}); !errors.Is(err, markdown.ErrNoTask) {
		t.Fatal(err)
	}
	_, err = s.SetTask("T-1", TaskEdit{Status: markdown.Done})
	must(t, errors.Join(err, s.Flush()))
	killed(t, s)
	must(t, os.Remove(path))
	again, rec := open(t, Options{Root: root})
	must(t, again.Close())
	if got := read(t, path); !strings.Contains(got, "- [ ] mine") || !strings.Contains(got, "[x] **T-1**") {
		t.Errorf("%q\n%s", rec.Warnings, got)
	}
}

// TestTwoStepSaver: a program that empties the file, waits, and fills it is
// heard. When that takes a while nothing was lost; when it takes so long that
// Ralph put its own in place, what it writes is merged, and nobody was told of a
// loss who did not ask meanwhile.
func TestTwoStepSaver(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{300 * time.Millisecond, lossTime + 500*time.Millisecond} {
		for _, dirty := range []bool{false, true} {
			t.Run(fmt.Sprint(pause, dirty), func(t *testing.T) {
				t.Parallel()
				twoStepSaver(t, pause, dirty)
			})
		}
	}
}

func twoStepSaver(t *testing.T, pause time.Duration, dirty bool) {
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, s.Flush(), s.Watch()))
	text := read(t, path)
	begun := time.Now()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	if dirty {
		_, err = s.AddTask(Task{Title: "second"})
		must(t, err)
	}
	time.Sleep(pause)
	_, err = f.WriteString(text + "- [ ] mine\n")
	must(t, err)
	short := time.Since(begun) < lossTime
	has := func(what string) bool {
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if strings.Contains(read(t, path), what) {
				return true
			}
		}
		return false
	}
	has("mine")
	for _, p := range s.Edits() {
		if p.Lost != "" {
			t.Errorf("told, %v after it was emptied: %s", time.Since(begun), p.Lost)
		}
	}
	if entries, _ := os.ReadDir(s.Quarantine()); short && len(entries) > 0 {
		t.Errorf("quarantine %v", entries)
	}
	// And a third step.
	_, err = f.WriteString("- [ ] mine too\n")
	if must(t, errors.Join(err, f.Close())); !has("mine too") {
		t.Error("the next step is lost")
	}
	must(t, s.Close())
	got := read(t, path)
	if !strings.Contains(got, "- [ ] mine\n") || !strings.Contains(got, "first") || strings.Contains(got, "second") != dirty {
		t.Errorf("dirty %v: %s", dirty, got)
	}
}

// TestGoneWhileHalfWritten: a program that dies while it writes a file, and a
// file that is then deleted, keep nobody from putting it back.
func TestGoneWhileHalfWritten(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, s.Flush()))
	text, f := read(t, path), s.files[TasksFile]
	for half, end := false, time.Now().Add(20*time.Second); !half; {
		must(t, os.WriteFile(path, []byte(text[:len(text)/2]), 0o644))
		s.mu.Lock()
		must(t, s.look(f))
		half = f.half
		must(t, os.Remove(path))
		s.mu.Unlock()
		if !half && time.Now().After(end) {
			t.Fatal("it was never half written")
		}
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		s.Edits()
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), "first") {
			return
		}
	}
	t.Error("it was not put back")
}

// TestSavedAtTheLastMoment: what a program saves between Ralph's last look at an
// empty or a missing file and the moment that it is moved away is merged.
func TestSavedAtTheLastMoment(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		root := t.TempDir()
		path := filepath.Join(root, TasksFile)
		s, _ := open(t, Options{Root: root})
		_, err := s.AddTask(Task{Title: "first"})
		must(t, errors.Join(err, s.Flush()))
		hasty(s)
		text, f := read(t, path), s.files[TasksFile]
		old := time.Now().Add(-time.Minute)
		s.mu.Lock()
		if gone {
			must(t, os.Remove(path))
		} else {
			must(t, errors.Join(os.WriteFile(path, nil, 0o644), os.Chtimes(path, old, old)))
		}
		must(t, s.look(f))
		if f.broken == nil {
			t.Fatal("it is not noticed")
		}
		f.since = old
		must(t, errors.Join(os.WriteFile(path, []byte(text+"- [ ] mine\n"), 0o644), os.Chtimes(path, old, old), os.Chtimes(root, old, old)))
		again, err := s.clear(f)
		s.mu.Unlock()
		if must(t, err); again > 0 {
			t.Fatal("it was not moved away")
		}
		must(t, s.Close())
		if got := read(t, path); !strings.Contains(got, "- [ ] mine\n") || !strings.Contains(got, "first") {
			t.Errorf("gone %t: %s", gone, got)
		}
	}
}

// TestCutText: what ends in the middle of a line is waited for longer than what
// does not.
func TestCutText(t *testing.T) {
	t.Parallel()
	for range 20 {
		root := t.TempDir()
		path := filepath.Join(root, TasksFile)
		s, _ := open(t, Options{Root: root})
		for range 10 {
			_, err := s.AddTask(Task{Title: "job"})
			must(t, err)
		}
		must(t, errors.Join(s.Flush(), s.Watch()))
		text := []byte(read(t, path))
		begun := time.Now()
		must(t, inSteps(path, (shrinkSettles+1)*settleTime+settleTime/2, text[:len(text)/2], append(text[len(text)/2:], "- [ ] mine\n"...)))
		late := time.Since(begun) > (cutSettles-1)*settleTime
		var told []Pickup
		for end := time.Now().Add(10 * time.Second); len(told) == 0 && time.Now().Before(end); {
			told = s.Edits()
		}
		must(t, s.Close())
		if late {
			continue // the machine was busy
		}
		if len(told) != 1 || len(told[0].Changes) != 1 || told[0].Changes[0].Kind != markdown.Added {
			t.Errorf("%+v", told)
		}
		return
	}
	t.Skip("the machine is too busy to tell")
}

// inSteps empties a file and writes it in parts, each after a pause.
func inSteps(path string, pause time.Duration, parts ...[]byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	for i, p := range parts {
		if i > 0 {
			time.Sleep(pause)
		}
		_, werr := f.Write(p)
		err = errors.Join(err, werr)
	}
	return errors.Join(err, f.Close())
}

// TestHalfTheText: what is in a file while a program is just writing it, up to
// the end of a line, is not taken for what the user wants, also when the
// program does so again and again.
func TestHalfTheText(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	s, _ := open(t, Options{Root: root})
	for range 10 {
		_, err := s.AddTask(Task{Title: "job"})
		must(t, err)
	}
	must(t, errors.Join(s.Flush(), s.Watch()))
	var gone []string
	for i := range 12 {
		data := []byte(read(t, path))
		half := bytes.LastIndexByte(data[:len(data)/2], '\n') + 1
		must(t, inSteps(path, 45*time.Millisecond, data[:half], append(data[half:], fmt.Sprintf("- [ ] mine %d.\n", i)...)))
		for _, p := range s.Edits() {
			for _, c := range p.Changes {
				if c.Kind == markdown.Deleted {
					gone = append(gone, c.ID)
				}
			}
		}
		_, err := s.SetTask("T-10", TaskEdit{Result: fmt.Sprint("r", i)})
		must(t, err)
	}
	must(t, s.Close())
	text := read(t, path)
	for i := range 12 {
		if !strings.Contains(text, fmt.Sprintf("mine %d.\n", i)) {
			t.Errorf("line %d is lost", i)
		}
	}
	if tasks := markdown.Parse([]byte(text)).Tasks(); len(tasks) != 22 || tasks[9].Result != "r11" || len(gone) > 0 {
		t.Errorf("%d tasks, deleted %q: %s", len(tasks), gone, text)
	}
}

// TestFilledAfterItWasPutBack: a program that deletes a file and writes what it
// had read, when Ralph has put its own back already, takes nothing of Ralph's.
func TestFilledAfterItWasPutBack(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, s.Flush(), s.Watch()))
	buffer := read(t, path)
	must(t, os.Remove(path))
	_, err = s.AddTask(Task{Title: "second"})
	must(t, err)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), "second") {
			break
		}
	}
	must(t, os.WriteFile(path, []byte(buffer+"- [ ] mine\n"), 0o644))
	must(t, s.Close())
	if got := read(t, path); !strings.Contains(got, "second") || !strings.Contains(got, "mine") {
		t.Error(got)
	}
}

// TestOneFileBehindALink: a file that cannot be written does not make the note
// of the others wrong, so that what the user takes back stays taken back; nor
// does it let the log grow.
func TestOneFileBehindALink(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "CLAUDE.md")
	path := filepath.Join(root, TasksFile)
	must(t, errors.Join(os.WriteFile(outside, []byte("# notes\n"), 0o644), os.Symlink(outside, filepath.Join(root, AgentFile))))
	s, _ := open(t, Options{Root: root, byHand: true})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, s.Flush(), s.Learn(Learning{What: "held words"})))
	_, err = s.SetTask("T-1", TaskEdit{Status: markdown.Done})
	must(t, err)
	if err := s.Close(); err == nil || len(s.Held()) != 1 {
		t.Errorf("%v %q", err, s.Held())
	}
	must(t, os.WriteFile(path, []byte(strings.NewReplacer("[x]", "[ ]", "status: done", "status: pending").Replace(read(t, path))), 0o644))

	s, _ = open(t, Options{Root: root, byHand: true})
	if task, err := s.Tasks(); err != nil || task[0].Status == markdown.Done {
		t.Errorf("the user's word was overruled: %+v %v", task, err)
	}
	long := strings.Repeat("x", 3000)
	for i := range 700 {
		_, err := s.SetTask("T-1", TaskEdit{Result: fmt.Sprint(i, long)})
		must(t, err)
		if i%50 == 0 {
			_ = s.Flush()
		}
	}
	_ = s.Close()
	if info, err := os.Stat(filepath.Join(root, changesFile)); err != nil || info.Size() > maxLogBytes*17/10 {
		t.Errorf("the log has %d bytes, %v", info.Size(), err)
	}
	// Once there is a file, what was held comes into it.
	must(t, errors.Join(os.Remove(filepath.Join(root, AgentFile)), os.WriteFile(filepath.Join(root, AgentFile), []byte("# notes\n"), 0o644)))
	s, _ = open(t, Options{Root: root})
	must(t, s.Close())
	if got := read(t, root, AgentFile); strings.Count(got, "held words") != 1 || !strings.Contains(got, "# notes") {
		t.Error(got)
	}

}

// TestCutLogWhileDirty: the log is cut also when there is always something that
// is not in the files yet, and keeps what that needs.
func TestCutLogWhileDirty(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		root := t.TempDir()
		s, _ := open(t, Options{Root: root, byHand: true})
		_, err := s.AddTask(Task{Title: "first"})
		must(t, err)
		long := strings.Repeat("x", 2500)
		for i := range 600 {
			if i == 300 {
				must(t, s.Flush())
			}
			_, err := s.SetTask("T-1", TaskEdit{Result: fmt.Sprint(i, long)})
			must(t, err)
		}
		s.mu.Lock()
		before := s.logBytes
		err = s.cutLog()
		after := s.logBytes
		s.mu.Unlock()
		if must(t, err); before < maxLogBytes || after > before*2/3 {
			t.Errorf("the log was %d bytes long, and is %d", before, after)
		}
		killed(t, s)
		if lost {
			must(t, os.Remove(filepath.Join(root, TasksFile)))
		}
		again, _ := open(t, Options{Root: root})
		if tasks, err := again.Tasks(); err != nil || !strings.HasPrefix(tasks[0].Result, "599x") {
			t.Error(lost, err)
		}
		must(t, again.Close())
	}
}

// TestNoteOfAnotherTime: whatever the note of what is saved says, what the log
// has and the file lacks is done again, and the user's edit counts, also one of
// the same length with the old time, and in a copy of the project.
func TestNoteOfAnotherTime(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"old note", "no note", "old time", "copy", "older file"} {
		root := t.TempDir()
		path, note := filepath.Join(root, TasksFile), filepath.Join(root, ".ralph", "saved.json")
		s, _ := open(t, Options{Root: root, byHand: true})
		_, err := s.AddTask(Task{Title: "first"})
		must(t, errors.Join(err, s.Flush()))
		first, before := read(t, path), read(t, note)
		_, err = s.AddTask(Task{Title: "second"})
		must(t, errors.Join(err, s.Flush()))
		if what == "old note" || what == "no note" || what == "copy" {
			_, err = s.AddTask(Task{Title: "third"}) // in the log only
			must(t, err)
		}
		killed(t, s)
		info, err := os.Stat(path)
		must(t, err)
		want := []string{"first", "second", "third"}
		switch what {
		case "old note":
			must(t, os.WriteFile(note, []byte(before), 0o600))
		case "no note":
			must(t, os.Remove(note))
		case "copy":
			to := filepath.Join(t.TempDir(), "copy")
			if out, err := exec.Command("cp", "-a", root, to).CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			root, path = to, filepath.Join(to, TasksFile)
		case "old time":
			must(t, os.WriteFile(path, []byte(strings.Replace(read(t, path), "second", "sEcond", 1)), 0o644))
			must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
			want = []string{"first", "sEcond"}
		case "older file":
			must(t, errors.Join(os.WriteFile(path, []byte(first), 0o644), os.Chtimes(path, info.ModTime(), info.ModTime())))
			want = []string{"first"}
		}
		for range 2 {
			again, _ := open(t, Options{Root: root})
			tasks, err := again.Tasks()
			must(t, errors.Join(err, again.Close()))
			var got []string
			for _, task := range tasks {
				got = append(got, task.Title)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q", what, got)
			}
		}
		must(t, os.Remove(path)) // what comes back is what was last true
		again, rec := open(t, Options{Root: root})
		must(t, again.Close())
		if got := read(t, path); !strings.Contains(got, want[len(want)-1]) {
			t.Errorf("%s: %q %s", what, rec.Warnings, got)
		}
	}
}

// slow is the real disk whose sync waits until hangs is closed, if there is one.
type slow struct {
	afero.Fs
	hangs atomic.Pointer[chan struct{}]
	syncs atomic.Int64 // that were waited for
}

func (s *slow) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f, err := s.Fs.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &slowFile{File: f, fs: s}, nil
}

func (s *slow) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	info, err := os.Lstat(name)
	return info, true, err
}

type slowFile struct {
	afero.File
	fs *slow
}

func (f *slowFile) Sync() error {
	if hangs := f.fs.hangs.Load(); hangs != nil {
		f.fs.syncs.Add(1)
		<-*hangs
	}
	return f.File.Sync()
}

// TestSlowDisk: while the disk takes its time to sync, what is known can be
// read, and what many record waits for one sync, not for one each.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	fsys := &slow{Fs: afero.NewOsFs()}
	s, _ := open(t, Options{FS: fsys, Root: t.TempDir(), byHand: true})
	for range 10 {
		_, err := s.AddTask(Task{Title: "job"})
		must(t, err)
	}
	must(t, s.Flush())
	hangs := make(chan struct{})
	fsys.hangs.Store(&hangs)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.AppendRun(json.RawMessage("{}")); err != nil {
			t.Error(err)
		}
	})
	for i := range 10 {
		wg.Go(func() {
			if _, err := s.SetTask(fmt.Sprintf("T-%d", i+1), TaskEdit{Status: markdown.Done}); err != nil {
				t.Error(err)
			}
		})
	}
	waitFor(t, "a sync", func() bool { return fsys.syncs.Load() > 0 })
	// Nothing below returns before the sync does, were it to wait for it.
	s.Held()
	s.Edits()
	_, _ = s.Tasks()
	s.Changed()
	waitFor(t, "all changes", func() bool {
		tasks, err := s.Tasks()
		return err == nil && !slices.ContainsFunc(tasks, func(x Task) bool { return x.Status != markdown.Done })
	})
	close(hangs)
	wg.Wait()
	if n := fsys.syncs.Load(); n > 6 {
		t.Errorf("ten changes at once took %d syncs", n)
	}
	must(t, s.Close())
}

// lateSync is a disk on which an editor renames its text into place just before
// Ralph does, and whose second sync of the directory fails after that.
type lateSync struct {
	afero.Fs
	root  string
	plant func() error
	left  int
}

func (l *lateSync) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	info, err := os.Lstat(name)
	return info, true, err
}

func (l *lateSync) Exchange(a, b string) error {
	if l.plant != nil {
		if err := l.plant(); err != nil {
			return err
		}
		l.plant, l.left = nil, 2
	}
	temp := a + ".swap"
	if err := os.Rename(a, temp); err != nil {
		return err
	}
	return errors.Join(os.Rename(b, a), os.Rename(temp, b))
}

func (l *lateSync) RenameNoReplace(from, to string) error { return os.Rename(from, to) }

func (l *lateSync) Open(name string) (afero.File, error) {
	f, err := l.Fs.Open(name)
	if err != nil || name != l.root {
		return f, err
	}
	return &failingDir{f, l}, nil
}

type failingDir struct {
	afero.File
	l *lateSync
}

func (d *failingDir) Sync() error {
	if d.l.left > 0 {
		if d.l.left--; d.l.left == 0 {
			return syscall.EIO
		}
	}
	return d.File.Sync()
}

// TestLateEditAndFailedSync: an edit that was caught in the act is kept also
// when the disk fails just then.
func TestLateEditAndFailedSync(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	fsys := &lateSync{Fs: afero.NewOsFs(), root: root}
	s, _ := open(t, Options{FS: fsys, Root: root, byHand: true})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, s.Flush()))
	fsys.plant = func() error {
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(path+"~", append(data, "- [ ] mine\n"...), 0o644), os.Rename(path+"~", path))
	}
	_, err = s.AddTask(Task{Title: "second"})
	must(t, err)
	if err := s.Flush(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	must(t, s.Flush())
	must(t, s.Close())
	if got := read(t, path); !strings.Contains(got, "mine") || !strings.Contains(got, "second") {
		t.Error(got)
	}
}

// TestGrownTooLarge: Ralph does not write a file that it would then refuse.
func TestGrownTooLarge(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, ProgressFile)
	big := "# Progress\n\n" + strings.Repeat(strings.Repeat("word ", 200)+"\n", (maxStateBytes-2000)/1001)
	must(t, os.WriteFile(path, []byte(big), 0o644))
	s, _ := open(t, Options{Root: root})
	var err error
	for i := range 5 {
		if err = s.Progress(Entry{Title: fmt.Sprint("work ", i), Summary: strings.Repeat("y", 1500)}); err != nil {
			break
		}
	}
	if !errors.Is(err, errTooLong) {
		t.Errorf("%v", err)
	}
	must(t, s.Close())
	s, rec := open(t, Options{Root: root})
	if len(rec.Warnings) > 0 {
		t.Errorf("%q", rec.Warnings)
	}
	must(t, s.Close())
	if info, err := os.Stat(path); err != nil || info.Size() > maxStateBytes || !bytes.HasSuffix([]byte(read(t, path)), []byte("word \n")) {
		t.Errorf("%v %v", info.Size(), err)
	}
}

// TestClosedStoreWritesNothing: who comes too late has no lock to write under.
func TestClosedStoreWritesNothing(t *testing.T) {
	root := t.TempDir()
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, s.Close()))
	before := read(t, root, changesFile)
	_, err = s.AddTask(Task{Title: "second"})
	if rerr := s.AppendRun(json.RawMessage(`{}`)); err == nil || rerr == nil || s.Flush() == nil {
		t.Errorf("%v %v", err, rerr)
	}
	if read(t, root, changesFile) != before || strings.Contains(read(t, root, TasksFile), "second") {
		t.Error("written without the lock")
	}
}

// TestStaleSaveBeforeClose: who saves a text from before Ralph's last change
// while Ralph ends is merged.
func TestStaleSaveBeforeClose(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, s.Flush()))
	buffer := read(t, path)
	_, err = s.AddTask(Task{Title: "second"})
	must(t, errors.Join(err, s.Flush()))
	must(t, errors.Join(os.WriteFile(path+"~", []byte(buffer+"- [ ] mine\n"), 0o644), os.Rename(path+"~", path)))
	must(t, s.Close())
	if got := read(t, path); !strings.Contains(got, "mine") || !strings.Contains(got, "second") {
		t.Error(got)
	}
}

// TestDeletedLockFile: a lock file that was deleted, and that somebody has for a
// moment only, does not end Ralph's writing.
func TestDeletedLockFile(t *testing.T) {
	root := t.TempDir()
	gitInit(t, root)
	s, _ := open(t, Options{Root: root, byHand: true})
	must(t, os.Remove(filepath.Join(root, ".git", "ralph.lock")))
	busy, err := lockNow(filepath.Join(root, ".git", "ralph.lock"))
	if err != nil || busy == nil {
		t.Fatal(busy, err)
	}
	if _, err := s.AddTask(Task{Title: "first"}); !errors.Is(err, ErrHeld) || !errors.Is(err, errLockBusy) {
		t.Errorf("%v", err)
	}
	must(t, busy.Close())
	must(t, s.Flush())
	if len(s.Held()) > 0 || !strings.Contains(read(t, root, TasksFile), "first") {
		t.Errorf("%q", s.Held())
	}
}

// TestRepositoryRemovedAndForeignLock: with another tool's file in the place of
// the lock, a repository that goes or comes lets nobody in.
func TestRepositoryRemovedAndForeignLock(t *testing.T) {
	for _, begin := range []bool{false, true} {
		root := t.TempDir()
		must(t, errors.Join(os.Mkdir(filepath.Join(root, ".ralph"), 0o755), os.WriteFile(filepath.Join(root, ".ralph", "lock"), []byte("pid: 17\n"), 0o644)))
		if begin {
			gitInit(t, root)
		}
		s, _ := open(t, Options{Root: root})
		if begin {
			removeAll(t, filepath.Join(root, ".git"))
		} else {
			gitInit(t, root)
		}
		if other, _, err := Open(t.Context(), Options{Root: root}); !errors.Is(err, ErrLocked) {
			t.Errorf("in a repository at first: %v: %v", begin, err)
			_ = other.Close()
		}
		must(t, s.Close())
		if read(t, root, ".ralph", "lock") != "pid: 17\n" {
			t.Error("another tool's lock file was written")
		}
	}
}
