package trees

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ralph/workers/git"
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
	if mine, err := os.ReadFile(g.index); err == nil && bytes.Equal(mine, text) {
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

// unfit says why a path is not for a commit, "" when it is. size and target are
// those of a file and of a symlink there.
func (t *Trees) unfit(r record, name string, size func() int64, target func() string) string {
	to := target()
	switch {
	case !git.GoodPath(strings.TrimSuffix(name, "/")): // a directory ends in one
		return whyRefused + "hasDotgit"
	case t.own(name):
		return whyState
	case to != "" && slices.ContainsFunc(r.Links, func(l link) bool { return string(l.Path) == name && string(l.Target) == to }):
		return whyLinked
	case secret(name):
		return whySecret
	case to != "" && (path.IsAbs(to) || path.Clean(path.Join(path.Dir(name), to)) == ".." || strings.HasPrefix(path.Clean(path.Join(path.Dir(name), to)), "../")):
		return whyOutside
	case to != "" && git.ReadByGit(name) && path.Base(name) != ".gitattributes":
		return whyRefused + "gitmodulesSymlink"
	case size() > maxFileBytes:
		return whyBig()
	}
	return ""
}

// sanitize takes out of an index all changes since the base of the agent that are not
// for a commit, and writes the tree that is left: one that git would refuse is never
// among the user's objects.
func (t *Trees) sanitize(ctx context.Context, p git.Plumbing, r record, index string) (tree string, left []string, err error) {
	out, _, err := p.Run(ctx, git.Call{Args: append(append([]string{"diff-index", "--cached"}, rawDiff()...), r.Base, "--"), Index: index})
	if err != nil {
		return "", nil, err
	}
	list, err := t.changes(out)
	if err != nil {
		return "", nil, err
	}
	why := map[string]string{}
	if len(list) > 0 {
		if why, err = t.unfits(ctx, p, r, index, list); err != nil {
			return "", nil, err
		}
	}
	if len(why) > 0 {
		return t.revert(ctx, p, index, list, why)
	}
	if tree, err = p.WriteTree(ctx, index); err == nil {
		if base, err := t.treeOf(ctx, r.Base); err == nil {
			t.last.Store(&compared{base, tree, list}) // what Merge asks next
		}
	}
	return tree, nil, err
}

// revert takes those changes back that there is a reason for.
func (t *Trees) revert(ctx context.Context, p git.Plumbing, index string, list []change, why map[string]string) (string, []string, error) {
	var info []byte
	var left []string
	for _, c := range list {
		w := why[c.path]
		if w == "" {
			continue
		}
		if c.oldMode == modeNone {
			info = fmt.Appendf(info, "0 %s\t%s\x00", strings.Repeat("0", len(c.oldHash)), c.path)
		} else {
			info = fmt.Appendf(info, "%s %s 0\t%s\x00", c.oldMode, c.oldHash, c.path)
		}
		if w != whyLinked && !strings.HasPrefix(t.below(c.path), ".ralph/") {
			left = append(left, reason(c.path, w))
		}
	}
	if _, _, err := p.Run(ctx, git.Call{Args: []string{"update-index", "-z", "--index-info"}, Stdin: info, Index: index}); err != nil {
		return "", nil, err
	}
	tree, err := p.WriteTree(ctx, index)
	return tree, left, err
}

// unfits says for each of the changes that are not for a commit why not.
func (t *Trees) unfits(ctx context.Context, p git.Plumbing, r record, index string, list []change) (map[string]string, error) {
	var paths, blobs, links []string
	for _, c := range list {
		switch {
		case c.newMode == modeLink:
			links = append(links, c.newHash)
			fallthrough
		case c.newMode != modeNone && c.newMode != modeGitlink:
			blobs = append(blobs, c.newHash)
		}
		paths = append(paths, c.path)
	}
	sizes := map[string]int64{}
	out, _, err := p.Run(ctx, git.Call{Args: []string{"cat-file", "--batch-check=%(objectname) %(objectsize)"}, Stdin: []byte(strings.Join(blobs, "\n") + "\n")})
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		hash, size, _ := strings.Cut(strings.TrimSpace(line), " ")
		sizes[hash], _ = strconv.ParseInt(size, 10, 64) // "missing" is 0, and write-tree says so
	}
	targets, err := linkTargets(ctx, p, links, sizes)
	if err != nil {
		return nil, err
	}
	filtered, err := p.Filtered(ctx, index, paths)
	if err != nil {
		return nil, err
	}
	why, err := t.refused(ctx, list)
	if err != nil {
		return nil, err
	}
	repos, err := t.repositories(ctx, r.Base, list)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		target := ""
		if c.newMode == modeLink {
			target = targets[c.newHash]
		}
		w := t.unfit(r, c.path, func() int64 { return sizes[c.newHash] }, func() string { return target })
		if c.newMode == modeGitlink && c.oldMode == modeNone && t.cloned(r, c.path) {
			w = whyNested
		}
		if w == "" && c.newMode != modeGitlink && slices.Contains(filtered, c.path) {
			w = whyFilter
		}
		if w == "" && t.Refuse != nil {
			w = t.Refuse(Proposed{Agent: r.Agent, Path: c.path, Exists: c.oldMode != modeNone, Repository: repos.at(c.path),
				Content: func() ([]byte, error) { return t.blob(ctx, p, c, sizes[c.newHash]) }})
		}
		if w != "" {
			why[c.path] = w
		}
	}
	return why, nil
}

// blob reads what a change made of a file.
func (t *Trees) blob(ctx context.Context, p git.Plumbing, c change, size int64) ([]byte, error) {
	if !isFile(c.newMode) || size > maxFileBytes {
		return nil, fmt.Errorf("read %q: %w", c.path, fs.ErrNotExist)
	}
	out, _, err := p.Run(ctx, git.Call{Args: []string{"cat-file", "blob", c.newHash}})
	return out, err
}

// linkTargets reads where symlinks lead; one that is too long leads out of the tree.
func linkTargets(ctx context.Context, p git.Plumbing, links []string, sizes map[string]int64) (map[string]string, error) {
	const most = 4096
	targets := map[string]string{}
	links = slices.DeleteFunc(links, func(hash string) bool {
		if sizes[hash] > most {
			targets[hash] = "/"
		}
		return sizes[hash] > most
	})
	if len(links) == 0 {
		return targets, nil
	}
	out, _, err := p.Run(ctx, git.Call{Args: []string{"cat-file", "--batch=%(objectname)"}, Stdin: []byte(strings.Join(links, "\n") + "\n")})
	if err != nil {
		return nil, err
	}
	for rest := string(out); rest != ""; {
		hash, text, _ := strings.Cut(rest, "\n")
		n := int(sizes[hash])
		if n+1 > len(text) {
			return nil, fmt.Errorf("git cat-file: %.80q", rest)
		}
		targets[hash], rest = text[:n], text[n+1:]
	}
	return targets, nil
}

// cloned says that an agent has a repository with all that belongs to it below a
// path, unlike a submodule: git add takes such a one for a submodule that nobody
// could ever get.
func (t *Trees) cloned(r record, name string) bool {
	info, err := os.Lstat(filepath.Join(t.dir(r.Agent), filepath.FromSlash(name), ".git"))
	return err == nil && info.IsDir()
}
