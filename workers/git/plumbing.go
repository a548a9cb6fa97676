package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Plumbing is the safe runner with what is built on it, for the packages below
// this one. It is safe for concurrent use and needs no closing.
type Plumbing struct{ repo *Repo }

// Call is one start of git.
type Call struct {
	// Args; the first is the git command. Pathspecs are literal.
	Args  []string
	Stdin []byte
	// Index is the index file to use, "" for that of the work tree.
	Index string
	// Env is added to the environment.
	Env []string
	// Allow are exit codes that are an answer, besides 0.
	Allow []int
}

// Plumbing gives the runner of the repository.
func (r *Repo) Plumbing() Plumbing { return Plumbing{r} }

// Raw is the same repository with no filter at all, not even those that the
// user's own configuration defines: content comes and goes as it is stored.
func (r *Repo) Raw() *Repo {
	return &Repo{place: place{proc: r.proc, gitDir: r.gitDir, commonDir: r.commonDir, workTree: r.workTree, raw: true}}
}

// Run starts git and gives its output and exit code.
func (p Plumbing) Run(ctx context.Context, c Call) ([]byte, int, error) {
	pl := &p.repo.place
	if err := pl.checkOwner(ctx); err != nil {
		return nil, 0, err
	}
	h, err := pl.hostile(ctx)
	if err != nil {
		return nil, 0, err
	}
	return pl.exec(ctx, call{args: c.Args, stdin: c.Stdin, env: append(indexEnv(c.Index), c.Env...), allow: c.Allow},
		append(overrides(), h.settings...), true)
}

// Ignored returns those of the paths that git ignores, also where they are tracked. A
// directory ends in a slash; no path needs to exist.
func (p Plumbing) Ignored(ctx context.Context, paths []string) ([]string, error) {
	pl := &p.repo.place
	if err := pl.checkOwner(ctx); err != nil {
		return nil, err
	}
	const none = 1 // the exit code
	c := call{args: []string{"check-ignore", "--no-index", "-z", "--stdin"}, stdin: []byte(strings.Join(paths, "\x00") + "\x00"), allow: []int{none}, plain: true}
	out, _, err := pl.exec(ctx, c, overrides(), true)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

func indexEnv(path string) []string {
	if path == "" {
		return nil
	}
	return []string{"GIT_INDEX_FILE=" + path}
}

// Head is the commit of HEAD, "" when there is none yet, and the branch, "" when
// detached.
func (p Plumbing) Head(ctx context.Context) (commit, branch string, err error) {
	return p.repo.head(ctx)
}

// Ref is the commit that a ref names, "" when there is no such ref.
func (p Plumbing) Ref(ctx context.Context, name string) (string, error) {
	if commit, ok := p.repo.readRef(name); ok {
		return commit, nil
	}
	out, _, err := p.Run(ctx, Call{Args: []string{"rev-parse", "-q", "--verify", name + "^{commit}"}, Allow: []int{1}})
	return strings.TrimSpace(string(out)), err
}

// TempIndex copies an index into a new directory below parent; from "" makes an
// empty one. The caller calls remove.
func (p Plumbing) TempIndex(parent, from string) (path string, remove func(), err error) {
	sweepIndexes(parent)
	x, err := newIndex(parent, from)
	return x.path, x.remove, err
}

// Scan compares the work tree with an index, without looking into submodules.
// update are files to be read again or that are gone, remove are entries that no
// file can stand for, nested are directories with a repository of their own that
// the index does not know. skip leaves a path as the index has it.
func (p Plumbing) Scan(ctx context.Context, index string, skip func(path string, untracked bool) bool) (update, remove, nested []string, err error) {
	d, err := p.repo.differences(ctx, indexEnv(index), nil, filter{skip: skip})
	return d.update, d.remove, d.nested, err
}

// Apply brings the entries of an index in line with the files, and removes others.
func (p Plumbing) Apply(ctx context.Context, index string, update, remove []string) error {
	return p.repo.apply(ctx, indexEnv(index), difference{update: update, remove: remove})
}

// WriteTree stores the tree of an index.
func (p Plumbing) WriteTree(ctx context.Context, idx string) (string, error) {
	return p.repo.tree(ctx, index{path: idx})
}

// WriteCommit stores a commit object: all of it after "tree HASH\n" is body.
func (p Plumbing) WriteCommit(tree, body string) (string, error) {
	return p.repo.writeCommit(tree, []byte("tree "+tree+"\n"+body))
}

// WriteObject stores an object; hashLen is the length of the repository's object
// names.
func (p Plumbing) WriteObject(kind, body string, hashLen int) (string, error) {
	return p.repo.writeObject(kind, []byte(body), hashLen)
}

// Filtered picks those of the paths whose content goes through a filter that is
// switched off.
func (p Plumbing) Filtered(ctx context.Context, index string, paths []string) ([]string, error) {
	return p.repo.filtered(ctx, paths, indexEnv(index))
}

// Changes lists the files that differ between two trees or commits, with renames.
func (p Plumbing) Changes(ctx context.Context, from, to string) ([]FileChange, error) {
	out, _, err := p.Run(ctx, Call{Args: []string{"diff-tree", "-r", "-z", "--raw", "--numstat", "--no-abbrev", "--no-ext-diff", "--no-textconv",
		"--ignore-submodules=dirty", "-M", from, to, "--"}})
	if err != nil {
		return nil, err
	}
	entries, err := parseDiffTree(out)
	if err != nil {
		return nil, &Error{Op: "diff-tree", Path: p.repo.workTree, Err: err}
	}
	return fileChanges(entries), nil
}

// Patch is the difference of two trees or commits as text.
func (p Plumbing) Patch(ctx context.Context, from, to string) (string, error) {
	out, _, err := p.Run(ctx, Call{Args: append(append([]string{"diff-tree", "-r", "-p"}, diffFlags()...), from, to, "--")})
	return string(out), err
}

// Identity is the environment that fills in what the user has not configured of
// author and committer.
func (p Plumbing) Identity(ctx context.Context) ([]string, error) { return p.repo.identity(ctx) }

// LockIndex keeps every other git from writing the index of the work tree. It
// waits for a lock of somebody else and never removes one, but for that of a
// Ralph that is no more. The caller calls unlock.
func (p Plumbing) LockIndex(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if unlock, err = p.repo.lockIndex(); err == nil {
			return unlock, nil
		}
		if _, gone := os.Lstat(filepath.Join(p.repo.gitDir, "index.lock")); errors.Is(gone, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return nil, err // it is not for a lock
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
			return nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
