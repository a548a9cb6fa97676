package accesspolicy_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// linked are the ways in which files of git's get a second name in the project $1,
// from the project itself or from the repository $2, by git-clone(1), git-init(1),
// git-submodule(1), git-worktree(1) and the manuals of cp(1) and rsync(1).
func linked() map[string]string {
	return map[string]string{
		"clone of the project":         `git clone -q . nested`,
		"clone, deep":                  `mkdir -p a/b/c/d; git clone -q . a/b/c/d/nested`,
		"clone of another repository":  `git clone -q "$2" nested`,
		"clone --bare":                 `git clone -q --bare . x.git`,
		"clone --mirror":               `git clone -q --mirror "$2" mirror`,
		"clone --separate-git-dir":     `git clone -q --separate-git-dir=store "$2" nested`,
		"clone --no-checkout":          `git clone -q -n "$2" nested`,
		"clone --recurse-submodules":   `git clone -q --recurse-submodules "$3" nested`,
		"clone --reference --dissolve": `git clone -q --reference "$2" --dissociate "$2" nested`,
		"submodule add":                `git submodule --quiet add "$2" sub`,
		"submodule of an old git":      `git clone -q "$2" sub; git submodule --quiet add "$2" sub`,
		"linked work tree of a clone":  `git clone -q "$2" nested; git -C nested worktree add -q ../linked`,
		"cp -al of .git":               `cp -al .git x`,
		"cp -al of another .git":       `cp -al "$2/.git" x`,
		"cp -al of a project":          `cp -al "$2" snapshot`,
		"cp -al of objects":            `cp -al "$2/.git/objects" x`,
		"cp -al of own objects":        `mkdir -p deep/er; cp -al .git/objects deep/er/x`,
		"cp -al of some objects":       `cd .git/objects; d=$(ls -d ?? | head -1); cd ../..; cp -al ".git/objects/$d" "$d"`,
		"cp -al of packs":              `git -C "$2" repack -adq; cp -al "$2/.git/objects/pack" packs`,
		"packs beside each other":      `git -C "$2" repack -adq; mkdir x; ln "$2"/.git/objects/pack/* x`,
		"a copy with links":            `git clone -q "$2" first; mv first/.git first.git; cp -al first.git second; mkdir first/.git; rm -rf first first.git`,
	}
}

// damage writes to every file of the project that has more than one name.
const damage = `find . -path ./.git -prune -o -path ./.ralph -prune -o -type f -links +1 -print | while read -r f; do chmod u+w "$f"; dd if=/dev/urandom of="$f" bs=20 count=1 conv=notrunc status=none; : >"$f"; done; true`

// bytesOf is the content of every file of git's below directories, by its path.
func bytesOf(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(dir, ".git"), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			out[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestLinkedGitData has a command write to files of git's by every other name that
// the user has given them, before Ralph or while it runs: none of them changes.
func TestLinkedGitData(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(linked())) {
		for _, when := range []string{"before", "meanwhile"} {
			if testing.Short() && when == "meanwhile" && !strings.Contains(name, "deep") && !strings.Contains(name, "own objects") {
				continue
			}
			t.Run(name+", "+when, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, true)
				other, super := filepath.Join(w.home, "other"), filepath.Join(w.home, "super")
				w.env["GIT_CONFIG_COUNT"], w.env["GIT_CONFIG_KEY_0"], w.env["GIT_CONFIG_VALUE_0"] = "1", "protocol.file.allow", "always"
				for _, dir := range []string{other, super} {
					w.file(filepath.Join(dir, "f"), dir)
					w.gitIn(dir, "init", "-q")
					w.gitIn(dir, "add", "-A")
					w.gitIn(dir, "-c", "commit.gpgSign=false", "commit", "-qm", "x")
				}
				w.gitIn(super, "submodule", "--quiet", "add", other, "sub")
				w.gitIn(super, "-c", "commit.gpgSign=false", "commit", "-qm", "x")
				link := func() { w.shell(linked()[name], w.root, other, super) }
				if when == "before" {
					link()
				}
				s := w.open(nil)
				w.works(s, "true")
				if when == "meanwhile" {
					time.Sleep(150 * time.Millisecond) // a user is not faster
					link()
				}
				was := bytesOf(t, w.root, other, super)
				w.run(s, w.root, damage, accesspolicy.Call{})
				for path, text := range bytesOf(t, w.root, other, super) {
					if was[path] != text {
						t.Errorf("%s was changed", path)
					}
				}
				w.git("fsck", "--strict")
				w.gitIn(other, "fsck", "--strict")
			})
		}
	}
}

// TestLinksThatCommandsMake has commands give the files of git's another name: none
// gets one, and what git does by links works by copies.
func TestLinksThatCommandsMake(t *testing.T) {
	w := newWorld(t, true)
	other := filepath.Join(w.home, "other")
	w.file(filepath.Join(other, "f"), "x")
	w.gitIn(other, "init", "-q")
	w.gitIn(other, "add", "-A")
	w.gitIn(other, "-c", "commit.gpgSign=false", "commit", "-qm", "x")
	w.gitIn(w.root, "clone", "-q", "--no-hardlinks", other, "nested")
	s := w.open(func(o *accesspolicy.Options) { o.Project, o.Read = w.root, []string{"~/other"} })
	inodes := map[uint64]string{}
	for path := range bytesOf(t, w.root, other, filepath.Join(w.root, "nested")) {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		inodes[info.Sys().(*syscall.Stat_t).Ino] = path
	}
	was := bytesOf(t, w.root, other, filepath.Join(w.root, "nested"))
	for i, from := range []string{".git", "nested/.git", other + "/.git"} {
		for _, command := range []string{
			`cp -al %s x%d`, `cp -al %[1]s/objects y%[2]d`, `ln %[1]s/HEAD h%[2]d`, `ln %[1]s/objects/??/* .`, `mv %[1]s/objects/?? .`, `git clone -q %[1]s clone%[2]d`, `git clone -q --bare %[1]s b%[2]d`,
			`python3 -c 'import os,glob; f=os.open(glob.glob("%[1]s/objects/??/*")[0], os.O_RDONLY); os.link("/proc/self/fd/%%d" %% f, "p%[2]d", follow_symlinks=True)'`,
			`mv "$(dirname %[1]s)" m%[2]d; cp -al m%[2]d/.git z%[2]d`,
		} {
			w.run(s, w.root, fmt.Sprintf(command, from, i)+"; "+damage, accesspolicy.Call{})
		}
	}
	for path, text := range was {
		now, err := os.ReadFile(path)
		if err != nil || string(now) != text {
			t.Errorf("%s was changed: %v", path, err)
		}
	}
	err := filepath.WalkDir(w.root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == ".ralph" {
			return fs.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			if of := inodes[info.Sys().(*syscall.Stat_t).Ino]; of != "" && of != path {
				t.Errorf("%s is %s", path, of)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := os.Stat(filepath.Join(w.root, fmt.Sprint("clone", i), ".git", "HEAD")); err != nil {
			t.Errorf("a clone that a command made: %v", err)
		}
	}
}

// TestGitInNestedRepositories has commands work in a repository of the user's below
// that of the project, as in that itself.
func TestGitInNestedRepositories(t *testing.T) {
	w := newWorld(t, true)
	nested := filepath.Join(w.root, "lib", "nested")
	w.shell("mkdir lib; git clone -q . lib/nested; git clone -q --shared . lib/borrows; git clone -q --bare . lib/bare.git", w.root)
	s := w.open(nil)
	for _, command := range []string{
		`cd lib/nested && echo b >b.txt && git add -A && git commit -qm second && git switch -qc topic && git commit -q --allow-empty -m third && git switch -q main && git merge -q topic && git tag v1`,
		`cd lib/nested && echo c >>a.txt && git stash -q && git stash pop -q && git reset -q --hard && git gc -q --prune=now && git fsck --strict`,
		`cd lib/nested && git push -q ../bare.git main:pushed && git fetch -q ../bare.git`,
		`cd lib/borrows && git commit -q --allow-empty -m lent && git fetch -q ../nested && git log --oneline`,
		`git commit -q --allow-empty -m own`,
	} {
		o := w.run(s, w.root, command, accesspolicy.Call{})
		if o.code != 0 || len(o.rep.Reverted)+len(o.rep.Denied) > 0 {
			t.Errorf("%s: exit %d, %+v\n%s", command, o.code, o.rep, o.out)
		}
	}
	for dir, want := range map[string]string{nested: "third", filepath.Join(w.root, "lib", "borrows"): "lent", w.root: "own"} {
		if got := w.gitIn(dir, "log", "-1", "--format=%s"); got != want {
			t.Errorf("%s is at %q, want %q", dir, got, want)
		}
		w.gitIn(dir, "fsck", "--strict")
	}
	if got := w.gitIn(filepath.Join(w.root, "lib", "bare.git"), "log", "-1", "--format=%s", "pushed"); got != "third" {
		t.Errorf("pushed is at %q", got)
	}
	o := w.run(s, w.root, `git -C lib/nested config core.fsmonitor ./x; echo x >lib/nested/.git/hooks/pre-commit; rm -rf lib/nested/.git/objects; echo x >lib/bare.git/hooks/pre-receive`, accesspolicy.Call{})
	if told := strings.Join(o.rep.Reverted, "\n"); !strings.Contains(told, "in lib/nested: ") || !strings.Contains(told, "config") {
		t.Errorf("reported %q", told)
	}
	w.gitIn(nested, "fsck", "--strict")
	if got := w.gitIn(nested, "config", "--get-regexp", "^core.f"); strings.Contains(got, "fsmonitor") {
		t.Errorf("the configuration: %s", got)
	}
	w.gone(filepath.Join(nested, ".git", "hooks", "pre-commit"))
	w.gone(filepath.Join(w.root, "lib", "bare.git", "hooks", "pre-receive"))

	job, err := s.Start(t.Context(), exec.Spec{Argv: []string{"sh", "-c", "git commit -q --allow-empty -m job"}, Dir: nested}, accesspolicy.Call{})
	if err != nil {
		t.Fatal(err)
	}
	<-job.Done()
	if denied := strings.Join(s.Ended(job).Denied, " "); !strings.Contains(denied, "foreground") {
		t.Errorf("the job is told %q", denied)
	}
	if got := w.gitIn(nested, "log", "-1", "--format=%s"); got != "third" {
		t.Errorf("the job committed %q", got)
	}
}

// TestLinkedDirectoriesOfGit has parts of nested repositories lead elsewhere:
// nothing is written there for a command, not even by Ralph.
func TestLinkedDirectoriesOfGit(t *testing.T) {
	for _, part := range []string{"objects", "objects/pack", "refs", "refs/heads", "refs/tags", "logs", "worktrees", "modules"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			away := filepath.Join(w.home, "away")
			w.shell(`git clone -q . nested; mkdir -p "nested/.git/$2"; mv "nested/.git/$2" "$3"; ln -s "$3" "nested/.git/$2"`, w.root, part, away)
			list := func() string {
				return w.shell(`cd "$2"; find . -type f | sort | xargs sha1sum /dev/null`, w.root, away)
			}
			was := list()
			s := w.open(nil)
			o := w.run(s, filepath.Join(w.root, "nested"), `echo b >b; git add b; git commit -qm x; git tag t; git repack -ad; git branch b; git worktree add ../wt`, accesspolicy.Call{})
			if now := list(); now != was {
				t.Errorf("%s\nwas\n%s\n%s", now, was, o.out)
			}
		})
	}
}

// TestManyNestedRepositories has more repositories in a project than commands get
// layers for: they are read-only in the others, and told so.
func TestManyNestedRepositories(t *testing.T) {
	w := newWorld(t, true)
	w.shell(`for i in 1 2 3 4 5 6 7 8 9; do git clone -q . n$i; done`, w.root)
	s := w.open(nil)
	w.works(s, "git -C n1 commit -q --allow-empty -m x")
	w.fails(s, "git -C n9 commit -q --allow-empty -m x", "more than 8")
}
