package beads_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ralph/coordinator/plan/beads"
)

// TestRealCallsOfATask: what a run does for a task takes five calls of bd, and what
// is not asked again is what bd would say.
func TestRealCallsOfATask(t *testing.T) {
	r := realBD(t)
	ctx := t.Context()
	one, two, three := r.create("One"), r.create("Two"), r.create("Three")
	bin := filepath.Join(t.TempDir(), "bd")
	log := bin + ".log"
	write(t, bin, fmt.Sprintf("#!/bin/sh\necho \"$@\" >> '%s'\nexec '%s' \"$@\"\n", log, r.bin), 0o755)
	c, err := beads.Open(beads.Options{Root: r.root, Proc: r.proc, Environ: r.env, Program: bin})
	if err != nil {
		t.Fatal(err)
	}
	calls := func() int {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(data, []byte("\n"))
	}
	look := func(id, status, who string) {
		t.Helper()
		stamp, err := c.Stamp(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Snapshot(ctx)
		if err != nil || s.Stamp != stamp {
			t.Fatalf("the snapshot is not the one of its stamp: %v", err)
		}
		for _, i := range s.Issues {
			if i.ID == id && (i.Status != status || i.Assignee != who) {
				t.Errorf("%s is %s of %q, want %s of %q", id, i.Status, i.Assignee, status, who)
			}
		}
	}
	look(one, "open", "")
	for _, id := range []string{one, two} {
		before := calls()
		if err := c.Claim(ctx, id, "ralph/s1"); err != nil {
			t.Fatal(err)
		}
		look(id, "in_progress", "ralph/s1")
		if err := errors.Join(c.Close(ctx, id, "ralph 1a2b", "ralph/s1"), c.Comment(ctx, id, "it works", "ralph/s1")); err != nil {
			t.Fatal(err)
		}
		look(id, "closed", "ralph/s1")
		if n := calls() - before; n > 5 {
			data, _ := os.ReadFile(log)
			t.Errorf("%d calls for a task:\n%s", n, data)
		}
	}
	// What somebody else does meanwhile is not taken from memory.
	r.run("update", three, "--claim", "--actor", "bob")
	if err := c.Claim(ctx, three, "ralph/s1"); !errors.Is(err, beads.ErrTaken) {
		t.Errorf("claimed what is bob's: %v", err)
	}
	if err := c.GiveBack(ctx, three, "ralph/s1"); !errors.Is(err, beads.ErrTaken) {
		t.Errorf("given back what is bob's: %v", err)
	}
	look(three, "in_progress", "bob")
	r.run("close", three, "--reason", "by hand")
	if err := c.Close(ctx, three, "ralph", "ralph/s1"); err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range s.Issues {
		if i.ID == three && i.CloseReason != "by hand" {
			t.Errorf("closed again: %q", i.CloseReason)
		}
	}
}
