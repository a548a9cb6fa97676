package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/git"
)

// newTree is a linked work tree that a command made.
type newTree struct {
	name   string
	root   string
	head   string
	index  gitIndex
	states []stateChange
}

func (t newTree) ids() []string {
	out := t.index.objects(gitIndex{})
	if _, commit, _ := parseHead([]byte(t.head)); commit != "" {
		out = append(out, commit)
	}
	return out
}

// worktrees reads which linked work trees the command made and removed. Only
// those in the tree of the commands are theirs.
func (p *publication) worktrees(pl *plan) {
	l := pl.l.sub("worktrees")
	list, _ := os.ReadDir(l.lower) // mostly there is none
	for _, e := range list {
		name, old := "worktrees/"+e.Name(), filepath.Join(l.lower, e.Name())
		_, ours := pl.before.Trees[name]
		switch {
		case pl.l.look(name) != removed:
		case ours && !exists(filepath.Join(worktreeOf(old), ".git")):
			pl.gone = append(pl.gone, old)
		default:
			p.rep.Dropped = append(p.rep.Dropped, name)
		}
	}
	if pl.l.look("worktrees") != directory {
		return
	}
	for _, e := range l.entries() {
		name := "worktrees/" + e.name
		_, ours := pl.before.Trees[name]
		old := filepath.Join(l.lower, e.name)
		switch {
		case e.kind == removed:
		case e.kind == directory && ours:
			p.rep.Dropped = append(p.rep.Dropped, droppedTree(l.sub(e.name), name)...)
		case e.kind != directory || exists(old):
			p.rep.Dropped = append(p.rep.Dropped, name)
		default:
			t, err := p.newTree(pl, l.sub(e.name), e.name)
			if err != nil {
				p.rep.Dropped = append(p.rep.Dropped, name+" ("+err.Error()+")")
				continue
			}
			pl.made = append(pl.made, t)
		}
	}
}

// droppedTree is dropped for the git directory of a linked work tree, where a
// command has nothing else to change.
func droppedTree(l layer, name string) []string {
	return slices.DeleteFunc(dropped(l, ""), func(s string) bool { return s == "" || path.Clean(s) == name })
}

// newTree reads the git directory of a linked work tree that the command made.
func (p *publication) newTree(pl *plan, l layer, name string) (newTree, error) {
	t := newTree{name: name}
	back, err := l.after("gitdir", maxRefBytes)
	if err != nil {
		return t, err
	}
	entry := filepath.Clean(strings.TrimSpace(string(back)))
	t.root = filepath.Dir(entry)
	forth, err := readFile(entry, maxRefBytes)
	if err != nil {
		return t, err
	}
	real, err := filepath.EvalSymlinks(t.root)
	target := strings.TrimPrefix(strings.TrimSpace(string(forth)), "gitdir: ")
	common, _ := l.after("commondir", maxRefBytes) // none is a wrong one
	head, herr := l.after("HEAD", maxRefBytes)
	_, _, ok := parseHead(head)
	switch {
	case err != nil || real != t.root || !below(p.h.o.Root, t.root) || filepath.Base(entry) != ".git" || filepath.Clean(target) != l.lower:
		return t, errors.New("its directory is not one that the command made")
	case strings.TrimSpace(string(common)) != "../..":
		return t, errors.New("it is of another repository")
	case herr != nil || !ok:
		return t, errors.New("its HEAD is neither a branch nor a commit")
	}
	t.head = strings.TrimSpace(string(head))
	if t.index, err = l.index(pl.oidLen); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	t.states, _, _ = statesAfter(l, pl.after)
	p.rep.Dropped = append(p.rep.Dropped, slices.DeleteFunc(dropped(l, ""), func(s string) bool { return s == "gitdir" || s == "commondir" || s == "refs" })...)
	return t, nil
}

// makeTrees makes and removes the git directories of linked work trees.
func (p *publication) makeTrees(pl *plan) error {
	for _, dir := range pl.gone {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove work tree: %w", err)
		}
	}
	for _, t := range pl.made {
		if branch, _, _ := parseHead([]byte(t.head)); branch != "" && pl.after[branch] == "" {
			continue
		}
		at := filepath.Join(pl.l.lower, "worktrees", t.name)
		if exists(at) {
			continue // made by a publication that was killed, or by the user
		}
		tmp := filepath.Join(pl.l.lower, "objects", tmpObjects+filepath.Base(p.dir)+"-tree")
		files := map[string]string{"HEAD": t.head + "\n", "commondir": "../..\n", "gitdir": filepath.Join(t.root, ".git") + "\n", "index": string(t.index.encode(pl.oidLen))}
		if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(filepath.Join(tmp, "logs"), 0o755), os.MkdirAll(filepath.Dir(at), 0o755)); err != nil {
			return fmt.Errorf("make work tree: %w", err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(tmp, name), []byte(text), 0o644); err != nil {
				return fmt.Errorf("make work tree: %w", err)
			}
		}
		for _, s := range t.states {
			if err := s.apply(tmp); err != nil {
				return fmt.Errorf("make work tree: %w", err)
			}
		}
		if err := os.Rename(tmp, at); err != nil {
			return fmt.Errorf("make work tree: %w", err)
		}
	}
	return nil
}

// modules publishes the repositories of submodules.
func (p *publication) modules(ctx context.Context, before record, l layer) error {
	names := unique(append(newModules(l.sub("modules"), "", 0), touchedModules(before, l)...))
	for _, name := range names {
		ml := l.sub("modules/" + name)
		if rec, ok := before.Modules[name]; ok {
			if err := p.repository(ctx, rec, ml, ml.lower, p.workTree(ctx, ml.lower, ml.lower, name)); err != nil {
				return fmt.Errorf("submodule %s: %w", name, err)
			}
			continue
		}
		if p.again && exists(ml.lower) {
			continue // it was put there whole
		}
		if err := p.newModule(ctx, name, ml); errors.Is(err, errActs) {
			return fmt.Errorf("submodule %s: %w", name, err)
		} else if err != nil {
			p.rep.Dropped = append(p.rep.Dropped, "modules/"+name+" ("+err.Error()+")")
		}
	}
	return nil
}

// workTree returns the work tree of a submodule by the configuration at a place, as it is read
// in its repository.
func (p *publication) workTree(ctx context.Context, config, repository, name string) string {
	list, _ := p.settings(ctx, filepath.Join(config, "config")) // the name is its path mostly
	for _, s := range list {
		if s.key() == "core.worktree" && !filepath.IsAbs(s.value) {
			return filepath.Join(repository, s.value)
		}
	}
	return filepath.Join(p.h.o.Git.Root, filepath.FromSlash(name))
}

// newModules lists the repositories of submodules in the upper layer.
func newModules(l layer, at string, depth int) []string {
	if depth > maxModuleDepth {
		return nil
	}
	var out []string
	for _, e := range l.entries() {
		name := path.Join(at, e.name)
		switch {
		case e.kind != directory:
		case l.sub(e.name).look("HEAD") == file:
			out = append(out, name)
		default:
			out = append(out, newModules(l.sub(e.name), name, depth+1)...)
		}
	}
	return out
}

// touchedModules lists those from before that the command changed. One that it
// removed stays.
func touchedModules(before record, l layer) []string {
	var out []string
	for name := range before.Modules {
		if l.look("modules/"+name) == directory {
			out = append(out, name)
		}
	}
	return out
}

// newModule makes the repository of a submodule that a command added: its refs
// and all objects that they need, and of its configuration what is harmless.
func (p *publication) newModule(ctx context.Context, name string, l layer) error {
	if exists(l.lower) || !git.GoodPath(name) {
		return errors.New("there is something of that name")
	}
	tmp := filepath.Join(p.h.o.Git.CommonDir, "objects", tmpObjects+filepath.Base(p.dir)+"-module")
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // git prune removes it too
	for _, dir := range []string{"objects/info", "objects/pack", "refs/heads", "info"} {
		if err := os.MkdirAll(filepath.Join(tmp, dir), 0o755); err != nil {
			return err
		}
	}
	text, err := p.moduleConfig(ctx, l)
	if err == nil {
		err = os.WriteFile(filepath.Join(tmp, "config"), text, 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(tmp, "HEAD"), []byte("ref: refs/heads/none\n"), 0o644)
	}
	if err != nil {
		return err
	}
	// To the repository that is being made, everything of the layer is new.
	rec := record{Common: tmp, Trees: map[string]treeState{".": {Head: "ref: refs/heads/none", States: map[string]fileID{}}}}
	rec.Trees["."] = p.h.reader.index.readTree(tmp, hashLen(tmp))
	if err := p.repository(ctx, rec, layer{l.upper, tmp}, tmp, p.workTree(ctx, tmp, l.lower, name)); err != nil {
		return err
	}
	p.rep.Dropped = slices.DeleteFunc(p.rep.Dropped, func(s string) bool {
		return slices.Contains(ofNewRepository(), s) || strings.HasPrefix(s, "hooks/") && strings.HasSuffix(s, ".sample")
	})
	if err := os.MkdirAll(filepath.Dir(l.lower), 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, l.lower)
}

// ofNewRepository are files that git makes in every repository; the configuration
// where nothing of it but its form was left out.
func ofNewRepository() []string { return []string{"config", "info/exclude"} }
