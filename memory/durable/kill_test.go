package durable_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/durable/crashfs"
)

const childEnv = "RALPH_DURABLE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Fprintln(os.Stderr, child(afero.NewBasePathFs(afero.NewOsFs(), dir), os.NewFile(3, "acks")))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// childKeepers write each into a directory of its own.
func childKeepers() []keeper {
	return append(keepers(), keeper{name: "List, unsynced", all: elements, open: listing(false)})
}

// child puts things with every writer until it is killed, and says so.
func child(fsys afero.Fs, acks *os.File) error {
	var writers []writer
	next := 0
	for i, k := range childKeepers() {
		in := afero.NewBasePathFs(fsys, fmt.Sprint("/", i))
		if err := errors.Join(durable.MkdirAll(fsys, fmt.Sprint("/", i, "/d"), 0o700), durable.Sweep(in, "/d")); err != nil {
			return err
		}
		w, err := k.open(in)
		if err != nil {
			return err
		}
		there, err := k.all(in)
		if err != nil {
			return err
		}
		if len(there) > 0 {
			next = max(next, slices.Max(there)+1)
		}
		writers = append(writers, w)
	}
	for ; ; next++ {
		for i, w := range writers {
			if err := w.put(next); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(acks, i, next); err != nil {
				return err
			}
		}
	}
}

// TestKilled: real processes are killed at random instants; what they
// acknowledged is there, all is readable, and the next one goes on.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	ks := childKeepers()
	acked := make([][]int, len(ks))
	rounds := crashfs.Count(20, 300)
	n, err := crashfs.Kills(crashfs.Killing{
		Rounds: rounds,
		Start: func(_ int, acks *os.File) (*os.Process, error) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+dir)
			cmd.ExtraFiles = []*os.File{acks}
			cmd.Stderr = os.Stderr
			err := cmd.Start()
			return cmd.Process, err
		},
		Check: func(_ int, lines []string) error {
			for _, line := range lines {
				var i, n int
				if _, err := fmt.Sscan(line, &i, &n); err != nil {
					return fmt.Errorf("line %q: %w", line, err)
				}
				acked[i] = append(acked[i], n)
			}
			for i, k := range ks {
				in := afero.NewBasePathFs(afero.NewOsFs(), filepath.Join(dir, strconv.Itoa(i)))
				w, err := k.open(in) // mends
				if err != nil {
					return err
				}
				there, err := k.all(in)
				if err == nil {
					err = k.missing(there, acked[i])
				}
				if err = errors.Join(err, w.close()); err != nil {
					return fmt.Errorf("%s: %w", k.name, err)
				}
			}
			return nil
		},
	})
	t.Logf("%d processes killed, %d acknowledged things, all there: %v", rounds, n, err == nil)
	if err != nil {
		t.Error(err)
	}
}

// late is the real disk on which somebody does something just before a rename.
type late struct {
	afero.OsFs
	before func()
}

func (l *late) Exchange(a, b string) error {
	l.before()
	return realExchange(a, b)
}

func (l *late) RenameNoReplace(a, b string) error {
	l.before()
	return realNoReplace(a, b)
}

// noExchange is the real disk without it.
type noExchange struct {
	afero.OsFs
	before func()
}

func (n *noExchange) Rename(a, b string) error {
	n.before()
	return n.OsFs.Rename(a, b)
}

// TestSwapCatches: who saves by a rename just before ours loses nothing.
func TestSwapCatches(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	save := func(text string) func() {
		return func() {
			if err := errors.Join(os.WriteFile(path+".ed", []byte(text), 0o600), os.Rename(path+".ed", path)); err != nil {
				t.Error(err)
			}
		}
	}
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for _, tc := range []struct {
		name   string
		was    []byte
		before func()
		late   string
		err    error
		now    string
	}{
		{"saved", []byte("old"), save("edit"), "edit", nil, "new"},
		{"saved as it was", []byte("old"), save("old"), "<nil>", nil, "new"},
		{"emptied", []byte("old"), save(""), "", nil, "new"},
		{"written in place", []byte("old"), func() { must(os.WriteFile(path, []byte("place"), 0o600)) }, "place", nil, "new"},
		{"removed", []byte("old"), func() { must(os.Remove(path)) }, "<nil>", durable.ErrChanged, "<none>"},
		{"made", nil, save("edit"), "<nil>", durable.ErrChanged, "edit"},
		{"a link", []byte("old"), func() { must(errors.Join(os.Remove(path), os.Symlink("x", path))) }, "<nil>", durable.ErrSymlink, "<link>"},
		{"a directory", []byte("old"), func() { must(errors.Join(os.Remove(path), os.Mkdir(path, 0o700))) }, "<nil>", durable.ErrNotRegular, "<dir>"},
	} {
		must(os.RemoveAll(path))
		if tc.was != nil {
			must(os.WriteFile(path, tc.was, 0o600))
		}
		got, err := durable.Swap(&late{before: tc.before}, path, tc.was, []byte("new"), 0o600)
		said := string(got)
		if got == nil {
			said = "<nil>"
		}
		if said != tc.late || !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
			t.Errorf("%s: late %q, %v", tc.name, said, err)
		}
		now := "<none>"
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			now = "<dir>"
		} else if err == nil && info.Mode().IsRegular() {
			now = read(t, afero.NewOsFs(), path)
		} else if err == nil {
			now = "<link>"
		}
		if now != tc.now {
			t.Errorf("%s: %q is there", tc.name, now)
		}
		if entries, _ := os.ReadDir(dir); len(entries) > 1 {
			t.Errorf("%s: left behind %v", tc.name, entries)
		}
	}
	// Without the exchange the same edit is lost: that is what it is for.
	must(os.RemoveAll(path))
	must(os.WriteFile(path, []byte("old"), 0o600))
	got, err := durable.Swap(&noExchange{before: save("edit")}, path, []byte("old"), []byte("new"), 0o600)
	if got != nil || err != nil {
		t.Errorf("without an exchange: %q %v", got, err)
	}
}

// TestSwapHammered: an editor saves by rename all the time while Swap runs. Each
// line it ever saved is in the file at the end, or was returned as late.
func TestSwapHammered(t *testing.T) {
	osfs, path := afero.NewOsFs(), filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	saved := 0
	var editor sync.WaitGroup
	editor.Go(func() {
		r := rand.New(rand.NewPCG(1, 1))
		for {
			select {
			case <-stop:
				return
			default:
			}
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path+".ed", fmt.Appendf(text, "edit %d\n", saved), 0o600)
			}
			if err == nil {
				err = os.Rename(path+".ed", path)
			}
			if err != nil {
				t.Error(err)
				return
			}
			saved++
			time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
		}
	})
	seen := map[string]bool{} // lines that were in the file or came late
	merge := func(text []byte) []byte {
		have := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			seen[line], have[line] = true, true
		}
		out := slices.Clone(text)
		for line := range seen {
			if !have[line] {
				out = append(out, line...)
			}
		}
		return out
	}
	swaps, caught, changed := 0, 0, 0
	for range crashfs.Count(300, 5000) {
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		late, err := durable.Swap(osfs, path, was, fmt.Appendf(merge(was), "swap %d\n", swaps), 0o600)
		switch {
		case errors.Is(err, durable.ErrChanged):
			changed++
		case err != nil:
			t.Fatal(err)
		default:
			swaps++
			if late != nil {
				caught++
				merge(late)
			}
		}
	}
	close(stop)
	editor.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	merge(text)
	lost := 0
	for i := range saved {
		if !seen[fmt.Sprintf("edit %d\n", i)] {
			lost++
		}
	}
	t.Logf("%d saves, %d swaps, %d refused as changed, %d caught late: %d saves lost", saved, swaps, changed, caught, lost)
	if lost > 0 || saved == 0 || swaps == 0 {
		t.Error("saves were lost, or nothing happened")
	}
}

// TestSwapFaults: whatever fails while a late save was caught, it is in the file
// or was returned.
func TestSwapFaults(t *testing.T) {
	for n := 1; ; n++ {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		done := swapFault(t, path, n)
		if done {
			if n < 15 {
				t.Errorf("only %d operations", n)
			}
			return
		}
	}
}
