package trees

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"ralph/workers/git"
)

// errAgain means that the user's branch moved while work was to land on it.
var errAgain = errors.New("the branch moved meanwhile")

// Merge takes the commits of an agent over, without touching any tree, into
// refs/ralph/integration, which descends from the user's HEAD, and then lands
// what is there.
//
// Whatever an agent committed itself, it gives one new commit. One that began with
// uncommitted work of the user gives a commit with only its own changes; where these cannot be told from the user's they land without a commit, and Why
// says so. With Conflicts nothing has moved. What cannot land is Held and waits
// for Land. An agent that changed nothing gives git.ErrNothingToCommit.
func (t *Trees) Merge(ctx context.Context, agent, message string) (Merge, error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return Merge{}, err
	}
	defer unlock()
	if err := t.recover(ctx); err != nil {
		return Merge{}, err
	}
	for n := 0; ; n++ {
		m, err := t.merge(ctx, agent, message)
		if errors.Is(err, errAgain) && n < 5 {
			continue
		}
		if err != nil {
			err = fmt.Errorf("merge the work of %q: %w", agent, err)
		}
		return m, err
	}
}

// merging is one run of Merge.
type merging struct {
	r       record
	message string
	head    string // of the agent's branch
	work    string // the same, or a commit without what is not passed on
	onto    string // what it is merged into, "" before the first commit
	user    string // the user's HEAD
	changes []change
	m       Merge
}

func (t *Trees) merge(ctx context.Context, agent, message string) (Merge, error) {
	r, err := t.recall(ctx, agent)
	if err != nil {
		return Merge{}, err
	}
	if strings.TrimSpace(message) == "" {
		return Merge{}, errors.New("the message is empty")
	}
	g := merging{r: r, message: withTrailer(message, agent)}
	if g.head, err = t.tip(ctx, r.Ref); err != nil {
		return Merge{}, err
	}
	g.head = first(g.head, r.Head)
	if err := t.passable(ctx, &g); err != nil {
		return Merge{}, err
	}
	if g.m.Files, err = t.user().Changes(ctx, r.Base, g.work); err != nil {
		return Merge{}, err
	}
	if len(g.m.Files) == 0 {
		err := t.merged(&g)
		return g.m, errors.Join(err, git.ErrNothingToCommit)
	}
	if err := t.keepGitlinks(ctx, r, g.changes); err != nil {
		return g.m, err
	}
	var q queue
	if _, err := t.load(t.queuePath(), &q); err != nil {
		return g.m, err
	}
	if g.user, _, err = t.user().Head(ctx); err != nil {
		return g.m, err
	}
	if c, err := t.rebase(ctx, &q, g.user, r.Content); err != nil || c != nil {
		return held(g.m, c), err
	}
	g.onto = first(q.Integration, g.user)
	seen, err := t.within(ctx, g.onto, g.head)
	if err != nil {
		return g.m, err
	}
	g.m.Combined = !seen
	next, err := t.integrate(ctx, &g)
	if err != nil || len(g.m.Conflicts) > 0 {
		return g.m, err
	}
	if next == "" {
		return t.mergeLoose(ctx, &g, q)
	}
	if err := t.landChain(ctx, q.with(waiter{agent, g.head}), g.user, next, &g.m); err != nil || len(g.m.Conflicts) > 0 {
		return g.m, err
	}
	if next == g.onto { // a commit of somebody else
		if g.m.Commit = ""; g.m.Committed {
			if within, err := t.within(ctx, g.head, g.onto); err != nil {
				return g.m, err
			} else if within {
				g.m.Commit = g.head
			}
		}
	}
	return g.m, t.merged(&g)
}

// held tells of what was merged before and does not fit the user's new commits.
func held(m Merge, c *Merge) Merge {
	if c != nil {
		m.Conflicts, m.ConflictCommit, m.Why, m.Earlier = c.Conflicts, c.ConflictCommit, c.Why, true
	}
	return m
}

// merged notes that the head of a branch was taken over.
func (t *Trees) merged(g *merging) error {
	r, err := t.recordOf(g.r.Agent)
	if err != nil {
		return err
	}
	r.Head, r.Merged = g.head, g.head
	return t.save(t.recordPath(r.Agent), r)
}

// passable leaves out what an agent committed by itself and must not be passed
// on, also when only its history has it.
func (t *Trees) passable(ctx context.Context, g *merging) error {
	g.work = g.head
	var err error
	if g.changes, err = t.changed(ctx, g.r.Base, g.head); err != nil || len(g.changes) == 0 {
		return err
	}
	p := t.user()
	index, remove, err := p.TempIndex(t.private(), "")
	if err != nil {
		return err
	}
	defer remove()
	why, err := t.unfits(ctx, p, g.r, "", g.changes)
	if err != nil {
		return err
	}
	tainted, err := t.tainted(ctx, g)
	if err != nil || len(why) == 0 && !tainted {
		return err
	}
	if _, _, err := p.Run(ctx, git.Call{Args: []string{"read-tree", g.head}, Index: index}); err != nil {
		return err
	}
	clean, err := t.treeOf(ctx, g.head)
	if err == nil && len(why) > 0 {
		clean, g.m.LeftOut, err = t.revert(ctx, p, index, g.changes, why)
	}
	if err == nil {
		g.m.LeftOut = bounded(g.m.LeftOut)
		g.work, err = t.synthetic(clean, "ralph: what is passed on", g.r.Base)
	}
	return err
}

// tainted says that a commit on the way had what must not be passed on.
func (t *Trees) tainted(ctx context.Context, g *merging) (bool, error) {
	out, _, err := t.user().Run(ctx, git.Call{Args: []string{"rev-list", g.head, "^" + g.r.Base, "--"}})
	if err != nil || strings.Count(string(out), "\n") < 2 {
		return false, err
	}
	args := []string{"diff-tree", "--stdin", "-r", "-m", "-z", "--name-only", "--no-commit-id", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty"}
	if out, _, err = t.user().Run(ctx, git.Call{Args: args, Stdin: out}); err != nil {
		return false, err
	}
	return slices.ContainsFunc(fields(out), func(p string) bool {
		if t.Refuse != nil && t.Refuse(Proposed{Agent: g.r.Agent, Path: p, Content: func() ([]byte, error) { return nil, fs.ErrNotExist }}) != "" {
			return true
		}
		return t.own(p) || secret(p) || slices.ContainsFunc(g.r.Links, func(l link) bool { return string(l.Path) == p })
	}), nil
}

// rebase brings what waits onto the user's HEAD. A Merge says that it does not
// fit; the agent whose tree was made of that conflict takes its place.
func (t *Trees) rebase(ctx context.Context, q *queue, head, content string) (*Merge, error) {
	i := q.Integration
	if i == "" || head == "" {
		return nil, nil
	}
	if there, err := t.tip(ctx, i); err != nil || there == "" {
		// The user's git removed it. The branches of the agents still have their work.
		if err == nil {
			err = t.noted(q.Waits, func(r *record, _ waiter) { r.Merged = "" })
			q.Integration, q.Onto, q.Waits = "", "", nil
		}
		return nil, err
	}
	if done, err := t.within(ctx, i, head); err != nil || done {
		if done {
			err = t.landed(q.Waits, i)
			q.Integration, q.Waits = "", nil
		}
		return nil, err
	}
	if content != "" {
		second, err := t.tip(ctx, content+"^2")
		if err != nil {
			return nil, err
		}
		if taken, err := t.within(ctx, i, second); err != nil || taken && second != "" {
			q.Integration, q.Onto = "", ""
			return nil, err
		}
	}
	if q.Onto == head {
		return nil, nil
	}
	message, parents := "Merge the work that waited\n", []string{head, i}
	ahead, err := t.within(ctx, q.Onto, head)
	if err != nil {
		return nil, err
	}
	var x merged
	if ahead {
		x, err = t.mergeCommits(ctx, head, i)
	} else if x, err = t.mergeTrees(ctx, q.Onto, head, i); err == nil {
		parents = parents[:1]
		message, err = t.messages(ctx, q.Onto, i)
	}
	if err != nil {
		return nil, err
	}
	if len(x.conflicts) > 0 {
		c, err := t.synthetic(x.tree, "ralph: conflict of what waits with new commits", head, i)
		return &Merge{Conflicts: x.conflicts, ConflictCommit: c, Why: "what was merged before and waits does not fit your new commits"}, err
	}
	q.Onto = head
	q.Integration, err = t.commitTree(ctx, x.tree, message, parents...)
	return nil, err
}

// messages are those of the commits that a branch went on by, oldest first.
func (t *Trees) messages(ctx context.Context, old, recent string) (string, error) {
	out, _, err := t.user().Run(ctx, git.Call{Args: []string{"log", "--reverse", "--no-show-signature", "--format=%B", recent, "^" + old, "--"}})
	return string(out), err
}

// landChain lands the commits between the user's HEAD and next. Where they do
// not land they wait.
func (t *Trees) landChain(ctx context.Context, q queue, head, next string, m *Merge) error {
	m.Commit = next
	after := q
	after.Integration, after.Onto, after.Waits = "", "", nil
	if head == next {
		m.Landed, m.Committed = true, true
		if err := t.landed(q.Waits, next); err != nil {
			return err
		}
		return t.keepQueue(ctx, after, next)
	}
	o, err := t.land(ctx, target{from: head, to: next, commit: true, after: after, took: q.Waits})
	if err != nil {
		return err
	}
	t.tell(o, m)
	if len(m.Conflicts) > 0 {
		return nil
	}
	if o.committed {
		return nil
	}
	if o.landed {
		// The files are the user's now, like any other uncommitted work.
		return t.mirror(ctx, head)
	}
	after.Integration, after.Onto, after.Waits = next, head, q.Waits
	return t.keepQueue(ctx, after, next)
}

// keepQueue records what waits, once the ref keeps it from the user's git gc.
func (t *Trees) keepQueue(ctx context.Context, q queue, ref string) error {
	if err := t.mirror(ctx, ref); err != nil {
		return err
	}
	return t.save(t.queuePath(), q)
}

// mirror sets refs/ralph/integration, which is for git and for people; what
// counts is our own file, where no agent can write.
func (t *Trees) mirror(ctx context.Context, commit string) error {
	if commit == "" {
		return nil
	}
	return t.moveRefs(ctx, move{t.integrationRef(), commit, ""})
}

func (t *Trees) tell(o outcome, m *Merge) {
	m.Landed, m.Committed, m.Held, m.Why = o.landed, o.committed, o.held, o.why
	m.Conflicts, m.ConflictCommit = o.conflicts, o.conflictCommit
}

// mergeLoose lands work without a commit.
func (t *Trees) mergeLoose(ctx context.Context, g *merging, q queue) (Merge, error) {
	m := &g.m
	m.Commit = g.work
	why := "it goes together with uncommitted work of yours"
	if g.user == "" {
		why = "there is no commit yet"
	}
	took := []waiter{{g.r.Agent, g.head}}
	if q.Integration == "" { // it took the place of what waited
		took = q.with(took[0]).Waits
		q.Waits = nil
	}
	o, err := t.land(ctx, target{from: g.r.Base, to: g.work, after: q, took: took})
	if err != nil {
		return *m, err
	}
	t.tell(o, m)
	m.Why = first(m.Why, why)
	if len(m.Conflicts) > 0 {
		return *m, nil
	}
	if !o.landed {
		if err := t.moveRefs(ctx, move{t.looseRef(g.r.Agent), g.work, ""}); err != nil {
			return *m, err
		}
		q.Loose = slices.DeleteFunc(q.Loose, func(l loose) bool { return l.Agent == g.r.Agent })
		q.Loose = append(q.Loose, loose{g.r.Agent, g.r.Base, g.work, took})
		if err := t.save(t.queuePath(), q); err != nil {
			return *m, err
		}
	}
	return *m, t.merged(g)
}

// Land brings what is merged and waits into the user's tree, and finishes what a
// crash interrupted. Without anything that waits it gives a Merge that is Landed.
func (t *Trees) Land(ctx context.Context) (Merge, error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return Merge{}, err
	}
	defer unlock()
	if err := t.recover(ctx); err != nil {
		return Merge{}, err
	}
	for n := 0; ; n++ {
		m, err := t.landWaiting(ctx)
		if errors.Is(err, errAgain) && n < 5 {
			continue
		}
		if err != nil {
			err = fmt.Errorf("land what is merged: %w", err)
		}
		return m, err
	}
}

func (t *Trees) landWaiting(ctx context.Context) (Merge, error) {
	var q queue
	if _, err := t.load(t.queuePath(), &q); err != nil {
		return Merge{}, err
	}
	m := Merge{Landed: true, Committed: true}
	head, _, err := t.user().Head(ctx)
	if err != nil {
		return m, err
	}
	if c, err := t.rebase(ctx, &q, head, ""); err != nil || c != nil {
		return held(Merge{}, c), err
	}
	if q.Integration != "" {
		if m.Files, err = t.user().Changes(ctx, head, q.Integration); err != nil {
			return m, err
		}
		if err := t.landChain(ctx, q, head, q.Integration, &m); err != nil || !m.Landed {
			return m, err
		}
	}
	for len(q.Loose) > 0 {
		if _, err := t.load(t.queuePath(), &q); err != nil || len(q.Loose) == 0 {
			return m, err
		}
		l := q.Loose[0]
		after := q
		after.Loose = q.Loose[1:]
		files, err := t.user().Changes(ctx, l.Base, l.Head)
		if err != nil {
			return m, err
		}
		o, err := t.land(ctx, target{from: l.Base, to: l.Head, after: after, took: l.Took})
		if err != nil {
			return m, err
		}
		t.tell(o, &m)
		m.Files, m.Commit = append(m.Files, files...), l.Head
		if !o.landed {
			return m, nil
		}
		q = after
		if err := t.moveRefs(ctx, move{t.looseRef(l.Agent), "", ""}); err != nil {
			return m, err
		}
	}
	return m, nil
}

// busy says which operation of git is under way in the user's tree, and whether
// its end could throw away what lands meanwhile.
func (t *Trees) busy() (what string, unsafe bool) {
	for _, b := range []struct {
		name, what string
		unsafe     bool
	}{
		{"rebase-merge", "a rebase", true}, {"rebase-apply", "a rebase or git am", true}, {"MERGE_HEAD", "a merge", false},
		{"CHERRY_PICK_HEAD", "a cherry-pick", false}, {"REVERT_HEAD", "a revert", false}, {"BISECT_LOG", "a bisect", false},
		{"sequencer", "a cherry-pick or revert", false},
	} {
		if _, err := os.Lstat(t.loc.GitDir + "/" + b.name); err == nil {
			return b.what, b.unsafe
		}
	}
	return "", false
}
