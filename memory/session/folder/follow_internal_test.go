package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// followed is a log on the real disk that a test changes while it is read.
type followed struct {
	*testing.T
	dir, path string
	stamp     time.Time
	r         *LogReader
}

func follow(t *testing.T, text string) *followed {
	f := &followed{T: t, dir: t.TempDir(), stamp: time.Now().Add(-time.Hour)}
	f.path = filepath.Join(f.dir, logFile)
	f.put(text)
	r, err := OpenLog(nil, f.dir)
	must(t, err)
	f.r = r
	t.Cleanup(func() { must(t, r.Close()) })
	return f
}

// put writes the file in place. Each write has a time of its own, which a clock
// that ticks slowly does not give.
func (f *followed) put(text string) {
	f.Helper()
	must(f, os.WriteFile(f.path, []byte(text), 0o600))
	f.stamp = f.stamp.Add(time.Second)
	must(f, os.Chtimes(f.path, f.stamp, f.stamp))
}

// says checks which events come now.
func (f *followed) says(want string, restarted, broken bool) {
	f.Helper()
	var names []string
	again := false
	for {
		e, _, err := f.r.Next()
		again = again || f.r.Restarted()
		if errors.Is(err, io.EOF) {
			break
		}
		must(f, err)
		names = append(names, string(e.Type))
	}
	if got := strings.Join(names, " "); got != want || again != restarted || (f.r.Broken() != nil) != broken {
		f.Errorf("%q, restarted %t, %v; want %q, %t, %t", got, again, f.r.Broken(), want, restarted, broken)
	}
}

func listOf(kinds ...string) string {
	var b strings.Builder
	b.WriteString("{\n  \"session_id\": \"001\",\n  \"events\": [")
	for i, k := range kinds {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n    {\"timestamp\":\"2026-11-20T09:00:%02d.000Z\",\"event_type\":%q,\"details\":{}}", i, k)
	}
	return b.String() + "\n  ]\n}\n"
}

func TestFollow(t *testing.T) {
	f := follow(t, listOf())
	f.says("", false, false)
	f.put(listOf("a"))
	f.says("a", false, false)
	f.says("", false, false)
	f.put(listOf("a", "b", "c"))
	f.says("b c", false, false)

	whole := listOf("a", "b", "c", "d")
	half := strings.Index(whole, `"d"`)
	f.put(whole[:half])
	f.says("", false, true)
	f.put(whole)
	f.says("d", false, false)

	f.put(whole[:half]) // torn
	f.says("a b c", true, true)
	f.put(listOf("a", "b", "c", "x"))
	f.says("x", false, false)
}

// TestFollowTorn: half an event that is taken away again, as Ralph does when it
// goes on with a log, is no reason to begin anew.
func TestFollowTorn(t *testing.T) {
	whole := listOf("a", "b", "c")
	f := follow(t, whole[:strings.Index(whole, `"c"`)])
	f.says("a b", false, true)
	f.put(listOf("a", "b", "d", "e"))
	f.says("d e", false, false)
	f.put(strings.Replace(listOf("a", "b", "d", "e", "f"), "\n    {", "\n    broken\n    {", 5)) // somebody edits it
	if _, _, err := f.r.Next(); err != nil || !f.r.Restarted() {
		t.Errorf("%v, restarted %t", err, f.r.Restarted())
	}
}

func TestFollowReplaced(t *testing.T) {
	f := follow(t, listOf("a", "b"))
	f.says("a b", false, false)
	replace := func(text string) {
		t.Helper()
		other := f.path + ".new"
		must(t, os.WriteFile(other, []byte(text), 0o600))
		must(t, os.Rename(other, f.path))
	}
	replace(listOf("a", "b", "c")) // the same and more, in another file
	f.says("c", false, false)
	must(t, os.Rename(f.path, f.path+".1"))
	f.says("", false, false)
	replace(strings.Replace(listOf("x"), "001", "002", 1))
	f.says("x", true, false)
	if id := f.r.SessionID(); id != "002" {
		t.Errorf("session %q", id)
	}
	must(t, os.Truncate(f.path, 0))
	f.says("", true, true)
	must(t, os.Remove(f.path))
	must(t, os.Symlink("/etc/passwd", f.path))
	if _, _, err := f.r.Next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a link: %v", err)
	}
	must(t, f.r.Close())
	if _, _, err := f.r.Next(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// growing is the real disk on which somebody writes right before a read that
// begins at or behind an offset.
type growing struct {
	afero.Fs
	from  int64
	write func()
}

func (g *growing) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	info, err := os.Lstat(name)
	return info, true, err
}

func (g *growing) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	f, err := g.Fs.OpenFile(name, flag, perm)
	return growingFile{f, g}, err
}

type growingFile struct {
	afero.File
	g *growing
}

func (f growingFile) ReadAt(b []byte, off int64) (int, error) {
	if f.g.write != nil && off >= f.g.from {
		f.g.write()
		f.g.write = nil
	}
	return f.File.ReadAt(b, off)
}

// TestFollowHalfWritten: an append that the kernel shows in two parts, since the
// closing brackets lie on two pages, loses no event, wherever the pages meet.
func TestFollowHalfWritten(t *testing.T) {
	before, whole := listOf("a", "b"), listOf("a", "b", "c", "d")
	brackets := len(before) - len("\n  ]\n}\n")
	for split := brackets; split <= len(before); split++ {
		f := follow(t, before)
		must(t, f.r.Close())
		g := &growing{Fs: afero.NewOsFs(), from: int64(len(before))}
		var err error
		f.r, err = OpenLog(g, f.dir)
		must(t, err)
		f.says("a b", false, false)
		f.put(whole[:split] + before[split:])
		g.write = func() { must(t, os.WriteFile(f.path, []byte(whole), 0o600)) }
		var names []string
		for range 20 { // the second part comes with the reader's next look behind the end
			e, id, err := f.r.Next()
			if errors.Is(err, io.EOF) {
				if g.write != nil {
					g.write()
					g.write = nil
				}
				continue
			}
			must(t, err)
			if id != fmt.Sprint("e", len(names)+3) || f.r.Restarted() {
				t.Errorf("split at %d: %s, restarted %t", split-brackets, id, f.r.Restarted())
			}
			names = append(names, string(e.Type))
		}
		if got := strings.Join(names, " "); got != "c d" || f.r.Broken() != nil {
			t.Errorf("split at %d: %q, %v", split-brackets, got, f.r.Broken())
		}
		must(t, f.r.Close())
	}
}

// TestFollowWriter: a reader sees each event of a log once and in order while
// Ralph writes it, wherever its reads fall.
func TestFollowWriter(t *testing.T) {
	const n = 3000
	dir := t.TempDir()
	list, _, err := durable.OpenList(afero.NewOsFs(), filepath.Join(dir, logFile), durable.ListOptions{Name: "events", Head: map[string]any{"session_id": "001"}})
	must(t, err)
	r, err := OpenLog(nil, dir)
	must(t, err)
	wrote := make(chan error, 1)
	go func() {
		for i := range n {
			e, err := readable(Event{Time: time.Unix(int64(i), 0), Type: Message, Result: strings.Repeat("x", i%700), Details: map[string]any{"n": i}})
			if err == nil {
				err = list.Append(e)
			}
			if err != nil {
				wrote <- err
				return
			}
		}
		wrote <- list.Close()
	}()
	seen, over := 0, false
	for {
		e, id, err := r.Next()
		if errors.Is(err, io.EOF) {
			if over {
				break
			}
			select {
			case err := <-wrote:
				must(t, err)
				over = true
			default:
			}
			continue
		}
		must(t, err)
		if r.Restarted() || e.Details["n"] != float64(seen) || id != fmt.Sprint("e", seen+1) || len(e.Result) != seen%700 {
			t.Fatalf("event %d: %s %v, restarted %t", seen, id, e.Details, r.Restarted())
		}
		seen++
	}
	if seen != n || r.Broken() != nil || r.Skipped() > 0 {
		t.Errorf("%d events, %v", seen, r.Broken())
	}
	must(t, r.Close())
}
