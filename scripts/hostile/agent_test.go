package hostile

import (
	"os"
	"path/filepath"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/git/trees"
)

// agent runs the command of a case in the tree of an agent, in the sandbox of its
// commands, and has its work committed, merged and removed as the coordinator does.
func (w *world) agent() result {
	var r result
	note := func(err error) {
		if err != nil {
			r.out += err.Error() + "\n"
		}
	}
	loc, err := git.Find(w.project)
	w.must(err)
	runner := exec.New(exec.Options{Init: exec.Self()})
	defer func() { w.must(runner.Close(w.Context())) }()
	if !accesspolicy.Check(runner).Active("mount namespace") {
		return result{skip: "no mount namespace"}
	}
	t := trees.OpenTrees(runner, loc, filepath.Join(w.project, ".ralph"), nil)
	for _, name := range []string{"other", "child"} {
		_, err = t.Add(w.Context(), trees.AddOptions{Agent: name})
		w.must(err)
	}
	dir := filepath.Join(w.project, ".ralph", "worktrees", "child")
	at, err := git.Find(dir)
	w.must(err)
	home := func(key string) string {
		if key == "HOME" {
			return w.home
		}
		return os.Getenv(key)
	}
	cage, err := accesspolicy.Open(accesspolicy.Options{Proc: runner, Root: dir, Project: w.project, Git: &at, Agent: "child", Getenv: home, Environ: w.environ()})
	w.must(err)
	res, rep, err := cage.Run(w.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", w.say(w.a.Run)}, Dir: dir, Timeout: patience}, accesspolicy.Call{})
	note(err)
	note(cage.Close())
	r.out += res.Stdout.String()
	for _, line := range append(rep.Denied, rep.Reverted...) {
		r.out += line + "\n"
	}
	began := time.Now()
	_, err = t.Commit(w.Context(), "child", "by a child")
	note(err)
	_, err = t.Diff(w.Context(), "child")
	note(err)
	_, err = t.Merge(w.Context(), "child", "merge a child")
	note(err)
	for _, name := range []string{"other", "child"} {
		note(t.Remove(w.Context(), name, false))
	}
	note(t.Close(w.Context()))
	r.hung = time.Since(began) > patience
	return r
}

// naiveAgent runs the command in a linked worktree, and merges what is there.
func (w *world) naiveAgent() result {
	r := w.bash("git worktree add -q -b ralph/other .ralph/worktrees/other && git worktree add -q -b ralph/child .ralph/worktrees/child && cd .ralph/worktrees/child && (" + w.say(w.a.Run) + "\n)")
	merged := w.bash("git -C .ralph/worktrees/child add -A; git -C .ralph/worktrees/child commit -qm x; git merge -q --no-edit ralph/child")
	r.out += merged.out
	r.hung = r.hung || merged.hung
	return r
}
