package trees

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/git"
	"ralph/workers/regular"
)

// Commit records on the agent's branch all that it changed in its worktree:
// tracked and untracked files, not ignored ones. Commits that the agent made
// itself count as they are; one that it made elsewhere, on another branch or on
// none, is joined to the branch, and the worktree is put back on it. Never
// recorded, and named in Work.LeftOut: Ralph's state, secrets, files over 100 MiB,
// repositories inside, links out of the tree, and what a filter has to convert.
//
// The author is the user as git knows it, or "Ralph <ralph@localhost>". Work is
// filled in also with git.ErrNothingToCommit.
func (t *Trees) Commit(ctx context.Context, agent, message string) (Work, error) {
	defer t.holdGC(ctx)()
	w, err := t.commit(ctx, agent, message)
	if err != nil {
		return w, fmt.Errorf("commit the work of %q: %w", agent, err)
	}
	return w, nil
}

func (t *Trees) commit(ctx context.Context, agent, message string) (Work, error) {
	if strings.TrimSpace(message) == "" {
		return Work{}, errors.New("the message is empty")
	}
	r, err := t.find(ctx, agent)
	if err != nil {
		return Work{}, err
	}
	if err := t.reunite(r); err != nil {
		return Work{}, err
	}
	g, err := t.gather(ctx, r)
	if err != nil {
		return Work{}, err
	}
	defer g.remove()
	head, err := t.join(ctx, r, &g, withTrailer(message, agent))
	w := Work{Hash: head, LeftOut: bounded(g.leftOut), Unrecorded: bounded(g.unrecorded)}
	if err != nil {
		return w, err
	}
	if w.Tree, err = t.treeOf(ctx, head); err != nil {
		return w, err
	}
	if head == r.Head {
		return w, git.ErrNothingToCommit
	}
	if w.Files, err = t.user().Changes(ctx, r.Head, head); err != nil {
		return w, err
	}
	return w, t.note(ctx, agent, func(r *record) error { r.Head = head; return nil })
}

// note changes the record of an agent.
func (t *Trees) note(ctx context.Context, agent string, set func(*record) error) error {
	unlock, err := t.lock(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	defer unlock()
	r, err := t.recall(ctx, agent)
	if err != nil {
		return err
	}
	if err := set(&r); err != nil {
		return err
	}
	return t.save(t.recordPath(agent), r)
}

// withTrailer adds who did it.
func withTrailer(message, agent string) string {
	message = strings.TrimSpace(message)
	last := message[strings.LastIndex(message, "\n\n")+1:]
	gap := "\n\n"
	if last != message && !slices.ContainsFunc(strings.Split(strings.TrimSpace(last), "\n"), func(l string) bool {
		key, _, ok := strings.Cut(l, ": ")
		return !ok || strings.ContainsAny(key, " \t")
	}) {
		gap = "\n"
	}
	return message + gap + "Ralph-Agent: " + agent + "\n"
}

// gathered is the state of an agent's tree.
type gathered struct {
	index   string // of our own, as the files are
	remove  func()
	tree    string
	leftOut []string
	// unrecorded are those of leftOut that belong to the work; see Work.
	unrecorded []string

	ref     string   // what the user's repository has of the branch, "" for nothing
	tip     string   // the head of the agent's branch
	at      string   // what HEAD names, "" for nothing
	on      bool     // HEAD is the agent's branch
	merging []string // what the agent was merging
	staged  []string // entries of index that stand for files which git ignores and the agent added
}

// gather reads a tree as the agent left it: its files with an index of Ralph's, and
// its commits as far as they verify. The caller calls remove.
func (t *Trees) gather(ctx context.Context, r record) (gathered, error) {
	if !r.Ready {
		return gathered{}, fmt.Errorf("its tree is gone: %w", ErrUnknown)
	}
	p := t.child(r).Plumbing()
	var g gathered
	var err error
	if g.ref, err = t.tip(ctx, r.Ref); err != nil {
		return g, err
	}
	c := t.readClone(r)
	if g.leftOut, err = t.takeOver(ctx, r, &c); err != nil {
		return g, err
	}
	g.tip, g.at, g.merging = first(g.ref, r.Head), c.at, c.merging
	if g.tip == r.Head {
		g.tip = first(c.tip, r.Head)
	}
	if g.on = !c.whole || c.ref == r.Ref; g.on {
		g.at = g.tip
	}
	if err := t.index(ctx, p, r, &g); err != nil {
		return g, err
	}
	if err := t.gatherFiles(ctx, p, r, &g); err != nil {
		g.remove()
		return g, err
	}
	return g, nil
}

// takeOver brings the commits that a clone names into the user's repository. Those
// that it cannot are taken out of c and named in lost; the files that the agent
// left count all the same.
func (t *Trees) takeOver(ctx context.Context, r record, c *cloneState) (lost []string, err error) {
	verified := map[string]bool{"": true, r.Head: true, r.Base: true}
	for _, commit := range append([]string{c.at, c.tip}, c.merging...) {
		if _, looked := verified[commit]; looked {
			continue
		}
		if verified[commit], err = t.exists(ctx, commit); err != nil || verified[commit] {
			if err != nil {
				return nil, err
			}
			continue
		}
		root, err := t.openTree(r.Agent)
		if err != nil {
			return nil, err
		}
		err = errors.Join(t.importCommits(ctx, root, ".git/objects", t.loc, []string{commit}, []string{r.Head, r.Base}), root.Close())
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if verified[commit] = err == nil; err != nil {
			line, _, _ := strings.Cut(err.Error(), "\n")
			lost = append(lost, reason("commit "+commit[:12], line))
		}
	}
	for _, at := range []*string{&c.at, &c.tip} {
		if !verified[*at] {
			*at = ""
		}
	}
	c.merging = slices.DeleteFunc(c.merging, func(m string) bool { return !verified[m] })
	return lost, nil
}

// index takes Ralph's index of the files, which knows what is unchanged, or makes a
// new one, and has it list the files that the agent's index lists.
func (t *Trees) index(ctx context.Context, p git.Plumbing, r record, g *gathered) error {
	from := filepath.Join(t.admin(r.Admin), "index")
	_, err := os.Lstat(from)
	known := err == nil
	if !known {
		from = ""
		if err := t.makeAdmin(r); err != nil {
			return err
		}
	}
	if g.index, g.remove, err = p.TempIndex(t.private(), from); err != nil {
		return err
	}
	if !known {
		_, _, err = p.Run(ctx, git.Call{Args: []string{"read-tree", first(g.at, g.tip)}, Index: g.index})
	}
	if err == nil {
		err = t.followIndex(ctx, p, r, g)
	}
	if err != nil {
		g.remove()
	}
	return err
}

// unread stands for the content of a file that is yet to be read.
const unread = "1111111111111111111111111111111111111111"

// followIndex takes over which paths the agent's index lists, and the commits of
// submodules in it; the content of files comes from the files. What git cannot read
// of it counts for nothing.
func (t *Trees) followIndex(ctx context.Context, p git.Plumbing, r record, g *gathered) error {
	root, err := t.openTree(r.Agent)
	if err != nil {
		return err
	}
	text, err := readIn(root, ".git/index", maxIndexBytes)
	if cerr := root.Close(); err != nil || cerr != nil {
		return cerr
	}
	if mine, err := regular.Read(g.index, maxIndexBytes); err == nil && bytes.Equal(mine, text) {
		return nil
	}
	path, remove, err := p.TempIndex(t.private(), "")
	if err != nil {
		return err
	}
	defer remove()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	theirs, err := entries(ctx, p, path, nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil || len(theirs) == 0 {
		return nil
	}
	ours, err := entries(ctx, p, g.index, nil)
	if err != nil {
		return err
	}
	var info []byte
	zero, one := strings.Repeat("0", len(r.Base)), strings.Repeat(unread, 2)[:len(r.Base)]
	for name := range ours {
		if _, ok := theirs[name]; !ok {
			info = fmt.Appendf(info, "0 %s\t%s\x00", zero, name)
		}
	}
	for name, e := range theirs {
		o, ok := ours[name]
		switch {
		case e.mode == modeGitlink && e.stage == "0" && (!ok || o.hash != e.hash):
			info = fmt.Appendf(info, "%s %s\t%s\x00", modeGitlink, e.hash, name)
		case !ok && e.mode != modeGitlink:
			info = fmt.Appendf(info, "100644 %s\t%s\x00", one, name)
			g.staged = append(g.staged, name)
		}
	}
	if len(info) == 0 {
		return nil
	}
	_, _, err = p.Run(ctx, git.Call{Args: []string{"update-index", "-z", "--index-info"}, Stdin: info, Index: g.index})
	return err
}

func (t *Trees) gatherFiles(ctx context.Context, p git.Plumbing, r record, g *gathered) error {
	dir := t.dir(r.Agent)
	update, remove, nested, err := p.Scan(ctx, g.index, func(name string, _ bool) bool {
		// What must not be recorded is not even read.
		why := t.unfit(r, name, func() int64 {
			info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
			if err != nil || !info.Mode().IsRegular() {
				return 0
			}
			return info.Size()
		}, func() string { s, _ := os.Readlink(filepath.Join(dir, filepath.FromSlash(name))); return s })
		if why != "" && why != whyLinked && !strings.HasPrefix(t.below(name), ".ralph") {
			g.leftOut = append(g.leftOut, reason(name, why))
		}
		return why != ""
	})
	if err != nil {
		return err
	}
	for _, name := range nested {
		if !t.own(name) {
			g.leftOut = append(g.leftOut, reason(name, whyNested))
		}
	}
	if update, err = t.unrecorded(ctx, p, r, g, update); err != nil {
		return err
	}
	read := map[string]bool{}
	for _, name := range update {
		read[name] = true
	}
	for _, name := range g.staged {
		if !read[name] {
			remove = append(remove, name)
		}
	}
	if err := p.Apply(ctx, g.index, update, remove); err != nil {
		return err
	}
	// The agent can have staged or committed some of that itself.
	tree, left, err := t.sanitize(ctx, p, r, g.index)
	g.tree = tree
	for _, l := range left {
		if !slices.Contains(g.leftOut, l) {
			g.leftOut = append(g.leftOut, l)
		}
	}
	slices.Sort(g.leftOut)
	return err
}

const whyLinked = "a link that Ralph made"

func (t *Trees) below(name string) string { return strings.TrimPrefix(name, t.prefix) }
