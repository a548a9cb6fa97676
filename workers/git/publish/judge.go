package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/workers/git"
)

// Change is an entry that a command made, changed or removed in a commit, a tree or an index.
type Change struct {
	// Root is the work tree, absolute; Path is relative to it.
	Root, Path string
	// Repository is the directory that git takes for a repository of its own with Path in
	// it; "" for none.
	Repository string
	// Link reports a symbolic link, Exists whether Path was in what came before.
	Link, Exists bool
}

// Grant is what one command is allowed besides.
type Grant struct {
	// Acts are the classes of names that act which it may change.
	Acts []string
	// Network has remote branches hold what others made.
	Network bool
	// Guarded reports that the command makes no file that Refuse refuses; otherwise only
	// files from before it are the user's.
	Guarded bool
}

func (g Grant) equal(o Grant) bool {
	return slices.Equal(g.Acts, o.Acts) && g.Network == o.Network && g.Guarded == o.Guarded
}

// edit is an entry that a commit has and none of its parents, or an index and not that before.
type edit struct {
	path, mode, oid string // mode none for one that was removed
	exists          bool
	tree            *treeChange // of an index
	intent          bool        // to add, without content
	patch           bool        // the content is not known
	why             string      // it is refused
}

const (
	none       = "000000"
	intentFlag = 0x2000 // extended
)

// errActs is matched by errors over what Refuse refuses.
var errActs = errors.New("it would bring, remove or change by objects alone what a command cannot in the tree")

// judge refuses what a command made as a whole where Refuse refuses one entry of it, unless
// that is as the user has it. types are of the objects that git is about to take over with all
// that they lead to. What was published in part by a process that was killed was judged.
func (p *publication) judge(ctx context.Context, pl *plan, in *intake, types map[string]string) error {
	if p.h.o.Refuse == nil || p.again {
		return nil
	}
	commits, trees, err := in.peel(ctx, types)
	if err != nil {
		return err
	}
	users := p.users(pl)
	list, err := in.edits(ctx, commits, trees, users)
	if err != nil {
		return err
	}
	patched, err := p.patched(ctx, pl, in)
	if err != nil {
		return err
	}
	list = append(list, patched...)
	for _, t := range pl.trees {
		if t.index != nil {
			list = append(list, t.edits(pl.oidLen)...)
		}
	}
	for _, t := range pl.made {
		made := treeChange{name: "worktrees/" + t.name, root: t.root, head: t.head, index: &t.index, old: &gitIndex{}}
		made.after, _, _ = parseHead([]byte(t.head))
		list = append(list, made.edits(pl.oidLen)...)
	}
	if list, err = in.sparse(ctx, list); err != nil {
		return err
	}
	repos, err := p.repositories(ctx, pl, in, list, slices.Concat(commits, trees))
	if err != nil {
		return err
	}
	known := map[Change]string{}
	for i, e := range list {
		c := Change{Root: pl.root, Path: e.path, Repository: repos.At(e.path), Link: e.mode == "120000", Exists: e.exists}
		if e.tree != nil {
			c.Root = e.tree.root
		}
		why, asked := known[c]
		if !asked {
			why = p.h.o.Refuse(c, p.grant)
			known[c] = why
		}
		if list[i].why = why; why != "" && !e.patch && c.Repository == "" && p.onDisk(c.Root, e, pl.oidLen) {
			list[i].why = ""
		}
	}
	list = slices.DeleteFunc(list, func(e edit) bool { return e.why == "" })
	if len(list) == 0 {
		return nil
	}
	if list, err = p.unknown(ctx, pl, in, list, users); err != nil || len(list) == 0 {
		return err
	}
	return fmt.Errorf("%w%s", p.refusal(pl, list), p.keepAside(ctx, pl, in, users))
}

// refusal names what was refused.
func (p *publication) refusal(pl *plan, list []edit) error {
	const most = 5
	var names []string
	for _, e := range list {
		at, err := filepath.Rel(p.h.o.Git.Root, filepath.Join(pl.root, filepath.FromSlash(e.path)))
		if err != nil {
			at = e.path
		}
		names = append(names, printable(at)+" ("+e.why+")")
	}
	if names = unique(names); len(names) > most {
		names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
	}
	return fmt.Errorf("%w: %s", errActs, strings.Join(names, ", "))
}

// users are the objects whose history the user has: what refs name, but for those that Ralph
// holds work of agents by, and with the network remote branches after the command. Those that
// the command began with come first.
func (p *publication) users(pl *plan) (ids []string) {
	for name, id := range pl.before.Refs.all() {
		if !strings.HasPrefix(name, "refs/ralph/") || strings.HasPrefix(name, droppedRefs) || strings.HasPrefix(name, lateRefs) {
			ids = append(ids, id)
		}
	}
	for _, t := range pl.before.Trees {
		_, commit, _ := parseHead([]byte(t.Head))
		ids = append(ids, commit)
	}
	for _, line := range readLog(filepath.Join(pl.l.lower, stashLog)) {
		ids = append(ids, line.new)
	}
	if p.grant.Network {
		for name, id := range pl.after {
			if strings.HasPrefix(name, "refs/remotes/") {
				ids = append(ids, id)
			}
		}
		fetched, _ := pl.l.after("FETCH_HEAD", maxStateBytes) // there may be none
		ids = append(ids, stateChange{files: map[string][]byte{"": fetched}}.ids()...)
	}
	var first []string
	for _, t := range pl.trees {
		_, commit, _ := parseHead([]byte(t.was.Head))
		first = append(first, commit, pl.before.Refs.value(t.branch()))
	}
	for _, c := range pl.claims {
		first = append(first, c.old)
	}
	ids = slices.DeleteFunc(unique(ids), func(id string) bool { return !isHex(id) || slices.Contains(first, id) })
	return append(slices.DeleteFunc(unique(first), func(id string) bool { return !isHex(id) }), ids...)
}

// repositories returns the directories that are repositories without a working tree in what
// the command made, with what is in the tree.
func (p *publication) repositories(ctx context.Context, pl *plan, in *intake, list []edit, tips []string) (git.BareDirs, error) {
	if !slices.ContainsFunc(list, func(e edit) bool { return git.OfRepository(e.path) }) {
		return nil, nil
	}
	dirs := git.BareDirs{}
	for _, e := range list {
		dirs.Add(e.path)
	}
	for _, t := range pl.trees {
		for _, e := range t.before(pl.oidLen).entries {
			dirs.Add(e.path)
		}
	}
	for _, tip := range tips {
		all, err := in.lsTree(ctx, tip, "")
		if err != nil {
			return nil, err
		}
		for _, e := range all {
			dirs.Add(e.path)
		}
	}
	dirs.AddFiles(pl.root)
	return dirs, nil
}

// onDisk reports whether a file of the user's is what an entry has.
func (p *publication) onDisk(root string, e edit, oidLen int) bool {
	at := filepath.Join(root, filepath.FromSlash(e.path))
	if real, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil && real != filepath.Dir(at) {
		return false
	}
	info, err := os.Lstat(at)
	if e.mode == none || err != nil {
		return e.mode == none && errors.Is(err, fs.ErrNotExist)
	}
	if !p.grant.Guarded && time.Unix(0, idOf(at).Ctime).After(p.since) {
		return false
	}
	var content []byte
	switch {
	case e.intent:
		return true
	case e.mode == "120000" && info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(at)
		if err != nil {
			return false
		}
		content = []byte(target)
	case e.mode == "100644" || e.mode == "100755" && info.Mode()&0o100 != 0:
		if content, err = readFile(at, maxStateBytes); err != nil {
			return false
		}
	default:
		return false
	}
	h := newHash(oidLen)
	_, _ = fmt.Fprintf(h, "blob %d\x00%s", len(content), content) // a hash takes everything
	return fmt.Sprintf("%x", h.Sum(nil)) == e.oid
}

// unknown leaves the entries that the user has in no index from before, nor in the history, and
// those of an index that are not of the commit below it.
func (p *publication) unknown(ctx context.Context, pl *plan, in *intake, list []edit, users []string) ([]edit, error) {
	type entry struct{ path, mode, oid string }
	have := map[entry]bool{}
	heads := map[*treeChange]map[entry]bool{}
	staged := map[string]int{}
	for _, t := range pl.trees {
		for _, e := range t.before(pl.oidLen).entries {
			have[entry{e.path, fmt.Sprintf("%06o", e.mode), e.hex()}] = true
			staged[e.path]++
		}
	}
	var paths []string
	for _, e := range list {
		paths = append(paths, e.path)
	}
	const most = 1000 // that a command line takes
	if paths = unique(paths); len(paths) > most {
		return list, nil
	}
	for _, line := range readLog(filepath.Join(pl.l.lower, "logs", "HEAD")) {
		users = append(users, line.new)
	}
	users = slices.DeleteFunc(unique(users), func(id string) bool { return strings.Trim(id, "0") == "" })
	if len(users) > 0 {
		out, err := in.run(ctx, "verify", git.Call{Args: append(append(rawLog("-m"), "--stdin", "--"), paths...), Stdin: revisions(users, nil), Env: in.env()})
		if err != nil {
			return nil, fmt.Errorf("look for names that act in the history: %w", err)
		}
		for _, e := range parseRaw(out) {
			have[entry{e.path, e.mode, e.oid}] = e.mode != none
		}
	}
	for _, e := range list {
		if t := e.tree; t != nil && heads[t] == nil {
			heads[t] = map[entry]bool{}
			head := pl.after[t.after]
			if t.after == "" {
				_, head, _ = parseHead([]byte(t.nowHead()))
			}
			if head == "" {
				continue
			}
			below, err := in.lsTree(ctx, head, "", paths...)
			if err != nil {
				return nil, err
			}
			for _, b := range below {
				heads[t][entry{b.path, b.mode, b.oid}], heads[t][entry{path: b.path}] = true, true
			}
		}
	}
	return slices.DeleteFunc(list, func(e edit) bool {
		switch at := (entry{e.path, e.mode, e.oid}); {
		case e.patch:
			return false
		case e.mode != none:
			return have[at] || heads[e.tree][at]
		case e.tree != nil:
			return !heads[e.tree][entry{path: e.path}]
		}
		return staged[e.path] < len(pl.trees)
	}), nil
}

// keepAside keeps the commits of a command that was refused in a file, which no git reads by
// itself, and says where.
func (p *publication) keepAside(ctx context.Context, pl *plan, in *intake, users []string) string {
	var names strings.Builder
	for _, c := range pl.claims {
		if c.new != "" && !slices.Contains(users, c.new) {
			fmt.Fprintf(&names, "%s %s\n", c.new, c.name)
		}
	}
	if names.Len() == 0 || p.h.o.Aside == "" {
		return ""
	}
	at := filepath.Join(p.h.o.Aside, "git-"+p.id+".bundle")
	err := os.MkdirAll(p.h.o.Aside, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(p.dir, "verify", "packed-refs"), []byte(names.String()), 0o600)
	}
	if err == nil {
		_, err = in.run(ctx, "verify", git.Call{Args: []string{"bundle", "create", "-q", at, "--all", "--stdin"}, Stdin: revisions(nil, in.known(users)), Env: in.env()})
	}
	if err != nil {
		return "; its commits are not kept: " + err.Error()
	}
	return "; its commits are in " + at + ", which `git fetch FILE 'refs/*:refs/kept/*'` of the user's reads"
}
