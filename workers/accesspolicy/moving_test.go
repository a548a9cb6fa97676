package accesspolicy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec/acts"
)

// treeMoves returns the commands of git that change files of the work tree, by git(1), each
// as a script that brings what the branch other has. The script runs on main; "begin" is what
// the user did before.
func treeMoves() map[string]struct{ begin, command string } {
	type move = struct{ begin, command string }
	return map[string]move{
		"checkout": {"", "git checkout -q other"}, "checkout -f": {"", "git checkout -q -f other"}, "checkout -b": {"", "git checkout -q -b new other"},
		"checkout -m": {"echo mine >> last.txt", "git checkout -q -m other"}, "checkout --detach": {"", "git checkout -q --detach other"},
		"checkout of paths": {"", "git checkout -q other -- ."}, "workers": {"", "git -c checkout.workers=4 -c checkout.thresholdForParallelism=1 checkout -q other"},
		"switch": {"", "git switch -q other"}, "restore": {"", "git restore --source other --staged --worktree ."}, "restore of the tree": {"", "git restore --source other ."},
		"reset --hard": {"", "git reset -q --hard other"}, "reset --keep": {"", "git reset -q --keep other"}, "reset --merge": {"", "git reset -q --merge other"},
		"merge": {"", "git merge -q other"}, "merge --no-ff": {"", "git merge -q --no-ff --no-edit other"}, "merge --squash": {"", "git merge -q --squash other"},
		"merge of two": {"on main", "git merge -q --no-edit other"}, "merge -s resolve": {"on main", "git merge -q --no-edit -s resolve other"}, "merge -s recursive": {"on main", "git merge -q --no-edit -s recursive -X theirs other"},
		"merge --autostash": {"on main; echo mine >> mine.txt", "git merge -q --no-edit --autostash other"}, "merge --no-commit": {"on main", "git merge -q --no-commit other"},
		"octopus": {"on main; git branch third other~0", "git branch fourth main~0; git merge -q --no-edit other fourth third"},
		"pull":    {"git clone -q . ../remote; git remote add origin ../remote", "cp -r ../remote $T/r; git remote set-url origin $T/r; git pull -q --no-rebase --no-edit origin other"},
		"rebase":  {"on main", "git rebase -q other"}, "rebase --apply": {"on main", "git rebase -q --apply other"}, "rebase -i": {"on main", "GIT_SEQUENCE_EDITOR=: git rebase -q -i other"},
		"rebase --onto":    {"git checkout -q other; echo more > more.txt; git add more.txt; save more; git checkout -q main; on main", "git rebase -q --onto main main other"},
		"rebase autostash": {"on main; echo mine >> mine.txt", "git rebase -q --autostash other"},
		"cherry-pick":      {"on main", "git cherry-pick other"}, "cherry-pick of three": {"git checkout -q other; echo more > more.txt; git add more.txt; save more; git checkout -q main; on main", "git cherry-pick other~2..other"},
		"cherry-pick -n": {"on main", "git cherry-pick -n other"}, "revert": {"git merge -q other; git revert --no-edit HEAD; git tag back HEAD~1", "git revert --no-edit HEAD"},
		"am": {"git format-patch -q -o ../patches main..other", "cat > $T/all.patch; git am -q $T/all.patch"}, "am -3": {"on main; git format-patch -q -o ../patches main..other", "cat > $T/all.patch; git am -q -3 $T/all.patch"},
		"apply --index":         {"git diff main other > ../patches.diff", "cat > $T/all.patch; git apply --index $T/all.patch"},
		"apply":                 {"git diff main other > ../patches.diff", "cat > $T/all.patch; git apply $T/all.patch"},
		"apply --3way":          {"git diff main other > ../patches.diff", "cat > $T/all.patch; git apply --3way $T/all.patch"},
		"apply -R":              {"git diff other main > ../patches.diff", "cat > $T/all.patch; git apply -R $T/all.patch"},
		"checkout-index":        {"git read-tree other", "git checkout-index -q -f -a"},
		"checkout of the index": {"git read-tree other", "git checkout -q -- ."}, "restore of the index": {"git read-tree other", "git restore ."},
		"stash pop": {"git checkout -q other -- . ; git add -A; git stash -q", "git stash pop -q"}, "stash apply": {"git checkout -q other -- . ; git add -A; git stash -q", "git stash apply -q"},
		"stash branch": {"git checkout -q other -- . ; git add -A; git stash -q", "git stash branch topic"},
		"read-tree":    {"", "git read-tree -u -m HEAD other"}, "read-tree --reset": {"", "git read-tree -u --reset other"},
		"bisect":           {"git checkout -q other; git commit -q --allow-empty -m more; save() { :; }; git checkout -q main", "git bisect start other main~1"},
		"switch, and more": {"", "git switch -q other; echo $?; git status -s; git log --oneline | head -2; true"},
	}
}

// protectedChanges returns scripts that make the branch other from main, which has .envrc and
// sub/.vscode/tasks.json if old is among the name.
func protectedChanges() map[string]string {
	return map[string]string{
		"new":        `echo two > .envrc; mkdir -p deep/er/.vscode; echo two > deep/er/.vscode/tasks.json`,
		"new below":  `mkdir -p deep/.idea; echo two > deep/.idea/x.xml; mkdir -p web/.husky; echo two > web/.husky/pre-commit`,
		"old":        `echo two > .envrc; echo two > sub/.vscode/tasks.json`,
		"old, gone":  `git rm -q .envrc sub/.vscode/tasks.json`,
		"old, moved": `git mv sub under`,
		"old, one":   `echo two > sub/.vscode/tasks.json`,
	}
}

// A command of git that would change a name that acts changes the work tree, the index
// and the branches as a whole or not at all.
//
// Each command meets one kind of change; with RALPH_TEST_RUNS it meets all of them.
func TestGitMovesTheTreeWholeOrNot(t *testing.T) {
	var half, not, whole atomic.Int32
	t.Cleanup(func() { t.Logf("%d not at all, %d whole, %d half", not.Load(), whole.Load(), half.Load()) })
	for i, change := range slices.Sorted(maps.Keys(protectedChanges())) {
		for j, name := range slices.Sorted(maps.Keys(treeMoves())) {
			if (i+j)%len(protectedChanges()) != 0 && os.Getenv("RALPH_TEST_RUNS") == "" || testing.Short() && j%2 > 0 {
				continue
			}
			move := treeMoves()[name]
			t.Run(change+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, true)
				w.file(filepath.Join(w.home, ".gitconfig"), "[user]\n\tname = Ann\n\temail = ann@example.com\n[init]\n\tdefaultBranch = main\n")
				script := `
save() { git commit -q -m "$1"; }
on() { git checkout -q main; echo "$1" > onmain.txt; git add onmain.txt; save "on $1"; }
mkdir -p docs src; for f in 0first.txt docs/a.md last.txt mine.txt src/z.go; do echo one > $f; done
case "$2" in old*) mkdir -p sub/.vscode; echo one | tee .envrc > sub/.vscode/tasks.json;; esac
git add -A; save base
git checkout -q -b other
for f in 0first.txt docs/a.md src/z.go; do echo two > $f; done; echo new > zz.txt; git rm -q last.txt; git add -A; save part
` + protectedChanges()[change] + `
echo three > src/z.go; echo other > other.txt; git add -A; save protected
git checkout -q main
` + move.begin + "\n"
				w.shell(script, w.root, change)
				w.shell("cat ../patches/* ../patches.diff > .git/patch.txt 2>/dev/null || true", w.root)
				command := strings.Replace(move.command, "cat >", "cp .git/patch.txt", 1)
				// What the command does outside, on a copy.
				copied := filepath.Join(filepath.Dir(w.root), "copy")
				w.shell(`cp -a "$1" "$2"; cd "$2"; git status > /dev/null; T=../temp; mkdir $T; T=$(realpath $T); `+command+` >&2 || true`, w.root, copied)
				before, want, protected := w.treeState(w.root), w.treeState(copied), w.protectedState()
				s := w.open(nil)
				needGuard(t, w)
				if strings.Contains(command, "../remote") {
					command = strings.Replace(command, "cp -r ../remote", "cp -r remote.tmp", 1)
					w.shell("cp -r ../remote remote.tmp; echo remote.tmp >> .git/info/exclude", w.root)
				}
				command = "T=/tmp; " + command
				o := w.run(s, w.root, command, accesspolicy.Call{})
				got := w.treeState(w.root)
				switch {
				case got == before:
					not.Add(1)
				case got == want:
					whole.Add(1)
				default:
					half.Add(1)
					t.Errorf("exit %d, half done:\nbefore %s\nafter  %s\nwhole  %s\n%s\n%q", o.code, before, got, want, o.out, o.rep)
				}
				if now := w.protectedState(); now != protected {
					t.Errorf("protected names changed from\n%s\nto\n%s", protected, now)
				}
				if got != before || change == "new below" {
					return
				}
				// What the user allows is done.
				o = w.run(s, w.root, command, accesspolicy.Call{Acts: []string{acts.Editor, acts.Shell, acts.Build}})
				if got := w.treeState(w.root); got != want {
					t.Errorf("allowed, exit %d:\nafter %s\nwhole %s\n%s\n%q", o.code, got, want, o.out, o.rep)
				}
			})
		}
	}
}

// protectedState returns the names that act in the tree, with their content.
func (w *world) protectedState() string {
	return w.shell(`find . -path ./.git -prune -o -path ./.ralph -prune -o -name remote.tmp -prune -o \( -name .envrc -o -path '*/.vscode*' -o -path '*/.idea*' -o -path '*/.husky*' \) -type f -print0 | sort -z | xargs -0 -r sha256sum`, w.root)
}

// treeState returns what the user sees of a repository's work tree and branch.
func (w *world) treeState(dir string) string {
	return w.shell(`
git symbolic-ref -q HEAD || echo detached; git rev-parse "HEAD^{tree}"; git rev-list --count HEAD
git status --porcelain=v1 -uall
ls -d .git/*.lock .git/MERGE_HEAD .git/rebase-* .git/sequencer .git/*_HEAD 2>/dev/null | grep -v FETCH_HEAD | grep -v ORIG_HEAD || true
find . -path ./.git -prune -o -path ./.ralph -prune -o -name remote.tmp -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum`, dir)
}

// What the user saves while git changes the tree stays, when that is taken back: in place,
// by a rename, and in a file that git has just made.
func TestSavesWhileGitIsTakenBack(t *testing.T) {
	w := newWorld(t, true)
	w.shell(`git config commit.gpgSign false; echo '*.md filter=slow' > .gitattributes; echo one | tee b.txt > c.txt; git add -A; git commit -qm one
git checkout -q -b other; echo two | tee a.txt b.txt c.txt > m.md; mkdir z; echo x > z/.envrc; echo made > made.txt; git add -A; git commit -qm two; git checkout -q main; echo dirty > a.txt`, w.root)
	s := w.open(nil)
	needGuard(t, w)
	done := make(chan outcome)
	go func() {
		done <- w.run(s, w.root, "git -c filter.slow.smudge='touch /tmp/x; echo > slow.tmp; while [ -e slow.tmp ]; do sleep 0.01; done; cat' checkout -q -f other", accesspolicy.Call{})
	}()
	w.await(filepath.Join(w.root, "slow.tmp"))
	w.shell("echo mine > a.txt; echo mine > n; mv n b.txt; rm slow.tmp", w.root)
	o := <-done
	if got := w.shell("cat a.txt b.txt c.txt; ls", w.root); got != "mine\nmine\none\na.txt\nb.txt\nc.txt" {
		t.Errorf("%s\n%s\n%q", got, o.out, o.rep)
	}
	if !strings.Contains(strings.Join(o.rep.Denied, "\n"), "a.txt") {
		t.Errorf("%q", o.rep)
	}
}

// A clone of a tree with names that act is made whole or not at all.
func TestCloneIsTakenBack(t *testing.T) {
	w := newWorld(t, true)
	w.shell(`git config commit.gpgSign false; git checkout -q -b other; echo x > .envrc; git add -A; git commit -qm two; git checkout -q main`, w.root)
	s := w.open(nil)
	needGuard(t, w)
	for _, command := range []string{"git clone -q -b other . cl", "git clone -q -b other . deep/er/cl", `git clone -q -b other "file://$PWD" cl`, "git worktree add -q cl other"} {
		o := w.run(s, w.root, command+"; find cl deep -type f 2>/dev/null; echo x > /dev/null && git status -s; git log --all --oneline > /dev/null", accesspolicy.Call{})
		if strings.Contains(o.out, "cl/") || o.code != 0 || len(o.rep.Denied) == 0 {
			t.Errorf("%s: %d %s\n%q", command, o.code, o.out, o.rep)
		}
	}
	w.works(s, "git clone -q . fine && cd fine && git log --oneline && git worktree add -q ../tree HEAD && cat ../tree/a.txt")
}

// The result of a command of git that was refused names all the classes that it needs.
func TestAllClassesAreNamed(t *testing.T) {
	w := newWorld(t, true)
	w.shell(`git config commit.gpgSign false; mkdir .vscode; echo a | tee .envrc > .vscode/x; git add -A; git commit -qm one
git checkout -q -b other; echo b | tee .envrc > .vscode/x; echo c | tee .gitlab-ci.yml > z; git add -A; git commit -qm two; git checkout -q main`, w.root)
	s := w.open(nil)
	needGuard(t, w)
	o := w.run(s, w.root, "git switch -q other", accesspolicy.Call{})
	said := strings.Join(o.rep.Denied, "\n")
	for _, class := range []string{acts.Shell, acts.Editor, acts.CI} {
		if !strings.Contains(said, `acts == "`+class+`"`) {
			t.Errorf("%s is not named: %s\n%s", class, said, o.out)
		}
	}
}
