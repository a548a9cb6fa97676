package coordinator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ralph/workers/exec"
	"ralph/workers/exec/supervise"
)

// What a command wrote in the last moment before its Ralph was killed is Ralph's for the
// next one, which opens directories that it closed; what somebody else wrote then is not.
func TestWritesOfTheLastMoment(t *testing.T) {
	t.Parallel()
	root, dir := t.TempDir(), t.TempDir()
	since := time.Now().Add(-time.Minute)
	killed := newWriteLog(root, dir)
	killed.begin()
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(root, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	record := func(list ...supervise.Seen) {
		var text []byte
		for _, s := range list {
			entry, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			text = append(append(text, entry...), '\n')
		}
		if err := os.WriteFile(filepath.Join(killed.Place(), exec.TempName("record")), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now()
	write("command")
	write("user")
	for _, name := range []string{"closed", "private"} {
		if err := os.Mkdir(filepath.Join(root, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	record(supervise.Seen{Begun: true}, supervise.Seen{Path: []byte(filepath.Join(root, "command")), At: at}, supervise.Seen{Path: []byte(filepath.Join(root, "closed")), At: at})

	wants := func(l *writeLog, name string, want whose) {
		t.Helper()
		if got := l.whose(name, since, false); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for range 2 { // the next one may be killed too
		next := newWriteLog(root, dir)
		next.load()
		wants(next, "command", ours)
		wants(next, "user", theirs)
		for name, want := range map[string]os.FileMode{"closed": 0o700, "private": 0} {
			if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		if left := exec.LeftRecords(dir); len(left) != 0 {
			t.Errorf("left: %+v", left)
		}
		next.end()
	}

	record(supervise.Seen{Begun: true}, supervise.Seen{Gap: true})
	write("unseen")
	next := newWriteLog(root, dir)
	next.load()
	wants(next, "unseen", mixed)
	next.end()

	record(supervise.Seen{Begun: true})
	next.begin()
	defer next.end()
	if left := exec.LeftRecords(dir); len(left) != 0 {
		t.Errorf("left of a turn before: %+v", left)
	}
}
