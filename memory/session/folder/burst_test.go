package folder

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
)

// TestBurst: what happens at once does not write a long file whole for each part of
// it, and nothing of it is missing in the end, nor back that was taken out, though
// somebody changes the file meanwhile.
func TestBurst(t *testing.T) {
	fsys := afero.NewMemMapFs()
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	f, err := Open(Options{FS: fsys, Dir: dir, SessionID: "001", Now: func() time.Time { return now }})
	must(t, err)
	long := []TaskState{{TaskID: "T-1"}, {TaskID: "T-2"}}
	for i := range 1000 {
		long = append(long, TaskState{TaskID: fmt.Sprint("L-", i)})
	}
	f.Tasks(long...)
	must(t, f.Flush())
	path := filepath.Join(dir, progressFile)
	first, err := afero.ReadFile(fsys, path)
	must(t, err)
	if !strings.Contains(string(first), "T-2") {
		t.Errorf("the first of it is not there: %s", first)
	}
	for i := range 20 {
		f.Task(TaskState{TaskID: fmt.Sprint("N-", i), Status: TaskCompleted})
	}
	f.Forget("T-1")
	if again, err := afero.ReadFile(fsys, path); err != nil || string(again) != string(first) {
		t.Errorf("it was written for a part: %v %s", err, again)
	}
	must(t, afero.WriteFile(fsys, path, append(first, "mine: 1\n"...), 0o600))
	now = now.Add(2 * time.Second)
	f.Phase(2, "build", 10)
	must(t, f.Flush())
	second, err := afero.ReadFile(fsys, path)
	must(t, err)
	if text := string(second); strings.Contains(text, "task_id: T-1\n") || !strings.Contains(text, "N-19") || !strings.Contains(text, "mine: 1") {
		t.Errorf("after a while: %s", text)
	}
	f.Task(TaskState{TaskID: "T-1"}) // which is there again
	must(t, f.Close())
	d, err := Read(fsys, dir)
	must(t, err)
	if n := len(d.Progress.Tasks); n != 1022 {
		t.Errorf("%d tasks", n)
	}
}

// TestLogInOrder: an event that is written late has the time of the one before it; a
// clock that was set back shows.
func TestLogInOrder(t *testing.T) {
	fsys := afero.NewMemMapFs()
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	f, err := Open(Options{FS: fsys, Dir: dir, SessionID: "001", Now: func() time.Time { return now }})
	must(t, err)
	f.Log(Event{Type: SessionStart})
	f.Log(Event{Type: GateChecked, Time: now.Add(-40 * time.Millisecond)})
	now = now.Add(time.Minute)
	f.Log(Event{Type: TaskStart})
	f.Log(Event{Type: GateChecked, Time: now.Add(-30 * time.Second)})
	now = now.Add(-time.Hour)
	f.Log(Event{Type: SessionEnd})
	must(t, f.Close())
	var got []string
	_, err = Events(fsys, dir, func(e Event) error {
		got = append(got, e.Time.Format("15:04:05.000"))
		return nil
	})
	must(t, err)
	if want := "09:00:00.000 09:00:00.000 09:01:00.000 09:01:00.000 08:01:00.000"; strings.Join(got, " ") != want {
		t.Errorf("%v", got)
	}
}
