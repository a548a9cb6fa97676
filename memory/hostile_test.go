package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// A repository that brings along links in `.ralph/` has nothing written where
// they lead.
func TestLinkedPartsOfTheStateDirectory(t *testing.T) {
	for _, part := range []string{"runs", "sessions", "sessions/.numbers", "quarantine", "backups", "worktrees"} {
		root, out := t.TempDir(), t.TempDir()
		link := filepath.Join(root, ".ralph", filepath.FromSlash(part))
		must(t, os.MkdirAll(filepath.Dir(link), 0o755))
		must(t, os.WriteFile(filepath.Join(root, ".ralph", "FORMAT"), []byte("ralph 1\n"), 0o644))
		must(t, os.Symlink(out, link))
		s, rec := open(t, Options{Root: root})
		if !rec.ReadOnly || len(rec.Warnings) == 0 || !strings.Contains(rec.Warnings[0], part) {
			t.Errorf("%s: %+v", part, rec)
		}
		must(t, s.AppendRun(json.RawMessage("{}")))
		must(t, s.Close())
		if entries, _ := os.ReadDir(out); len(entries) != 0 {
			t.Errorf("%s: made %v outside", part, entries)
		}
	}
}

// Neither lock nor exclude line goes into a repository that a `.git` entry only
// points to; linked worktrees and submodules are still found.
func TestForeignGitDirectory(t *testing.T) {
	for name, plant := range map[string]string{
		"file":      `echo "gitdir: $V/.git" > .git`,
		"link":      `ln -s "$V/.git" .git`,
		"commondir": `git init -q; echo "$V/.git" > .git/commondir`,
	} {
		root, victim := t.TempDir(), t.TempDir()
		gitInit(t, victim)
		sh := exec.Command("sh", "-c", plant)
		sh.Dir, sh.Env = root, append(os.Environ(), "V="+victim)
		if out, err := sh.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		before := read(t, victim, ".git", "info", "exclude")
		s, _ := open(t, Options{Root: root})
		if _, err := os.Stat(filepath.Join(victim, ".git", "ralph.lock")); err == nil {
			t.Errorf("%s: the lock is in another repository", name)
		}
		if read(t, victim, ".git", "info", "exclude") != before {
			t.Errorf("%s: another repository's exclude file changed", name)
		}
		must(t, s.Close())
	}
	top := t.TempDir()
	main, lib := filepath.Join(top, "main"), filepath.Join(top, "lib")
	must(t, errors.Join(os.Mkdir(main, 0o755), os.Mkdir(lib, 0o755)))
	gitInit(t, main)
	gitInit(t, lib)
	for _, args := range [][]string{{"worktree", "add", "-q", "../linked"}, {"-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../lib", "sub"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = main
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	osfs := afero.NewOsFs()
	if got := findGit(osfs, filepath.Join(top, "linked")).common; got != filepath.Join(main, ".git") {
		t.Errorf("linked worktree: %q", got)
	}
	if got := findGit(osfs, filepath.Join(main, "sub")).common; got != filepath.Join(main, ".git", "modules", "sub") {
		t.Errorf("submodule: %q", got)
	}
}

// editing is a filesystem on which the user edits a file just before Ralph's
// new content takes its place, or just after, through a handle opened before.
type editing struct {
	afero.Fs
	before, after func()
}

func (e *editing) Rename(from, to string) error {
	if f := e.before; f != nil && filepath.Base(to) == TasksFile {
		e.before = nil
		f()
	}
	return e.Fs.Rename(from, to)
}

func (e *editing) OpenFile(name string, flag int, perm fs.FileMode) (afero.File, error) {
	// The last look at the old content comes right before the rename.
	if f := e.after; f != nil && flag&os.O_RDWR == 0 && flag&os.O_CREATE != 0 && strings.HasPrefix(filepath.Base(name), "."+TasksFile) && strings.HasSuffix(name, ".tmp") {
		e.after = nil
		f()
	}
	return e.Fs.OpenFile(name, flag, perm)
}

// Promise 1: what the user writes while Ralph writes is merged, byte for byte.
func TestEditsInTheMiddleOfAWriteSurvive(t *testing.T) {
	const mine = "\ufeff# Mine\r\n\r\nprose \u00e9\r\n- [ ] **T-1** first\r\n"
	for name, plant := range map[string]func(e *editing, path string){
		"appended while writing": func(e *editing, path string) {
			e.after = func() { must(t, appendTo(path, "late note\r\n")) }
		},
		"saved by renaming while writing": func(e *editing, path string) {
			e.after = func() {
				must(t, errors.Join(os.WriteFile(path+".new", []byte(mine+"late note\r\n"), 0o600), os.Rename(path+".new", path)))
			}
		},
		"appended after the last look": func(e *editing, path string) {
			e.before = func() { must(t, appendTo(path, "late note\r\n")) }
		},
	} {
		root := t.TempDir()
		path := filepath.Join(root, TasksFile)
		must(t, os.WriteFile(path, []byte(mine), 0o644))
		e := &editing{Fs: afero.NewOsFs()}
		s, _ := open(t, Options{Root: root, FS: e})
		plant(e, path)
		task, err := s.AddTask(Task{Title: "second"})
		must(t, errors.Join(err, s.Flush()))
		got := read(t, path)
		if !strings.HasPrefix(got, mine) || !strings.Contains(got, "late note\r\n") || strings.Count(got, "**"+task.ID+"** second") != 1 {
			t.Errorf("%s: %q", name, got)
		}
		if e.before != nil || e.after != nil {
			t.Errorf("%s: the edit was never made", name)
		}
		if held := s.Held(); len(held) != 0 {
			t.Errorf("%s: held %v", name, held)
		}
	}
}

// A file that appears while Ralph makes its first one is the user's.
func TestAFileThatAppearsIsKept(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, TasksFile)
	e := &editing{Fs: afero.NewOsFs()}
	s, _ := open(t, Options{Root: root, FS: e})
	e.after = func() { must(t, os.WriteFile(path, []byte("my own words\n"), 0o644)) }
	_, err := s.AddTask(Task{Title: "second"})
	must(t, errors.Join(err, s.Flush()))
	if got := read(t, path); !strings.HasPrefix(got, "my own words\n") || !strings.Contains(got, "second") {
		t.Errorf("%q", got)
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// What a killed Ralph left half-written is gone after the next start; what only
// looks alike stays.
func TestTemporaryFilesOfAKilledRalph(t *testing.T) {
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, ".ralph"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, ".ralph", "FORMAT"), []byte("ralph 1\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(root, ".ralph", "lock"), []byte(`{"pid":4242,"acquiredAt":"2026-01-01T00:00:00Z"}`), 0o600))
	files := map[string]bool{ // stays
		".RALPH_TASKS.md.ABCDEFGH27.tmp": false, ".AGENT.md.ABCDEFGH27.tmp": false, ".ralph/.FORMAT.ABCDEFGH27.tmp": false,
		".RALPH_TASKS.md.abcdefgh27.tmp": true, ".notes.md.ABCDEFGH27.tmp": true, "RALPH_TASKS.md.ABCDEFGH27.tmp": true, ".RALPH_TASKS.md.ABCDEFGH2.tmp": true,
	}
	for name := range files {
		must(t, os.WriteFile(filepath.Join(root, name), []byte("half"), 0o600))
	}
	s, rec := open(t, Options{Root: root})
	if rec.Crashed == nil {
		t.Fatalf("no crash seen: %+v", rec)
	}
	for name, stays := range files {
		if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, s.Close())
}

func TestSwapReportsChanges(t *testing.T) {
	osfs, path := afero.NewOsFs(), filepath.Join(t.TempDir(), "f")
	late, err := durable.Swap(osfs, path, nil, []byte("a"), 0o644)
	if err != nil || late != nil || read(t, path) != "a" {
		t.Fatalf("new file: %q %v", late, err)
	}
	for i, was := range []string{"", "b", "ab"} {
		if _, err = durable.Swap(osfs, path, []byte(was), []byte(fmt.Sprint(i)), 0o644); !errors.Is(err, durable.ErrChanged) {
			t.Errorf("was %q: %v", was, err)
		}
	}
	if _, err = durable.Swap(osfs, path, nil, []byte("x"), 0o644); !errors.Is(err, durable.ErrChanged) || read(t, path) != "a" {
		t.Errorf("a file that appeared: %v, %q", err, read(t, path))
	}
	must(t, os.Remove(path))
	if _, err = durable.Swap(osfs, path, []byte("a"), []byte("x"), 0o644); !errors.Is(err, durable.ErrChanged) {
		t.Errorf("a file that went away: %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}
