package trees

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/workers/git"
)

// maxFileBytes of a file that no commit has yet; a larger one is left out.
const maxFileBytes = 100 << 20

// maxNamed bounds how many left out paths are named.
const maxNamed = 50

// snapshot records the user's files as they are, uncommitted and untracked ones
// included; the index, the stash and the status stay as they are. Ralph's state,
// ignored files and secrets are not in it. The caller holds the lock.
func (t *Trees) snapshot(ctx context.Context) (snapshot, error) {
	p := t.user()
	head, _, err := p.Head(ctx)
	if err != nil {
		return snapshot{}, err
	}
	now, err := t.present(ctx, false)
	if err != nil {
		return snapshot{}, err
	}
	defer now.remove()
	s := snapshot{Head: head, Commit: head, LeftOut: now.leftOut}
	if head != "" {
		tree, err := t.treeOf(ctx, head)
		if err != nil {
			return snapshot{}, err
		}
		changed, err := t.changed(ctx, tree, now.tree)
		if err != nil {
			return snapshot{}, err
		}
		s.Clean = !slices.ContainsFunc(changed, func(c change) bool { return !t.own(c.path) })
	}
	if !s.Clean {
		if s.Commit, err = t.synthetic(now.tree, "ralph: the tree as an agent found it", head); err != nil {
			return snapshot{}, err
		}
	}
	if s.ignored, err = t.ignored(ctx); err != nil {
		return snapshot{}, err
	}
	for _, path := range s.ignored {
		if !dependencies(strings.TrimSuffix(path, "/")) {
			s.LeftOut = append(s.LeftOut, reason(path, whyIgnored))
		}
	}
	s.LeftOut = bounded(s.LeftOut)
	return s, nil
}

func bounded(list []string) []string {
	if len(list) > maxNamed {
		return append(list[:maxNamed:maxNamed], fmt.Sprintf("and %d more", len(list)-maxNamed))
	}
	return list
}

// ignored lists what git ignores in the user's tree; a directory that is ignored
// whole is one entry, with a slash.
func (t *Trees) ignored(ctx context.Context) ([]string, error) {
	out, _, err := t.user().Run(ctx, git.Call{Args: []string{"ls-files", "-z", "-o", "-i", "--directory", "--exclude-standard"}})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(fields(out), t.own), nil
}

// present is the user's tree as it is, in an index of our own.
type present struct {
	index   string
	remove  func()
	tree    string
	leftOut []string
	// before is what the user's index had; read only with hidden.
	before map[string]entry
	// absent are entries of which there is no file by the user's wish (sparse
	// checkout); read only with hidden.
	absent map[string]bool
}

// present reads the user's files. With hidden it looks through the flags that
// make git believe a file to be unchanged: before a file is written over, its
// real content counts. The caller calls remove.
func (t *Trees) present(ctx context.Context, hidden bool) (present, error) {
	p := t.user()
	var now present
	var err error
	if now.index, now.remove, err = p.TempIndex(t.private(), filepath.Join(t.loc.GitDir, "index")); err != nil {
		return present{}, err
	}
	if err := t.read(ctx, &now, hidden); err != nil {
		now.remove()
		return present{}, err
	}
	return now, nil
}

func (t *Trees) read(ctx context.Context, now *present, hidden bool) error {
	p := t.user()
	if hidden {
		var err error
		if now.before, err = entries(ctx, p, now.index, nil); err != nil {
			return err
		}
		if now.absent, err = unhide(ctx, p, t.loc.Root, now.index, now.before); err != nil {
			return err
		}
	}
	say := func(path, why string) bool {
		now.leftOut = append(now.leftOut, reason(path, why))
		return true
	}
	update, remove, nested, err := p.Scan(ctx, now.index, func(path string, untracked bool) bool {
		switch {
		case t.own(path):
			return true
		case secret(path):
			return untracked && say(path, whySecret) || !untracked && !hidden
		case untracked && tooBig(filepath.Join(t.loc.Root, filepath.FromSlash(path))):
			return say(path, whyBig())
		}
		return false
	})
	if err != nil {
		return err
	}
	for _, dir := range nested {
		say(dir, whyNested)
	}
	// What goes through a filter that is not run stays as the index has it.
	filtered, err := p.Filtered(ctx, now.index, update)
	if err != nil {
		return err
	}
	for _, path := range filtered {
		say(path, whyFilter)
	}
	update = slices.DeleteFunc(update, func(path string) bool { return slices.Contains(filtered, path) })
	if err := p.Apply(ctx, now.index, update, remove); err != nil {
		return err
	}
	now.tree, err = p.WriteTree(ctx, now.index)
	return err
}

func whyBig() string { return fmt.Sprintf("larger than %d MiB", maxFileBytes>>20) }

func tooBig(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() > maxFileBytes
}

// unhide takes the flags assume-unchanged and skip-worktree from those entries
// of an index for which there is something in the work tree, and gives those for
// which there is nothing.
func unhide(ctx context.Context, p git.Plumbing, root, index string, all map[string]entry) (map[string]bool, error) {
	absent := map[string]bool{}
	var there []byte
	for path, e := range all {
		if !e.skip && !e.assume {
			continue
		}
		if _, err := os.Lstat(filepath.Join(root, filepath.FromSlash(path))); err == nil || !e.skip {
			there = append(append(there, path...), 0)
		} else {
			absent[path] = true
		}
	}
	if len(there) == 0 {
		return absent, nil
	}
	for _, flag := range []string{"--no-skip-worktree", "--no-assume-unchanged"} {
		if _, _, err := p.Run(ctx, git.Call{Args: []string{"update-index", flag, "-z", "--stdin"}, Stdin: there, Index: index}); err != nil {
			return nil, err
		}
	}
	return absent, nil
}

// entry of an index. Stage is "0" but for a conflict.
type entry struct {
	mode, hash, stage string
	skip, assume      bool
}

// entries lists an index; nil paths are all of it.
func entries(ctx context.Context, p git.Plumbing, index string, paths []string) (map[string]entry, error) {
	const most = 64 << 10 // on a command line
	if size := len(strings.Join(paths, "\x00")); size > most || len(paths) > most/100 {
		paths = nil
	}
	out, _, err := p.Run(ctx, git.Call{Args: append([]string{"ls-files", "-v", "-s", "-z", "--"}, paths...), Index: index})
	if err != nil {
		return nil, err
	}
	all := map[string]entry{}
	for _, e := range fields(out) {
		head, path, ok := strings.Cut(e, "\t")
		f := strings.Fields(head)
		if !ok || len(f) != 4 {
			return nil, fmt.Errorf("entry %q of the index", e)
		}
		all[path] = entry{mode: f[1], hash: f[2], stage: f[3], skip: strings.EqualFold(f[0], "S"), assume: f[0] == strings.ToLower(f[0])}
	}
	return all, nil
}

// user is the runner in the user's tree. No filter runs there either: a file that
// needs one stays as the last commit has it.
func (t *Trees) user() git.Plumbing { return t.repo.Plumbing() }

// change is a path that differs between two trees; a mode of zeros is none.
type change struct {
	path, oldMode, oldHash, newMode, newHash string
}

const (
	modeNone    = "000000"
	modeFile    = "100644"
	modeExec    = "100755"
	modeLink    = "120000"
	modeGitlink = "160000"
)

// compared are the changes between two trees, of which a merge asks several times.
type compared struct {
	from, to string
	list     []change // nobody writes into it
}

// changed lists what differs between two trees or commits; a rename is two.
func (t *Trees) changed(ctx context.Context, from, to string) ([]change, error) {
	if tree, ok := t.known.Load(from); ok {
		from = tree.(string)
	}
	if tree, ok := t.known.Load(to); ok {
		to = tree.(string)
	}
	if from == to {
		return nil, nil
	}
	if last := t.last.Load(); last != nil && last.from == from && last.to == to {
		return last.list, nil
	}
	out, _, err := t.user().Run(ctx, git.Call{Args: append(append([]string{"diff-tree", "-r"}, rawDiff()...), from, to, "--")})
	if err != nil {
		return nil, err
	}
	list, err := t.changes(out)
	if err == nil {
		t.last.Store(&compared{from, to, list})
	}
	return list, err
}

// rawDiff are the options of a comparison that changes reads.
func rawDiff() []string {
	return []string{"-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=dirty"}
}

// changes reads a comparison.
func (t *Trees) changes(out []byte) (list []change, err error) {
	f := fields(out)
	for i := 0; i+1 < len(f); i += 2 {
		head := strings.Fields(strings.TrimPrefix(f[i], ":"))
		if len(head) != 5 {
			return nil, &git.Error{Op: "diff", Path: t.loc.Root, Err: fmt.Errorf("raw entry %q", f[i])}
		}
		list = append(list, change{f[i+1], head[0], head[2], head[1], head[3]})
	}
	return list, nil
}

// fields splits a NUL-terminated list.
func fields(b []byte) []string {
	s := strings.TrimSuffix(string(b), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

// synthetic stores a commit by Ralph; "" are parents that there are none of.
func (t *Trees) synthetic(tree, message string, parents ...string) (string, error) {
	var b strings.Builder
	for _, p := range parents {
		if p != "" {
			fmt.Fprintf(&b, "parent %s\n", p)
		}
	}
	who := fmt.Sprintf("Ralph <ralph@localhost> %d +0000", time.Now().Unix())
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s\n", who, who, message)
	commit, err := t.user().WriteCommit(tree, b.String())
	if err == nil {
		t.known.Store(commit, tree)
	}
	return commit, err
}

// treeOf is the tree of a commit, or a tree itself.
func (t *Trees) treeOf(ctx context.Context, commit string) (string, error) {
	if tree, ok := t.known.Load(commit); ok {
		return tree.(string), nil
	}
	tree, err := t.resolve(ctx, commit+"^{tree}")
	if err == nil && isHash(commit) {
		t.known.Store(commit, tree)
	}
	return tree, err
}

// resolve gives the full hash of what a revision names.
func (t *Trees) resolve(ctx context.Context, rev string) (string, error) {
	out, _, err := t.user().Run(ctx, git.Call{Args: []string{"rev-parse", "--verify", rev}})
	return strings.TrimSpace(string(out)), err
}

// tip is the commit that a ref names, "" when there is no such ref.
func (t *Trees) tip(ctx context.Context, ref string) (string, error) {
	return t.user().Ref(ctx, ref)
}

// within says that a commit is another one or an ancestor of it.
func (t *Trees) within(ctx context.Context, old, recent string) (bool, error) {
	if old == recent || old == "" {
		return true, nil
	}
	if recent == "" {
		return false, nil
	}
	_, code, err := t.user().Run(ctx, git.Call{Args: []string{"merge-base", "--is-ancestor", old, recent}, Allow: []int{1}})
	return code == 0 && err == nil, err
}

// refsWait is how long refs may take to change.
const refsWait = 10 * time.Second

// moveRefs changes refs all together or not at all: "" as the new value deletes.
func (t *Trees) moveRefs(ctx context.Context, moves ...move) error {
	var b strings.Builder
	for _, m := range moves {
		switch {
		case m.to == "" && m.from == "":
			fmt.Fprintf(&b, "delete %s\x00\x00", m.ref)
		case m.to == "":
			fmt.Fprintf(&b, "delete %s\x00%s\x00", m.ref, m.from)
		default:
			fmt.Fprintf(&b, "update %s\x00%s\x00%s\x00", m.ref, m.to, m.from)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// A git that is killed in the middle of this leaves locks of refs behind.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refsWait)
	defer cancel()
	defer t.intend(moves)()
	args := []string{"update-ref", "--no-deref", "-m", "ralph", "-z", "--stdin"}
	_, _, err := t.user().Run(ctx, git.Call{Args: args, Stdin: []byte(b.String())})
	return err
}

// move of a ref; from is what it has to be before, "" for whatever it is.
type move struct{ ref, to, from string }
