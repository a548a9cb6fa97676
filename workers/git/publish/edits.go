package publish

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/git"
)

// peel sorts objects into commits and trees, tags by what they lead to.
func (in *intake) peel(ctx context.Context, types map[string]string) (commits, trees []string, err error) {
	var tags []string
	for id, kind := range types {
		if kind == "tag" {
			tags = append(tags, id+"^{}")
		}
	}
	led, err := in.types(ctx, tags)
	if err != nil {
		return nil, nil, err
	}
	for _, kinds := range []map[string]string{types, led} {
		for id, kind := range kinds {
			switch kind {
			case "commit":
				commits = append(commits, id)
			case "tree":
				trees = append(trees, id)
			}
		}
	}
	return unique(commits), unique(trees), nil
}

// edits lists what commits have and none of their parents, back to those that the user has,
// and all that trees have.
func (in *intake) edits(ctx context.Context, commits, trees, users []string) (list []edit, err error) {
	commits = slices.DeleteFunc(slices.Clone(commits), func(id string) bool { return slices.Contains(users, id) })
	if len(commits) > 0 {
		out, err := in.run(ctx, "verify", git.Call{Args: append(rawLog("-c"), "--stdin"), Stdin: revisions(commits, in.known(users)), Env: in.env()})
		if err != nil {
			return nil, fmt.Errorf("read new commits: %w", err)
		}
		list = parseRaw(out)
	}
	for _, tree := range trees {
		below, err := in.lsTree(ctx, tree, "")
		if err != nil {
			return nil, err
		}
		list = append(list, below...)
	}
	return list, nil
}

// rawLog has git list what commits change.
func rawLog(merges string) []string {
	return []string{"log", merges, "--root", "--raw", "-r", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--ignore-submodules=none", "--full-history", "--format=", "--ignore-missing"}
}

// parseRaw reads the raw form of git-diff-tree(1), with one or several parents.
func parseRaw(out []byte) (list []edit) {
	fields := strings.Split(string(out), "\x00")
	for i := 0; i+1 < len(fields); i++ {
		head := strings.TrimLeft(fields[i], "\n")
		n := len(head) - len(strings.TrimLeft(head, ":")) // parents
		f := strings.Fields(head)
		if n == 0 || len(f) != 2*n+3 {
			continue
		}
		i++
		e := edit{path: fields[i], mode: f[n], oid: f[2*n+1]}
		for k := range n {
			e.exists = e.exists || strings.TrimLeft(f[k], ":") != none
		}
		list = append(list, e)
	}
	return list
}

// lsTree lists all entries of a tree, below a directory; of paths those alone, if there are any.
func (in *intake) lsTree(ctx context.Context, tree, dir string, paths ...string) (list []edit, err error) {
	out, err := in.run(ctx, "verify", git.Call{Args: append([]string{"ls-tree", "-r", "-z", "--full-tree", tree, "--"}, paths...), Env: in.env()})
	if err != nil {
		return nil, fmt.Errorf("read trees: %w", err)
	}
	for line := range strings.SplitSeq(string(out), "\x00") {
		head, path, ok := strings.Cut(line, "\t")
		if f := strings.Fields(head); ok && len(f) == 3 {
			list = append(list, edit{path: dir + path, mode: f[0], oid: f[2]})
		}
	}
	return list, nil
}

// edits lists what an index has, and that before the command has not.
func (t *treeChange) edits(oidLen int) (list []edit) {
	type key struct {
		path, oid string
		mode      uint32
	}
	have, was := map[key]bool{}, map[string]indexEntry{}
	for _, e := range t.before(oidLen).entries {
		have[key{e.path, e.oid, e.mode}], was[e.path] = true, e
	}
	stays := map[string]bool{}
	for _, e := range t.index.entries {
		stays[e.path] = true
		if !have[key{e.path, e.oid, e.mode}] {
			list = append(list, edit{path: e.path, mode: fmt.Sprintf("%06o", e.mode), oid: e.hex(), exists: was[e.path].path != "", tree: t, intent: e.more&intentFlag != 0})
		}
	}
	for path := range was {
		if !stays[path] {
			list = append(list, edit{path: path, mode: none, exists: true, tree: t})
		}
	}
	return list
}

// sparse puts what the directories of sparse indexes have in their place.
func (in *intake) sparse(ctx context.Context, list []edit) (out []edit, err error) {
	for _, e := range list {
		dir, whole := strings.CutSuffix(e.path, "/")
		if !whole || e.mode == none {
			e.path = dir
			out = append(out, e)
			continue
		}
		below, err := in.lsTree(ctx, e.oid, e.path)
		if err != nil {
			return nil, err
		}
		for _, b := range below {
			b.tree = e.tree
			out = append(out, b)
		}
	}
	return out, nil
}

// patched lists what the patches of a git am that stopped change.
func (p *publication) patched(ctx context.Context, pl *plan, in *intake) (list []edit, err error) {
	var mails [][]byte
	add := func(states []stateChange) {
		for _, s := range states {
			for _, name := range slices.Sorted(maps.Keys(s.files)) {
				if patchName().MatchString(s.name+"/"+name) || s.name == "rebase-apply" && name == "patch" {
					mails = append(mails, s.files[name])
				}
			}
		}
	}
	for _, t := range pl.trees {
		add(t.states)
	}
	for _, t := range pl.made {
		add(t.states)
	}
	body, patch := filepath.Join(p.dir, "body"), filepath.Join(p.dir, "patch")
	for _, mail := range mails {
		if bytes.HasPrefix(mail, []byte("diff ")) {
			err = os.WriteFile(patch, mail, 0o600)
		} else {
			_, err = in.run(ctx, "verify", git.Call{Args: []string{"mailinfo", "--quoted-cr=strip", body, patch}, Stdin: mail})
		}
		if err != nil {
			return nil, fmt.Errorf("read a patch: %w", err)
		}
		// What git cannot read as a patch it does not apply.
		out, err := in.run(ctx, "verify", git.Call{Args: []string{"apply", "--numstat", "-z", patch}, Allow: []int{1, 128}})
		if err != nil {
			return nil, fmt.Errorf("read a patch: %w", err)
		}
		for field := range strings.SplitSeq(string(out), "\x00") {
			// "added TAB removed TAB path", or without the path and then both names of a move.
			parts := strings.SplitN(field, "\t", 3)
			if name := strings.TrimSpace(parts[len(parts)-1]); name != "" {
				list = append(list, edit{path: name, mode: "100644", patch: true})
			}
		}
	}
	return list, nil
}
