package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"time"

	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/git/trees"
)

const (
	treeFiles = 5000
	treeBytes = 45_000_000
	// treeRuns is how many children get a tree of each kind.
	treeRuns = 20
	// childEdits are the files that each child changes; it makes one besides.
	childEdits = 10
)

// wood is a repository of many files with uncommitted work of its user.
type wood struct {
	l    *lab
	root string
}

// newWood generates the repository; two of them are the same.
func (l *lab) newWood(name string) (*wood, error) {
	w := &wood{l: l, root: filepath.Join(l.dir, name)}
	for i := range treeFiles {
		line := fmt.Sprintf("\tcase %d: return fmt.Errorf(\"part %d of the work: %%w\", err)\n", i, i*i)
		if err := w.write(fileOfWood(i), strings.Repeat(line, treeBytes/treeFiles/len(line))); err != nil {
			return nil, err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "Ada"}, {"config", "user.email", "ada@example.org"},
		{"config", "gc.auto", "0"}, {"config", "commit.gpgSign", "false"}, {"add", "-A"}, {"commit", "-q", "-m", "begin"}} {
		if _, err := w.git(w.root, args...); err != nil {
			return nil, err
		}
	}
	for i := range 5 { // what the user has not committed
		err := errors.Join(w.write(fileOfWood(treeFiles-1-i), "the user is at work here\n"), w.write(fmt.Sprintf("draft/%d.txt", i), "a new file\n"))
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

func fileOfWood(i int) string { return fmt.Sprintf("dir%02d/file%04d.go", i/50, i) }

func (w *wood) write(name, text string) error {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(w.root, name)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// git is the user's git.
func (w *wood) git(dir string, args ...string) (string, error) {
	c := osexec.CommandContext(w.l.ctx, "git", args...)
	c.Dir = dir
	c.Env = []string{"HOME=" + w.l.dir, "PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// edit is what a child does in its tree: no two change the same.
func (w *wood) edit(dir string, child int) error {
	for i := range childEdits {
		name := filepath.Join(dir, fileOfWood((child*childEdits+i)%(treeFiles-50)))
		if err := w.write(name, fmt.Sprintf("child %d was here\n", child)); err != nil {
			return err
		}
	}
	return w.write(filepath.Join(dir, fmt.Sprintf("made/by%d.go", child)), "package made\n")
}

// treeTimes are the steps of one child, in ms.
type treeTimes struct{ cold, reused, commit, merge, remove []float64 }

// trees times the trees of children in a large repository with uncommitted work,
// next to the plain git commands that do the same work in a second one.
func (l *lab) trees() (err error) {
	ours, err := l.newWood("wood")
	if err != nil {
		return err
	}
	bare, err := l.newWood("wood-bare")
	if err != nil {
		return err
	}
	loc, err := git.Find(ours.root)
	if err != nil {
		return err
	}
	runner := exec.New(exec.Options{})
	t := trees.OpenTrees(runner, loc, filepath.Join(ours.root, ".ralph"), nil)
	defer func() {
		ctx := context.WithoutCancel(l.ctx)
		err = errors.Join(err, t.Close(ctx), runner.Close(ctx))
	}()
	headAt(fmt.Sprintf("trees, %d files, %d MB", treeFiles, treeBytes/1_000_000), "git")
	var a, b treeTimes
	for n := range 2 * treeRuns {
		if n%2 == 0 { // no tree is kept: the next one is made anew
			if err := t.Close(l.ctx); err != nil {
				return err
			}
		}
		if err := ours.child(t, n, n%2 == 0, &a); err != nil {
			return err
		}
		if n%2 > 0 {
			continue
		}
		if err := bare.bareChild(n, &b); err != nil {
			return err
		}
	}
	rowAt("  add, none is kept", "ms", a.cold, b.cold)
	rowAt("  add, one is kept", "ms", a.reused, b.cold)
	rowAt(fmt.Sprintf("  commit of %d files", childEdits+1), "ms", a.commit, b.commit)
	rowAt("  merge and land", "ms", a.merge, b.merge)
	rowAt("  remove", "ms", a.remove, b.remove)
	fmt.Println("  git: worktree add --detach HEAD (without the uncommitted work), add -A and commit, merge-tree with commit-tree and merge --ff-only, worktree remove --force")
	return ours.intact(2 * treeRuns)
}

// child is one of Ralph's, from its tree to the end of it.
func (w *wood) child(t *trees.Trees, n int, cold bool, to *treeTimes) error {
	ctx, name := w.l.ctx, fmt.Sprintf("implement_part_%d", n)
	var tree trees.Tree
	took, err := timed(func() (err error) { tree, err = t.Add(ctx, trees.AddOptions{Agent: name}); return err })
	if err != nil {
		return err
	}
	if cold {
		to.cold = append(to.cold, took)
	} else {
		to.reused = append(to.reused, took)
	}
	if _, err := os.Stat(filepath.Join(tree.Dir, "draft", "0.txt")); err != nil {
		return fmt.Errorf("the tree lacks the user's uncommitted work: %w", err)
	}
	if err := w.edit(tree.Dir, n); err != nil {
		return err
	}
	time.Sleep(betweenSteps)
	if took, err = timed(func() error { _, err := t.Commit(ctx, name, "part of the work"); return err }); err != nil {
		return err
	}
	to.commit = append(to.commit, took)
	var m trees.Merge
	if took, err = timed(func() (err error) { m, err = t.Merge(ctx, name, "part of the work"); return err }); err != nil {
		return err
	}
	to.merge = append(to.merge, took)
	if !m.Landed || !m.Committed || len(m.Files) != childEdits+1 {
		return fmt.Errorf("the work of %s: landed %v, committed %v, %d files: %s", name, m.Landed, m.Committed, len(m.Files), m.Why)
	}
	took, err = timed(func() error { return t.Remove(ctx, name, false) })
	to.remove = append(to.remove, took)
	return err
}

// betweenSteps lets the clock of the files go on: git looks again into what was
// changed in the moment of its index, and both sides would pay for that by chance.
const betweenSteps = 20 * time.Millisecond

// bareChild does the same with plain git.
func (w *wood) bareChild(n int, to *treeTimes) error {
	dir := filepath.Join(w.l.dir, fmt.Sprint("bare-tree-", n))
	run := func(list *[]float64, dir string, commands ...[]string) (out string, err error) {
		took, err := timed(func() (err error) {
			for _, args := range commands {
				if err == nil {
					out, err = w.git(dir, args...)
				}
			}
			return err
		})
		*list = append(*list, took)
		return out, err
	}
	if _, err := run(&to.cold, w.root, []string{"worktree", "add", "-q", "--detach", dir}); err != nil {
		return err
	}
	if err := w.edit(dir, n); err != nil {
		return err
	}
	time.Sleep(betweenSteps)
	work, err := run(&to.commit, dir, []string{"add", "-A"}, []string{"commit", "-q", "-m", "part of the work"}, []string{"rev-parse", "HEAD"})
	if err != nil {
		return err
	}
	took, err := timed(func() error {
		tree, err := w.git(w.root, "merge-tree", "--write-tree", "HEAD", work)
		if err != nil {
			return err
		}
		commit, err := w.git(w.root, "commit-tree", "-p", "HEAD", "-p", work, "-m", "part of the work", tree)
		if err != nil {
			return err
		}
		_, err = w.git(w.root, "merge", "-q", "--ff-only", commit)
		return err
	})
	if err != nil {
		return err
	}
	to.merge = append(to.merge, took)
	_, err = run(&to.remove, w.root, []string{"worktree", "remove", "--force", dir})
	return err
}

// intact says whether all the work has come, and the user's is as it was.
func (w *wood) intact(children int) error {
	for n := range children {
		if _, err := w.git(w.root, "cat-file", "-e", fmt.Sprintf("HEAD:made/by%d.go", n)); err != nil {
			return fmt.Errorf("the work of child %d is not in the user's branch: %w", n, err)
		}
	}
	status, err := w.git(w.root, "status", "--porcelain")
	if err != nil {
		return err
	}
	if lines := strings.Split(status, "\n"); len(lines) != 6 { // five changed files and a directory
		return fmt.Errorf("the user's uncommitted work is now:\n%s", status)
	}
	list, err := w.git(w.root, "for-each-ref", "--format=%(refname)", "refs/heads/ralph", "refs/ralph/base")
	if err == nil && list != "" {
		err = fmt.Errorf("branches are left: %s", list)
	}
	return err
}
