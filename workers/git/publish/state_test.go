package publish

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stopped are scripts that leave each state that git status knows (wt-status.c:
// merge, rebase by either backend, am, cherry-pick, revert, bisection), with how
// the user ends it.
func stopped() map[string][2]string {
	const (
		side = `git checkout -q -b side HEAD~1; echo z >c.txt; git add .; git commit -qm z; echo y >y.txt; git add .; git commit -qm y; `
		fix  = `echo r >c.txt; git add .; `
	)
	return map[string][2]string{
		"merge":                      {side + `git merge main || :`, fix + `git commit -qm merged`},
		"merge without ff":           {side + `git merge --no-ff --no-commit main~1 || git merge --no-ff main || :`, fix + `git commit -qm merged`},
		"merge aborted":              {side + `git merge main || :`, `git merge --abort`},
		"merge with a stash":         {side + `echo d >>b.txt; git merge --autostash main || :`, `git merge --abort; cat b.txt`},
		"squash":                     {side + `git merge --squash main || :`, fix + `git commit -qm squashed`},
		"rebase":                     {side + `git rebase main || :`, fix + `GIT_EDITOR=true git rebase --continue`},
		"rebase aborted":             {side + `git rebase main || :`, `git rebase --abort`},
		"rebase skipped":             {side + `git rebase -q main || :`, `git rebase --skip`},
		"rebase of merges":           {side + `git rebase -r --signoff --autostash main || :`, fix + `GIT_EDITOR=true git rebase --continue`},
		"rebase with a stash":        {side + `echo d >>a.txt; git rebase --autostash main || :`, fix + `GIT_EDITOR=true git rebase --continue`},
		"rebase whose command fails": {side + `git switch -q -c other HEAD~2; echo o >o.txt; git add .; git commit -qm o; echo d >>a.txt; git rebase --autostash -x false side || :`, `git rebase --continue; cat a.txt`},
		"rebase with strategy":       {side + `git rebase -s ort -X patience main || :`, fix + `GIT_EDITOR=true git rebase --continue`},
		"rebase to edit":             {`GIT_SEQUENCE_EDITOR="sed -i 1s/pick/edit/" git rebase -i HEAD~2`, `git rebase --continue`},
		"rebase by am":               {side + `git rebase --apply main || :`, fix + `git rebase --continue`},
		"rebase by am aborted":       {side + `git rebase --apply main || :`, `git rebase --abort`},
		"am":                         {side + `git format-patch -q -2 --stdout >../mbox; git checkout -q main; git am -3 --scissors ../mbox || :`, fix + `git am --continue`},
		"am aborted":                 {side + `git format-patch -q -2 --stdout >../mbox; git checkout -q main; git am -s --keep-cr ../mbox || :`, `git am --abort`},
		"cherry-pick":                {side + `git checkout -q main; git cherry-pick side~1 || :`, fix + `git cherry-pick --continue --no-edit || git commit -qm picked`},
		"cherry-picks":               {side + `git checkout -q main; git cherry-pick -x -s --allow-empty main..side || :`, fix + `GIT_EDITOR=true git cherry-pick --continue`},
		"cherry-picks aborted":       {side + `git checkout -q main; git cherry-pick --strategy=ort main..side || :`, `git cherry-pick --abort`},
		"reverts":                    {side + `echo w >c.txt; git commit -qam w; git revert --no-edit side~2 side~1 || :`, `echo r >c.txt; git add .; GIT_EDITOR=true git revert --continue`},
		"revert aborted":             {side + `echo w >c.txt; git commit -qam w; git revert --no-edit side~2 side~1 || :`, `git revert --abort`},
		"bisection":                  {side + `git bisect start --term-new=fixed --term-old=broken --first-parent HEAD HEAD~2 -- c.txt y.txt`, `git bisect broken || :; git bisect reset`},
		"bisection of files":         {`git bisect start -q; git bisect bad; git bisect good HEAD~2`, `git bisect log; git bisect reset`},
	}
}

// TestStates has a command stop in each state: the user goes on, or aborts, as
// without a layer.
func TestStates(t *testing.T) {
	const see = `git log --format='%s %T'; git status --porcelain -b; git stash list; ls .git | grep -e _HEAD -e rebase -e sequencer -e BISECT | grep -v -e ORIG -e FETCH || :`
	for name, c := range stopped() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setUp)
			plain := &world{T: t, dir: w.dir, root: filepath.Join(w.dir, "plain", "p"), home: w.home}
			w.user(`mkdir ../plain; cp -a . ../plain/p`)
			clean(t, w.do("exec >/dev/null 2>&1; "+c[0]))
			plain.user("exec >/dev/null 2>&1; " + c[0])
			const during = `git status | grep -v -e '^  (' -e 'Last command' || :`
			if a, b := w.user(during), plain.user(during); a != b {
				t.Errorf("through the layer:\n%s\nwithout:\n%s", a, b)
			}
			w.user("exec >/dev/null 2>&1; " + c[1])
			plain.user("exec >/dev/null 2>&1; " + c[1])
			if a, b := w.user(see), plain.user(see); a != b {
				t.Errorf("in the end, through the layer:\n%s\nwithout:\n%s", a, b)
			}
			w.whole()
		})
	}
}

// TestStepsThatRun has a command stop in a rebase with commands to come: it is taken over
// without them.
func TestStepsThatRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp)
	rep := w.do(`exec >/dev/null 2>&1; git switch -q -c side HEAD~1; for f in x y z; do echo $f >$f.txt; git add .; git commit -qm $f; done; echo d >>a.txt; git rebase --autostash -x 'touch ran; false' main || :`)
	if got := strings.Join(rep.Dropped, " "); !strings.Contains(got, "rebase-merge/git-rebase-todo (its exec steps)") {
		t.Errorf("reported: %q", got)
	}
	if got := w.user(`rm ran; grep -c exec .git/rebase-merge/git-rebase-todo || :; grep -c pick .git/rebase-merge/git-rebase-todo`); got != "0\n2" {
		t.Errorf("to come: %q", got)
	}
	if got := w.user(`git rebase --continue >/dev/null 2>&1; git log --format=%s; git status --porcelain; ls ran 2>/dev/null || :`); got != "z\ny\nx\nthird\nsecond\nfirst\n M a.txt" {
		t.Errorf("in the end: %q", got)
	}
	w.whole()
}

// TestForgedStates puts into each file of each state what git would not write:
// nothing of it is published but free text that git only shows.
func TestForgedStates(t *testing.T) {
	t.Parallel()
	values := []string{"-f", "--output=ran", "--upload-pack=touch ran", "$(touch ran)", "!touch ran", "x; touch ran", "exec touch ran", "`touch ran`", "../../etc", "a b", "'--x' | sh", "\x1b[31m", "strategy = evil", "\tstrategy = ../evil", "\tgpg-sign = x", "refs/heads/main x"}
	// What builtin/am.c, sequencer.c and bisect.c show or record, and the subjects in
	// lists of steps.
	text := strings.Fields("MERGE_MSG SQUASH_MSG COMMIT_EDITMSG message message-squash message-fixup current-fixups patch final-commit info msg msg-clean 0001 0002")
	// What was done git only shows.
	seen, forged := 0, map[string]bool{}
	for name, c := range stopped() {
		w := newWorld(t, setUp)
		w.user("exec >/dev/null 2>&1; " + c[0])
		for file := range strings.FieldsSeq(w.user(`cd .git; find rebase-merge rebase-apply sequencer *HEAD *MSG BISECT* MERGE_MODE AUTO_MERGE -type f 2>/dev/null || :`)) {
			base := filepath.Base(file)
			good, err := os.ReadFile(filepath.Join(w.root, ".git", file))
			if err != nil {
				t.Fatal(err)
			}
			if file == "HEAD" || base == "patch-merge-index" {
				continue
			}
			if !fits(file, good, nil) {
				t.Errorf("%s: %s as git writes it is refused: %q", name, file, good)
			}
			free := false
			for _, n := range text {
				free = free || n == base
			}
			for _, v := range values {
				seen++
				if fits(file, []byte(v+"\n"), nil) && !free && !(strings.HasPrefix(base, "BISECT_LOG") && strings.HasPrefix(v, "#")) && !((base == "done" || base == "git-rebase-todo.backup") && strings.HasPrefix(v, "exec ")) {
					t.Errorf("%s: %q passes in %s", name, v, file)
				}
			}
		}
		if name == "rebase" || name == "am" || name == "cherry-picks" || name == "bisection" {
			forged[`exec >/dev/null 2>&1; `+c[0]+`; for f in .git/rebase-*/* .git/sequencer/* .git/BISECT_*; do test ! -f $f || echo 'exec touch ran' >$f; done`] = true
		}
	}
	forgeStates(t, forged)
	if seen < 1000 {
		t.Errorf("%d cases", seen)
	}
}

// forgeStates has commands leave halves of states, and states with programs in
// them.
func forgeStates(t *testing.T, scripts map[string]bool) {
	t.Helper()
	for _, script := range []string{
		`mkdir -p .git/rebase-apply; echo 1 >.git/rebase-apply/next`,
		`mkdir -p .git/rebase-merge; echo refs/heads/main >.git/rebase-merge/head-name`,
		`mkdir -p .git/sequencer; echo x >.git/sequencer/head`,
		`echo '-f' >.git/BISECT_START; git rev-parse HEAD >.git/BISECT_EXPECTED_REV`,
	} {
		scripts[script] = true
	}
	for script := range scripts {
		w := newWorld(t, setUp)
		if rep := w.do(script); len(rep.Dropped) == 0 {
			t.Errorf("%s: nothing is reported", script)
		}
		if got := w.user(`cat .git/HEAD; ls -A .git | grep -e rebase -e sequencer -e BISECT_START -e BISECT_LOG || :`); got != "ref: refs/heads/main" {
			t.Errorf("%s: published %s", script, got)
		}
	}
}
