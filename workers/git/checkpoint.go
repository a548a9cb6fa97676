package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ralph/workers/proc"
)

const (
	checkpointRefs = "refs/ralph/checkpoints/"
	// shadowMaxBytes of a file, where nothing says what is worth keeping.
	shadowMaxBytes = 10 << 20
)

// Checkpoints records the state of all files below a root and brings it back.
// It is safe for concurrent use and needs no closing.
//
// With a repository checkpoints are commits under refs/ralph/checkpoints/ made
// through an index of their own. Without one they are kept in
// <stateDir>/shadow.git, which leaves out node_modules, target, .env and files
// over 10 MiB. Never recorded: .ralph/, ignored files, what is inside
// submodules and nested repositories.
type Checkpoints struct {
	place
	root     string // absolute, without symlinks
	stateDir string
	prefix   string // of root in the work tree: "" or "dir/"
	shadow   bool

	mu     sync.Mutex // guards all below; held while files are looked at
	ready  bool       // the shadow repository is there
	seeded seed
}

// seed is the state of the user's index that ours began with. As long as it
// stays, ours knows more: it has the untracked files too.
type seed struct {
	path    string
	size    int64
	modTime time.Time
}

// OpenCheckpoints makes Checkpoints for the files below root. loc is the
// repository that root is in, nil if there is none. It starts and writes
// nothing.
func OpenCheckpoints(p *proc.Runner, root, stateDir string, loc *Location) *Checkpoints {
	// The state directory itself is not resolved: see snapshot.
	root, stateDir = realPath(root), filepath.Join(realPath(filepath.Dir(stateDir)), filepath.Base(stateDir))
	c := &Checkpoints{root: root, stateDir: stateDir, place: place{proc: p}}
	if loc != nil {
		if rel, err := filepath.Rel(loc.Root, root); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			c.gitDir, c.commonDir, c.workTree = loc.GitDir, loc.CommonDir, loc.Root
			if rel != "." {
				c.prefix = filepath.ToSlash(rel) + "/"
			}
			return c
		}
	}
	c.shadow = true
	c.gitDir = filepath.Join(stateDir, "shadow.git")
	c.commonDir, c.workTree = c.gitDir, root
	c.owned.Store(true) // we make the repository; whose the files are does not matter
	return c
}

// realPath is an absolute path without symlinks, as far as it exists.
func realPath(p string) string {
	abs, err := filepath.Abs(p)
	if err != nil {
		return p
	}
	if r, err := filepath.EvalSymlinks(abs); err == nil {
		return r
	}
	if dir := filepath.Dir(abs); dir != abs {
		return filepath.Join(realPath(dir), filepath.Base(abs))
	}
	return abs
}

// Take records the files as they are now under an id such as
// "r-20261121-1/2.before"; the same id again replaces the old checkpoint.
func (c *Checkpoints) Take(ctx context.Context, id string) (Checkpoint, error) {
	if err := checkID(id); err != nil {
		return Checkpoint{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	tree, err := c.snapshot(ctx)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("take checkpoint %q: %w", id, err)
	}
	parent := ""
	if !c.shadow {
		if parent, _, err = c.head(ctx); err != nil {
			return Checkpoint{}, fmt.Errorf("take checkpoint %q: %w", id, err)
		}
	}
	cp := Checkpoint{ID: id, Ref: checkpointRefs + id, Tree: tree, Time: time.Now()}
	cp.Commit, err = c.writeCommit(tree, commitBody(cp, parent, c.mark()))
	if err == nil {
		_, err = c.run(ctx, call{args: []string{"update-ref", "--no-deref", cp.Ref, cp.Commit}})
	}
	if err != nil {
		return Checkpoint{}, fmt.Errorf("take checkpoint %q: %w", id, err)
	}
	return cp, nil
}

// mark tells the root that a checkpoint is of: worktrees of one repository, and
// projects in one, share their refs.
func (c *Checkpoints) mark() string {
	sum := sha256.Sum256([]byte(c.root))
	return hex.EncodeToString(sum[:6])
}

// commitBody is the commit object. Its subject carries the time to the
// nanosecond, which the date of a commit does not, and the mark of the root.
func commitBody(cp Checkpoint, parent, mark string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s\n", cp.Tree)
	if parent != "" {
		fmt.Fprintf(&b, "parent %s\n", parent)
	}
	who := fmt.Sprintf("Ralph <ralph@localhost> %d +0000", cp.Time.Unix())
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\nralph checkpoint %d %s\n", who, who, cp.Time.UnixNano(), mark)
	return b.Bytes()
}

// snapshot writes the tree of all files as they are. The caller holds mu.
func (c *Checkpoints) snapshot(ctx context.Context) (string, error) {
	if err := c.makeStateDir(); err != nil {
		return "", fmt.Errorf("make state directory: %w", err)
	}
	if err := c.prepare(ctx); err != nil {
		return "", err
	}
	private, now := filepath.Join(c.stateDir, "checkpoint.index"), seed{}
	from := private
	if c.shadow {
		private = filepath.Join(c.gitDir, "index")
		from = private
	} else if now = fingerprint(filepath.Join(c.gitDir, "index")); now != c.seeded {
		from = now.path
	}
	sweepIndexes(c.stateDir)
	x, err := newIndex(c.stateDir, from)
	if err != nil {
		return "", err
	}
	defer x.remove()
	if from != private {
		if err := c.unfilter(ctx, x); err != nil {
			return "", err
		}
	}
	var paths []string
	if c.prefix != "" {
		paths = []string{c.prefix}
	}
	d, err := c.differences(ctx, x.env(), paths, c.filter())
	if err != nil {
		return "", err
	}
	if err := c.apply(ctx, x.env(), d); err != nil {
		return "", err
	}
	tree, err := c.tree(ctx, x)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(x.path); err == nil {
		if err := os.Rename(x.path, private); err != nil {
			return "", fmt.Errorf("keep index of checkpoints: %w", err)
		}
		c.seeded = now
	}
	return tree, nil
}

// makeStateDir makes the directory for indexes. A link there is refused: a
// repository could bring it along to have Ralph write elsewhere.
func (c *Checkpoints) makeStateDir() error {
	if err := os.Mkdir(c.stateDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dirs := []string{c.stateDir}
	if _, err := os.Lstat(c.gitDir); c.shadow && err == nil {
		dirs = append(dirs, c.gitDir)
	}
	for _, dir := range dirs {
		if info, err := os.Lstat(dir); err != nil {
			return err
		} else if !info.IsDir() {
			return fmt.Errorf("%q is not a directory of its own", dir)
		}
	}
	if c.shadow {
		return sound(c.gitDir, c.gitDir)
	}
	return nil
}

func fingerprint(path string) seed {
	info, err := os.Stat(path)
	if err != nil {
		return seed{path: path}
	}
	return seed{path: path, size: info.Size(), modTime: info.ModTime()}
}

// unfilter takes files out of an index whose content there went through a filter
// that is switched off here, so that all checkpoints have the plain content.
func (c *Checkpoints) unfilter(ctx context.Context, x index) error {
	h, err := c.hostile(ctx)
	if err != nil || len(h.filters) == 0 {
		return err
	}
	out, err := c.run(ctx, call{args: []string{"ls-files", "-z"}, env: x.env()})
	if err != nil {
		return err
	}
	hit, err := c.filtered(ctx, splitNul(out), x.env())
	if err != nil {
		return err
	}
	if err := c.apply(ctx, x.env(), difference{remove: hit}); err != nil {
		return err
	}
	// Tracked though ignored files would not be found again.
	return c.apply(ctx, x.env(), difference{update: hit})
}

func (c *Checkpoints) filter() filter {
	inside := ""
	if rel, err := filepath.Rel(c.workTree, c.stateDir); err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, "../") {
		inside = filepath.ToSlash(rel)
	}
	f := filter{skip: func(p string, _ bool) bool {
		own := strings.HasPrefix(p, c.prefix) && ownPath(p[len(c.prefix):])
		return own || ownPath(p) || inside != "" && (p == inside || strings.HasPrefix(p, inside+"/"))
	}}
	if c.shadow {
		f.maxBytes = shadowMaxBytes
	}
	return f
}

// prepare makes the shadow repository.
func (c *Checkpoints) prepare(ctx context.Context) error {
	if !c.shadow || c.ready {
		return nil
	}
	if !isGitDir(c.gitDir) {
		// --template= leaves out the hooks of the system.
		init := call{args: []string{"init", "-q", "--bare", "--template=", c.gitDir}}
		if _, _, err := c.exec(ctx, init, overrides(), false); err != nil {
			return err
		}
	}
	if err := exclude(c.gitDir, ".ralph/", "node_modules", "target/", ".env", ".env.*", ".venv/", "__pycache__/"); err != nil {
		return err
	}
	c.ready = true
	return nil
}

// List gives the checkpoints of this root, newest first.
func (c *Checkpoints) List(ctx context.Context) ([]Checkpoint, error) {
	if c.shadow && !isGitDir(c.gitDir) {
		return nil, nil
	}
	out, err := c.run(ctx, call{args: []string{"for-each-ref", "--format=%(refname) %(objectname) %(tree) %(contents:subject)", checkpointRefs}})
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	var list []Checkpoint
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 7 && len(f) != 6 || len(f) == 7 && f[6] != c.mark() {
			continue // not one of ours, or of another root
		}
		nano, err := strconv.ParseInt(f[5], 10, 64)
		if err != nil {
			continue
		}
		list = append(list, Checkpoint{ID: strings.TrimPrefix(f[0], checkpointRefs), Ref: f[0], Commit: f[1], Tree: f[2], Time: time.Unix(0, nano)})
	}
	slices.SortStableFunc(list, func(a, b Checkpoint) int { return b.Time.Compare(a.Time) })
	return list, nil
}

// Drop forgets checkpoints; ids that do not exist are passed over. git collects
// their objects in its own time.
func (c *Checkpoints) Drop(ctx context.Context, ids ...string) error {
	if len(ids) == 0 || c.shadow && !isGitDir(c.gitDir) {
		return nil
	}
	var b bytes.Buffer
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return fmt.Errorf("drop checkpoints: %w", err)
		}
		fmt.Fprintf(&b, "delete %s\n", checkpointRefs+id)
	}
	if _, err := c.run(ctx, call{args: []string{"update-ref", "--no-deref", "--stdin"}, stdin: b.Bytes()}); err != nil {
		return fmt.Errorf("drop checkpoints: %w", err)
	}
	return nil
}

// Changes lists what differs, sorted by path; Ralph's own state files are left
// out.
func (c *Checkpoints) Changes(ctx context.Context, from, to Checkpoint) ([]FileChange, error) {
	entries, err := c.compare(ctx, from, to, "-M")
	if err != nil {
		return nil, fmt.Errorf("compare checkpoints: %w", err)
	}
	return fileChanges(entries), nil
}

// Blobs lists the same as Changes, with the ids of the content; a submodule has
// the ids of its commits.
func (c *Checkpoints) Blobs(ctx context.Context, from, to Checkpoint) ([]BlobChange, error) {
	entries, err := c.compare(ctx, from, to, "-M")
	if err != nil {
		return nil, fmt.Errorf("compare checkpoints: %w", err)
	}
	out := make([]BlobChange, 0, len(entries))
	for _, e := range entries {
		b := BlobChange{FileChange: e.change(), Before: blob(e.oldHash), After: blob(e.newHash)}
		if b.Kind == Added {
			b.Before = ""
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b BlobChange) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// Diff is the patch between two checkpoints, without Ralph's own state files.
func (c *Checkpoints) Diff(ctx context.Context, from, to Checkpoint) (string, error) {
	for _, h := range []string{from.Commit, to.Commit} {
		if !isHash(h) {
			return "", fmt.Errorf("compare checkpoints: commit %q: %w", h, ErrBadName)
		}
	}
	args := append([]string{"diff-tree", "-r", "-p"}, diffFlags()...)
	if c.prefix != "" {
		args = append(args, "--relative="+c.prefix)
	}
	args = append(args, from.Commit, to.Commit, "--", ":(top,literal)"+c.prefix)
	if c.prefix == "" {
		args[len(args)-1] = ":(top)"
	}
	for _, f := range stateFiles() {
		args = append(args, ":(top,exclude,literal)"+path.Join(c.prefix, f))
	}
	out, err := c.run(ctx, call{args: args, plain: true})
	if err != nil {
		return "", fmt.Errorf("compare checkpoints: %w", err)
	}
	return string(out), nil
}
