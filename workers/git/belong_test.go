package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// snapshot lists the files of a directory with their sizes and times.
func snapshot(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		all = append(all, fmt.Sprint(p, info.Size(), info.ModTime()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What is unpacked must not make Ralph write in another repository of the user.
func TestFindRefusesForeignRepositories(t *testing.T) {
	const off = "rm -rf .git; "
	for name, plant := range map[string]string{
		"file":         off + `echo "gitdir: $V/.git" > .git`,
		"link":         off + `ln -s "$V/.git" .git`,
		"commondir":    `echo "$V/.git" > .git/commondir`,
		"objects":      `rm -rf .git/objects; ln -s "$V/.git/objects" .git/objects`,
		"refs":         `rm -rf .git/refs; ln -s "$V/.git/refs" .git/refs`,
		"refs/heads":   `rm -rf .git/refs/heads; ln -s "$V/.git/refs/heads" .git/refs/heads`,
		"checkpoints":  `mkdir -p .git/refs/ralph; ln -s "$V/.git/refs" .git/refs/ralph/checkpoints`,
		"HEAD":         `rm .git/HEAD; ln -s "$V/.git/HEAD" .git/HEAD`,
		"logs":         `rm -rf .git/logs; ln -s "$V/.git/logs" .git/logs`,
		"dangling":     `rm -f .git/packed-refs; ln -s "$V/nothing" .git/packed-refs`,
		"huge config":  `truncate -s 95M .git/config`,
		"huge lent":    `truncate -s 95M .git/objects/info/alternates`,
		"fifo config":  `rm .git/config; mkfifo .git/config`,
		"fifo HEAD":    `rm .git/HEAD; mkfifo .git/HEAD`,
		"fifo index":   `rm -f .git/index; mkfifo .git/index`,
		"fifo exclude": `rm -f .git/info/exclude; mkfifo .git/info/exclude`,
		"fifo grafts":  `mkfifo .git/info/grafts`,
		"backlink":     off + `mkdir wt; echo "$V/.git" > wt/commondir; echo "$PWD/.git" > wt/gitdir; cp "$V/.git/HEAD" wt; echo "gitdir: wt" > .git`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newRepo(t)
			w.write("a", "1")
			w.commitAll("one")
			victim := filepath.Join(filepath.Dir(w.root), "victim")
			w.git("init", "-q", victim)
			w.gitIn(victim, "commit", "-q", "--allow-empty", "-m", "v")
			sh := exec.Command("sh", "-c", plant)
			sh.Dir, sh.Env = w.root, append(os.Environ(), "V="+victim)
			if out, err := sh.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			before := snapshot(t, victim)
			done := make(chan error, 1)
			go func() { _, err := Find(w.root); done <- err }()
			select {
			case err := <-done:
				if err == nil || errors.Is(err, ErrNoRepository) {
					t.Errorf("accepted: %v", err)
				}
				if foreign := !strings.HasPrefix(name, "fifo") && !strings.HasPrefix(name, "huge") && name != "dangling"; errors.Is(err, ErrForeign) != foreign {
					t.Errorf("error %v", err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("Find hangs")
			}
			equal(t, "the other repository", snapshot(t, victim), before)
		})
	}
}

// A git directory elsewhere is the user's own when it names the work tree.
func TestFindSeparateGitDir(t *testing.T) {
	w := newRepo(t)
	tree, dir := filepath.Join(filepath.Dir(w.root), "tree"), filepath.Join(filepath.Dir(w.root), "dir")
	w.git("init", "-q", "--separate-git-dir", dir, tree)
	if _, err := Find(tree); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "core.worktree") {
		t.Errorf("without a name: %v", err)
	}
	w.gitIn(tree, "config", "core.worktree", tree)
	loc, err := Find(tree)
	if err != nil || loc.GitDir != dir {
		t.Errorf("%+v, %v", loc, err)
	}
}

// gonePID is the number of a process that has ended.
func gonePID(t *testing.T) int {
	t.Helper()
	c := exec.Command("true")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return c.Process.Pid
}

// What a killed Ralph left does not stop the next one and does not stay.
func TestLeftoversOfAKilledRalph(t *testing.T) {
	w := newRepo(t)
	w.write("a", "1")
	w.commitAll("one")
	take(t, w.checkpoints(), "first")
	pid := gonePID(t)
	temp := func(purpose string, pid int) string {
		return fmt.Sprintf(".ralph-%s-%d-%s", purpose, pid, strings.Repeat("A", 26))
	}
	w.write("sub/"+temp("write", pid), "half")
	w.write("sub/"+temp("write", os.Getpid()), "half of mine")
	w.write(".git/"+temp("index", pid)+"/index", "x")
	w.write("home:state/files.git/"+temp("index", pid)+"/index", "x")
	w.write("home:state/files.git/"+temp("index", os.Getpid())+"/index", "x")
	w.write(".git/index.lock", fmt.Sprintf("ralph %d\n", pid))
	w.write("a", "2")
	take(t, w.checkpoints(), "x")
	must(w.open().Commit(t.Context(), CommitOptions{Message: "two", All: true}))(t)
	equal(t, "committed", w.git("ls-tree", "-r", "--name-only", "HEAD"), "a")
	for name, stays := range map[string]bool{
		"sub/" + temp("write", pid): false, "sub/" + temp("write", os.Getpid()): true, ".git/" + temp("index", pid): false,
		"home:state/files.git/" + temp("index", pid): false, "home:state/files.git/" + temp("index", os.Getpid()): true, ".git/index.lock": false,
	} {
		if _, err := os.Lstat(w.path(name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "ralph 1\n", fmt.Sprintf("ralph %d\n", os.Getpid()), fmt.Sprintf("%d\n", pid), "ralph x\n"} {
		w.write(".git/index.lock", text)
		w.write("a", "3")
		if _, err := w.open().Commit(t.Context(), CommitOptions{Message: "x", All: true}); err == nil {
			t.Errorf("the lock %q was taken over", text)
		}
	}
	if err := os.Remove(w.path(".git/index.lock")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(w.path(".git/index.lock"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.open().Commit(t.Context(), CommitOptions{Message: "x", All: true}); err == nil {
		t.Error("a FIFO was taken over")
	}
}
