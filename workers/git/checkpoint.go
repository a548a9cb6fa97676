package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ralph/workers/exec"
)

// Checkpoints records the state of all files below a root and brings it back.
// It is safe for concurrent use and needs no closing.
//
// They are commits in a bare repository of Ralph's own, <store>/files.git, that
// stands alone: content is read from the work tree, once from the user's objects,
// and copied. It is kept byte for byte, whatever attributes say about it. The user's
// repository only says which files are tracked and ignored; it may be broken, or gone. Never recorded: .ralph/, ignored files that are not
// tracked, what is inside submodules and nested repositories; without a
// repository also node_modules, target, .env and files over 10 MiB.
type Checkpoints struct {
	place           // the store, with the work tree
	user     *place // the user's repository; nil without one
	root     string // absolute, without symlinks
	stateDir string
	prefix   string // of root in the work tree: "" or "dir/"
	converts bool   // see former

	mu    sync.Mutex // guards all below; held while files are looked at
	seen  seed       // the user's index when its names were read
	setup setup      // what of the user's configuration is in force
}

// seed is the state of the user's index that its names were read from.
type seed struct {
	path    string
	size    int64
	modTime time.Time
}

// OpenCheckpoints makes Checkpoints for the files below root, kept in the
// directory store, which is the user's own and no command's to see; "" refuses
// every checkpoint with ErrNoStore. loc is the repository that root is in, nil if
// there is none. It starts and writes nothing.
func OpenCheckpoints(p *exec.Runner, root, stateDir, store string, loc *Location) *Checkpoints {
	root, stateDir = realPath(root), filepath.Join(realPath(filepath.Dir(stateDir)), filepath.Base(stateDir))
	c := &Checkpoints{root: root, stateDir: stateDir, place: place{proc: p, own: true, workTree: root}}
	if store != "" {
		c.gitDir = filepath.Join(realPath(store), storeName)
	}
	c.commonDir = c.gitDir
	c.owned.Store(true) // whose the files are does not matter
	if loc != nil {
		if rel, err := filepath.Rel(loc.Root, root); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			c.user = &place{proc: p, gitDir: loc.GitDir, commonDir: loc.CommonDir, workTree: loc.Root}
			c.workTree = loc.Root
			if rel != "." {
				c.prefix = filepath.ToSlash(rel) + "/"
			}
		}
	}
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
	cp := Checkpoint{ID: id, Tree: tree, Time: time.Now()}
	if c.user != nil {
		// A repository that is broken has no HEAD, and files all the same.
		cp.Head, _, _ = c.user.head(ctx)
	}
	if cp, err = c.keep(cp); err != nil {
		return Checkpoint{}, fmt.Errorf("take checkpoint %q: %w", id, err)
	}
	return cp, nil
}

// keep writes the commit of a checkpoint and its ref.
func (c *Checkpoints) keep(cp Checkpoint) (Checkpoint, error) {
	var err error
	if cp.Commit, err = c.writeCommit(cp.Tree, commitBody(cp)); err != nil {
		return cp, err
	}
	return cp, c.writeRef(cp.ID, cp.Commit)
}

// Annotate keeps a text with a checkpoint, for as long as that is kept.
func (c *Checkpoints) Annotate(_ context.Context, cp Checkpoint, text string) (Checkpoint, error) {
	commit, err := c.writeCommit(cp.Tree, fmt.Appendf(commitBody(cp), "\n%s", text))
	if err == nil {
		cp.Commit = commit
		err = c.writeRef(cp.ID, cp.Commit)
	}
	if err != nil {
		return cp, fmt.Errorf("annotate checkpoint %q: %w", cp.ID, err)
	}
	return cp, nil
}

// Annotation returns the text that Annotate kept with a checkpoint, "" for none.
func (c *Checkpoints) Annotation(ctx context.Context, cp Checkpoint) (string, error) {
	out, err := c.run(ctx, call{args: []string{"cat-file", "commit", cp.Commit}})
	if err != nil {
		return "", fmt.Errorf("read annotation of checkpoint %q: %w", cp.ID, err)
	}
	_, message, _ := strings.Cut(string(out), "\n\n")
	_, text, _ := strings.Cut(message, "\n\n")
	return text, nil
}

// commitBody is the commit object, which has no parents: the commit that was
// checked out is named in the subject, together with the time to the nanosecond,
// which the date of a commit does not hold.
func commitBody(cp Checkpoint) []byte {
	who := fmt.Sprintf("Ralph <ralph@localhost> %d +0000", cp.Time.Unix())
	subject := fmt.Sprintf("ralph checkpoint %d %s", cp.Time.UnixNano(), cmp.Or(cp.Head, "none"))
	if !cp.Converted {
		subject += " " + bytesMark
	}
	return fmt.Appendf(nil, "tree %s\nauthor %s\ncommitter %s\n\n%s\n", cp.Tree, who, who, subject)
}

// snapshot writes the tree of all files as they are. The caller holds mu.
func (c *Checkpoints) snapshot(ctx context.Context) (string, error) {
	if err := c.prepare(ctx); err != nil {
		return "", err
	}
	sweep(c.gitDir, "index", "ref")
	private := filepath.Join(c.gitDir, indexName)
	x, err := newIndex(c.gitDir, private)
	if err != nil {
		return "", err
	}
	defer x.remove()
	if _, err := os.Lstat(private); errors.Is(err, fs.ErrNotExist) {
		if err := c.begin(ctx, x); err != nil {
			return "", err
		}
	}
	d, seen, err := c.tracked(ctx, x)
	if err != nil {
		return "", err
	}
	changed, err := c.differences(ctx, x.env(), c.paths(), c.filter())
	if err != nil {
		return "", err
	}
	d.update, d.remove = append(d.update, changed.update...), append(d.remove, changed.remove...)
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
	}
	c.seen = seen
	return tree, nil
}

// paths limits a look at the work tree to the root; nil is everything.
func (c *Checkpoints) paths() []string {
	if c.prefix == "" {
		return nil
	}
	return []string{c.prefix}
}

// tree writes the tree of the root, which is below that of the work tree.
func (c *Checkpoints) tree(ctx context.Context, x index) (string, error) {
	if c.prefix == "" {
		return c.place.tree(ctx, x)
	}
	out, err := c.run(ctx, call{args: []string{"write-tree", "--missing-ok", "--prefix=" + c.prefix}, env: x.env()})
	if err != nil { // it may be that there is nothing below the root
		if held, lerr := c.run(ctx, call{args: []string{"ls-files", "-z", "--", c.prefix}, env: x.env()}); lerr == nil && len(held) == 0 {
			return c.writeObject("tree", nil, c.hashLen())
		}
	}
	return strings.TrimSpace(string(out)), err
}

func fingerprint(path string) seed {
	info, err := os.Stat(path)
	if err != nil {
		return seed{path: path}
	}
	return seed{path: path, size: info.Size(), modTime: info.ModTime()}
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
	if c.user == nil {
		f.maxBytes = maxFileBytes
	}
	return f
}

// Export writes the files of a checkpoint below dir, where they have the paths that
// they had in the work tree.
func (c *Checkpoints) Export(ctx context.Context, cp Checkpoint, dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	by, err := c.storeOf(ctx, cp)
	if err == nil {
		err = by.export(ctx, cp, dir)
	}
	if err != nil {
		return fmt.Errorf("export checkpoint %q: %w", cp.ID, err)
	}
	return nil
}

func (c *Checkpoints) export(ctx context.Context, cp Checkpoint, dir string) error {
	x, err := newIndex(c.gitDir, "")
	if err != nil {
		return err
	}
	defer x.remove()
	return c.checkOut(ctx, x, cp, dir, nil)
}

// List gives the checkpoints, newest first.
func (c *Checkpoints) List(ctx context.Context) ([]Checkpoint, error) {
	if !IsGitDir(c.gitDir) {
		return nil, nil
	}
	out, err := c.run(ctx, call{args: []string{"for-each-ref", "--format=%(refname) %(objectname) %(tree) %(contents:subject)", checkpointRefs}})
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	var list []Checkpoint
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 7 && (len(f) != 8 || f[7] != bytesMark) {
			continue
		}
		nano, err := strconv.ParseInt(f[5], 10, 64)
		if err != nil {
			continue
		}
		cp := Checkpoint{ID: strings.TrimPrefix(f[0], checkpointRefs), Commit: f[1], Tree: f[2], Time: time.Unix(0, nano), Converted: len(f) == 7}
		if isHash(f[6]) {
			cp.Head = f[6]
		}
		list = append(list, cp)
	}
	slices.SortStableFunc(list, func(a, b Checkpoint) int { return b.Time.Compare(a.Time) })
	return list, nil
}

// Drop forgets checkpoints; ids that do not exist are passed over. Compact
// removes their objects.
func (c *Checkpoints) Drop(_ context.Context, ids ...string) error {
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return fmt.Errorf("drop checkpoints: %w", err)
		}
	}
	for _, id := range ids {
		if err := c.removeRef(id); err != nil {
			return fmt.Errorf("drop checkpoints: %w", err)
		}
	}
	return nil
}

// Name gives a checkpoint another id besides; the checkpoint that has that id already is
// replaced.
func (c *Checkpoints) Name(_ context.Context, cp Checkpoint, id string) error {
	err := checkID(id)
	if err == nil {
		err = c.writeRef(id, cp.Commit)
	}
	if err != nil {
		return fmt.Errorf("name checkpoint %q: %w", id, err)
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

// Since lists what differs between a checkpoint and the files as they are now.
func (c *Checkpoints) Since(ctx context.Context, from Checkpoint) ([]FileChange, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	by, err := c.storeOf(ctx, from)
	if err == nil {
		var tree string
		if tree, err = by.snapshot(ctx); err == nil {
			return by.Changes(ctx, from, Checkpoint{Commit: tree})
		}
	}
	return nil, fmt.Errorf("compare with checkpoint %q: %w", from.ID, err)
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
	args = append(args, from.Commit, to.Commit, "--", ":(top)")
	for _, f := range stateFiles() {
		args = append(args, ":(top,exclude,literal)"+f)
	}
	out, err := c.run(ctx, call{args: args, plain: true})
	if err != nil {
		return "", fmt.Errorf("compare checkpoints: %w", err)
	}
	return string(out), nil
}
