package accesspolicy_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
	"ralph/workers/git"
	"ralph/workers/git/trees"
)

// agentOf makes an agent's tree as the coordinator does, and opens its sandbox.
func (w *world) agentOf(t *trees.Trees, name string, change func(*accesspolicy.Options)) (trees.Tree, *accesspolicy.Sandbox) {
	w.t.Helper()
	tree, err := t.Add(w.t.Context(), trees.AddOptions{Agent: name})
	if err != nil {
		w.t.Fatal(err)
	}
	loc, err := git.Find(tree.Root)
	if err != nil {
		w.t.Fatal(err)
	}
	return tree, w.open(func(o *accesspolicy.Options) {
		o.Root, o.Agent, o.Git = tree.Root, name, &loc
		if change != nil {
			change(o)
		}
	})
}

func (w *world) treesOf() *trees.Trees {
	w.t.Helper()
	w.t.Setenv("HOME", w.home)
	w.t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	loc, err := git.Find(w.root)
	if err != nil {
		w.t.Fatal(err)
	}
	return trees.OpenTrees(w.runner, loc, filepath.Join(w.root, ".ralph"), nil)
}

// everything is each file below the directories, with its mode and a checksum.
func everything(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			all[path] = info.Mode().String()
			if info.Mode().IsRegular() {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				all[path] += fmt.Sprintf(" %x", sha256.Sum256(b))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// changed names what differs, at most a few.
func changed(before, after map[string]string) []string {
	var list []string
	for _, p := range slices.Sorted(maps.Keys(before)) {
		if after[p] != before[p] {
			list = append(list, p)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[p]; !ok {
			list = append(list, p)
		}
	}
	return list[:min(len(list), 4)]
}

// waysToTheRepository are shell words that name the repository of the user, or the
// tree of another agent, as a command in an agent's tree can find them: by what
// git says, by the files of gitrepository-layout(5) that lead elsewhere, by the
// environment, the parents of the directory, the mounts, and hard links.
func waysToTheRepository() map[string]string {
	return map[string]string{
		"git-common-dir": `git rev-parse --path-format=absolute --git-common-dir`,
		"git-dir":        `git rev-parse --absolute-git-dir`,
		".git file":      `sed -n 's/^gitdir: //p' .git; dirname "$(dirname "$(sed -n 's/^gitdir: //p' .git)")"`,
		"commondir":      `cd "$(git rev-parse --git-dir)" && cd "$(cat commondir)" && pwd`,
		"alternates":     `O="$(git rev-parse --git-path objects)"; (cd "$O" && while read -r a; do cd "$O" && cd "$a/.." && pwd -P; done < info/alternates)`,
		"environment":    `env | sed -n 's/^GIT[A-Z_]*=\(\/.*\)/\1/p'; echo "$GIT_OBJECT_DIRECTORY/.."`,
		"parents":        `d=$PWD; while [ "$d" != / ]; do d=$(dirname "$d"); [ -e "$d/.git" ] && echo "$d/.git"; done`,
		"mounts":         `awk '{print $5}' /proc/self/mountinfo | grep -E '/\.git|/objects' | sed 's,/objects.*,,'`,
		"siblings":       `for d in ../*/.git ../.*/.git ../.ralph ../.ralph/*; do [ -e "$d" ] && echo "$d"; done`,
		"reference":      `sed -n 's/.*url = //p' "$(git rev-parse --git-common-dir)/config" | sed 's,$,/.git,'`,
	}
}

// whatADeleterDoes are the acts against the repository "$G": each part of
// gitrepository-layout(5) is deleted, forged and replaced.
func whatADeleterDoes() map[string]string {
	forge := `H=$(printf 'forged' | sha1sum | cut -c1-40); mkdir -p "$G/objects/${H%??????????????????????????????????????}"; printf x > "$G/objects/$(echo $H | cut -c1-2)/$(echo $H | cut -c3-)"`
	return map[string]string{
		"delete objects":  `rm -rf "$G"/objects/??; rm -rf "$G"/objects/pack/*`,
		"write objects":   `find "$G/objects" -type f | while read -r f; do chmod u+w "$f"; echo forged > "$f"; done`,
		"replace objects": `find "$G/objects" -type f | while read -r f; do echo forged > "$f.x" && mv -f "$f.x" "$f"; done`,
		"chmod objects":   `chmod -R 777 "$G/objects"; chmod -R 777 "$G"`,
		"forge objects":   forge,
		"link objects":    `find "$G/objects" -type f | while read -r f; do ln "$f" ./linked 2>/dev/null && chmod u+w ./linked && echo forged > ./linked; rm -f ./linked; done`,
		"move refs":       `for r in $(cd "$G" && find refs -type f); do echo 0123456789012345678901234567890123456789 > "$G/$r"; done; git --git-dir="$G" update-ref refs/heads/main HEAD^; git --git-dir="$G" tag forged`,
		"packed refs":     `printf '0123456789012345678901234567890123456789 refs/heads/main\n' > "$G/packed-refs"; rm -rf "$G/refs/heads"`,
		"configuration":   `git --git-dir="$G" config core.fsmonitor ./x; printf '[core]\n\tfsmonitor = ./x\n' >> "$G/config"`,
		"hooks":           `mkdir -p "$G/hooks" && printf '#!/bin/sh\n' > "$G/hooks/pre-commit"; chmod +x "$G/hooks/pre-commit"`,
		"info":            `mkdir -p "$G/info" && echo '* filter=x' > "$G/info/attributes"; echo /x > "$G/objects/info/alternates"; echo x > "$G/shallow"`,
		"HEAD and index":  `echo 'ref: refs/heads/forged' > "$G/HEAD"; echo x > "$G/index"; touch "$G/index.lock"`,
		"whole":           `mv "$G" "$G.away"; rm -rf "$G"`,
		"gc":              `git --git-dir="$G" -c gc.pruneExpire=now reflog expire --expire=all --all; git --git-dir="$G" gc -q --prune=now; git --git-dir="$G" prune --expire=now`,
		"worktrees":       `git --git-dir="$G" worktree prune --expire=now; rm -rf "$G/worktrees"; mkdir -p "$G/worktrees/x"`,
	}
}

// What a command of an agent finds of the user's repository, of Ralph's records,
// of the snapshot of the objects and of another agent's tree it cannot change,
// however it finds it.
func TestAgentsCannotReachTheRepository(t *testing.T) {
	w := newWorld(t, true)
	w.file(filepath.Join(w.root, "b.txt"), "packed\n")
	w.git("add", "b.txt")
	w.git("-c", "commit.gpgSign=false", "commit", "-qm", "second")
	w.git("gc", "-q")
	w.file(filepath.Join(w.root, "c.txt"), "loose\n")
	w.git("add", "c.txt")
	w.git("-c", "commit.gpgSign=false", "commit", "-qm", "third")
	tr := w.treesOf()
	other, _ := w.agentOf(tr, "other", nil)
	one, s := w.agentOf(tr, "one", nil)
	private := filepath.Join(w.root, ".ralph", "worktrees", ".ralph")
	places := []string{filepath.Join(w.root, ".git"), other.Dir, private}
	for _, e := range must(os.ReadDir(filepath.Dir(one.Dir))) {
		if strings.HasPrefix(e.Name(), ".objects") {
			places = append(places, filepath.Join(filepath.Dir(one.Dir), e.Name()))
		}
	}
	before := everything(t, places...)
	for way, find := range waysToTheRepository() {
		for act, do := range whatADeleterDoes() {
			w.run(s, one.Root, `mine=$(git rev-parse --absolute-git-dir); for G in $( (`+find+`) 2>/dev/null ); do case "$G" in "$mine"|.) ;; *) `+do+`;; esac; done 2>/dev/null; true`, accesspolicy.Call{})
			if c := changed(before, everything(t, places...)); len(c) > 0 {
				t.Fatalf("by %s: %s: changed %q", way, act, c)
			}
		}
	}
	w.git("fsck", "--strict", "--no-dangling")
	// The acts are real: against the agent's own repository they succeed.
	for act, do := range whatADeleterDoes() {
		name := "of_" + strings.Map(func(r rune) rune {
			if r == ' ' {
				return '_'
			}
			return r
		}, act)
		own, s := w.agentOf(tr, name, nil)
		w.run(s, own.Root, `echo x > x; git add x; git commit -qm x; git pack-refs; true`, accesspolicy.Call{})
		was := everything(t, filepath.Join(own.Dir, ".git"))
		w.run(s, own.Root, `G=$(git rev-parse --absolute-git-dir); `+do+`; true`, accesspolicy.Call{})
		if c := changed(was, everything(t, own.Dir)); len(c) == 0 && act != "gc" && act != "worktrees" {
			t.Errorf("%s: changes nothing where it may", act)
		}
	}
}

// Ordinary git work of an agent runs unasked and unhindered in its clone.
func TestAgentsWorkWithGit(t *testing.T) {
	w := newWorld(t, true)
	lib := filepath.Join(filepath.Dir(w.root), "lib")
	w.file(filepath.Join(lib, "l.txt"), "1\n")
	w.gitIn(lib, "init", "-q")
	w.gitIn(lib, "add", "-A")
	w.gitIn(lib, "-c", "commit.gpgSign=false", "commit", "-qm", "lib")
	w.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "lib")
	w.git("-c", "commit.gpgSign=false", "commit", "-qm", "with lib")
	w.git("config", "remote.origin.url", "https://ann:secret@example.org/x.git")
	w.git("config", "core.hooksPath", "/nowhere")
	w.git("branch", "topic")
	tr := w.treesOf()
	one, s := w.agentOf(tr, "one", nil)
	before := everything(t, filepath.Join(w.root, ".git"))
	for _, command := range []string{
		"git status --short && test -z \"$(git status --porcelain)\"",
		"git branch -a | grep -q main && git log --oneline main | wc -l | grep -q 2 && git diff main --stat",
		"git remote -v | grep -q 'https://example.org/x.git' && ! grep -rq secret .git/config && ! git config core.hooksPath",
		"echo b > b.txt && git add -A && git commit -qm second --no-gpg-sign",
		"echo c >> a.txt && git stash -q && git stash pop -q && git commit -qam third --no-gpg-sign",
		"git checkout -qb side HEAD~1 && echo s > s.txt && git add s.txt && git commit -qm side --no-gpg-sign && git rebase -q ralph/one && git checkout -q ralph/one && git merge -q --no-ff --no-gpg-sign -m merged side",
		"git tag v1 && git branch -D side && git switch -q topic && git switch -q -",
		"git reset -q --hard HEAD~1 && git reset -q --hard ORIG_HEAD && git revert --no-edit -m1 HEAD --no-gpg-sign",
		"git config user.email other@example.org && git remote add here \"$TMPDIR/r.git\" && git init -q --bare -b main \"$TMPDIR/r.git\" && git push -q here HEAD:main && git fetch -q here && git rev-parse here/main",
		"git clone -q \"$TMPDIR/r.git\" \"$TMPDIR/again\" && git -C \"$TMPDIR/again\" log --oneline",
		"git worktree add -q \"$TMPDIR/wt\" && echo w > \"$TMPDIR/wt/w.txt\" && git -C \"$TMPDIR/wt\" add w.txt && git -C \"$TMPDIR/wt\" commit -qm w --no-gpg-sign && git worktree remove \"$TMPDIR/wt\"",
		"git submodule update -q --init && cat lib/l.txt && echo 2 > lib/l.txt && git -C lib commit -qam 'in lib' --no-gpg-sign && git add lib && git commit -qm 'lib moved' --no-gpg-sign",
		"git clone -q --bare --no-local lib \"$TMPDIR/lib.git\" && git -c protocol.file.allow=always submodule --quiet add \"$TMPDIR/lib.git\" more && git commit -qm more --no-gpg-sign",
		"git gc -q && git repack -adq && git prune && git pack-refs --all && git fsck --no-dangling && git log --oneline | wc -l",
		"git notes add -m n && git blame a.txt && git bisect start && git bisect reset && git cherry-pick --no-commit HEAD~1 >/dev/null 2>&1; git reset -q --hard; git status --short",
	} {
		if o := w.run(s, one.Root, command, accesspolicy.Call{}); o.code != 0 || len(o.rep.Reverted)+len(o.rep.Denied) > 0 {
			t.Errorf("%s: exit %d, %+v\n%s", command, o.code, o.rep, o.out)
		}
	}
	if c := changed(before, everything(t, filepath.Join(w.root, ".git"))); len(c) > 0 {
		t.Errorf("the user's repository changed: %q", c)
	}
	if _, err := tr.Commit(t.Context(), "one", "the rest"); err != nil && !errors.Is(err, git.ErrNothingToCommit) {
		t.Fatal(err)
	}
	m, err := tr.Merge(t.Context(), "one", "merge one")
	if err != nil || !m.Committed {
		t.Fatalf("%+v %v", m, err)
	}
	w.git("fsck", "--strict", "--no-dangling")
	if got := w.git("show", "HEAD:b.txt"); got != "b" {
		t.Errorf("b.txt is %q", got)
	}
	if n := w.git("worktree", "list"); strings.Count(n, "\n") != 0 {
		t.Errorf("worktrees of the user:\n%s", n)
	}
	w.gitIn(filepath.Join(w.root, "lib"), "cat-file", "-e", w.git("rev-parse", "HEAD:lib"))
	w.git("submodule", "update", "-q", "--init", "more")
	if text := must(os.ReadFile(filepath.Join(w.root, "more", "l.txt"))); string(text) != "2\n" {
		t.Errorf("more/l.txt is %q", text)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
