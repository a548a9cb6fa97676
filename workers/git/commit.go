package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/exec"
	"ralph/workers/regular"
)

// Commit records changes of the work tree on the current branch and gives the
// full hash. With Paths exactly these are recorded; whatever else the user has
// staged stays staged. Files in .ralph/ are never recorded, hooks and signing
// never run. It returns ErrNothingToCommit when nothing would change, and an
// error, changing nothing, for a file whose content belongs through a filter
// that the repository defines (git-crypt, for example): that filter is not run,
// and without it the wrong content would be recorded.
//
// The author is the user as git knows it, or "Ralph <ralph@localhost>".
func (r *Repo) Commit(ctx context.Context, o CommitOptions) (string, error) {
	if strings.TrimSpace(o.Message) == "" {
		return "", fmt.Errorf("git commit in %q: the message is empty", r.workTree)
	}
	paths, err := checkPaths(o.Paths)
	if err != nil {
		return "", fmt.Errorf("git commit: %w", err)
	}
	if paths != nil && len(paths) == 0 && !o.All {
		return "", nothing(r.workTree, true)
	}
	if slices.ContainsFunc(paths, ownPath) {
		return "", &Error{Op: "commit", Path: r.workTree, Err: errors.New(".ralph/ is Ralph's own and is not committed"), Hint: "leave it out of the paths"}
	}
	if o.All || slices.Contains(paths, ".") {
		paths = nil
	}
	r.commits.Lock()
	defer r.commits.Unlock()
	if r.within != nil {
		return r.commitWithin(ctx, strings.TrimSpace(o.Message)+"\n", paths)
	}
	if err := r.settled(ctx, paths); err != nil {
		return "", err
	}
	unlock, err := r.lockIndex()
	if err != nil {
		return "", err
	}
	defer unlock()
	defer HoldGC(ctx, r.commonDir)()
	return r.record(ctx, strings.TrimSpace(o.Message)+"\n", paths)
}

// settled refuses to commit half a merge.
func (r *Repo) settled(ctx context.Context, paths []string) error {
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"} {
		if _, err := os.Lstat(filepath.Join(r.gitDir, name)); err == nil {
			return &Error{Op: "commit", Path: r.workTree, Err: fmt.Errorf("a merge, cherry-pick or revert is in progress (%s)", name),
				Hint: "finish or abort it first"}
		}
	}
	out, err := r.run(ctx, call{args: append([]string{"ls-files", "-u", "-z", "--"}, paths...)})
	if err != nil || len(out) == 0 {
		return err
	}
	return &Error{Op: "commit", Path: r.workTree, Err: errors.New("some files have conflicts that are not resolved"), Hint: "resolve them and git add them first"}
}

// lockOwner begins what Ralph's own index.lock says; its pid follows.
const lockOwner = "ralph "

// lockIndex keeps every other git from writing the user's index. A lock of a
// Ralph that was killed is taken over: it protected only what that one did not
// finish.
func (r *Repo) lockIndex() (func(), error) {
	lock := filepath.Join(r.gitDir, "index.lock")
	sweepIndexes(r.gitDir)
	content := fmt.Appendf(nil, "%s%d\n", lockOwner, os.Getpid())
	err := CreateLock(lock, content)
	if errors.Is(err, fs.ErrExist) && staleLock(lock) && os.Remove(lock) == nil {
		err = CreateLock(lock, content)
	}
	if err != nil {
		return nil, &Error{Op: "commit", Path: r.workTree, Err: fmt.Errorf("lock the index: %w", err),
			Hint: "another git is at work here, or one crashed: end it, or if none runs delete " + lock}
	}
	return func() { _ = os.Remove(lock) }, nil // a lock that stays is named by the hint of the next commit
}

// CreateLock makes a lock file of git that holds content from its first moment, so
// that a Ralph that is killed never leaves one of which nobody can say whose it is.
// The error is [fs.ErrExist] when there is a lock. A file system without hard links
// gets the content a moment later.
func CreateLock(path string, content []byte) error {
	sweep(filepath.Dir(path), "lock")
	temp := filepath.Join(filepath.Dir(path), exec.TempName("lock"))
	defer func() { _ = os.Remove(temp) }() // one that stays is swept by the next
	if err := os.WriteFile(temp, content, 0o644); err != nil {
		return err
	}
	err := os.Link(temp, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}

// staleLock says that a lock was made by a Ralph that is no more.
func staleLock(lock string) bool {
	text, err := readSmall(lock)
	pid, ours := strings.CutPrefix(strings.TrimSuffix(text, "\n"), lockOwner)
	return err == nil && ours && exec.Gone(pid)
}

// record makes the commit. theirs becomes the user's index, ours the tree of the
// commit; without paths they are the same.
func (r *Repo) record(ctx context.Context, message string, paths []string) (string, error) {
	old, _, err := r.head(ctx)
	if err != nil {
		return "", err
	}
	theirs, err := newIndex(r.gitDir, filepath.Join(r.gitDir, "index"))
	if err != nil {
		return "", err
	}
	defer theirs.remove()
	if err := r.take(ctx, theirs, paths); err != nil {
		return "", err
	}
	ours, err := r.ours(ctx, theirs, old, paths)
	if err != nil {
		return "", err
	}
	defer ours.remove()
	tree, err := r.tree(ctx, ours)
	if err != nil {
		return "", err
	}
	if same, err := r.sameTree(ctx, old, tree); err != nil || same {
		return "", errors.Join(err, nothing(r.workTree, same))
	}
	who, err := r.identity(ctx)
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", tree}
	if old != "" {
		args = append(args, "-p", old)
	}
	out, err := r.run(ctx, call{args: append(args, "-F", "-"), stdin: []byte(message), env: who})
	if err != nil {
		return "", err
	}
	hash := strings.TrimSpace(string(out))
	subject, _, _ := strings.Cut(message, "\n")
	expect := old
	if expect == "" {
		expect = strings.Repeat("0", len(hash))
	}
	// From here on index and branch belong together: it is seen through.
	ctx = context.WithoutCancel(ctx)
	if _, err := r.run(ctx, call{args: []string{"update-ref", "-m", "commit: " + subject, "HEAD", hash, expect}, env: who}); err != nil {
		return "", err
	}
	if _, err := os.Lstat(theirs.path); err == nil {
		if err := os.Rename(theirs.path, filepath.Join(r.gitDir, "index")); err != nil {
			return hash, fmt.Errorf("git commit in %q: commit %s is made, but the index lags: %w", r.workTree, hash, err)
		}
	}
	return hash, nil
}

func nothing(root string, same bool) error {
	if !same {
		return nil
	}
	return fmt.Errorf("git commit in %q: %w", root, ErrNothingToCommit)
}

// take brings an index in line with the work tree, paths or all of it.
func (r *Repo) take(ctx context.Context, x index, paths []string) error {
	d, err := r.differences(ctx, x.env(), paths, filter{skip: func(p string, _ bool) bool { return ownPath(p) }})
	if err != nil {
		return err
	}
	if err := r.refuseFiltered(ctx, d.update); err != nil {
		return err
	}
	return r.apply(ctx, x.env(), d)
}

// ours is the index of the commit itself: the last commit and the paths, or
// everything but what of .ralph/ the user happened to stage.
func (r *Repo) ours(ctx context.Context, theirs index, old string, paths []string) (index, error) {
	if paths == nil {
		x, err := newIndex(r.gitDir, theirs.path)
		if err != nil {
			return index{}, err
		}
		if err := r.dropOwn(ctx, x, old); err != nil {
			x.remove()
			return index{}, err
		}
		return x, nil
	}
	x, err := newIndex(r.gitDir, "")
	if err != nil {
		return index{}, err
	}
	if old != "" {
		_, err = r.run(ctx, call{args: []string{"read-tree", old}, env: x.env()})
	}
	if err == nil {
		err = r.take(ctx, x, paths)
	}
	if err != nil {
		x.remove()
		return index{}, err
	}
	return x, nil
}

// dropOwn takes files of .ralph/ out of an index that the last commit does not
// have.
func (r *Repo) dropOwn(ctx context.Context, x index, old string) error {
	b, err := regular.Read(x.path, maxIndexBytes)
	if err != nil || !bytes.Contains(b, []byte(".ralph/")) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	args := []string{"ls-files", "-z", "--", ".ralph"}
	if old != "" {
		args = []string{"diff-index", "--cached", "-z", "--name-only", "--diff-filter=A", "--ignore-submodules=dirty", old, "--", ".ralph"}
	}
	out, err := r.run(ctx, call{args: args, env: x.env()})
	if err != nil {
		return err
	}
	return r.apply(ctx, x.env(), difference{remove: splitNul(out)})
}

// sameTree says that a commit has this tree already, or that there is neither.
func (r *Repo) sameTree(ctx context.Context, commit, tree string) (bool, error) {
	if commit == "" {
		out, err := r.run(ctx, call{args: []string{"ls-tree", "-z", tree}})
		return len(out) == 0, err
	}
	out, err := r.run(ctx, call{args: []string{"rev-parse", "--verify", "-q", commit + "^{tree}"}})
	return strings.TrimSpace(string(out)) == tree, err
}

// refuseFiltered keeps content from being recorded in the clear.
func (r *Repo) refuseFiltered(ctx context.Context, paths []string) error {
	hit, err := r.filtered(ctx, paths, nil)
	if err != nil || len(hit) == 0 {
		return err
	}
	return &Error{Op: "commit", Path: r.workTree,
		Err:  fmt.Errorf("the repository defines a filter for %s, which Ralph does not run", strings.Join(hit, ", ")),
		Hint: "commit these yourself, or define the filter in your own git configuration",
	}
}

// identity is the environment that fills in what the user has not configured of
// author and committer.
func (r *Repo) identity(ctx context.Context) ([]string, error) {
	out, err := r.run(ctx, call{args: []string{"config", "-z", "--get-regexp", `^(user|author|committer)\.(name|email)$`}, allow: []int{1}})
	if err != nil {
		return nil, err
	}
	set := map[string]bool{}
	for _, kv := range splitNul(out) {
		key, value, _ := strings.Cut(kv, "\n")
		set[key] = strings.TrimSpace(value) != ""
	}
	var env []string
	for _, role := range []string{"author", "committer"} {
		if !set["user.name"] && !set[role+".name"] {
			env = append(env, "GIT_"+strings.ToUpper(role)+"_NAME=Ralph")
		}
		if !set["user.email"] && !set[role+".email"] {
			env = append(env, "GIT_"+strings.ToUpper(role)+"_EMAIL=ralph@localhost")
		}
	}
	return env, nil
}
