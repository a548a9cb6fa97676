package tools

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"ralph/memory/text"
	"ralph/workers/exec/acts"
)

// entry is one file or directory that a walk found. dir is open only during the
// call that passes the entry.
type entry struct {
	dir  *os.Root
	d    fs.DirEntry
	path string // relative to the root
}

// errSkip, returned by a visit of a directory, keeps the walk out of it.
var errSkip = errors.New("skip this directory")

const (
	maxWalked      = 200_000   // entries looked at in one walk
	maxIgnoreBytes = 256 << 10 // of one .gitignore
	maxWalkDepth   = 128
	maxReadEntries = 4096 // of a directory, read at once
)

// walker walks a tree below the root in the order of names, leaving out what
// git ignores, .git and .ralph, and not following symlinks. Each directory is
// opened relative to its parent: that confines the walk and costs one open a
// directory, however deep.
type walker struct {
	ctx     context.Context
	visit   func(e entry) error
	seen    int
	all     bool // the base is ignored itself: nothing below it is left out
	conceal map[string]bool
	cut     bool // stopped at maxWalked or maxWalkDepth
	failed  int  // directories that could not be read
}

// walk visits what is below base, a directory that was resolved before, and
// returns the walker for its counts.
func (w *Workspace) walk(ctx context.Context, dir *os.Root, base string, visit func(e entry) error) (*walker, error) {
	k := &walker{ctx: ctx, visit: visit, conceal: w.conceal}
	if path.IsAbs(base) { // outside of the root its rules say nothing
		k.all = true
		return k, k.dir(dir, base, nil, 0)
	}
	rules := w.ignoresAbove(base)
	k.all = inside(base)
	for at := base; at != "." && !k.all; at = path.Dir(at) {
		k.all = rules.match(at, true)
	}
	if k.all {
		rules = nil
	}
	if base == "." {
		base = ""
	}
	return k, k.dir(dir, base, rules, 0)
}

// inside says whether base lies in a directory that walks leave out.
func inside(base string) bool {
	for c := range strings.SplitSeq(base, "/") {
		if c == ".git" || c == ".ralph" {
			return true
		}
	}
	return false
}

// ignoresAbove reads the rules that hold for base from outside of it:
// info/exclude and the .gitignore of each parent.
func (w *Workspace) ignoresAbove(base string) ignores {
	var rules ignores
	if data := readIgnore(w.root, ".git/info/exclude"); data != nil {
		rules = append(rules, parseIgnore(data, ""))
	}
	if base == "." {
		return rules
	}
	at := ""
	for c := range strings.SplitSeq(base, "/") {
		if data := readIgnore(w.root, path.Join(at, ".gitignore")); data != nil {
			rules = append(rules, parseIgnore(data, at))
		}
		at = path.Join(at, c)
	}
	return rules
}

func readIgnore(dir *os.Root, name string) []byte {
	// Git does not follow a .gitignore that is a symlink either.
	if info, err := dir.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, _, err := openRegular(dir, name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes))
	if err != nil {
		return nil
	}
	return data
}

func (k *walker) dir(dir *os.Root, at string, rules ignores, depth int) error {
	list, err := k.readDir(dir)
	switch {
	case k.ctx.Err() != nil:
		return context.Cause(k.ctx)
	case err != nil:
		k.failed++
		return nil
	}
	if !k.all && slices.ContainsFunc(list, func(d fs.DirEntry) bool { return d.Name() == ".gitignore" }) {
		if data := readIgnore(dir, ".gitignore"); data != nil {
			rules = append(slices.Clip(rules), parseIgnore(data, at))
		}
	}
	for _, d := range list {
		if err := k.ctx.Err(); err != nil {
			return context.Cause(k.ctx)
		}
		name := d.Name()
		e := entry{dir: dir, d: d, path: path.Join(at, name)}
		if len(k.conceal) > 0 && k.conceal[acts.Fold(e.path)] {
			continue
		}
		if !k.all && (name == ".git" || name == ".ralph" || rules.match(e.path, d.IsDir())) {
			continue
		}
		err := k.visit(e)
		if errors.Is(err, errSkip) {
			continue
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if err := k.enter(e, rules, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *walker) enter(e entry, rules ignores, depth int) error {
	if depth > maxWalkDepth {
		k.cut = true
		return nil
	}
	sub, err := e.dir.OpenRoot(e.d.Name() + "/.")
	if err != nil {
		k.failed++
		return nil
	}
	defer sub.Close()
	return k.dir(sub, e.path, rules, depth)
}

// readDir reads a directory in the order of names, and not more of it than the
// walk may still see.
func (k *walker) readDir(dir *os.Root) ([]fs.DirEntry, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	left := maxWalked - k.seen
	if left <= 0 {
		k.cut = true
		return nil, nil
	}
	var list []fs.DirEntry
	for more := true; more && len(list) < left && k.ctx.Err() == nil; {
		part, err := f.ReadDir(min(left-len(list), maxReadEntries))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		list, more = append(list, part...), err == nil
	}
	k.seen += len(list)
	k.cut = k.cut || len(list) == left
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// notes says in the Head what the walk left out.
func (k *walker) notes() string {
	var all []string
	if k.all {
		all = append(all, "git ignores this directory: everything in it is shown")
	}
	if k.cut {
		all = append(all, "the tree is larger than what is looked at in one call: name a directory below")
	}
	if k.failed > 0 {
		all = append(all, text.Count(k.failed, "directory")+" could not be read")
	}
	return strings.Join(all, "\n")
}
