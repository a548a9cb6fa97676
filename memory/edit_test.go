package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"
	"go.uber.org/goleak"

	"ralph/memory/durable"
	"ralph/memory/durable/crashfs"
	"ralph/memory/durable/faultfs"
	"ralph/memory/markdown"
)

// TestHammer: a program edits the tasks all the time, in every way, while Ralph
// changes them; no line and no change is lost.
func TestHammer(t *testing.T) {
	defer goleak.VerifyNone(t)
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "job 0 here"})
	must(t, errors.Join(err, s.Flush()))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	lines := 0
	wg.Go(func() {
		r := rand.New(rand.NewPCG(1, uint64(os.Getpid())))
		for i := 0; ; i++ {
			select {
			case <-stop:
				lines = i
				return
			case <-time.After(time.Duration(r.IntN(15)) * time.Millisecond):
			}
			if err := edit(path, fmt.Sprintf("- [ ] user line %d.\n", i), r.IntN(5)); err != nil {
				t.Error(err)
			}
		}
	})
	var acked []string
	for end, i := time.Now().Add(time.Duration(crashfs.Count(1000, 60_000))*time.Millisecond), 1; time.Now().Before(end); i++ {
		task, err := s.AddTask(Task{Title: fmt.Sprintf("job %d here", i)})
		must(t, err)
		acked = append(acked, fmt.Sprintf("task %s job %d here", task.ID, i))
		if i%3 == 0 {
			_, err = s.SetTask(task.ID, TaskEdit{Result: fmt.Sprintf("r%d", i)})
			must(t, err)
			acked = append(acked, fmt.Sprintf("result %s %d", task.ID, i))
		}
		if i%50 == 0 {
			if err := s.Flush(); err != nil && !errors.Is(err, durable.ErrChanged) {
				t.Error(err)
			}
		}
		time.Sleep(4 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	must(t, s.Close())
	text := read(t, path)
	for i := range lines {
		if n := strings.Count(text, fmt.Sprintf("user line %d.\n", i)); n != 1 {
			t.Errorf("user line %d: %d times", i, n)
		}
	}
	if err := tasksHave(markdown.Parse([]byte(text)).Tasks(), acked); err != nil {
		t.Error(err)
	}
	t.Logf("%d edits of the user, %d changes of Ralph: none lost; conflict notes: %d", lines, len(acked), strings.Count(text, "conflict:"))
}

// edit adds a line the way programs do: appending, writing all in place, writing
// another file and renaming it, writing in steps, or deleting the file first.
func edit(path, line string, how int) error {
	if how == 0 {
		return appendTo(path, line)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	data = append(data, line...)
	switch how {
	case 1:
		return os.WriteFile(path, data, 0o644)
	case 3:
		return inSteps(path, 10*time.Millisecond, data[:len(data)/2], data[len(data)/2:])
	case 4:
		err := os.Remove(path)
		time.Sleep(10 * time.Millisecond)
		return errors.Join(err, os.WriteFile(path, data, 0o644))
	}
	return errors.Join(os.WriteFile(path+".user", data, 0o644), os.Rename(path+".user", path))
}

// TestEdits: what the user does while Ralph is open is picked up, told, and
// wins; what Ralph recorded meanwhile stays.
func TestEdits(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	s, _ := open(t, Options{Root: root})
	for _, title := range []string{"first", "second", "third"} {
		_, err := s.AddTask(Task{Title: title})
		must(t, err)
	}
	must(t, s.Flush())
	if got := s.Edits(); len(got) > 0 {
		t.Errorf("Ralph's own changes are told: %+v", got)
	}
	text := strings.Replace(read(t, path), "- [ ] **T-1** first\n  - status: pending\n", "- [x] **T-1** first\n  - status: done\n", 1)
	text = strings.Replace(text, "- [ ] **T-2** second\n  - status: pending\n", "", 1) + "- [ ] **T-9** mine\n"
	must(t, os.WriteFile(path, []byte(text), 0o644))
	got := s.Edits()
	if len(got) != 1 || got[0].File != TasksFile || got[0].Text || got[0].Lost != "" {
		t.Fatalf("%+v", got)
	}
	kinds := map[string]markdown.ChangeKind{}
	for _, c := range got[0].Changes {
		kinds[c.ID] = c.Kind
	}
	if kinds["T-1"] != markdown.Changed || kinds["T-2"] != markdown.Deleted || kinds["T-9"] != markdown.Added || len(kinds) != 3 {
		t.Errorf("%+v", got[0].Changes)
	}
	if tasks, err := s.Tasks(); err != nil || len(tasks) != 3 || tasks[0].Status != markdown.Done {
		t.Errorf("%+v %v", tasks, err)
	}
	if _, err := s.SetTask("T-2", TaskEdit{Status: markdown.Done}); !errors.Is(err, markdown.ErrNoTask) {
		t.Errorf("a deleted task: %v", err)
	}
	if next, err := s.AddTask(Task{Title: "next"}); err != nil || next.ID != "T-10" {
		t.Errorf("%+v %v", next, err)
	}
	must(t, errors.Join(s.Flush(), os.WriteFile(path, []byte("Only prose.\n\n"+read(t, path)), 0o644)))
	if got := s.Edits(); len(got) != 1 || len(got[0].Changes) > 0 || !got[0].Text {
		t.Errorf("%+v", got)
	}
	// Both change one thing before either sees the other.
	b, _ := open(t, Options{Root: t.TempDir(), byHand: true})
	path = filepath.Join(b.root, TasksFile)
	_, err := b.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, b.Flush()))
	_, err = b.SetTask("T-1", TaskEdit{Status: markdown.Failed})
	must(t, errors.Join(err, os.WriteFile(path, []byte(strings.Replace(read(t, path), "pending", "blocked", 1)), 0o644)))
	got = b.Edits()
	if len(got) != 1 || len(got[0].Conflicts) == 0 {
		t.Errorf("no conflict: %+v", got)
	}
	must(t, b.Flush())
	if text := read(t, path); !strings.Contains(text, "status: blocked") || !strings.Contains(text, "Ralph has") {
		t.Errorf("%s", text)
	}
}

// TestWatch: edits are told without being asked for.
func TestWatch(t *testing.T) {
	defer goleak.VerifyNone(t)
	root := t.TempDir()
	told := make(chan struct{}, 10)
	s, _ := open(t, Options{Root: root, OnEdit: func() { told <- struct{}{} }})
	must(t, s.Watch())
	for i, how := range []int{2, 0, 1, 2} {
		path := filepath.Join(root, TasksFile)
		if i == 0 {
			must(t, os.WriteFile(path, []byte("# Mine\n\n- [ ] one\n"), 0o644))
		} else {
			must(t, edit(path, fmt.Sprintf("- [ ] line %d\n", i), how))
		}
		select {
		case <-told:
		case <-time.After(20 * time.Second):
			t.Fatalf("edit %d was not told", i)
		}
		if got := s.Edits(); len(got) != 1 || len(got[0].Changes) != 1 {
			t.Errorf("edit %d: %+v", i, got)
		}
	}
	must(t, s.Close())
	if err := s.Watch(); err == nil {
		t.Error("a closed Store watches")
	}
}

// TestStaleEditor: who saves a text that he read before Ralph wrote does not
// take Ralph's change away; who takes it away does.
func TestStaleEditor(t *testing.T) {
	t.Parallel()
	for _, deletes := range []bool{false, true} {
		root := t.TempDir()
		path := filepath.Join(root, TasksFile)
		s, _ := open(t, Options{Root: root})
		_, err := s.AddTask(Task{Title: "first"})
		must(t, errors.Join(err, s.Flush()))
		before := read(t, path)
		_, err = s.AddTask(Task{Title: "second"})
		must(t, errors.Join(err, s.Flush()))
		if !deletes {
			before += "- [ ] mine\n"
		}
		must(t, os.WriteFile(path, []byte(before), 0o644))
		s.Edits()
		must(t, s.Flush())
		if got := read(t, path); strings.Contains(got, "second") == deletes || !deletes && !strings.Contains(got, "mine") {
			t.Errorf("deletes %v: %s", deletes, got)
		}
	}
}

// TestLateWriter: who opened the file before Ralph replaced it, and writes to
// it after, is merged too.
func TestLateWriter(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, s.Flush()))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = s.AddTask(Task{Title: "second"})
	must(t, errors.Join(err, s.Flush()))
	time.Sleep(20 * time.Millisecond)
	_, err = f.WriteString("- [ ] late line\n")
	must(t, errors.Join(err, f.Close()))
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && !strings.Contains(read(t, path), "late line"); {
		time.Sleep(10 * time.Millisecond)
	}
	must(t, s.Close())
	if got := read(t, path); !strings.Contains(got, "late line") || !strings.Contains(got, "second") {
		t.Error(got)
	}
}

// TestRestart: changes that are only in the log are done again, whatever the
// user did to the file meanwhile.
func TestRestart(t *testing.T) {
	t.Parallel()
	const mine = "- [ ] my own line\n"
	for name, meanwhile := range map[string]func(path, before, after string) error{
		"nothing":      func(string, string, string) error { return nil },
		"written":      func(path, _, after string) error { return os.WriteFile(path, []byte(after), 0o644) },
		"edited":       func(path, _, _ string) error { return appendTo(path, mine) },
		"edited after": func(path, _, after string) error { return os.WriteFile(path, []byte(after+mine), 0o644) },
		"deleted":      func(path, _, _ string) error { return os.Remove(path) },
		"emptied":      func(path, _, _ string) error { return os.Truncate(path, 0) },
		"other line end": func(path, before, _ string) error {
			return os.WriteFile(path, []byte(strings.ReplaceAll(before, "\n", "\r\n")), 0o644)
		},
		"torn log": func(path, _, _ string) error {
			return appendTo(filepath.Join(filepath.Dir(path), changesFile), `{"seq":99,"time"`)
		},
	} {
		root := t.TempDir()
		path := filepath.Join(root, TasksFile)
		s, _ := open(t, Options{Root: root, byHand: true})
		_, err := s.AddTask(Task{Title: "first"})
		must(t, errors.Join(err, s.Flush()))
		before := read(t, path)
		_, err = s.AddTask(Task{Title: "second"})
		must(t, err)
		_, err = s.SetTask("T-1", TaskEdit{Status: markdown.Done})
		must(t, err)
		after := string(s.files[TasksFile].doc.Bytes())
		must(t, s.lock.drop()) // as if killed
		s.lock, s.closed = nil, true
		must(t, meanwhile(path, before, after))
		for range 2 {
			again, rec := open(t, Options{Root: root})
			tasks, err := again.Tasks()
			if err != nil || len(tasks) < 2 || tasks[0].Status != markdown.Done || tasks[1].Title != "second" {
				t.Errorf("%s: %+v %v", name, tasks, err)
			}
			must(t, again.Close())
			got := read(t, path)
			if strings.Contains(name, "edited") && strings.Count(got, mine) != 1 || strings.Count(got, "second") != 1 || strings.Contains(got, "conflict") {
				t.Errorf("%s: %s", name, got)
			}
			if name == "nothing" && (got != after || len(rec.Warnings) > 1) {
				t.Errorf("%q\n%s", rec.Warnings, got)
			}
			if name == "other line end" && strings.Count(got, "\n") != strings.Count(got, "\r\n") {
				t.Errorf("line ends: %q", got)
			}
		}
	}
}

// TestCheckout: an older version of a file that somebody puts in place is what
// counts, once all was written.
func TestCheckout(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	s, _ := open(t, Options{Root: root})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, s.Flush()))
	old := read(t, path)
	_, err = s.AddTask(Task{Title: "second"})
	must(t, errors.Join(err, s.Close()))
	must(t, os.WriteFile(path, []byte(old), 0o644))
	for range 2 {
		s, _ = open(t, Options{Root: root})
		if tasks, err := s.Tasks(); err != nil || len(tasks) != 1 {
			t.Errorf("%+v %v", tasks, err)
		}
		must(t, s.Close())
	}
	// And what was put in place is what comes back when it is lost.
	must(t, os.Remove(path))
	s, rec := open(t, Options{Root: root})
	must(t, s.Close())
	if got := read(t, path); got != old {
		t.Errorf("%q\n%s", rec.Warnings, got)
	}
}

// TestLogDeletedWhileOpen: without the log, or all of `.ralph/`, the files stand
// alone, and what comes after is as safe as before.
func TestLogDeletedWhileOpen(t *testing.T) {
	t.Parallel()
	for _, what := range []string{changesFile, ".ralph/backups", ".ralph/saved.json", ".ralph"} {
		root := t.TempDir()
		path := filepath.Join(root, TasksFile)
		s, _ := open(t, Options{Root: root, byHand: true})
		for i := range 4 {
			if i%2 == 0 {
				must(t, s.Flush())
				removeAll(t, filepath.Join(root, filepath.FromSlash(what)))
			}
			_, err := s.AddTask(Task{Title: fmt.Sprintf("job %d", i)})
			must(t, err)
		}
		must(t, s.lock.drop())
		s.lock, s.closed = nil, true
		must(t, os.Remove(path))
		again, rec := open(t, Options{Root: root})
		if tasks, err := again.Tasks(); err != nil || len(tasks) != 4 {
			t.Errorf("%s: %d tasks, %v, %q", what, len(tasks), err, rec.Warnings)
		}
		must(t, again.Close())
	}
}

// TestCutLog: the log does not grow for ever, and what is left of it is enough.
func TestCutLog(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s, _ := open(t, Options{Root: root, byHand: true})
	pad := strings.Repeat("x", 1900)
	longest := int64(0)
	for i := range 800 {
		must(t, s.Progress(Entry{Title: fmt.Sprintf("entry %d.", i), Summary: pad}))
		if i%100 == 99 {
			must(t, s.Flush())
		}
		longest = max(longest, s.logBytes)
	}
	_, err := s.AddTask(Task{Title: "kept"})
	must(t, err)
	must(t, s.lock.drop())
	s.lock, s.closed = nil, true
	must(t, os.Remove(filepath.Join(root, ProgressFile)))
	if longest > 4*maxLogBytes || s.kept == 0 {
		t.Errorf("the log was %d bytes long", longest)
	}
	all, err := s.backups(ProgressFile)
	if err != nil || len(all) == 0 || len(all) > 2*maxBackups {
		t.Errorf("%v %v", all, err)
	}
	again, rec := open(t, Options{Root: root})
	must(t, again.Close())
	text := read(t, root, ProgressFile)
	if n := strings.Count(text, "— entry "); n != 800 || !strings.Contains(read(t, root, TasksFile), "kept") {
		t.Errorf("%d entries; %q", n, rec.Warnings)
	}
	t.Logf("800 entries of 2 KB: the log was %d KiB long at most", longest>>10)
}

// TestFullDiskWhileOpen: changes are held while nothing can be written, are seen
// all the same, and are written in the same process when there is room again.
func TestFullDiskWhileOpen(t *testing.T) {
	base := crashfs.New()
	must(t, base.MkdirAll("/p", 0o755))
	ff := faultfs.New(base)
	s, _ := open(t, Options{Root: "/p", FS: ff, byHand: true})
	_, err := s.AddTask(Task{Title: "before"})
	must(t, errors.Join(err, s.Flush()))
	ff.FailFrom(1, syscall.ENOSPC)
	ff.Inject(faultfs.Fault{At: 1, Err: syscall.ENOSPC, Sticky: true, Ops: []string{"write", "sync", "mkdir", "rename"}})
	var de *durable.Error
	if _, err := s.AddTask(Task{Title: "during"}); !errors.As(err, &de) || !errors.Is(err, syscall.ENOSPC) || de.Hint == "" {
		t.Errorf("%v", err)
	}
	if err := s.Progress(Entry{Title: "during too"}); err == nil {
		t.Error("acknowledged on a full disk")
	}
	if tasks, err := s.Tasks(); err != nil || len(tasks) != 2 {
		t.Errorf("%+v %v", tasks, err)
	}
	if held := strings.Join(s.Held(), " "); held != ProgressFile+" "+TasksFile {
		t.Errorf("held %q", held)
	}
	if err := s.Flush(); err == nil {
		t.Error("flushed to a full disk")
	}
	ff.Heal()
	must(t, s.Flush())
	if len(s.Held()) > 0 {
		t.Errorf("held %q", s.Held())
	}
	must(t, filesHave(base, []string{"task T-2 during", "text " + ProgressFile + " during too"}))
}

// TestBadLines: what stands in the log that Ralph did not write costs nothing
// else.
func TestBadLines(t *testing.T) {
	root := t.TempDir()
	log := filepath.Join(root, changesFile)
	s, _ := open(t, Options{Root: root, byHand: true})
	_, err := s.AddTask(Task{Title: "first"})
	must(t, errors.Join(err, appendTo(log, string(make([]byte, 4096))+"\n"+`{"hand":"edited"}`+"\n")))
	_, err = s.AddTask(Task{Title: "second"})
	must(t, errors.Join(err, s.AppendRun(json.RawMessage("1"))))
	must(t, s.lock.drop())
	s.lock, s.closed = nil, true
	must(t, appendTo(log, "torn"))
	must(t, appendTo(filepath.Join(root, runsFile), string(make([]byte, 100))+"\nnot json"))
	again, rec := open(t, Options{Root: root})
	if tasks, err := again.Tasks(); err != nil || len(tasks) != 2 || !strings.Contains(strings.Join(rec.Warnings, ""), "2 lines of") {
		t.Errorf("%+v %v %q", tasks, err, rec.Warnings)
	}
	_, err = again.AddTask(Task{Title: "third"})
	must(t, errors.Join(err, again.AppendRun(json.RawMessage("2")), again.Close()))
	if got := read(t, root, runsFile); !strings.HasPrefix(got, "1\n") || !strings.HasSuffix(got, "\n2\n") {
		t.Errorf("runs: %q", got)
	}
	if entries, _ := os.ReadDir(filepath.Join(root, ".ralph", "quarantine")); len(entries) != 2 {
		t.Errorf("torn tails: %v", entries)
	}
}

// TestInspectAndRestore: all versions are listed and each can be had again.
func TestInspectAndRestore(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	for i := range 7 {
		s, _ := open(t, Options{Root: root})
		_, err := s.AddTask(Task{Title: fmt.Sprintf("job %d", i)})
		must(t, errors.Join(err, s.Close()))
	}
	must(t, os.WriteFile(path, []byte("gar\x00bage"), 0o644))
	git := func(name string) ([]byte, error) {
		if name == TasksFile {
			return []byte("- [ ] committed\n"), nil
		}
		return nil, nil
	}
	files, err := Inspect(t.Context(), Options{Root: root, Git: git})
	must(t, err)
	var st FileState
	for _, f := range files {
		if f.Name == TasksFile {
			st = f
		}
	}
	kinds := ""
	for _, src := range st.Sources {
		kinds += fmt.Sprintf("%s:%d/%d ", src.Kind, src.Open, src.Tasks)
	}
	if st.State != stateCorrupt || kinds != "log:7/7 backup:6/6 backup:5/5 backup:4/4 backup:3/3 backup:2/2 git:1/1 " {
		t.Errorf("%s: %s", st.State, kinds)
	}
	if read(t, path) != "gar\x00bage" {
		t.Error("inspecting changed something")
	}
	for _, src := range append(st.Sources[1:], Source{Kind: sourceBackup, Name: "../../etc/passwd"}, Source{Kind: sourceBackup, Name: "x"}, Source{Kind: "dream"}) {
		root := filepath.Join(t.TempDir(), "copy")
		must(t, os.CopyFS(root, os.DirFS(filepath.Dir(path))))
		path := filepath.Join(root, TasksFile)
		s, rec := open(t, Options{Root: root, Git: git})
		if tasks, err := s.Tasks(); err != nil || len(tasks) != 7 || len(rec.Files[1].Sources) != len(st.Sources) {
			t.Errorf("%d %v %+v", len(tasks), err, rec)
		}
		must(t, appendTo(path, "- [ ] soon gone\n"))
		moved, err := s.Restore(TasksFile, src)
		if src.Bytes == 0 {
			if err == nil || !strings.Contains(read(t, path), "soon gone") {
				t.Errorf("restored from %+v", src)
			}
			continue
		}
		must(t, err)
		text := read(t, path)
		if tasks, err := s.Tasks(); err != nil || len(tasks) != src.Tasks || int64(len(text)) != src.Bytes {
			t.Errorf("%+v: %d tasks, %v", src, len(tasks), err)
		}
		if !strings.Contains(read(t, root, moved), "soon gone") {
			t.Errorf("%+v: what stood there is not in %q", src, moved)
		}
		if _, err := s.Restore("go.mod", src); err == nil {
			t.Error("restored another file")
		}
		// What was restored is what is restored when it is lost again.
		must(t, errors.Join(s.Close(), os.Remove(path)))
		again, _ := open(t, Options{Root: root})
		if got := read(t, path); got != text {
			t.Errorf("%+v: %s", src, got)
		}
		must(t, again.Close())
	}
}

func TestSpace(t *testing.T) {
	root := t.TempDir()
	s, _ := open(t, Options{Root: root})
	must(t, s.AppendRun(json.RawMessage(`{"a":1}`)))
	sp, err := Measure(nil, root)
	must(t, err)
	if sp.FreeBytes <= 0 || sp.Mount == "" || sp.Parts["runs.jsonl"] != 8 || sp.StateBytes < 16 {
		t.Errorf("%+v", sp)
	}
	if sp, err := Measure(afero.NewMemMapFs(), "/"); err != nil || sp.FreeBytes != -1 {
		t.Errorf("%+v %v", sp, err)
	}
}

// FuzzApply: a change from the log, whatever it says, is made or refused; made
// again it changes nothing, and what it is not about stays.
func FuzzApply(f *testing.F) {
	for _, o := range []op{
		{Op: opAdd, Task: &taskData{ID: "T-7", Title: "seven", Steps: []markdown.Step{{Text: "a"}}}},
		{Op: opEdit, ID: "T-1", Edit: &editData{Status: markdown.Done, Result: "x"}}, {Op: opEdit, ID: "T-1", Edit: &editData{After: &[]string{}}},
		{Op: opItem, Text: "item"}, {Op: opGoal, Task: &taskData{ID: "G-1", Title: "goal"}}, {Op: opPrepend, Text: "## new\n\ntext\n"},
		{Op: opAppend, Text: "## new"}, {Op: opAdd}, {Op: opEdit}, {Op: "dream"},
	} {
		data, err := o.payload()
		if err != nil {
			f.Fatal(err)
		}
		f.Add("# Tasks\n\n- [ ] **T-1** one\n  - status: pending\n\nprose\n", string(data))
	}
	f.Fuzz(func(t *testing.T, text, change string) {
		var o op
		if json.Unmarshal([]byte(change), &o) != nil {
			return
		}
		d := markdown.Parse([]byte(text))
		changed, err := apply(d, o, true)
		once := d.String()
		if (err != nil || !changed) && o.Op != opEdit && once != text {
			t.Fatalf("not made (%v), and yet %q became %q", err, text, once)
		}
		if err != nil || o.Op == opEdit && o.Edit.Title != "" {
			return // a task may be named by its title
		}
		if again, err := apply(d, o, true); err == nil && again && o.Op != opItem && d.String() != once {
			t.Fatalf("made twice: %q became %q", once, d.String())
		}
	})
}
