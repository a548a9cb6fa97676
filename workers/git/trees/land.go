package trees

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
	"syscall"
	"time"

	"ralph/workers/git"
	"ralph/workers/tempdir"
)

// lockWait is how long a git of the user's may take before work is held.
const lockWait = 2 * time.Second

// target is a change that is to come into the user's tree.
type target struct {
	from, to string
	// commit says that to descends from from, which is the user's HEAD, so that the
	// branch may follow.
	commit bool
	// after is what waits when this has landed.
	after queue
	// took are the agents whose work it is.
	took []waiter
}

// outcome of a landing.
type outcome struct {
	landed, committed bool
	held              []string
	why               string
	conflicts         []Conflict
	conflictCommit    string
}

// land brings a change into the user's tree, all of it or nothing: first
// everything is found out and made ready, then a journal is written, and from
// then on it is seen through, if need be by the next Ralph. The order is files,
// index, branch: each prefix is a state from which the user can go on.
func (t *Trees) land(ctx context.Context, x target) (outcome, error) {
	changes, err := t.changed(ctx, x.from, x.to)
	if err != nil {
		return outcome{}, err
	}
	var all []string
	for _, c := range changes {
		all = append(all, c.path)
	}
	what, unsafe := t.busy()
	if unsafe {
		return outcome{held: all, why: what + " is in progress, and its end could undo what lands now"}, nil
	}
	unlock, err := t.user().LockIndex(ctx, lockWait)
	if errors.Is(err, fs.ErrExist) {
		return outcome{held: all, why: "a git is at work in your tree: " + filepath.Join(t.loc.GitDir, "index.lock") + " is there"}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	defer unlock()
	if what, unsafe = t.busy(); unsafe {
		return outcome{held: all, why: what + " is in progress, and its end could undo what lands now"}, nil
	}
	head, branch, err := t.user().Head(ctx)
	if err != nil {
		return outcome{}, err
	}
	if x.commit && head != x.from {
		return outcome{}, errAgain
	}
	now, err := t.present(ctx, true)
	if err != nil {
		return outcome{}, err
	}
	defer now.remove()
	j := journal{From: x.from, After: x.after, Took: x.took}
	o := outcome{}
	if x.commit {
		switch o.why = plan(&j, changes, now.before); {
		case o.why != "":
		case branch == "":
			o.why = "HEAD is not on a branch"
		case what != "":
			o.why = what + " is in progress"
		default:
			j.To, j.Branch = x.to, "refs/heads/"+branch
		}
	}
	if done, err := t.prepare(ctx, x, now, &j, &o); err != nil || !done {
		return o, err
	}
	// From here on it is seen through.
	ctx = context.WithoutCancel(ctx)
	defer func() { _ = tempdir.Clear(t.landing()) }() // what stays there is removed next time
	if err := t.save(t.journalPath(), j); err != nil {
		return o, err
	}
	return t.carryOut(ctx, j, o)
}

// carryOut does what the journal says, with everything ready.
func (t *Trees) carryOut(ctx context.Context, j journal, o outcome) (outcome, error) {
	t.at("journal")
	edited, err := t.replaceAll(j.Files)
	if errors.Is(err, errHalf) {
		return o, err
	}
	if err != nil || len(edited) > 0 {
		// All files are as before.
		if err := errors.Join(err, removeFile(t.journalPath())); err != nil {
			return o, err
		}
		return outcome{held: edited, why: "you changed these files at this moment"}, nil
	}
	o.landed = true
	why, err := t.advance(ctx, j)
	if err != nil {
		return o, err
	}
	o.committed = j.To != "" && why == ""
	o.why = first(o.why, why)
	return o, t.complete(ctx, j, o.committed)
}

// complete ends a landing.
func (t *Trees) complete(ctx context.Context, j journal, committed bool) error {
	if !committed {
		again := map[string]bool{}
		for _, s := range j.Files {
			again[string(s.Path)] = true
		}
		j.After.Laid = slices.DeleteFunc(j.After.Laid, func(l laid) bool { return again[string(l.Path)] })
		for _, s := range j.Files {
			j.After.Laid = append(j.After.Laid, laid{s.Path, s.NewHash})
		}
		const most = 5000
		if n := len(j.After.Laid); n > most {
			j.After.Laid = j.After.Laid[n-most:]
		}
	}
	into := ""
	if committed {
		into = j.To
		const most = 1000
		j.After.Landings = append(j.After.Landings, landing{j.From, j.To})
		j.After.Landings = j.After.Landings[max(0, len(j.After.Landings)-most):]
	}
	if err := t.landed(j.Took, into); err != nil {
		return err
	}
	t.at("queue")
	if err := t.save(t.queuePath(), j.After); err != nil {
		return err
	}
	t.at("end")
	return removeFile(t.journalPath())
}

// plan fills in the entries of the index that follow a commit, and says why they
// cannot.
func plan(j *journal, changes []change, have map[string]entry) (why string) {
	var staged []string
	for _, c := range changes {
		s := step{Path: []byte(c.path), OldMode: c.oldMode, OldHash: c.oldHash, NewMode: c.newMode, NewHash: c.newHash}
		j.Index = append(j.Index, s)
		if !s.matches(have) {
			staged = append(staged, c.path)
		}
	}
	if len(staged) > 0 {
		return "you have staged something else in " + strings.Join(bounded(staged), ", ")
	}
	j.have = have // with the index locked it stays
	return ""
}

// matches says that an index has the old or the new entry.
func (s step) matches(have map[string]entry) bool {
	e, ok := have[string(s.Path)]
	if !ok {
		return s.OldMode == modeNone || s.NewMode == modeNone
	}
	return e.stage == "0" && (e.mode == s.OldMode && e.hash == s.OldHash || e.mode == s.NewMode && e.hash == s.NewHash)
}

// prepare finds out which files change how, and lays their new content ready.
// False means that nothing can land, and o says why.
func (t *Trees) prepare(ctx context.Context, x target, now present, j *journal, o *outcome) (bool, error) {
	r, err := t.combine(ctx, x, now)
	if err != nil {
		return false, err
	}
	if len(r.conflicts) > 0 {
		return false, t.collide(ctx, x, now, r, o)
	}
	writes, err := t.changed(ctx, now.tree, r.tree)
	if err != nil {
		return false, err
	}
	if o.held, o.why, err = t.judge(ctx, x, writes, o.why); err != nil || len(o.held) > 0 {
		return false, err
	}
	var paths []string
	for _, c := range writes {
		paths = append(paths, c.path)
	}
	goes := map[string]bool{}
	var held []string
	for _, c := range writes {
		info, err := os.Lstat(filepath.Join(t.loc.Root, filepath.FromSlash(c.path)))
		switch absent := err != nil; {
		case c.newMode == modeGitlink && !absent && !info.IsDir() && c.oldMode == modeNone:
			held = append(held, c.path)
			continue
		case c.oldMode == modeGitlink || c.newMode == modeGitlink || absent && now.absent[c.path]:
			// There is no file of it; the index alone follows.
			if j.To == "" {
				held = append(held, c.path)
			}
			continue
		case t.own(c.path) || secret(c.path) && c.oldMode == modeNone:
			held = append(held, c.path)
			continue
		}
		goes[c.path] = c.newMode == modeNone
		j.Files = append(j.Files, step{Path: []byte(c.path), OldMode: c.oldMode, OldHash: c.oldHash, NewMode: c.newMode, NewHash: c.newHash})
	}
	if len(held) > 0 {
		o.held, o.why = held, first(o.why, "only a commit could have these")
		return false, nil
	}
	root, err := os.OpenRoot(t.loc.Root)
	if err != nil {
		return false, err
	}
	defer func() { _ = root.Close() }()
	for i := range j.Files {
		s := &j.Files[i]
		if s.stamp, err = stampOf(root, string(s.Path)); err != nil || obstructed(root, *s, goes) {
			held = append(held, string(s.Path))
		}
	}
	if len(held) > 0 {
		o.held, o.why = held, "something that git does not know is in the way"
		return false, nil
	}
	if err := t.stage(ctx, j.Files); err != nil {
		return false, err
	}
	// The last look before the first file is touched.
	drift, err := t.drift(ctx, now, paths)
	if err != nil {
		return false, err
	}
	if len(drift) > 0 {
		o.held, o.why = drift, "you changed these files at this moment"
		return false, nil
	}
	return true, nil
}

// judge asks Refuse once more, about the files as they land: a merge follows renames, and what
// waited was judged when other rules held. Without a refusal why stays.
func (t *Trees) judge(ctx context.Context, x target, writes []change, why string) (held []string, because string, err error) {
	if t.Refuse == nil || len(writes) == 0 {
		return nil, why, nil
	}
	p := t.user()
	repos, err := t.repositories(ctx, x.from, writes)
	if err != nil {
		return nil, why, err
	}
	agents := x.took
	if len(agents) == 0 {
		agents = []waiter{{}} // of no agent in particular
	}
	for _, c := range writes {
		made := t.proposed(ctx, p, c, repos, 0)
		if c.newMode == modeLink {
			out, _, err := p.Run(ctx, git.Call{Args: []string{"cat-file", "blob", c.newHash}})
			if err != nil {
				return nil, why, err
			}
			made.Link = string(out)
		}
		refused := ""
		for _, w := range agents {
			made.Agent = w.Agent
			if refused = t.Refuse(made); refused == "" {
				break
			}
		}
		if refused != "" {
			held, because = append(held, c.path), first(because, reason(c.path, refused))
		}
	}
	if len(held) > 0 {
		return held, because, nil
	}
	return nil, why, nil
}

// combine is what the user's tree has to be: mostly it is as the change began
// with, and there is nothing to merge.
func (t *Trees) combine(ctx context.Context, x target, now present) (merged, error) {
	from, err := t.treeOf(ctx, x.from)
	if err != nil {
		return merged{}, err
	}
	if from == now.tree {
		tree, err := t.treeOf(ctx, x.to)
		return merged{tree: tree}, err
	}
	return t.mergeTrees(ctx, x.from, now.tree, x.to)
}

// drift names those of the paths that are no longer as they were read.
func (t *Trees) drift(ctx context.Context, now present, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	update, remove, _, err := t.user().Scan(ctx, now.index, func(p string, untracked bool) bool { return untracked || !slices.Contains(paths, p) })
	if err != nil {
		return nil, err
	}
	filtered, err := t.user().Filtered(ctx, now.index, update)
	update = slices.DeleteFunc(update, func(p string) bool { return slices.Contains(filtered, p) })
	return append(update, remove...), err
}

// collide tells whose files a change does not fit: those that other agents left
// without a commit can be resolved by an agent, the user's own only by the user.
func (t *Trees) collide(ctx context.Context, x target, now present, r merged, o *outcome) error {
	var paths []string
	for _, c := range r.conflicts {
		paths = append(paths, c.Path)
	}
	have, err := entries(ctx, t.user(), now.index, paths)
	if err != nil {
		return err
	}
	left := map[string]string{}
	for _, l := range x.after.Laid {
		left[string(l.Path)] = l.Blob
	}
	for _, p := range paths {
		if left[p] == "" || left[p] != have[p].hash {
			o.held, o.why = paths, "your own changes conflict with it"
			return nil
		}
	}
	head, _, err := t.user().Head(ctx)
	if err != nil {
		return err
	}
	base, err := t.synthetic(now.tree, "ralph: the tree as an agent found it", head)
	if err != nil {
		return err
	}
	o.conflicts, o.why = r.conflicts, "it conflicts with what other agents left uncommitted"
	o.conflictCommit, err = t.synthetic(r.tree, "ralph: conflict", base, x.to)
	return err
}

// obstructed says that something which git does not know, such as an ignored
// file, is where a file has to go.
func obstructed(root *os.Root, s step, goes map[string]bool) bool {
	name := string(s.Path)
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := root.Lstat(dir); err == nil && !info.IsDir() {
			return !goes[dir]
		}
	}
	info, err := root.Lstat(name)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	if !info.IsDir() {
		return s.OldMode == modeNone
	}
	found := errors.New("found")
	return fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !goes[p] {
			err = found
		}
		return err
	}) != nil
}

// advance lets the index and then the branch follow the files. why says what
// keeps it from that; the files then stay as uncommitted work.
func (t *Trees) advance(ctx context.Context, j journal) (why string, err error) {
	if j.To == "" {
		return "", nil
	}
	p := t.user()
	var paths []string
	for _, s := range j.Index {
		paths = append(paths, string(s.Path))
	}
	have := j.have
	if have == nil {
		if have, err = entries(ctx, p, "", paths); err != nil {
			return "", err
		}
	}
	for _, s := range j.Index {
		if !s.matches(have) {
			return "you have staged something else in " + string(s.Path), nil
		}
	}
	next, remove, err := t.nextIndex(ctx, j.Index, have)
	if err != nil {
		return "", err
	}
	defer remove()
	real := filepath.Join(t.loc.GitDir, "index")
	old, removeOld, err := p.TempIndex(t.loc.GitDir, real)
	if err != nil {
		return "", err
	}
	defer removeOld()
	if err := t.placeModules(j.Index); err != nil {
		return "", err
	}
	t.at("index")
	if err := rename(next, real); err != nil {
		return "", err
	}
	t.at("branch")
	if err := t.moveRefs(ctx, move{j.Branch, j.To, j.From}, move{t.integrationRef(), j.To, ""}); err != nil {
		if tip, terr := t.tip(ctx, j.Branch); terr != nil || tip != j.To {
			if rerr := rename(old, real); rerr != nil {
				return "", errors.Join(err, rerr)
			}
			return "the branch moved meanwhile", nil
		}
	}
	t.at("moved")
	return "", nil
}

// nextIndex is a copy of the user's index in which entries are as they are to be.
// Their flags stay. The caller calls remove.
func (t *Trees) nextIndex(ctx context.Context, steps []step, have map[string]entry) (path string, remove func(), err error) {
	var info, skip, assume []byte
	for _, s := range steps {
		mode := s.NewMode
		if mode == modeNone {
			mode = "0"
		}
		info = fmt.Appendf(info, "%s %s 0\t%s\x00", mode, s.NewHash, s.Path)
		if e := have[string(s.Path)]; mode != "0" {
			if e.skip {
				skip = append(append(skip, s.Path...), 0)
			}
			if e.assume {
				assume = append(append(assume, s.Path...), 0)
			}
		}
	}
	p := t.user()
	if path, remove, err = p.TempIndex(t.loc.GitDir, filepath.Join(t.loc.GitDir, "index")); err != nil {
		return "", nil, err
	}
	for _, c := range []struct {
		args  []string
		stdin []byte
	}{
		{[]string{"update-index", "-z", "--index-info"}, info},
		{[]string{"update-index", "--skip-worktree", "-z", "--stdin"}, skip},
		{[]string{"update-index", "--assume-unchanged", "-z", "--stdin"}, assume},
	} {
		if len(c.stdin) == 0 {
			continue
		}
		if _, _, err := p.Run(ctx, git.Call{Args: c.args, Stdin: c.stdin, Index: path}); err != nil {
			remove()
			return "", nil, err
		}
	}
	return path, remove, nil
}

// rename puts an index in place; one that was never written is none.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace index: %w", err)
	}
	return nil
}
