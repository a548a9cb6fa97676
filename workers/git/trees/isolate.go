package trees

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ralph/workers/exec"
	"ralph/workers/regular"
	"ralph/workers/tempdir"
)

// Recorded is what a commit would hold of the work of an agent.
type Recorded struct {
	// Commit holds it. No ref names it.
	Commit string
	// Tree is the tree of Commit.
	Tree string
	// LeftOut names what the agent's tree holds beside it, each with the reason;
	// what git ignores by the rules of the work's base is not among it.
	LeftOut []string
	// Base and BaseTree are the commit that the work began with and its tree, Changed
	// the paths that differ from it, relative to the root of the repository. Record
	// leaves them empty.
	Base, BaseTree string
	Changed        []string
}

// releaseTime bounds how long the files of an agent may take to come back.
const releaseTime = time.Minute

// Isolate records the work of an agent as Commit would, without moving its branch,
// and makes its tree what a checkout of that commit gives, with a repository that
// holds nothing of the agent's: everything else is moved to where no command sees
// it, but for what git ignores by the rules of the work's base. release removes what was written since beside
// ignored files and puts the agent's files and repository back; the caller calls
// it once, after all commands in the tree have ended. When Ralph is killed before,
// the next Add, Commit or Isolate puts them back.
//
// The content of checked out submodules stays as the agent left it. Nobody else may
// use the tree until release.
func (t *Trees) Isolate(ctx context.Context, agent string) (Recorded, func() error, error) {
	rec, release, err := t.isolate(ctx, agent)
	if err != nil {
		return rec, nil, fmt.Errorf("isolate the work of %q: %w", agent, err)
	}
	return rec, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer cancel()
		if err := release(ctx); err != nil {
			return fmt.Errorf("put back the files of %q: %w", agent, err)
		}
		return nil
	}, nil
}

func (t *Trees) isolate(ctx context.Context, agent string) (rec Recorded, release func(context.Context) error, err error) {
	r, err := t.find(ctx, agent)
	if err != nil {
		return rec, nil, err
	}
	if err := t.reunite(r); err != nil {
		return rec, nil, err
	}
	g, err := t.gather(ctx, r)
	if err != nil {
		return rec, nil, err
	}
	defer func() {
		if err != nil {
			g.remove()
		}
	}()
	parents, tree, err := t.lineage(ctx, &g)
	if err != nil {
		return rec, nil, err
	}
	p := t.child(r).Plumbing()
	if err = t.follow(ctx, p, &g, tree); err != nil {
		return rec, nil, err
	}
	rec.Commit, rec.Tree = parents[0], tree
	if old, err := t.treeOf(ctx, parents[0]); err != nil || old != tree {
		if err != nil {
			return rec, nil, err
		}
		if rec.Commit, err = t.synthetic(tree, "ralph: what is checked", parents...); err != nil {
			return rec, nil, err
		}
	}
	if err = t.since(ctx, r.Base, &rec); err != nil {
		return rec, nil, err
	}
	s := stripping{t: t, r: r, p: p, index: g.index}
	away, err := s.strip(ctx, t.aside(r), true)
	if err == nil {
		err = t.freshClone(ctx, r, rec.Commit, g.index)
	}
	if err != nil {
		return rec, nil, errors.Join(err, t.reunite(r))
	}
	rec.LeftOut = bounded(named(g.leftOut, away, s.hidden))
	return rec, func(ctx context.Context) error {
		defer g.remove()
		// What the commands wrote is nobody's work.
		made := filepath.Join(t.private(), exec.TempName("copy"))
		_, err := s.strip(ctx, made, false)
		return errors.Join(err, tempdir.Clear(made), t.reunite(r))
	}, nil
}

// since notes what differs between a commit and what was recorded.
func (t *Trees) since(ctx context.Context, base string, rec *Recorded) (err error) {
	rec.Base = base
	if rec.BaseTree, err = t.treeOf(ctx, base); err != nil {
		return err
	}
	changes, err := t.changed(ctx, base, rec.Tree)
	for _, c := range changes {
		rec.Changed = append(rec.Changed, c.path)
	}
	return err
}

// LinkDependencies links the ignored directories of dependencies of the user's tree
// into dir, a checkout of the repository, as Add does for an agent, and returns the
// links, relative to dir.
func (t *Trees) LinkDependencies(ctx context.Context, dir string) ([]string, error) {
	ignored, err := t.ignored(ctx)
	if err != nil {
		return nil, fmt.Errorf("link dependencies: %w", err)
	}
	var links []string
	for _, path := range ignored {
		name := strings.TrimSuffix(path, "/")
		target := filepath.Join(t.loc.Root, filepath.FromSlash(name))
		if info, err := os.Lstat(target); !dependencies(name) || err != nil || !info.IsDir() {
			continue
		}
		err := os.Symlink(target, filepath.Join(dir, filepath.FromSlash(name)))
		if err == nil {
			links = append(links, name)
		} else if !errors.Is(err, os.ErrExist) && !errors.Is(err, os.ErrNotExist) {
			return links, fmt.Errorf("link dependencies: %w", err)
		}
	}
	return links, nil
}

// Record makes a commit of the user's files as they are, as Commit would of an
// agent's; it is HEAD when nothing differs. The user's tree and refs stay as they are.
func (t *Trees) Record(ctx context.Context) (Recorded, error) {
	rec, err := t.record(ctx)
	if err != nil {
		return rec, fmt.Errorf("record the work tree: %w", err)
	}
	return rec, nil
}

func (t *Trees) record(ctx context.Context) (rec Recorded, err error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return rec, err
	}
	defer unlock()
	if rec.Commit, _, err = t.user().Head(ctx); err != nil {
		return rec, err
	}
	now, err := t.present(ctx, true)
	if err != nil {
		return rec, err
	}
	defer now.remove()
	rec.Tree, rec.LeftOut = now.tree, bounded(now.leftOut)
	if rec.Commit != "" {
		if old, err := t.treeOf(ctx, rec.Commit); err != nil || old == rec.Tree {
			return rec, err
		}
	}
	rec.Commit, err = t.synthetic(rec.Tree, "ralph: what is checked", rec.Commit)
	return rec, err
}

// named adds to what was left out of a commit what was moved away and is not named
// there; hidden is what of it git ignored.
func named(leftOut, away []string, hidden map[string]bool) []string {
	list := slices.Clone(leftOut)
	for _, name := range away {
		known := func(l string) bool {
			rest, ok := strings.CutPrefix(l, name)
			return ok && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, " ("))
		}
		if !slices.ContainsFunc(leftOut, known) {
			why := whyDiffers
			if among(hidden, name) {
				why = whyNewRule
			}
			list = append(list, reason(name, why))
		}
	}
	slices.Sort(list)
	return list
}

// aside is where the files of an agent are while its tree is isolated.
func (t *Trees) aside(r record) string { return filepath.Join(t.admin(r.Admin), "aside") }

// filledMark is a file that is made when the directory of a tree has been checked
// out for the first time. The directory may serve other agents after that.
func (t *Trees) filledMark(r record) string { return filepath.Join(t.admin(r.Admin), "filled") }

// freshClone gives a tree, whose repository was moved away, one that is at commit
// and has nothing of the agent's but the repositories of its submodules.
func (t *Trees) freshClone(ctx context.Context, r record, commit, index string) error {
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	snapshot, err := t.takeSnapshot(ctx)
	if err != nil {
		return err
	}
	if err := t.layClone(ctx, r, commit, snapshot, true); err != nil {
		return err
	}
	root, err := t.openTree(r.Agent)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // files are closed one by one
	text, err := regular.Read(index, maxIndexBytes)
	if err != nil {
		return err
	}
	if err := writeIn(root, ".git/index", text); err != nil {
		return err
	}
	return swapModules(filepath.Join(t.aside(r), "0"), filepath.Join(t.dir(r.Agent), ".git"))
}

// swapModules moves the repositories of submodules from one repository to another.
func swapModules(from, to string) error {
	if info, err := os.Lstat(filepath.Join(from, "modules")); err != nil || !info.IsDir() {
		return nil // there are none
	}
	if err := tempdir.Clear(filepath.Join(to, "modules")); err != nil {
		return err
	}
	return os.Rename(filepath.Join(from, "modules"), filepath.Join(to, "modules"))
}

// reunite brings the files of an agent back that strip moved away. It may be cut
// off and done again, and does nothing for a tree that is not isolated.
func (t *Trees) reunite(r record) error {
	if r.Admin == "" {
		return nil
	}
	aside, dir := t.aside(r), t.dir(r.Agent)
	var list []moved
	path := filepath.Join(aside, "moved.json")
	if found, err := t.load(path, &list); err != nil {
		return err
	} else if _, err := os.Lstat(path); !found && err == nil {
		return fmt.Errorf("read %q: Ralph did not write it", path)
	}
	if slices.ContainsFunc(list, func(m moved) bool { return !filepath.IsLocal(string(m.Path)) }) {
		return fmt.Errorf("read %q: a path leads out of the tree", aside)
	}
	for n, m := range slices.Backward(list) {
		from, to := filepath.Join(aside, strconv.Itoa(n)), filepath.Join(dir, filepath.FromSlash(string(m.Path)))
		if _, err := os.Lstat(from); err != nil {
			if m.None {
				if err := removeFile(to); err != nil {
					return err
				}
			}
			continue // it never left, or is back
		}
		if string(m.Path) == ".git" {
			if err := swapModules(to, from); err != nil {
				return err
			}
		}
		if err := tempdir.Clear(to); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	return tempdir.Clear(aside)
}
