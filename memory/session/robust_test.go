package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable/crashfs"
	"ralph/memory/durable/faultfs"
	"ralph/memory/session/folder"
)

func TestReport(t *testing.T) {
	fsys := afero.NewMemMapFs()
	now := clock()
	o := options(fsys, "/p/.ralph")
	o.Now = func() time.Time { now = now.Add(time.Second); return now }
	o.Lessons = func(dir string) []string { return []string{"wait longer in " + filepath.Base(dir)} }
	s, err := Create(o, "fix login")
	must(t, err)
	f := s.Folder()
	f.Log(folder.Event{Type: folder.SessionStart})
	must(t, s.Update(func(m *Metadata) { m.Phase, m.PhaseName = 1, "build"; m.Performance.HelpRequests++ }))
	f.Task(folder.TaskState{TaskID: "T-1", Status: folder.TaskInProgress})
	id := f.Fail(folder.Failure{TaskID: "T-1", ErrorType: "network", ErrorMessage: "503"})
	f.Resolve(id, "retried", 1)
	f.Log(folder.Event{Type: folder.Interrupted})
	f.Task(folder.TaskState{TaskID: "T-1", Status: folder.TaskCompleted})
	f.Task(folder.TaskState{TaskID: "T-2", Status: folder.TaskError})
	must(t, s.Progress(0, 7, 9))
	f.Log(folder.Event{Type: folder.SessionEnd, Result: "completed"})
	must(t, s.Close())
	m := s.Meta()
	p := m.Performance
	if m.TasksCompleted != 1 || m.TasksTotal != 2 || p.SuccessRate != 0.5 || p.ErrorCount != 1 || p.HelpRequests != 1 || p.HumanInterventions != 1 || p.AverageTaskDuration == 0 || p.TotalDurationSeconds == 0 {
		t.Errorf("%+v", m)
	}
	d, err := folder.Read(fsys, s.Dir())
	must(t, err)
	if diff := d.Differences(); len(diff) != 0 || len(d.Problems) != 0 {
		t.Errorf("%v %v", diff, d.Problems)
	}
	if d.Report.Name != "fix login" || d.Report.Status != "Completed" || d.Report.SessionID != "session-001" || d.Report.Date != "2026-11-21" {
		t.Errorf("%+v", d.Report)
	}
	// Taken up again: what was counted goes on.
	s, err = Resume(o, "1")
	must(t, err)
	s.Folder().Log(folder.Event{Type: folder.SessionStart})
	s.Folder().Fail(folder.Failure{ErrorMessage: "again"})
	must(t, s.Update(func(*Metadata) {}))
	s.Folder().Task(folder.TaskState{TaskID: "T-3"})
	s.End(Paused, "stopped")
	must(t, s.Close())
	d, err = folder.Read(fsys, s.Dir())
	must(t, err)
	if diff := d.Differences(); len(diff) != 0 || d.Meta.Errors != 2 || d.Meta.Total != 3 || d.Report.Status != "Paused" {
		t.Errorf("%v %+v", diff, d.Meta)
	}
}

// TestCountedAfterTheEnd: what is counted late, as by a task that ends while the
// session is closed, does not take back how it ended.
func TestCountedAfterTheEnd(t *testing.T) {
	fsys := afero.NewMemMapFs()
	o := options(fsys, "/p/.ralph")
	for name, late := range map[string]func(*Session){
		"count":     (*Session).Count,
		"features":  func(s *Session) { s.Features([]string{"hard"}) },
		"validates": func(s *Session) { s.Validates(true, "go test ./...") },
	} {
		s, err := Create(o, name)
		must(t, err)
		s.End(Paused, "stopped by SIGTERM")
		late(s)
		if m := s.Meta(); m.Status != Paused || m.ExitReason != "stopped by SIGTERM" {
			t.Errorf("%s: %+v", name, m)
		}
		if d, err := folder.Read(fsys, s.Dir()); err != nil || d.Meta.Status != "in_progress" {
			t.Errorf("%s: on disk before Close: %+v %v", name, d.Meta, err)
		}
		must(t, s.Close())
		if d, err := folder.Read(fsys, s.Dir()); err != nil || d.Meta.Status != "paused" || d.Report.Status != "Paused" {
			t.Errorf("%s: %+v %v", name, d.Meta, err)
		}
	}
}

func TestNotes(t *testing.T) {
	fsys := afero.NewMemMapFs()
	s, err := Create(options(fsys, "/p/.ralph"), "a")
	must(t, err)
	s.Say("you", "hello")
	s.Note("decision: retry\n# s3cret")
	s.NoteChange("dir (1)/a [b].go", "+3 -1")
	s.Note(" ")
	s.Say("ralph", "done")
	must(t, s.Close())
	text, err := afero.ReadFile(fsys, filepath.Join(s.Dir(), ConversationFile))
	must(t, err)
	want := "## 2026-11-21 10:02:03 you\n\n> hello\n\n- decision: retry␊# [redacted]\n- changed: [dir (1)/a \\[b\\].go](../../../dir%20%281%29/a%20%5Bb%5D.go) +3 -1\n\n## 2026-11-21 10:02:03 ralph\n\n> done\n\n"
	if string(text) != want {
		t.Errorf("%q", text)
	}
}

// bigJournal makes a journal of n messages of about 250 bytes. Only the last
// thousand differ: encoding all would take long.
func bigJournal(t testing.TB, path string, n int) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	w := bufio.NewWriter(f)
	var line []byte
	for i := range n {
		if i == 0 || i > n-1000 {
			line, err = (seal{}).encode(Record{Seq: int64(i + 1), Time: clock(), Kind: "message", Payload: json.RawMessage(fmt.Sprintf(`{"text":"%d %s"}`, i, strings.Repeat("words ", 20)))})
			must(t, err)
			line = append(line, '\n')
		}
		_, _ = w.Write(line)
	}
	must(t, w.Flush())
	must(t, f.Sync()) // what is measured later is not to pay for it
	must(t, f.Close())
}

func seqs(got *[]int64) func(Record) error {
	return func(r Record) error { *got = append(*got, r.Seq); return nil }
}

// TestTail: whatever the window, what Tail, Window and Before read is together
// what Records reads.
func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), JournalFile)
	bigJournal(t, path, 50)
	whole, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines[10] = append(bytes.Repeat([]byte{0}, 3000), '\n')
	lines[20] = []byte("edited by hand\n")
	lines[49] = bytes.TrimSuffix(lines[49], []byte("\n")) // as an editor may leave it
	must(t, os.WriteFile(path, bytes.Join(lines, nil), 0o600))
	j, err := OpenJournal(nil, path, t.TempDir(), nil)
	must(t, err)
	var all []int64
	must(t, j.Records(seqs(&all)))
	if _, bad := j.Damage(); len(all) != 48 || bad != 2 {
		t.Fatalf("%d %d", len(all), bad)
	}
	size := int64(len(bytes.Join(lines, nil)))
	for window := int64(0); window <= size+1; window += 111 {
		var tail, before []int64
		offset, err := j.Tail(window, seqs(&tail))
		must(t, err)
		if len(tail) == 0 || window > size == (offset != 0) && window > size {
			t.Fatalf("window %d: offset %d, %v", window, offset, tail)
		}
		if window >= 1000 && size-offset > window {
			t.Fatalf("window %d: %d bytes were read", window, size-offset)
		}
		must(t, j.Before(offset, seqs(&before)))
		if got := append(before, tail...); !slices.Equal(got, all) {
			t.Fatalf("window %d: %v", window, got)
		}
		if _, bad := j.Damage(); bad != 2 {
			t.Fatalf("window %d: %d bad lines", window, bad)
		}
		if window%(111*13) != 0 || window == 0 {
			continue
		}
		got := tail
		for offset > 0 {
			var part []int64
			offset, err = j.Window(offset, window, seqs(&part))
			must(t, err)
			got = append(part, got...)
		}
		if !slices.Equal(got, all) {
			t.Fatalf("windows of %d: %v", window, got)
		}
	}
	stop := errors.New("stop")
	if _, err := j.Tail(1<<20, func(Record) error { return stop }); err != stop {
		t.Error(err)
	}
	must(t, j.Append(0, Record{Kind: "next"}))
	var tail []int64
	_, err = j.Tail(1, seqs(&tail))
	must(t, err)
	if !slices.Equal(tail, []int64{51}) {
		t.Errorf("%v", tail)
	}
	must(t, j.Close())
	if offset, err := j.Tail(1, seqs(&tail)); err != nil || offset == 0 {
		t.Errorf("after Close: %d %v", offset, err)
	}
	must(t, os.Remove(path))
	if offset, err := j.Tail(1, seqs(&tail)); err != nil || offset != 0 {
		t.Errorf("without a file: %d %v", offset, err)
	}
}

// TestHoles: blocks of NUL bytes and lines that somebody edited, anywhere,
// also larger than what is looked at when a journal is opened.
func TestHoles(t *testing.T) {
	for _, tc := range []struct {
		name       string
		hole       []byte
		at         int // after so many lines
		bad, whole int
	}{
		{"NUL block in a line's place", append(make([]byte, 300<<10), '\n'), 5, 1, 10},
		{"NUL block before a record", make([]byte, 4096), 5, 1, 9},
		{"NUL block at the end", make([]byte, 300<<10), 10, 0, 10},
		{"NUL lines at the end", bytes.Repeat([]byte("\x00\x00\x00\n"), 60000), 10, 60000, 10},
		{"hand-edited", []byte("{\"seq\": 999999, \"kind\": \"mine\"}\n\n  \n# a comment\r\n"), 3, 2, 10},
		{"binary", append(bytes.Repeat([]byte{0xff, 0xfe, '\n'}, 100), '\n'), 0, 100, 10},
	} {
		stateDir := t.TempDir()
		s, err := Create(Options{StateDir: stateDir}, "a")
		must(t, err)
		for i := range 10 {
			must(t, appendOne(s, 0, "k", fmt.Sprint(i)))
		}
		must(t, s.Close())
		path := filepath.Join(s.Dir(), JournalFile)
		text, err := os.ReadFile(path)
		must(t, err)
		lines := bytes.SplitAfter(text, []byte("\n"))
		must(t, os.WriteFile(path, bytes.Join([][]byte{bytes.Join(lines[:tc.at], nil), tc.hole, bytes.Join(lines[tc.at:], nil)}, nil), 0o600))
		s, err = Open(Options{StateDir: stateDir}, "last")
		must(t, err)
		must(t, appendOne(s, 0, "next", "1"))
		got, bad := records(t, s)
		if len(got) != tc.whole+1 || bad != tc.bad || got[len(got)-1] != "11 0 next 1" {
			t.Errorf("%s: %d records, %d bad, last %q", tc.name, len(got), bad, got[len(got)-1])
		}
		var tail []int64
		_, err = s.Journal().Tail(1, seqs(&tail))
		must(t, err)
		if !slices.Equal(tail, []int64{11}) {
			t.Errorf("%s: tail %v", tc.name, tail)
		}
		must(t, s.Close())
	}
}

// TestHalfMade: what a crash in the middle of Create leaves is a session like
// any other; what is none of ours in the directory is not touched.
func TestHalfMade(t *testing.T) {
	fsys := afero.NewMemMapFs()
	foreign := map[string]string{"login.json": `{"version": 1}`, "notes.txt": "mine", "session-abc/x": "theirs", "session-12": "a file", "my folder/session-metadata.yaml": "a: 1"}
	for name, text := range foreign {
		must(t, afero.WriteFile(fsys, filepath.Join("/r/sessions", name), []byte(text), 0o600))
	}
	must(t, fsys.MkdirAll("/r/sessions/session-003-half", 0o700))
	must(t, afero.WriteFile(fsys, "/r/sessions/session-004-empty/session-metadata.yaml", nil, 0o600))
	must(t, afero.WriteFile(fsys, "/r/sessions/session-005-wild/session-metadata.yaml", []byte("session_id: 005\nstatus: in_progress\nphase: discovery\nstart_time: yesterday\nmine: &a 1\ntheirs: *a\nphase_name: &b x\nagain: *b\nralph_runtime_config: {learning_rate: 0.9}\n"), 0o600))
	infos, err := List(fsys, "/r")
	must(t, err)
	if len(infos) != 3 || infos[0].Err == nil || infos[1].Err == nil || infos[2].Err != nil || infos[2].Meta.SessionID != "session-005" {
		t.Fatalf("%+v", infos)
	}
	for _, which := range []string{"3", "4", "5"} {
		s, err := Resume(options(fsys, "/r"), which)
		must(t, err)
		must(t, appendOne(s, 0, "k", "1"))
		s.Folder().Task(folder.TaskState{TaskID: "001"})
		s.Say("you", "hello")
		must(t, s.Close())
		d, err := folder.Read(fsys, s.Dir())
		must(t, err)
		if len(d.Problems) != 0 || d.Meta.SessionID != "session-00"+which || d.Meta.Status != "completed" {
			t.Errorf("%s: %+v %v", which, d.Meta, d.Problems)
		}
		if got, bad := records(t, s); len(got) != 1 || bad != 0 {
			t.Errorf("%s: %q %d", which, got, bad)
		}
		if d.Meta.Start.IsZero() || d.Meta.TotalDuration > 10 {
			t.Errorf("%s: %+v", which, d.Meta)
		}
		text, err := afero.ReadFile(fsys, filepath.Join(s.Dir(), MetadataFile))
		must(t, err)
		if which == "5" && (!strings.Contains(string(text), "mine: 1\ntheirs: 1\nagain: x\n") || !strings.Contains(string(text), "learning_rate: 0.9")) {
			t.Errorf("%s", text)
		}
	}
	s, err := Create(options(fsys, "/r"), "next")
	must(t, err)
	if s.ID() != "006" {
		t.Error(s.ID())
	}
	must(t, s.Close())
	for name, text := range foreign {
		if got, err := afero.ReadFile(fsys, filepath.Join("/r/sessions", name)); err != nil || string(got) != text {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

// TestSessionGone: the directory, or all of .ralph, is removed while the
// session is open: no record is lost from then on.
func TestSessionGone(t *testing.T) {
	for _, part := range []string{"sessions/session-001-a", "sessions", ""} {
		for name, fsys := range map[string]afero.Fs{"disk": afero.NewBasePathFs(afero.NewOsFs(), t.TempDir()), "memory": afero.NewMemMapFs()} {
			s, err := Create(options(fsys, "/.ralph"), "a")
			must(t, err)
			must(t, appendOne(s, 0, "k", "1"))
			must(t, fsys.RemoveAll(filepath.Join("/.ralph", part)))
			must(t, appendOne(s, 0, "k", "2"))
			s.Say("you", "hello")
			s.Folder().Log(folder.Event{Type: folder.Message})
			must(t, s.Update(func(*Metadata) {}))
			must(t, appendOne(s, 0, "k", "3"))
			must(t, s.Close())
			if got, bad := records(t, s); !slices.Equal(got, []string{"2 0 k 2", "3 0 k 3"}) || bad != 0 {
				t.Errorf("%s %q: %q", name, part, got)
			}
			if infos, err := List(fsys, "/.ralph"); err != nil || len(infos) != 1 || infos[0].Err != nil || infos[0].Meta.EndTime == nil {
				t.Errorf("%s %q: %+v %v", name, part, infos, err)
			}
		}
	}
}

// TestNames: whatever a session is called, it is one directory, and is found by
// its name.
func TestNames(t *testing.T) {
	names := []string{"日本語", "ünï", "a\x00b\x1b[31m", "../../etc/passwd", "a/b\\c", "..", ".", "new\nline", strings.Repeat("long ", 500), "CON", "\u202ebidi", "\xff\xfe", "emoji 🎉", "001", "null", "~"}
	for base, fsys := range map[string]afero.Fs{"disk": afero.NewBasePathFs(afero.NewOsFs(), t.TempDir())} {
		for i, name := range names {
			s, err := Create(options(fsys, "/.ralph"), name)
			if err != nil {
				t.Fatalf("%s: %q: %v", base, name, err)
			}
			d := filepath.Base(s.Dir())
			if !strings.HasPrefix(d, fmt.Sprintf("session-%03d-", i+1)) || len(d) > 60 || strings.ContainsFunc(d, func(r rune) bool { return !(r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9') }) {
				t.Errorf("%s: %q: %s", base, name, d)
			}
			must(t, s.Close())
			infos, err := List(fsys, "/.ralph")
			must(t, err)
			got := infos[len(infos)-1]
			if len(infos) != i+1 || got.Err != nil || got.Meta.SessionID != fmt.Sprintf("session-%03d", i+1) || got.Meta.SessionName == "" || len(got.Meta.SessionName) > 1000 {
				t.Errorf("%s: %q: %+v", base, name, got)
			}
			if again, err := Open(options(fsys, "/.ralph"), got.Meta.SessionName); got.Meta.SessionName != "001" && (err != nil || again.ID() != got.ID) {
				t.Errorf("%s: %q is not found: %v", base, name, err)
			} else if err == nil {
				must(t, again.Close())
			}
		}
	}
}

// writeAll uses all of a session's writers.
func writeAll(s *Session) error {
	var errs []error
	for i := range 3 {
		errs = append(errs, appendOne(s, 0, "k", fmt.Sprint(i)))
		s.Say("you", fmt.Sprint("text ", i))
		s.Note(fmt.Sprint("note ", i))
		s.Folder().Log(folder.Event{Type: folder.Message, Result: fmt.Sprint(i)})
		s.Folder().Task(folder.TaskState{TaskID: fmt.Sprint("T-", i), Status: folder.TaskCompleted})
	}
	return errors.Join(append(errs, s.Update(func(m *Metadata) { m.PhaseName = "later" }))...)
}

// TestSessionFaults: whatever operation of a session's writers fails, nothing
// that was acknowledged is lost, no file gets shorter or unreadable, and the
// same process goes on when the disk works again.
func TestSessionFaults(t *testing.T) {
	points := 0
	for i, errno := range []error{syscall.ENOSPC, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.EDQUOT} {
		stride := crashfs.Count(5, 1)
		if i > 0 {
			stride = crashfs.Count(17, 1)
		}
		for n := 1 + i%stride; ; n += stride {
			ff := faultfs.New(afero.NewMemMapFs())
			s, err := Create(options(ff, "/r"), "a")
			must(t, err)
			must(t, appendOne(s, 0, "first", "1"))
			if i%2 == 0 {
				ff.FailAt(n, errno)
			} else {
				ff.FailFrom(n, errno)
			}
			_ = writeAll(s)
			done := n > len(ff.Ops())
			ff.FailAt(0, nil)
			label := fmt.Sprintf("%v at operation %d", errno, n)
			if err := writeAll(s); err != nil {
				t.Fatalf("%s: it does not go on: %v", label, err)
			}
			if err := s.Close(); err != nil {
				t.Fatalf("%s: close: %v", label, err)
			}
			got, bad := records(t, s)
			d, err := folder.Read(ff, s.Dir())
			must(t, err)
			if len(got) < 4 || got[0] != "1 0 first 1" || bad != 0 || len(d.Problems) != 0 || d.Log.Events != 6 || len(d.Progress.Tasks) != 3 || d.Meta.PhaseName != "later" || len(d.Differences()) != 0 {
				t.Fatalf("%s: %q, %d bad, %+v", label, got, bad, d)
			}
			text, err := afero.ReadFile(ff, filepath.Join(s.Dir(), ConversationFile))
			must(t, err)
			if strings.Count(string(text), "> text ") != 6 || strings.Count(string(text), "- note ") != 6 {
				t.Fatalf("%s: %s", label, text)
			}
			if points++; done {
				break
			}
		}
	}
	t.Logf("%d faults", points)
}

// TestCreateFaults: a session whose making fails leaves nothing that stands in
// the way of the next, which gets a number of its own.
func TestCreateFaults(t *testing.T) {
	for n := 1; ; n += crashfs.Count(2, 1) {
		ff := faultfs.New(afero.NewMemMapFs())
		ff.FailAt(n, syscall.ENOSPC)
		s, err := Create(options(ff, "/r"), "a")
		if err == nil {
			_ = s.Close()
		}
		done := n > len(ff.Ops())
		ff.FailAt(0, nil)
		s, err = Create(options(ff, "/r"), "b")
		if err != nil {
			t.Fatalf("operation %d: %v", n, err)
		}
		must(t, appendOne(s, 0, "k", "1"))
		must(t, s.Close())
		if s, err = Resume(options(ff, "/r"), "last"); err != nil || s.Meta().SessionName != "b" {
			t.Fatalf("operation %d: %v", n, err)
		}
		must(t, s.Close())
		if done {
			break
		}
	}
}

// TestSessionPowerLoss: every acknowledged record is there after a power cut or
// a kill, and the session goes on.
func TestSessionPowerLoss(t *testing.T) {
	scenario := func(fsys *crashfs.FS) error {
		s, err := Create(options(fsys, "/.ralph"), "a")
		if err != nil {
			return err
		}
		fsys.Ack("session")
		for i := range 3 {
			if err := appendOne(s, 0, "k", fmt.Sprint(i)); err != nil {
				return err
			}
			fsys.Ack("record")
			s.Say("you", "text")
			s.Folder().Log(folder.Event{Type: folder.Message})
			s.Folder().Task(folder.TaskState{TaskID: "T-1", Status: folder.TaskInProgress})
		}
		return s.Close()
	}
	check := func(disk *crashfs.FS, acked []string) error {
		which := "last"
		if len(acked) == 0 {
			which = "new"
		}
		s, err := Resume(options(disk, "/.ralph"), which)
		if err != nil {
			return err
		}
		if err := writeAll(s); err != nil {
			return err
		}
		n := 0
		if err := errors.Join(s.Close(), s.Records(func(Record) error { n++; return nil })); err != nil {
			return err
		}
		if want := max(0, len(acked)-1) + 3; n < want {
			return fmt.Errorf("%d records, want %d", n, want)
		}
		d, err := folder.Read(disk, s.Dir())
		if err == nil && (len(d.Problems) > 0 || d.Meta.Status != "completed") {
			err = fmt.Errorf("%v %+v", d.Problems, d.Meta)
		}
		return err
	}
	r := crashfs.Sweep(scenario, check, crashfs.Options{Images: crashfs.Count(100, 20_000)})
	t.Log(r)
	if err := r.Err(); err != nil {
		t.Error(err)
	}
}

// TestManyProcesses: two Stores of the same project may number at once.
func TestManyProcesses(t *testing.T) {
	root := t.TempDir()
	var mu sync.Mutex
	ids := map[string]int{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				s, err := Create(Options{StateDir: root}, "same name")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ids[s.ID()]++
				mu.Unlock()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(ids) != 40 {
		t.Errorf("%d numbers for 40 sessions: %v", len(ids), ids)
	}
}

// TestSizes shows what opening and listing cost; only the results are asserted.
func TestSizes(t *testing.T) {
	stateDir := t.TempDir()
	s, err := Create(Options{StateDir: stateDir}, "big")
	must(t, err)
	must(t, s.Close())
	bigJournal(t, filepath.Join(s.Dir(), JournalFile), 100_000)
	st, err := os.Stat(filepath.Join(s.Dir(), JournalFile))
	must(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	s, err = Open(Options{StateDir: stateDir}, "1")
	must(t, err)
	opening := time.Since(begin)
	runtime.ReadMemStats(&after)
	begin = time.Now()
	n := 0
	offset, err := s.Journal().Tail(1<<20, func(Record) error { n++; return nil })
	must(t, err)
	tail := time.Since(begin)
	begin = time.Now()
	more := 0
	before2, err := s.Journal().Window(offset, 1<<20, func(Record) error { more++; return nil })
	must(t, err)
	t.Logf("journal of 100,000 records, %d MB: open %v (%d kB), tail of 1 MiB (%d records) %v, the MiB before it (%d) %v",
		st.Size()>>20, opening, (after.TotalAlloc-before.TotalAlloc)>>10, n, tail, more, time.Since(begin))
	if n < 1000 || more < 1000 || before2 >= offset {
		t.Errorf("%d and %d records, %d, %d", n, more, offset, before2)
	}
	must(t, appendOne(s, 0, "k", "1"))
	var last []int64
	_, err = s.Journal().Tail(1, seqs(&last))
	must(t, err)
	if last[0] != 100_001 {
		t.Errorf("%v", last)
	}
	must(t, s.Close())
	meta, err := os.ReadFile(filepath.Join(s.Dir(), MetadataFile))
	must(t, err)
	for i := range 1000 {
		d := filepath.Join(stateDir, "sessions", fmt.Sprintf("session-%03d-x", i+2))
		must(t, os.Mkdir(d, 0o700))
		must(t, os.WriteFile(filepath.Join(d, MetadataFile), meta, 0o600))
	}
	begin = time.Now()
	infos, err := List(afero.NewOsFs(), stateDir)
	must(t, err)
	listing := time.Since(begin)
	begin = time.Now()
	_, err = Last(afero.NewOsFs(), stateDir)
	must(t, err)
	t.Logf("list of %d sessions: %v; the last one: %v", len(infos), listing, time.Since(begin))
	if len(infos) != 1001 {
		t.Errorf("%d sessions", len(infos))
	}
}

func BenchmarkAppendRecord(b *testing.B) {
	for _, n := range []int{10, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), JournalFile)
			bigJournal(b, path, n)
			j, err := OpenJournal(nil, path, "", nil)
			must(b, err)
			payload := json.RawMessage(`{"text":"some words of a message"}`)
			for b.Loop() {
				must(b, j.Append(0, Record{Kind: "message", Payload: payload}))
			}
			must(b, j.Close())
		})
	}
}
