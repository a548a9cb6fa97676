package trees

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

	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/tempdir"
)

// waiter is an agent whose work is in what is merged, and the head of its branch
// that is.
type waiter struct{ Agent, Head string }

// with is a queue in which an agent waits.
func (q queue) with(w waiter) queue {
	q.Waits = slices.DeleteFunc(slices.Clone(q.Waits), func(o waiter) bool { return o.Agent == w.Agent })
	q.Waits = append(q.Waits, w)
	return q
}

// waits says that the work of an agent is merged and not in the user's tree, and
// up to which head of its branch.
func (q queue) waits(agent string) (head string, ok bool) {
	list := slices.Clone(q.Waits)
	for _, l := range q.Loose {
		list = append(list, l.Took...)
	}
	for _, w := range list {
		if w.Agent == agent {
			return w.Head, true
		}
	}
	return "", false
}

// landed notes in the records of agents that their work is in the user's tree:
// by a commit of the user's branch, "" for none.
func (t *Trees) landed(list []waiter, commit string) error {
	return t.noted(list, func(r *record, w waiter) { r.Merged, r.Into = first(w.Head, r.Head), commit })
}

// noted changes the records of agents.
func (t *Trees) noted(list []waiter, change func(*record, waiter)) error {
	for _, w := range list {
		r, err := t.recordOf(w.Agent)
		if errors.Is(err, ErrUnknown) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		change(&r, w)
		if err := t.save(t.recordPath(w.Agent), r); err != nil {
			return err
		}
	}
	return nil
}

// withdraw takes the work of an agent that is removed out of what waits. What is
// merged together with that of others cannot be told apart any more.
func (t *Trees) withdraw(ctx context.Context, agent string) error {
	var q queue
	if _, err := t.load(t.queuePath(), &q); err != nil {
		return err
	}
	if _, ok := q.waits(agent); !ok {
		return nil
	}
	var others []string
	for _, w := range q.Waits {
		if w.Agent != agent {
			others = append(others, w.Agent)
		}
	}
	if slices.ContainsFunc(q.Waits, func(w waiter) bool { return w.Agent == agent }) {
		if len(others) > 0 {
			return fmt.Errorf("it waits to come into your tree, merged with the work of %s: %w", strings.Join(others, ", "), ErrUnsaved)
		}
		q.Integration, q.Onto, q.Waits = "", "", nil
	}
	q.Loose = slices.DeleteFunc(q.Loose, func(l loose) bool { return l.Agent == agent })
	if err := t.save(t.queuePath(), q); err != nil {
		return err
	}
	moves := []move{{t.looseRef(agent), "", ""}}
	if q.Integration == "" {
		moves = append(moves, move{t.integrationRef(), "", ""})
	}
	return t.moveRefs(ctx, moves...)
}

// Finish ends a landing that a killed Ralph has begun, and removes what it left of
// files. Without any it costs nothing. Everything else here does so by itself;
// this is for a start, so that nobody finds half a change.
func (t *Trees) Finish(ctx context.Context) error {
	entries, err := os.ReadDir(t.private())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &git.Error{Op: "finish landing", Path: t.private(), Err: err}
	}
	half := t.half(entries)
	left := slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() != filepath.Base(t.journalPath()) && e.Name() != filepath.Base(t.landing()) && !leftover(e.Name())
	})
	if len(left)+len(half) == 0 && len(t.linked()) == 0 {
		return nil
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for _, e := range left {
		if exec.Leftover(e.Name(), "refs") {
			errs = append(errs, t.breakLocks(filepath.Join(t.private(), e.Name())))
		}
	}
	if err := t.recover(ctx); err != nil { // what it needs stays
		return errors.Join(append(errs, err)...)
	}
	errs = append(errs, tempdir.Clear(t.landing()), t.endHalf(ctx, half))
	for _, e := range left {
		if leftover(e.Name()) {
			errs = append(errs, tempdir.Clear(filepath.Join(t.private(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

// half returns the agents whose trees a process that is no more has begun to make or
// to remove, of the entries of the private directory.
func (t *Trees) half(entries []fs.DirEntry) (agents []string) {
	for _, e := range entries {
		agent, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".json"), "agent-")
		if r, err := t.recordOf(agent); ok && err == nil && (r.Gone || exec.Leftover(r.Maker, making)) {
			agents = append(agents, agent)
		}
	}
	return agents
}

// endHalf leaves of a tree that was being made its branch, of one that was being
// removed nothing. The caller holds the lock.
func (t *Trees) endHalf(ctx context.Context, agents []string) error {
	var errs []error
	for _, agent := range agents {
		r, err := t.recall(ctx, agent)
		if err == nil && exec.Leftover(r.Maker, making) {
			if err = t.unmake(ctx, &r); err == nil {
				err = t.save(t.recordPath(agent), r)
			}
		}
		if err != nil && !errors.Is(err, ErrUnknown) {
			errs = append(errs, fmt.Errorf("finish the tree of %q: %w", agent, err))
		}
	}
	return errors.Join(errs...)
}

// intend notes in a file which refs are about to be changed, so that the locks that
// a git leaves which is killed with us are known as ours. done removes it. Without
// it the refs change all the same.
func (t *Trees) intend(moves []move) (done func()) {
	path := filepath.Join(t.private(), exec.TempName("refs"))
	var b strings.Builder
	for _, m := range moves {
		b.WriteString(m.ref + "\n")
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return func() {}
	}
	return func() { _ = os.Remove(path) } // what stays is swept by Finish
}

// breakLocks removes the locks of a git that was killed with the Ralph that made
// the file at path: those that came within its time, and that nobody has touched
// or removed for a while since.
func (t *Trees) breakLocks(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	text, _ := readSmall(path)
	names := append(strings.Fields(text), "packed-refs")
	locks := []string{filepath.Join(t.loc.GitDir, "HEAD.lock"), filepath.Join(t.loc.CommonDir, "packed-refs.new")}
	for _, name := range names {
		locks = append(locks, filepath.Join(t.loc.CommonDir, filepath.FromSlash(name)+".lock"))
	}
	last := map[string]stamp{}
	for _, lock := range locks {
		if now, err := os.Lstat(lock); err == nil && now.Mode().IsRegular() && !now.ModTime().Before(info.ModTime()) && now.ModTime().Before(info.ModTime().Add(refsWait)) {
			last[lock] = stampInfo(now)
		}
	}
	if len(last) > 0 {
		time.Sleep(lockWait)
	}
	for lock, s := range last {
		if is(lock, s) {
			if err := removeFile(lock); err != nil {
				return err
			}
		}
	}
	return removeFile(path)
}

// beyond says that a landing was past its files when it was cut off: the index has
// all that it was to have, or the branch is there. What differs in a file is then
// an edit since.
func (t *Trees) beyond(ctx context.Context, j journal) (bool, error) {
	if j.To == "" || len(j.Index) == 0 {
		return false, nil
	}
	if tip, err := t.tip(ctx, j.Branch); err != nil || tip == j.To {
		return err == nil, err
	}
	var paths []string
	for _, s := range j.Index {
		paths = append(paths, string(s.Path))
	}
	have, err := entries(ctx, t.user(), "", paths)
	if err != nil {
		return false, err
	}
	for _, s := range j.Index {
		e, ok := have[string(s.Path)]
		if ok != (s.NewMode != modeNone) || ok && (e.stage != "0" || e.mode != s.NewMode || e.hash != s.NewHash) {
			return false, nil
		}
	}
	return true, nil
}

func leftover(name string) bool {
	return slices.ContainsFunc([]string{"write", "index", "refs", "import", "objects", "copy"}, func(purpose string) bool { return exec.Leftover(name, purpose) })
}
