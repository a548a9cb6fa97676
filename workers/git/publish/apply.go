package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ralph/workers/git"
)

// apply makes the plan true in the repository. What the user changed since the
// record was made stays; the command's is kept beside.
func (p *publication) apply(ctx context.Context, pl *plan, in *intake, gitDir string) error {
	repo := git.Open(p.h.o.Proc, git.Location{Root: p.h.o.Root, GitDir: gitDir, CommonDir: pl.l.lower}).Plumbing()
	p.unheld(ctx, pl, in)
	if err := p.keepStaged(ctx, pl, in, repo); err != nil {
		return fmt.Errorf("keep what is staged: %w", err)
	}
	if err := p.journal(pl, in); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	p.h.step("journal")
	defer pl.unlock()
	if err := p.lock(ctx, pl); err != nil {
		return err
	}
	defer git.HoldGC(ctx, pl.l.lower)()
	p.h.step("objects")
	if err := in.admit(filepath.Join(pl.l.lower, "objects")); err != nil {
		return err
	}
	p.h.step("refs")
	if err := p.refs(ctx, pl, repo); err != nil {
		return err
	}
	p.h.step("stash")
	if err := p.stash(pl); err != nil {
		return err
	}
	for _, t := range pl.trees {
		if err := p.settle(pl, t); err != nil {
			return err
		}
	}
	if err := p.setAside(ctx, pl, repo); err != nil {
		return err
	}
	if err := p.configure(ctx, pl); err != nil {
		return fmt.Errorf("set up submodules: %w", err)
	}
	p.h.step("worktrees")
	return p.makeTrees(pl)
}

// journal writes down what a killed publication would leave behind.
func (p *publication) journal(pl *plan, in *intake) error {
	j := journal{Time: time.Now(), ID: p.id}
	add := func(path, content string) { j.Locks = append(j.Locks, lockFile{path, content}) }
	for _, t := range pl.trees {
		if t.changed() || pl.claimed(t.branch()) {
			add(filepath.Join(t.dir, "index.lock"), sum(pl.indexLock(t)))
		}
		add(filepath.Join(t.dir, "HEAD.lock"), t.head)
		for _, name := range [...]string{"HEAD", "index"} {
			j.Remove = append(j.Remove, filepath.Join(pl.l.lower, p.lateName(path.Join(t.name, name))+".lock"))
		}
	}
	for _, c := range slices.Concat(pl.claims, pl.kept) {
		add(filepath.Join(pl.l.lower, c.name+".lock"), c.new)
		add(filepath.Join(pl.l.lower, p.lateName(c.name)+".lock"), c.new)
	}
	add(filepath.Join(pl.l.lower, "packed-refs.lock"), "")
	if len(pl.config) > 0 {
		add(filepath.Join(pl.l.lower, "config.lock"), sum(pl.configText()))
	}
	if in.quarantine != "" {
		j.Remove = append(j.Remove, in.quarantine)
	}
	return writeJSON(filepath.Join(p.dir, journalFile), j)
}

func (pl *plan) claimed(branch string) bool {
	return branch != "" && slices.ContainsFunc(pl.claims, func(c claim) bool { return c.name == branch })
}

// lockOwner begins a lock that holds no index; the process follows. See git's
// Commit, which takes over one of a process that is no more.
func (pl *plan) indexLock(t *treeChange) []byte {
	if t.index == nil {
		return fmt.Appendf(nil, "ralph %d\n", os.Getpid())
	}
	return t.index.encode(pl.oidLen)
}

// lock takes the locks of the indexes, which keep git from committing, merging
// and checking out, and finds out which work trees the user changed.
func (p *publication) lock(ctx context.Context, pl *plan) error {
	for _, t := range pl.trees {
		if t.late || !t.changed() && !pl.claimed(t.branch()) {
			continue
		}
		p.h.step("lock")
		at := filepath.Join(t.dir, "index.lock")
		err := lockFor(ctx, at, pl.indexLock(t))
		if errors.Is(err, os.ErrExist) {
			t.late = true // somebody else's git is at work
			continue
		}
		if err != nil {
			return fmt.Errorf("lock the index: %w", err)
		}
		t.lock = at
		t.late = !p.untouched(pl, t)
	}
	return nil
}

// untouched reports that nobody but the command, or a publication of it that was
// killed, changed the git directory of a work tree.
func (p *publication) untouched(pl *plan, t *treeChange) bool {
	now := p.h.reader.index.readTree(t.dir, pl.oidLen)
	refs, err := p.h.reader.refs.read(pl.l.lower)
	if err != nil {
		return false
	}
	// Where somebody else moved the branch, an index is not what it differs by.
	tip := refs.value(t.branch())
	if t.branch() != "" && tip != pl.before.Refs.value(t.branch()) && !(p.again && tip == pl.after[t.branch()]) {
		return false
	}
	if !p.again {
		return now.equal(t.was)
	}
	was := t.was
	if t.head != "" && now.Head == t.head {
		was.Head, t.head = now.Head, ""
	}
	if t.index != nil && now.Index == t.index.digest() {
		was.Index = now.Index
	}
	was.States = maps.Clone(was.States)
	for _, s := range t.states {
		ours := func(name string, _ fileID) bool { return name == s.name || strings.HasPrefix(name, s.name+"/") }
		maps.DeleteFunc(was.States, ours)
		maps.DeleteFunc(now.States, ours)
	}
	return now.equal(was)
}

// lockFor makes a lock; it waits a while for one that is there.
func lockFor(ctx context.Context, at string, content []byte) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		err := git.CreateLock(at, content)
		if !errors.Is(err, os.ErrExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// unlock removes the locks that are still held.
func (pl *plan) unlock() {
	for _, t := range pl.trees {
		if t.lock != "" {
			_ = os.Remove(t.lock) // one that stays is in the journal
			t.lock = ""
		}
	}
}

// remoteHeads sets which branch of a remote is its own.
func (p *publication) remoteHeads(ctx context.Context, pl *plan, repo git.Plumbing) error {
	for _, c := range pl.symbolic {
		args := []string{"symbolic-ref", c.name, strings.TrimPrefix(c.new, "ref: ")}
		if c.new == "" {
			args = []string{"symbolic-ref", "--delete", c.name}
		}
		if _, _, err := repo.Run(ctx, git.Call{Args: args}); err != nil {
			return fmt.Errorf("set %s: %w", c.name, err)
		}
	}
	return nil
}

// stash writes the reflog of the stash, which lists its entries, where the ref is
// what the command left.
func (p *publication) stash(pl *plan) error {
	if pl.stash == nil || len(*pl.stash) == 0 {
		return nil
	}
	now, err := p.h.reader.refs.read(pl.l.lower)
	if err != nil {
		return err
	}
	at := filepath.Join(pl.l.lower, filepath.FromSlash(stashLog))
	list := *pl.stash
	moved := pl.before.Refs.value(stashRef) != pl.after[stashRef]
	if now.value(stashRef) != list[len(list)-1].new || !moved && idOf(at) != pl.before.Stash {
		return nil
	}
	var text strings.Builder
	for _, line := range list {
		text.WriteString(line.String())
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return fmt.Errorf("write the stash: %w", err)
	}
	if err := replaceFile(at, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write the stash: %w", err)
	}
	return nil
}

var errMoved = errors.New("somebody else moved HEAD")

// settle brings HEAD, the state of a merge and the index of a work tree to what
// the command left, unless the user changed any of it.
func (p *publication) settle(pl *plan, t *treeChange) error {
	if t.late {
		return nil
	}
	if t.head != "" {
		p.h.step("HEAD")
		err := p.moveHead(pl, t)
		if errors.Is(err, errMoved) {
			t.late = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("move HEAD: %w", err)
		}
	}
	for _, s := range t.states {
		p.h.step("state")
		if err := s.apply(t.dir); err != nil {
			return fmt.Errorf("write %s: %w", s.name, err)
		}
	}
	if t.index != nil {
		p.h.step("index")
		if err := os.Rename(t.lock, filepath.Join(t.dir, "index")); err != nil {
			return fmt.Errorf("replace the index: %w", err)
		}
		t.lock = ""
		p.h.setStaged(t.dir, t.index.digest())
	}
	p.h.step("unlock")
	return nil
}

// moveHead replaces HEAD under git's lock, when it is as it was, and records it.
func (p *publication) moveHead(pl *plan, t *treeChange) error {
	at := filepath.Join(t.dir, "HEAD")
	err := lockFor(context.Background(), at+".lock", []byte(t.head+"\n"))
	if errors.Is(err, os.ErrExist) {
		return errMoved
	}
	if err != nil {
		return err
	}
	now, err := readFile(at, maxRefBytes)
	if err == nil && strings.TrimSpace(string(now)) != t.was.Head {
		err = errMoved
	}
	if err == nil {
		p.logHead(pl, t)
		p.h.step("HEAD.lock")
		err = os.Rename(at+".lock", at)
	}
	if err != nil {
		_ = os.Remove(at + ".lock") // one that stays is in the journal
	}
	return err
}

// logHead records a move of HEAD as git checkout does, which finds the branch
// before by it.
func (p *publication) logHead(pl *plan, t *treeChange) {
	at := filepath.Join(t.dir, "logs", "HEAD")
	value := func(head string, all func(string) string) (name, id string) {
		branch, commit, _ := parseHead([]byte(head))
		if branch != "" {
			return strings.TrimPrefix(branch, "refs/heads/"), all(branch)
		}
		return commit, commit
	}
	from, old := value(t.was.Head, pl.before.Refs.value)
	to, id := value(t.head, func(name string) string { return pl.after[name] })
	none := strings.Repeat("0", 2*pl.oidLen)
	if old == "" {
		old = none
	}
	if id == "" || !exists(at) {
		return
	}
	line := logLine{old, id, pl.who, "checkout: moving from " + from + " to " + to}
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteString(line.String()) // a reflog helps to find commits, which are there without it
	_ = f.Close()
}
