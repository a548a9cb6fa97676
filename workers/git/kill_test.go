package git

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ralph/workers/exec"
)

const killedEnv = "RALPH_TEST_CHECKPOINTS"

// mortal takes a checkpoint, changes files, takes another and goes back, until it is
// killed. After each step it writes a line.
func mortal(root, store string) error {
	p := exec.New(exec.Options{})
	ctx := context.Background()
	loc, err := Find(root)
	at := &loc
	if err != nil {
		at = nil
	}
	c := OpenCheckpoints(p, root, filepath.Join(root, ".ralph"), store, at)
	for {
		before, err := c.Take(ctx, "r/1.before")
		if err != nil {
			return err
		}
		fmt.Println("before")
		for i := range 20 {
			if err := os.WriteFile(filepath.Join(root, fmt.Sprint("f", i)), []byte(fmt.Sprint("changed ", time.Now())), 0o644); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(root, "new"), []byte("n"), 0o644); err != nil {
			return err
		}
		fmt.Println("changed")
		after, err := c.Take(ctx, "r/1.after")
		if err != nil {
			return err
		}
		fmt.Println("after")
		if _, err := c.Restore(ctx, before, after, nil); err != nil {
			return err
		}
		fmt.Println("restored")
		if err := c.Compact(ctx, time.Now(), 10); err != nil {
			return err
		}
	}
}

// A Ralph that is killed while it takes a checkpoint, packs or goes back leaves a
// store that is whole, and the next one finishes what was begun.
func TestKilledCheckpoints(t *testing.T) {
	if root := os.Getenv(killedEnv); root != "" {
		store := os.Getenv(killedEnv + "_STORE")
		t.Fatal(mortal(root, store))
	}
	rounds := 12
	if os.Getenv("RALPH_TEST_SWEEP") != "" {
		rounds = 200
	}
	both(t, func(t *testing.T, w *world) {
		for i := range 20 {
			w.write(fmt.Sprint("f", i), fmt.Sprintf("was %d\n", i))
		}
		if w.exists(".git") {
			w.commitAll("first")
		}
		restored := 0
		for round := range rounds {
			// Each round is killed later than the one before: within the steps of one cycle.
			step := []string{"", "before", "changed", "after", "restored"}[round%5]
			killAfter(t, w, step, time.Duration(round/5%8)*4*time.Millisecond)
			c, ctx := w.checkpoints(), t.Context()
			list := must(c.List(ctx))(t)
			if w.exists("home:state/files.git") {
				w.gitIn(w.root, "--git-dir="+w.path("home:state/files.git"), "fsck", "--strict", "--full", "--connectivity-only")
			}
			turn := map[string]Checkpoint{}
			for _, p := range list {
				turn[p.ID] = p
			}
			before, after := turn["r/1.before"], turn["r/1.after"]
			if before.ID == "" {
				continue
			}
			if after.ID == "" || after.Time.Before(before.Time) {
				after = must(c.Take(ctx, "r/1.after"))(t)
			}
			must(c.Restore(ctx, before, after, nil))(t)
			restored++
			for i := range 20 {
				equal(t, "content", w.read(fmt.Sprint("f", i)), fmt.Sprintf("was %d\n", i))
			}
			if w.exists("new") {
				t.Error("new is there")
			}
			take(t, c, "clean")
			entries, err := os.ReadDir(w.root)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".ralph-") {
					t.Errorf("round %d: %s is left", round, e.Name())
				}
			}
			if err := c.Drop(ctx, "clean", "r/1.before", "r/1.after"); err != nil {
				t.Fatal(err)
			}
		}
		if restored < rounds/2 {
			t.Errorf("only %d of %d rounds came to something", restored, rounds)
		}
	})
}

// killAfter starts mortal and kills it with its gits a while after it said a word.
func killAfter(t *testing.T, w *world, word string, while time.Duration) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(self, "-test.run", "^TestKilledCheckpoints$")
	cmd.Env = append(os.Environ(), killedEnv+"="+w.root, killedEnv+"_STORE="+w.path("home:state"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	buf := make([]byte, 256)
	for word != "" && !strings.Contains(said, word+"\n") {
		n, err := out.Read(buf)
		said += string(buf[:n])
		if err != nil {
			t.Fatalf("ended before %q: %s", word, said)
		}
	}
	time.Sleep(while) // the moment of the kill is what the test sweeps over
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
