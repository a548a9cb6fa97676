package hostile

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/git/trees"
	"ralph/workers/tools"
)

// swap exchanges two names of the project, again and again, until the returned
// function is called. Via says which: "d d.evil".
func (w *world) swap() (stop func()) {
	names := strings.Fields(w.a.Via)
	a, b := filepath.Join(w.project, names[0]), filepath.Join(w.project, names[1])
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
				time.Sleep(time.Millisecond) // the tool may have removed one of them
			}
		}
	})
	return func() { close(end); wg.Wait() }
}

const (
	raceTries = 400
	raceTime  = 700 * time.Millisecond
)

// race calls a file tool while its path changes below it.
func (w *world) race() result {
	files, err := tools.OpenWorkspace(w.project)
	w.must(err)
	defer files.Close()
	var tool agent.Tool
	for _, t := range tools.All(&tools.Env{Root: w.project, Files: files}) {
		if t.Name == w.a.Calls[0].Tool {
			tool = t
		}
	}
	args, err := json.Marshal(w.expand(w.a.Calls[0].Args))
	w.must(err)
	stop := w.swap()
	defer stop()
	var r result
	until := time.Now().Add(raceTime)
	for i := 0; i < raceTries && time.Now().Before(until); i++ {
		got, err := tool.Run(w.Context(), args)
		if err == nil && strings.Contains(got.Text, secret) {
			r.out += got.Text
		}
	}
	return r
}

func (w *world) naiveRace() result {
	args, _ := w.expand(w.a.Calls[0].Args).(map[string]any)
	stop := w.swap()
	defer stop()
	var r result
	for until := time.Now().Add(hurry); time.Now().Before(until); {
		r.out = w.naiveTool(w.a.Calls[0].Tool, args)
		if w.proven(r) != "" {
			break
		}
	}
	return r
}

// trees has Ralph's own git do in a hostile repository what no tool call does:
// checkpoints, and taking them back.
func (w *world) trees(r *result) {
	loc, err := git.Find(w.project)
	if err != nil {
		r.out += err.Error()
		return
	}
	runner := exec.New(exec.Options{Init: exec.Self()})
	defer func() { w.must(runner.Close(w.Context())) }()
	repo := git.Open(runner, loc)
	c := git.OpenCheckpoints(runner, w.project, filepath.Join(w.project, ".ralph"), filepath.Join(w.home, "checkpoints"), &loc)
	ctx := w.Context()
	note := func(err error) {
		if err != nil {
			r.out += err.Error() + "\n"
		}
	}
	before, err := c.Take(ctx, "h-1")
	note(err)
	w.put(filepath.Join(w.project, "a.txt"), "two\n", 0o644)
	w.put(filepath.Join(w.project, "x.new"), "two\n", 0o644)
	after, err := c.Take(ctx, "h-2")
	note(err)
	_, err = c.Diff(ctx, before, after)
	note(err)
	_, err = c.Restore(ctx, before, after, nil)
	note(err)
	_, err = repo.Diff(ctx, git.DiffOptions{From: "HEAD"})
	note(err)
	_, err = repo.Content(ctx, "HEAD", "a.txt")
	note(err)
	w.worktrees(note, runner, loc)
}

// worktrees makes one as a child of the coordinator has it, commits there, merges
// it and takes it away.
func (w *world) worktrees(note func(error), runner *exec.Runner, loc git.Location) {
	ctx := w.Context()
	t := trees.OpenTrees(runner, loc, filepath.Join(w.project, ".ralph"), nil)
	tree, err := t.Add(ctx, trees.AddOptions{Agent: "child"})
	note(err)
	if err != nil {
		return
	}
	w.put(filepath.Join(tree.Dir, "y.new"), "child\n", 0o644)
	w.put(filepath.Join(tree.Dir, "a.txt"), "child\n", 0o644)
	_, err = t.Commit(ctx, "child", "by a child")
	note(err)
	_, err = t.Diff(ctx, "child")
	note(err)
	_, err = t.Merge(ctx, "child", "merge a child")
	note(err)
	note(t.Remove(ctx, "child", false))
}
