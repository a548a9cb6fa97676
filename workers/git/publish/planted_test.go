package publish

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/exec"
)

// TestPlantedLayers puts layers and journals where layers may be, as a repository with
// files below .ralph or another user of the machine can: what is not on record is not
// published, and nothing that a journal names is removed.
func TestPlantedLayers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp)
	w.open()
	victim, lock := filepath.Join(w.dir, "victim"), filepath.Join(w.root, ".git", "index.lock")
	if err := os.Mkdir(victim, 0o700); err != nil {
		t.Fatal(err)
	}
	w.put(filepath.Join(victim, "precious"), "x")
	w.put(lock, "")
	const see = "git for-each-ref; cat .git/HEAD"
	before := w.user(see)
	name := strings.Replace(exec.TempName(purpose), "-"+itoa(int64(os.Getpid()))+"-", "-999999999-", 1)
	if !exec.Leftover(name, purpose) {
		t.Fatalf("%q is no name of an ended process's", name)
	}
	o := w.options()
	dir := filepath.Join(o.Dirs[0], name)
	if err := os.MkdirAll(filepath.Join(dir, "upper", "refs", "heads"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.put(filepath.Join(dir, "upper", "refs", "heads", "evil"), w.user("git rev-parse HEAD")+"\n")
	plant := func(in string) {
		t.Helper()
		j := journal{ID: "20260101T000000.000", Time: time.Unix(1, 0), Locks: []lockFile{{Path: lock}}, Remove: []string{victim}}
		if err := writeJSON(filepath.Join(in, journalFile), j); err != nil {
			t.Fatal(err)
		}
		rec, err := w.h.reader.read(o.Git.CommonDir, o.Git.GitDir, o.Root)
		if err != nil {
			t.Fatal(err)
		}
		rec.Layer = dir
		if err := writeJSON(filepath.Join(in, recordFile), rec); err != nil {
			t.Fatal(err)
		}
	}
	plant(dir)
	if lines := Recover(context.Background(), o).Lines(); len(lines) > 0 {
		t.Errorf("reported: %q", lines)
	}
	for _, path := range []string{filepath.Join(victim, "precious"), lock} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if after := w.user(see); after != before {
		t.Errorf("the repository is now\n%s\nbefore\n%s", after, before)
	}
	// What a command wrote outlives a record that cannot be read.
	broken := filepath.Join(o.Records, strings.Replace(name, "999999999", "999999998", 1))
	if err := os.MkdirAll(filepath.Join(broken, "upper"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.put(filepath.Join(broken, "upper", "work"), "x")
	w.put(filepath.Join(broken, recordFile), "{")
	Recover(context.Background(), o)
	if _, err := os.Stat(filepath.Join(broken, "upper", "work")); err != nil {
		t.Error(err)
	}
	// The same on record is finished: the test can fail.
	at := filepath.Join(o.Records, name)
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	plant(at)
	Recover(context.Background(), o)
	if after := w.user(see); after == before {
		t.Error("what is on record is not published")
	}
	if _, err := os.Stat(victim); err == nil {
		t.Error("what a journal on record names is not removed")
	}
}
