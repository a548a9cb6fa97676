package publish

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/workers/git"
)

const (
	lateRefs    = "refs/ralph/late/"
	droppedRefs = "refs/ralph/dropped/"
	stashRef    = "refs/stash"
	stashLog    = "logs/refs/stash"
	lockWait    = 2 * time.Second
	maxTries    = 3
	// maxKept bounds how many values of one command are kept.
	maxKept = 200
)

// publication takes over what one command wrote.
type publication struct {
	h   *History
	dir string
	id  string // of the refs that it makes
	// again says that a publication of the same command was killed.
	again bool
	rep   *Report
	grant Grant
	since time.Time // the command began
}

// treeChange is what a command changed in the git directory of one work tree.
type treeChange struct {
	name   string // see record.Trees
	dir    string
	root   string // its work tree
	was    treeState
	old    *gitIndex // see before
	head   string    // the new content of HEAD, "" when it is the same
	after  string    // the branch that HEAD is on after, "" for none
	index  *gitIndex
	states []stateChange
	// late says that HEAD, index, state and the current branch stay as they are, as
	// one whole: somebody else changed one of them, or one cannot be taken over.
	late bool
	lock string // of the index, "" when it is not held
}

// branch is the branch that HEAD was on before, "" when it was on none.
func (t *treeChange) branch() string {
	name, _, _ := parseHead([]byte(t.was.Head))
	return name
}

// before returns the index from before the command; one that cannot be read is empty.
func (t *treeChange) before(oidLen int) gitIndex {
	if t.old == nil {
		old, _ := readIndex(filepath.Join(t.dir, "index"), oidLen)
		t.old = &old
	}
	return *t.old
}

// nowHead is the content of HEAD after the command.
func (t *treeChange) nowHead() string { return cmp.Or(t.head, t.was.Head) }

func (t *treeChange) changed() bool { return t.head != "" || t.index != nil || len(t.states) > 0 }

// plan is what a command wants changed in one repository.
type plan struct {
	l        layer
	root     string // the work tree
	before   record
	oidLen   int
	after    refs
	claims   []claim
	symbolic []claim
	trees    []*treeChange
	stash    *[]logLine // the new reflog of the stash; nil when it is the same
	made     []newTree
	config   []setting // that are new
	gone     []string  // directories of worktrees that the command removed
	kept     []claim
	direct   []string // of kept, those that are no commits, which only a ref of their own is sure to hold
	who      string   // committer and time of new records in reflogs
	message  string
}

// repository publishes one repository with its work tree, after those of its submodules.
func (p *publication) repository(ctx context.Context, before record, l layer, gitDir, root string) error {
	if l.look("modules") == directory {
		if err := p.modules(ctx, before, l); err != nil {
			return err
		}
	}
	pl, err := p.plan(before, l, root)
	if err != nil {
		return err
	}
	p.config(ctx, pl)
	p.rep.Dropped = append(p.rep.Dropped, dropped(l, "")...)
	for _, name := range [...]string{"objects/info/alternates", "objects/info/http-alternates"} {
		if l.look(name) != same {
			p.rep.Dropped = append(p.rep.Dropped, name)
		}
	}
	if pl.empty() {
		return nil
	}
	in, err := newIntake(p.h.o.Proc, p.dir, l)
	if err != nil {
		return err
	}
	err = p.verify(ctx, pl, in)
	if err == nil {
		err = p.apply(ctx, pl, in, gitDir)
	}
	return errors.Join(err, in.drop())
}

func (pl *plan) empty() bool {
	return len(pl.claims)+len(pl.symbolic)+len(pl.made)+len(pl.gone)+len(pl.config) == 0 && pl.stash == nil && !slices.ContainsFunc(pl.trees, (*treeChange).changed)
}

// plan reads the layer. Its error says why git would not take what the command
// left for a repository.
func (p *publication) plan(before record, l layer, root string) (*plan, error) {
	pl := &plan{l: l, root: root, before: before, oidLen: hashLen(l.lower), message: "ralph: command"}
	pl.who = fmt.Sprintf("Ralph <ralph@localhost> %d +0000", time.Now().Unix())
	var broken bool
	if pl.after, broken = refsAfter(l, before.Refs); broken {
		return nil, errors.New("it removed or damaged the refs")
	}
	var odd []string
	pl.claims, pl.symbolic, odd = claims(before.Refs, pl.after)
	p.rep.Dropped = append(p.rep.Dropped, odd...)
	for _, name := range odd {
		if before.Refs.value(name) == "" {
			delete(pl.after, name)
		}
	}
	dirs := pl.after.dirs()
	for _, c := range pl.claims {
		if c.old == "" && len(pl.after.inTheWay(c.name, dirs)) > 0 {
			return nil, fmt.Errorf("it has the ref %s beside %s, and git can only have one of them", short(c.name), short(pl.after.inTheWay(c.name, dirs)[0]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.Trees)) {
		t, err := p.tree(pl, name, before.Trees[name])
		if err != nil {
			return nil, err
		}
		if t != nil {
			pl.trees = append(pl.trees, t)
		}
	}
	p.worktrees(pl)
	if l.look(stashLog) != same || pl.after[stashRef] != before.Refs.value(stashRef) {
		pl.readStash()
	}
	return pl, nil
}

// tree reads what the command changed for one work tree.
func (p *publication) tree(pl *plan, name string, was treeState) (*treeChange, error) {
	l := pl.l
	if name != "." {
		switch l.look(name) {
		case same, directory:
		default:
			return nil, nil // see worktrees
		}
		l = l.sub(name)
	}
	t := &treeChange{name: name, dir: l.lower, was: was, root: pl.root}
	if name != "." && l.lower != p.h.o.Git.GitDir {
		t.root = worktreeOf(l.lower)
	}
	head := was.Head
	switch l.look("HEAD") {
	case same:
	case file:
		text, err := l.read("HEAD", maxRefBytes)
		if err != nil {
			return nil, fmt.Errorf("read HEAD: %w", err)
		}
		if head = strings.TrimSpace(string(text)); head != was.Head {
			t.head = head
		}
	default:
		return nil, errors.New("it removed or replaced HEAD")
	}
	branch, _, ok := parseHead([]byte(head))
	t.after = branch
	switch {
	case !ok && t.head != "":
		return nil, errors.New("HEAD is neither a branch nor a commit")
	case t.head != "" && branch != "" && pl.l.look(branch) == file && !isHex(pl.after[branch]):
		return nil, fmt.Errorf("HEAD is on %s, which is no branch that can be taken over", short(branch))
	case t.head == "" && branch != "" && isHex(pl.before.Refs.value(branch)) && !isHex(pl.after[branch]):
		return nil, fmt.Errorf("it removed or damaged the current branch, %s", short(branch))
	}
	if l.look("index") != same {
		x, err := l.index(pl.oidLen)
		if err != nil {
			p.hold(t, "index ("+err.Error()+")")
		} else if x.reveal(filepath.Join(l.lower, "index"), pl.oidLen); x.digest() != was.Index {
			t.index = &x
		}
	}
	var left, odd []string
	t.states, left, odd = statesAfter(l, pl.after)
	for _, name := range left {
		p.rep.Dropped = append(p.rep.Dropped, path.Join(t.name, name))
	}
	for _, o := range odd {
		p.hold(t, o)
	}
	pl.records(l)
	return t, nil
}

// hold leaves a work tree's HEAD, index, state and branch as they are, because of a
// part that cannot be taken over: git would go on from half of what the command did.
func (p *publication) hold(t *treeChange, part string) {
	t.late = true
	p.rep.Dropped = append(p.rep.Dropped, path.Join(t.name, part))
}

// records takes committer and message from what the command added to the reflog
// of HEAD.
func (pl *plan) records(l layer) {
	if l.look("logs/HEAD") != file {
		return
	}
	text, err := l.read("logs/HEAD", maxStateBytes)
	if list, ok := parseLog(text); err == nil && ok && len(list) > 0 {
		last := list[len(list)-1]
		pl.who = last.who
		if last.message != "" {
			pl.message = last.message
		}
	}
}

// readStash takes the reflog of the stash, which holds all entries but the last,
// where it fits the ref.
func (pl *plan) readStash() {
	text, err := pl.l.after(stashLog, maxStateBytes)
	list, ok := parseLog(text)
	now := pl.after[stashRef]
	switch {
	case now == "" && (errors.Is(err, fs.ErrNotExist) || len(list) == 0):
		pl.stash = &[]logLine{}
	case err == nil && ok && len(list) > 0 && list[len(list)-1].new == now:
		pl.stash = &list
	}
}

// verify has git check every object that the plan needs, and drops from the plan
// what names an object that is not there or is of another type.
func (p *publication) verify(ctx context.Context, pl *plan, in *intake) error {
	known := unique(slices.Collect(maps.Values(pl.before.Refs.all())))
	known = slices.DeleteFunc(known, func(s string) bool { return !isHex(s) })
	var ids []string
	for _, c := range pl.claims {
		ids = append(ids, c.new, c.old)
	}
	blobs := map[*treeChange][]string{}
	var staged []string
	for _, t := range pl.trees {
		if _, commit, _ := parseHead([]byte(t.head)); commit != "" {
			ids = append(ids, commit)
		}
		if t.index != nil {
			blobs[t] = t.index.objects(t.before(pl.oidLen))
			ids = append(ids, blobs[t]...)
			trees, err := in.entries(*t.index, t.before(pl.oidLen))
			if err != nil {
				return err
			}
			staged = append(staged, trees...)
		}
		for _, s := range t.states {
			ids = append(ids, s.ids()...)
		}
	}
	for _, t := range pl.made {
		ids = append(ids, t.ids()...)
		for _, s := range t.states {
			ids = append(ids, s.ids()...)
		}
	}
	if pl.stash != nil {
		for _, line := range *pl.stash {
			ids = append(ids, line.new)
		}
	}
	ids = unique(ids)
	types, err := in.types(ctx, ids)
	if err != nil {
		return err
	}
	if err := p.fit(pl, types, blobs, partial().Match(config(pl.l.lower))); err != nil {
		return err
	}
	// Of an id that was cut short the whole is among the types.
	wanted := slices.DeleteFunc(unique(append(ids, slices.Collect(maps.Keys(types))...)), func(id string) bool { return types[id] == "" || slices.Contains(known, id) })
	if err := in.verify(ctx, append(wanted, staged...), known); err != nil {
		return err
	}
	return p.judge(ctx, pl, in, types)
}

// fit drops from the plan what the objects do not allow.
func (p *publication) fit(pl *plan, types map[string]string, blobs map[*treeChange][]string, partial bool) error {
	for _, t := range pl.trees {
		branch, commit, _ := parseHead([]byte(t.was.Head))
		if t.head != "" {
			branch, commit, _ = parseHead([]byte(t.head))
		}
		if v := pl.after[branch]; branch != "" && v != pl.before.Refs.value(branch) && types[v] != "commit" {
			return fmt.Errorf("the current branch, %s, names no commit that is there", short(branch))
		}
		if commit != "" && t.head != "" && types[commit] != "commit" {
			return errors.New("HEAD names no commit that is there")
		}
		missing := slices.ContainsFunc(blobs[t], func(id string) bool {
			kind := types[id]
			return kind != "blob" && !(kind == "tree" && t.index.sparse) && !(kind == "" && partial)
		})
		if missing {
			t.index = nil
			p.hold(t, "index (it names objects that are not there)")
		}
		t.states = slices.DeleteFunc(t.states, func(s stateChange) bool {
			bad := stateFiles()[s.name] == stateFiles()["MERGE_HEAD"] && slices.ContainsFunc(s.ids(), func(id string) bool { return types[id] == "" })
			if bad {
				p.hold(t, s.name)
			}
			return bad
		})
	}
	pl.claims = slices.DeleteFunc(pl.claims, func(c claim) bool {
		kind := types[c.new]
		bad := c.new != "" && (kind == "" || strings.HasPrefix(c.name, "refs/heads/") && kind != "commit")
		if bad {
			p.rep.Dropped = append(p.rep.Dropped, c.name)
		}
		return bad
	})
	pl.made = slices.DeleteFunc(pl.made, func(t newTree) bool {
		bad := slices.ContainsFunc(t.ids(), func(id string) bool { return types[id] == "" })
		if bad {
			p.rep.Dropped = append(p.rep.Dropped, "worktrees/"+t.name)
		}
		return bad
	})
	if pl.stash != nil && slices.ContainsFunc(*pl.stash, func(l logLine) bool { return types[l.new] != "commit" }) {
		pl.stash = nil
		p.rep.Dropped = append(p.rep.Dropped, stashLog)
	}
	p.keep(pl, types)
	return nil
}

// keep names the old values that may be history which nothing else holds: of refs
// that were deleted, or moved without a reflog, and of the stash.
func (p *publication) keep(pl *plan, types map[string]string) {
	add := func(name, id string) {
		if types[id] != "commit" {
			pl.direct = append(pl.direct, id)
		}
		if types[id] != "" && len(pl.kept) < maxKept && !slices.ContainsFunc(pl.kept, func(c claim) bool { return c.new == id }) {
			pl.kept = append(pl.kept, claim{name: name, new: id})
		}
	}
	for _, c := range pl.claims {
		if c.old == "" || c.new != "" && strings.HasPrefix(c.name, "refs/remotes/") || strings.HasPrefix(c.name, "refs/bisect/") {
			continue
		}
		logged := exists(filepath.Join(pl.l.lower, "logs", c.name))
		if c.new == "" || !logged || c.name == stashRef {
			add(droppedRefs+p.id+"/"+short(c.name), c.old)
		}
	}
}

// unheld leaves of the kept values those that no ref holds after the transaction.
func (p *publication) unheld(ctx context.Context, pl *plan, in *intake) {
	candidates := map[string]string{} // id to name
	for _, c := range pl.kept {
		listed := pl.stash != nil && slices.ContainsFunc(*pl.stash, func(l logLine) bool { return l.new == c.new })
		if !listed {
			candidates[c.new] = c.name
		}
	}
	for _, c := range pl.claims {
		if c.new != "" || !strings.HasPrefix(c.name, "refs/heads/") {
			continue
		}
		for i, line := range readLog(filepath.Join(pl.l.lower, "logs", c.name)) {
			if len(candidates) < maxKept && candidates[line.new] == "" {
				candidates[line.new] = fmt.Sprintf("%s%s/%s.%d", droppedRefs, p.id, short(c.name), i)
			}
		}
	}
	if pl.stash != nil {
		for i, line := range readLog(filepath.Join(pl.l.lower, stashLog)) {
			held := slices.ContainsFunc(*pl.stash, func(l logLine) bool { return l.new == line.new })
			if !held && len(candidates) < maxKept && candidates[line.new] == "" {
				candidates[line.new] = fmt.Sprintf("%s%s/stash.%d", droppedRefs, p.id, i)
			}
		}
	}
	pl.kept = nil
	if len(candidates) == 0 {
		return
	}
	held := slices.DeleteFunc(unique(slices.Collect(maps.Values(pl.after))), func(s string) bool { return !isHex(s) })
	ids := slices.Sorted(maps.Keys(candidates))
	out, err := in.run(ctx, "verify", git.Call{Args: []string{"rev-list", "--ignore-missing", "--stdin"}, Stdin: revisions(ids, in.known(held)), Env: in.env()})
	for _, id := range ids {
		// Where that cannot be found out all are kept.
		if err != nil || slices.Contains(strings.Fields(string(out)), id) || slices.Contains(pl.direct, id) && !slices.Contains(held, id) {
			pl.kept = append(pl.kept, claim{name: candidates[id], new: id})
		}
	}
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// dropped names what the command wrote in the git directory that is never taken
// over. What git does for itself, such as locks, graphs and packs, is not named.
func dropped(l layer, at string) []string {
	var out []string
	for _, e := range l.entries() {
		name := path.Join(at, e.name)
		switch {
		case handled(name), strings.HasSuffix(name, ".lock"), strings.HasPrefix(name, "sharedindex."):
		case e.kind == directory:
			if opaque(filepath.Join(l.upper, e.name)) && exists(filepath.Join(l.lower, e.name)) {
				out = append(out, name)
				continue
			}
			out = append(out, dropped(l.sub(e.name), name)...)
		case e.kind == file:
			now, err := l.read(e.name, maxStateBytes)
			was, wasErr := readFile(filepath.Join(l.lower, e.name), maxStateBytes)
			if err != nil || wasErr != nil || string(now) != string(was) {
				out = append(out, name)
			}
		default:
			out = append(out, name)
		}
	}
	return out
}

// handled reports names that a publication reads, or that git makes for itself.
func handled(name string) bool {
	switch name {
	case "refs", "packed-refs", "HEAD", "index", "logs", "worktrees", "modules", "objects", "rebase-merge", "rebase-apply", "sequencer", "config",
		"gc.log", "gc.pid", "info/refs", "ralph.lock", "MERGE_RR", "lost-found", "description":
		return true
	}
	_, state := shapeOf(name)
	return state
}
