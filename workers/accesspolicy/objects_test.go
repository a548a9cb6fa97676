package accesspolicy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec/acts"
)

// plants are the ways in which a command puts a name N with the object O into a repository
// without a file of that name in the tree, by gitrepository-layout(5), git-update-index(1),
// git-stash(1), git-rebase(1) and what its state files are. tree prints a tree with N on
// top of HEAD, evil a commit of it, state fills a directory of a rebase.
func plants() map[string]string {
	return map[string]string{
		"index":               `stage $O`,
		"index info":          `printf '100644 %s 0\t%s\n' $O "$N" | git update-index --index-info`,
		"executable":          `git update-index --add --cacheinfo 100755,$O,"$N"`,
		"link":                `git update-index --add --cacheinfo 120000,$O,"$N"`,
		"submodule":           `git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),"$N"`,
		"conflict":            `printf '100644 %s 2\t%s\n' $O "$N" | git update-index --index-info`,
		"skipped":             `stage $O; git update-index --skip-worktree "$N"`,
		"assumed":             `stage $O; git update-index --assume-unchanged "$N"`,
		"split index":         `git update-index --split-index; stage $O`,
		"index version 4":     `git update-index --index-version 4; stage $O`,
		"intent to add":       `stage $O; git commit -qm x; git reset -q -N HEAD~1; git ls-files --stage | grep -iq "$(basename "$N")"`,
		"sparse index":        `t=$(tree); sparse; git read-tree $t; git ls-files --sparse -s`,
		"read-tree":           `git read-tree $(tree)`,
		"read-tree --prefix":  `git read-tree --prefix=fresh/ $(printf '100644 blob %s\t.envrc\n' $O | git mktree)`,
		"reset --soft":        `git reset -q --soft $(evil)`,
		"reset --mixed":       `git reset -q --mixed $(evil)`,
		"commit":              `stage $O; git commit -qm x`,
		"amend":               `stage $O; git commit -q --amend -m x`,
		"commit --only":       `stage $O; echo b >> a.txt; git commit -qm x --only a.txt; git commit -qm y`,
		"fixup":               `stage $O; git commit -q --fixup HEAD`,
		"another index":       `GIT_INDEX_FILE=/tmp/other git read-tree HEAD; GIT_INDEX_FILE=/tmp/other git update-index --add --cacheinfo 100644,$O,"$N"; GIT_INDEX_FILE=/tmp/other git commit -qm x`,
		"update-ref":          `git update-ref HEAD $(evil)`,
		"a file of a ref":     `mkdir -p .git/refs/heads/x; evil > .git/refs/heads/x/y`,
		"packed refs":         `git update-ref refs/heads/x $(evil); git pack-refs --all --prune`,
		"packed objects":      `git update-ref refs/heads/x $(evil); git repack -adq`,
		"branch":              `git branch x $(evil)`,
		"forced branch":       `git branch -f feature $(evil)`,
		"detached HEAD":       `c=$(evil); echo $c > .git/HEAD`,
		"other HEAD":          `git update-ref refs/heads/x $(evil); git symbolic-ref HEAD refs/heads/x`,
		"tag":                 `git tag x $(evil)`,
		"annotated tag":       `git tag -a -m x x $(evil)`,
		"tag of a tag":        `git tag -a -m x y $(evil); git tag -a -m x x y`,
		"tag of a tree":       `git tag x $(tree)`,
		"annotated tree":      `git tag -a -m x x $(tree)`,
		"ref of a tree":       `git update-ref refs/x/y $(tree)`,
		"notes":               `git update-ref refs/notes/commits $(evil)`,
		"remote branch":       `git update-ref refs/remotes/origin/x $(evil)`,
		"remote HEAD":         `git update-ref refs/remotes/origin/x $(evil); git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/x`,
		"own namespace":       `git update-ref refs/mine/x $(evil)`,
		"namespace":           `git --namespace=ns update-ref refs/namespaces/ns/refs/heads/x $(evil)`,
		"bisect":              `git update-ref refs/bisect/bad $(evil)`,
		"rewritten":           `git update-ref refs/rewritten/onto $(evil)`,
		"of a work tree":      `git update-ref refs/worktree/x $(evil)`,
		"prefetched":          `git update-ref refs/prefetch/remotes/origin/x $(evil)`,
		"stash":               `git stash store -m x $(evilstash)`,
		"stash below":         `git stash store -m x $(evilstash); git stash store -m y stash@{1}`,
		"staged in a stash":   `git stash store -m x $(git commit-tree -p HEAD -p $(evil) -m x HEAD^{tree})`,
		"untracked in stash":  `git stash store -m x $(git commit-tree -p HEAD -p $(git commit-tree -p HEAD -m i HEAD^{tree}) -p $(git commit-tree -m u $(alone)) -m x HEAD^{tree})`,
		"stash push":          `echo b >> a.txt; stage $O; git stash push -q -- a.txt; git stash list`,
		"history":             `c=$(evil); git update-ref HEAD $(git commit-tree -p $c -m gone HEAD^{tree})`,
		"merge":               `git update-ref HEAD $(git commit-tree -p HEAD -p feature -m m $(tree))`,
		"octopus":             `git update-ref HEAD $(git commit-tree -p HEAD -p feature -p feature~1 -m m $(tree))`,
		"side of a merge":     `git update-ref HEAD $(git commit-tree -p HEAD -p $(evil) -m m HEAD^{tree})`,
		"merge of a branch":   `git branch x $(evil); git update-ref HEAD $(git commit-tree -p HEAD -p x -m m x^{tree})`,
		"merge-tree":          `t=$(git merge-tree --write-tree HEAD $(evil)); git update-ref HEAD $(git commit-tree -p HEAD -m m $t)`,
		"merge -s ours":       `git merge -q -s ours -m m $(evil)`,
		"orphan":              `git update-ref refs/heads/x $(git commit-tree -m x $(alone))`,
		"checkout --orphan":   `git checkout -q --orphan x; stage $O; git commit -qm x`,
		"fast-import":         `printf 'commit refs/heads/x\ncommitter A <a@b> 0 +0000\ndata 1\nx\nM 100644 inline %s\ndata 8\nplanted\n\n' "$N" | git fast-import --quiet`,
		"filter-branch":       `FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --index-filter "git update-index --add --cacheinfo 100644,$O,'$N'" -- feature`,
		"bundle":              `git branch x $(evil); git bundle create -q /tmp/b x; git branch -qD x; git fetch -q /tmp/b x:y`,
		"fetch":               `made; git fetch -q /tmp/made x:y`,
		"fetch of a remote":   `made; git fetch -q /tmp/made x:refs/remotes/made/x`,
		"only FETCH_HEAD":     `made; git fetch -q /tmp/made x`,
		"push":                `made; git -C /tmp/made push -q "$PWD" x:y`,
		"alternates":          `git branch x $(evil); git repack -q -a -d; git branch y x`,
		"MERGE_HEAD":          `c=$(evil); echo $c > .git/MERGE_HEAD; echo x > .git/MERGE_MSG`,
		"CHERRY_PICK_HEAD":    `c=$(evil); echo $c > .git/CHERRY_PICK_HEAD`,
		"REVERT_HEAD":         `git commit-tree -p $(evil) -m gone HEAD^{tree} > .git/REVERT_HEAD`,
		"ORIG_HEAD":           `c=$(evil); echo $c > .git/ORIG_HEAD`,
		"REBASE_HEAD":         `c=$(evil); echo $c > .git/REBASE_HEAD`,
		"AUTO_MERGE":          `tree > .git/AUTO_MERGE`,
		"BISECT_HEAD":         `c=$(evil); echo $c > .git/BISECT_HEAD`,
		"BISECT_EXPECTED_REV": `c=$(evil); echo $c > .git/BISECT_EXPECTED_REV`,
		"BISECT_START":        `c=$(evil); echo $c > .git/BISECT_START`,
		"picked later":        `state; echo "pick $(evil) x" > .git/rebase-merge/git-rebase-todo`,
		"merged later":        `state; echo "merge -C $(evil) $(evil) # x" > .git/rebase-merge/git-rebase-todo`,
		"reset later":         `state; echo "reset $(evil)" > .git/rebase-merge/git-rebase-todo`,
		"fixed up later":      `state; echo "fixup -C $(evil)" > .git/rebase-merge/git-rebase-todo`,
		"autostash":           `state; evilstash > .git/rebase-merge/autostash`,
		"onto":                `state; evil > .git/rebase-merge/onto`,
		"amended later":       `state; evil > .git/rebase-merge/amend`,
		"sequencer":           `mkdir .git/sequencer; git rev-parse HEAD > .git/sequencer/head; echo "pick $(evil) x" > .git/sequencer/todo; git rev-parse HEAD > .git/CHERRY_PICK_HEAD; cp .git/sequencer/head .git/sequencer/abort-safety`,
		"stopped rebase":      `git branch x $(evil); git rebase -q --onto HEAD~1 HEAD x~1 2>&1; GIT_SEQUENCE_EDITOR="sed -i 1ibreak" git rebase -i HEAD~1; sed -i "s/^pick/pick/;\$apick $(git rev-parse x) x" .git/rebase-merge/git-rebase-todo`,
		"patch of am":         `stopped; cat $P`,
		"coded patch of am":   `stopped; { sed '/^$/q' $P | sed '$i Content-Transfer-Encoding: base64'; sed '1,/^$/d' $P | base64; } > /tmp/p; cp /tmp/p $P`,
		"plain patch of am":   `stopped; { sed '/^$/q' $P; printf -- '---\n\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+planted\n' "$N"; } > /tmp/p; cp /tmp/p $P`,
		"linked work tree":    `git branch x $(evil); git worktree add -q --no-checkout ../wt x || git worktree add -q --no-checkout wt x`,
		"index of another":    `git worktree add -q wt; cd wt; stage $O`,
		"old object":          `git branch x $(cat old.txt)`,
		"old object, later":   `state; echo "pick $(cut -c1-9 old.txt) x" > .git/rebase-merge/git-rebase-todo`,
		"old object, picked":  `mkdir .git/sequencer; git rev-parse HEAD > .git/sequencer/head; echo "pick $(cut -c1-7 old.txt) x" > .git/sequencer/todo; cp .git/sequencer/head .git/CHERRY_PICK_HEAD`,
		"linked directory":    `N=.cargo; git update-index --add --cacheinfo 120000,$O,.cargo`,
		"removed":             `git rm -q --cached .exrc`,
		"removal":             `git update-ref HEAD $(git commit-tree -p HEAD -m x $(export GIT_INDEX_FILE=/tmp/r; git read-tree HEAD; git rm -q --cached .exrc; git write-tree))`,
		"moved":               `git update-index --add --cacheinfo 100644,$(git rev-parse :.exrc),other; git rm -q --cached .exrc; git commit -qm x`,
		"executable file":     `git update-index --chmod=+x .exrc`,
		"moved tree":          `t=$(alone); mkdir -p under; git read-tree --prefix=under/ $t; git commit -qm x; git read-tree --empty; git read-tree -i --prefix= HEAD:under 2>/dev/null || git read-tree $(git rev-parse HEAD:under); git commit -qm y`,
		"capitals":            `N=$(echo "$N" | tr a-z A-Z); stage $O`,
		"ignored by HFS":      `N=$(echo "$N" | sed 's/\(.\)$/\xe2\x80\x8c\1/'); stage $O`,
		"ignored by NTFS":     `N="$N. ."; stage $O`,
		"repository":          `N=x/HEAD; stage $O; N=x/refs/y; stage $O; N=x/objects/y; stage $O`,
		"its configuration":   `N=bare/config; stage $O`,
		"new submodule":       `made; mkdir .git/modules; git -c protocol.file.allow=always clone -q --no-checkout --separate-git-dir .git/modules/m /tmp/made m; git -C m update-ref refs/heads/main refs/remotes/origin/x; git --git-dir .git/modules/m config core.worktree ../../../m`,
		"commit in a nested":  `cd nested; O=$(echo planted | git hash-object -w --stdin); stage $O; git commit -qm x`,
	}
}

const planting = `
stage() { git update-index --add --cacheinfo 100644,$1,"$N"; }
tree() { (export GIT_INDEX_FILE=/tmp/i$$; git read-tree HEAD; stage $O; git write-tree); }
alone() { (export GIT_INDEX_FILE=/tmp/j$$; git read-tree --empty; stage $O; git write-tree); }
evil() { git commit-tree -p HEAD -m evil $(tree); }
evilstash() { git commit-tree -p HEAD -p $(git commit-tree -p HEAD -m i HEAD^{tree}) -m x $(tree); }
made() { rm -rf /tmp/made; git init -q --bare /tmp/made; (cd /tmp/made; O=$(git hash-object -w --stdin < /tmp/planted); git update-ref refs/heads/main $(git commit-tree -m m $(git mktree < /dev/null)); git update-ref refs/heads/x $(alone | xargs git commit-tree -m x -p main)); }
state() { GIT_SEQUENCE_EDITOR="sed -i 1ibreak" git rebase -q -i HEAD~1 >&2; }
sparse() { S='-c index.sparse=true -c core.sparseCheckout=true -c core.sparseCheckoutCone=true'; git() { command git $S "$@"; }; mkdir -p .git/info; printf '/*\n!/*/\n' > .git/info/sparse-checkout; }
stopped() { mkdir /tmp/ok; printf 'From: A <a@b>\nSubject: x\n\n---\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-other\n+more\n' > /tmp/ok/0001; git format-patch -q --start-number 2 -o /tmp/ok -1 $(evil); git am -q /tmp/ok/*; P=.git/rebase-apply/0002; ls $P; }
echo planted > /tmp/planted
`

// plantable is a world with history to plant into: main with two commits and feature with two others.
func plantable(t *testing.T) *world {
	w := newWorld(t, true)
	w.file(filepath.Join(w.home, ".gitconfig"), "[user]\n\tname = Ann\n\temail = ann@example.com\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n")
	w.shell(`mkdir -p d bare/objects bare/refs .github/workflows; echo x > d/x.txt; echo 'ref: refs/heads/x' > bare/HEAD; touch bare/objects/o bare/refs/r; echo ours > .github/workflows/ours.yml; echo ours > .exrc
git add -A; git commit -qm second; git branch feature HEAD~1; echo t > t.txt; git add -A; git commit -qm third; git init -q nested; cd nested; echo 1 > n; git add n; git commit -qm n; cd ..; echo /nested >> .git/info/exclude
git checkout -q feature; for i in 1 2; do echo $i > f$i; git add .; git commit -qm f$i; done; git checkout -q main; echo s >> a.txt; git stash -q`, w.root)
	return w
}

// repositoryState is all that the user's git reads in the repository, but reflogs.
func (w *world) repositoryState() string {
	return w.shell(`for r in . nested; do cd "$1/$r"; git for-each-ref; cat .git/HEAD; git ls-files -st; git reflog stash 2>/dev/null || true
git cat-file --batch-all-objects --batch-check='%(objectname)' | sort | sha1sum; find .git -type f ! -path '*/objects/*' ! -path '*/logs/*' ! -name index ! -name COMMIT_EDITMSG ! -name '*.pid' ! -path '*/refs/*' ! -name packed-refs | sort | xargs sha1sum; done`, w.root, w.root)
}

// TestNamesThatActAreNotPlanted has a command put names that act into the repository without
// a file in the tree: nothing of what it did there is taken over, unless a rule allows it.
//
// Each way meets one name, and every fourth is allowed; with RALPH_TEST_RUNS all are.
func TestNamesThatActAreNotPlanted(t *testing.T) {
	own := map[string]string{"linked directory": ".cargo", "removed": ".exrc", "removal": ".exrc", "moved": ".exrc", "executable file": ".exrc", "repository": "x/HEAD", "its configuration": "bare/config", "read-tree --prefix": "fresh/.envrc"}
	names := []string{".envrc", ".github/workflows/ci.yml", "sub/.vscode/tasks.json"}
	all := os.Getenv("RALPH_TEST_RUNS") != ""
	for k, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			w := plantable(t)
			// An object of nobody's, as work of agents can leave it.
			w.shell(`export GIT_INDEX_FILE="$PWD/../index"; git read-tree HEAD; git update-index --add --cacheinfo 100644,$(git hash-object -w a.txt),"$2"
git commit-tree -p HEAD -m old $(git write-tree) > old.txt; echo old.txt >> .git/info/exclude`, w.root, name)
			s := w.open(nil)
			needGuard(t, w)
			for i, way := range slices.Sorted(maps.Keys(plants())) {
				if !all && ((i+k)%len(names) != 0 || testing.Short() && i%4 > 0) {
					continue
				}
				command := "rm -rf /tmp/w; mkdir /tmp/w; N=" + name + "\nO=$(echo planted | git hash-object -w --stdin)\n" + strings.ReplaceAll(planting+plants()[way], "/tmp/", "/tmp/w/")
				before := w.repositoryState()
				o := w.run(s, w.root, command, accesspolicy.Call{})
				said := strings.Join(slices.Concat(o.rep.Reverted, o.rep.Denied), "\n")
				if after := w.repositoryState(); after != before {
					t.Fatalf("%s: planted:\n%s\nbefore\n%s\n%s\n%s", way, after, before, o.out, said)
				}
				base, ruled := filepath.Base(name), way != "repository" && way != "its configuration"
				if ruled && !strings.Contains(said, "acts == ") || own[way] == "" && !strings.Contains(strings.ToLower(said), base[:len(base)-1]) || !strings.Contains(said, own[way]) {
					t.Errorf("%s: said: %s\n%s", way, said, o.out)
				}
				w.shell("git checkout -q -f main; git clean -qfdx -e nested -e .ralph -e old.txt", w.root)
				if ruled && (all || i/len(names)%4 == 0) {
					w.plantsWhereAllowed(way, command)
				}
			}
		})
	}
}

// plantsWhereAllowed demands that a way leads there, in a copy of the world.
func (w *world) plantsWhereAllowed(way, command string) {
	w.t.Helper()
	c := newWorld(w.t, false)
	w.shell(`rm -rf "$2"; cp -a "$1" "$2"; cp "$3/.gitconfig" "$4"; cd "$2"; git status >/dev/null`, w.root, c.root, w.home, c.home)
	before := c.repositoryState()
	o := c.run(c.open(nil), c.root, command, accesspolicy.Call{Acts: acts.Classes()})
	if after := c.repositoryState(); after == before {
		w.t.Errorf("%s: not planted where it is allowed: exit %d\n%s\n%q", way, o.code, o.out, o.rep)
	}
}

// TestOrdinaryHistoryIsTakenOver has a command do what a model does with git in a repository
// that has names that act, some of them new or changed on disk by the user: unasked and whole.
func TestOrdinaryHistoryIsTakenOver(t *testing.T) {
	for name, c := range map[string]struct {
		user, command string
		call          accesspolicy.Call
	}{
		"commit":                  {command: `echo x > new.txt; git add -A; git commit -qm x`},
		"amend":                   {user: `git reset -q --hard HEAD~1`, command: `echo x > new.txt; git add -A; git commit -q --amend -m y`},
		"the user's files":        {user: `echo u > .envrc; echo u >> .github/workflows/ours.yml; mkdir -p sub/.vscode; echo u > sub/.vscode/x.json`, command: `git add -A; git commit -qm x; git show --stat | grep -q envrc`},
		"the user's mode":         {user: `chmod +x .exrc`, command: `git add -A; git commit -qm x`},
		"the user's link":         {user: `ln -s a.txt .envrc`, command: `git add -A; git commit -qm x; git show --stat | grep -q envrc`},
		"the user's removal":      {user: `rm .exrc`, command: `git add -A; git commit -qm x; git ls-files | grep -qv exrc`},
		"the user's staged":       {user: `echo u > .envrc; git add .envrc; rm .envrc; git rm -q --cached .exrc`, command: `git commit -qm x; git show --stat | grep -q envrc`},
		"the user's intent":       {user: `echo u > .envrc`, command: `git add -N .; git diff --stat | grep -q envrc`},
		"stash of the user's":     {user: `echo u > .envrc; git add .envrc`, command: `git stash store -m x $(git stash create)`},
		"branches":                {command: `git branch x; git branch y feature; git branch z HEAD~2; git branch -f feature main; git branch -m y w; git branch -D w`},
		"tags":                    {command: `git tag a HEAD~1; git tag -a -m x b HEAD~1; git tag c HEAD^{tree}; git tag -a -m x d HEAD~1^{tree}`},
		"merge":                   {command: `git merge -q --no-edit feature`},
		"merge of names":          {user: `git checkout -q feature; echo f > .envrc; git add .; git commit -qm names; git checkout -q main`, command: `git merge -q -s ours --no-edit feature; git update-ref HEAD $(git commit-tree -p HEAD~1 -p feature -m m $(git merge-tree --write-tree HEAD~1 feature)); git reset -q --soft HEAD~1`},
		"allowed merge":           {user: `git checkout -q feature; mkdir -p .github/workflows; echo f > .github/workflows/f.yml; git add .; git commit -qm names; git checkout -q main`, command: `git merge -q --no-edit feature; cat .github/workflows/f.yml`, call: accesspolicy.Call{Acts: []string{acts.CI}}},
		"allowed":                 {command: `echo x > .github/workflows/x.yml; git add -A; git commit -qm x`, call: accesspolicy.Call{Acts: []string{acts.CI}}},
		"rebase":                  {command: `git branch x; echo 1 > n1; git add .; git commit -qm n1; git rebase -q --onto HEAD~2 HEAD~1`},
		"stopped rebase":          {command: `GIT_SEQUENCE_EDITOR="sed -i 1ibreak" git rebase -q -i HEAD~1; test -d .git/rebase-merge`},
		"rebase in two commands":  {user: `echo 1 > a.txt; git commit -qam 1; git checkout -q -b side HEAD~1; echo 2 > a.txt; git commit -qam 2`, command: `git rebase -q main || true; echo 3 > a.txt; git add a.txt; GIT_EDITOR=true git rebase --continue`},
		"cherry-pick":             {command: `git cherry-pick feature feature~1`},
		"stopped cherry-pick":     {user: `git checkout -q feature; echo 2 > a.txt; git commit -qam 2; git checkout -q main; echo 1 > a.txt; git commit -qam 1`, command: `git cherry-pick feature || true; test -f .git/CHERRY_PICK_HEAD`},
		"stopped merge":           {user: `git checkout -q feature; echo 2 > a.txt; git commit -qam 2; git checkout -q main; echo 1 > a.txt; git commit -qam 1`, command: `git merge -q feature || true; test -f .git/MERGE_HEAD`},
		"revert":                  {command: `git revert --no-edit HEAD`},
		"stash":                   {command: `echo s > a.txt; echo u > u.txt; git stash -q -u; git stash list; git stash pop -q; git stash -q -u; git stash drop -q stash@{1}`},
		"squash":                  {command: `git reset -q --soft HEAD~2; git commit -qm all`},
		"reset":                   {command: `git reset -q HEAD~2`},
		"reset, commit":           {command: `git reset -q HEAD~2; git add -A; git commit -qm all`},
		"back to another history": {user: `echo u > .exrc; git commit -qam u; git reset -q --hard HEAD~1`, command: `git reset -q --soft HEAD@{1}; git reset -q; git branch x`},
		"orphan":                  {command: `git checkout -q --orphan new; git add -A; git commit -qm all`},
		"other messages":          {user: `echo 2 > .exrc; git commit -qam 2; git rm -q .exrc; git commit -qm 3`, command: `FILTER_BRANCH_SQUELCH_WARNING=1 git filter-branch -f --msg-filter 'cat; echo more' -- HEAD~3..HEAD`},
		"notes":                   {command: `git notes add -m n; git notes append -m m HEAD~1`},
		"bisect":                  {command: `git bisect start HEAD HEAD~2; git bisect good`},
		"files named as git's":    {command: `mkdir -p src/hooks src/config src/objects; echo x | tee src/hooks/a.ts src/config/b src/objects/c > src/HEAD; git add -A; git commit -qm x`},
		"patch that does not fit": {command: `printf 'From: A <a@b>\nSubject: x\n\n---\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-other\n+more\n' | git am -q || true; test -d .git/rebase-apply`},
		"work tree":               {user: `git rm -q .exrc; git commit -qm gone`, command: `git worktree add -q wt; cd wt; echo x > x.txt; git add .; git commit -qm x`},
		"submodule":               {user: `git rm -q .exrc; git commit -qm gone`, command: `git -c protocol.file.allow=always submodule add -q $PWD/remote.git/lib m; git commit -qm m`},
		"fetch":                   {command: `git -c protocol.file.allow=always fetch -q $PWD/remote.git feature:refs/remotes/o/main`},
		"fetch of names":          {command: `git -c protocol.file.allow=always fetch -q $PWD/remote.git names:refs/remotes/o/names`, call: accesspolicy.Call{Network: true}},
		"sparse":                  {user: `git sparse-checkout init --cone --sparse-index; git sparse-checkout set d`, command: `echo x > d/new.txt; git add d; git commit -qm x`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := plantable(t)
			w.shell(`git clone -q --bare -b feature . remote.git; echo remote.git >> .git/info/exclude; cd remote.git; git update-ref refs/heads/main feature; git update-ref refs/heads/names $(git commit-tree -p main -m n $(printf '100644 blob %s\t.envrc\n' $(echo n | git hash-object -w --stdin) | git mktree)); git symbolic-ref HEAD refs/heads/main; mkdir ci; cd ci; git init -q; mkdir -p .github/workflows; echo x | tee .travis.yml > .github/workflows/x.yml; git add .; git commit -qm ci; git push -q -f .. HEAD:main; cd ..; git clone -q --single-branch -b main . lib
cd "$1"; sh -ec "$2"`, w.root, c.user)
			s := w.open(nil)
			needGuard(t, w)
			before := w.repositoryState()
			o := w.run(s, w.root, "set -e; "+c.command, c.call)
			if lines := slices.Concat(o.rep.Reverted, o.rep.Denied); o.code != 0 || slices.ContainsFunc(lines, func(s string) bool { return !strings.Contains(s, "is kept as") }) {
				t.Errorf("exit %d, %q\n%s", o.code, lines, o.out)
			}
			if after := w.repositoryState(); after == before {
				t.Errorf("nothing was taken over\n%s", o.out)
			}
		})
	}
}

// TestRefusedCommitsAreKept has a command stash what the user had changed, and plant a name:
// the repository stays as it is, and the stash is in a file.
func TestRefusedCommitsAreKept(t *testing.T) {
	w := plantable(t)
	w.file(filepath.Join(w.root, "a.txt"), "the user's\n")
	s := w.open(nil)
	needGuard(t, w)
	before := w.repositoryState()
	o := w.run(s, w.root, "N=.envrc; git stash -q; O=$(echo planted | git hash-object -w --stdin)\n"+planting+"git branch x $(evil)", accesspolicy.Call{})
	if after := w.repositoryState(); after != before {
		t.Errorf("planted: %s\nbefore %s", after, before)
	}
	if got := w.shell(`git fetch -q .ralph/quarantine/*.bundle 'refs/*:refs/kept/*'; git show refs/kept/stash:a.txt`, w.root); got != "the user's" {
		t.Errorf("%s\n%q", got, o.rep)
	}
	// A command that takes it from there is judged, too.
	w.shell("git for-each-ref --format='delete %(refname)' refs/kept | git update-ref --stdin; git reflog expire --expire=now --all; git gc -q --prune=now", w.root)
	before = w.repositoryState()
	w.run(s, w.root, `git fetch -q .ralph/quarantine/*.bundle 'refs/heads/x:refs/heads/y'`, accesspolicy.Call{})
	if after := w.repositoryState(); after != before {
		t.Errorf("fetched: %s\nbefore %s", after, before)
	}
}

// TestConfiguredHooksAreNotPlanted plants into the directory of hooks that the user has
// configured, which is not there yet, by branches that the user's next checkout brings.
func TestConfiguredHooksAreNotPlanted(t *testing.T) {
	w := plantable(t)
	w.git("config", "core.hooksPath", ".tools/hooks")
	s := w.open(nil)
	needGuard(t, w)
	before := w.repositoryState()
	o := w.run(s, w.root, "N=.tools/hooks/post-checkout; O=$(echo planted | git hash-object -w --stdin)\n"+planting+"git branch x $(evil); git branch y $(N=.Tools/Hooks/post-merge; evil)", accesspolicy.Call{Acts: acts.Classes()})
	if after := w.repositoryState(); after != before || !strings.Contains(strings.Join(o.rep.Reverted, "\n"), ".tools/hooks/post-checkout (is what git runs") {
		t.Errorf("planted: %s\nbefore %s\n%q", after, before, o.rep)
	}
}
