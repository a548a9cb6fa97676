package coordinator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"ralph/coordinator/loop"
	"ralph/memory/feature"
	"ralph/workers/exec"
	"ralph/workers/git"
)

func TestFailedTasksAreToldWithTheirReason(t *testing.T) {
	var out loop.Outcome
	if got := failedText(out); got != "" {
		t.Errorf("%q", got)
	}
	for i := range 7 {
		out.Failed, out.Why = append(out.Failed, fmt.Sprintf("T-%d", i)), append(out.Why, "its check failed\nwith much output")
	}
	out.Why[1] = ""
	got := strings.Split(failedText(out), "\n")
	if len(got) != 7 || got[1] != "  T-0: its check failed" || got[2] != "  T-1: the plan says so" || got[6] != "  and 2 more" {
		t.Errorf("%q", got)
	}
}

func TestOfACutRunItIsNotSaidThatUndoTakesItBack(t *testing.T) {
	for _, run := range []bool{false, true} {
		root := t.TempDir()
		state := filepath.Join(root, ".ralph")
		if err := os.Mkdir(state, 0o700); err != nil {
			t.Fatal(err)
		}
		runner := exec.New(exec.Options{Init: exec.Self()})
		defer runner.Close(context.WithoutCancel(t.Context()))
		c := &changes{writes: newWriteLog(root, ""), points: git.OpenCheckpoints(runner, root, state, t.TempDir(), nil), root: root, run: "r-1", warn: func(string) {}}
		if _, err := c.points.Take(t.Context(), "r-1.1"+git.BeforeTurn); err != nil {
			t.Fatal(err)
		}
		c.writes.file = filepath.Join(t.TempDir(), writesFile)
		c.writes.begin()
		done := c.writes.writing(filepath.Join(root, "merged.txt"))
		if err := os.WriteFile(filepath.Join(root, "merged.txt"), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		done(true)
		told := strings.Join(c.mend(t.Context(), run), "; ")
		if strings.Contains(told, "undo takes that back") == run {
			t.Errorf("a run (%t): %q", run, told)
		}
		if c.cutOff == "" || len(c.made) != 1 {
			t.Errorf("a run (%t): the turn has no second checkpoint", run)
		}
	}
}

func TestCutRun(t *testing.T) {
	o := feature.Options{FS: afero.NewMemMapFs(), StateDir: "/p/.ralph"}
	for name, status := range map[string]feature.Status{"one": feature.Running, "two": feature.Completed} {
		s, err := feature.Open(o, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Save(feature.Snapshot{Feature: name, SessionID: name, Status: status}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for session, want := range map[string]bool{"one": true, "two": false, "three": false, "": false} {
		if got := cutRun(o, session); got != want {
			t.Errorf("%q: %t", session, got)
		}
	}
}
