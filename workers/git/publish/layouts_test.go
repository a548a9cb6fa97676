package publish

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLayouts commits, stages and stashes in every kind of repository that git
// makes.
func TestLayouts(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, setup, in string }{
		{"linked work tree", setUp + `; git worktree add -q ../linked -b linked`, "linked"},
		{"submodule", `git init -q -b main ../lib; cd ../lib; echo l >a.txt; echo b >b.txt; git add .; git commit -qm lib; cd "$OLDPWD"; ` + setUp + `; git submodule add -q ../lib lib; git commit -qm lib`, "p/lib"},
		{"sha256", strings.Replace(setUp, "git init -q", "git init -q --object-format=sha256", 1), "p"},
		{"shallow", `git init -q -b main ../src; cd ../src; for i in 1 2 3; do echo $i >a.txt; echo $i >b.txt; git add .; git commit -qm $i; done; git config uploadpack.allowFilter true; cd ..; rmdir p; git clone -q --depth 1 file://$PWD/src p`, "p"},
		{"partial", `git init -q -b main ../src; cd ../src; for i in 1 2 3; do echo $i >a.txt; echo b >b.txt; git add .; git commit -qm $i; done; git config uploadpack.allowFilter true; cd ..; rmdir p; git clone -q --filter=blob:none file://$PWD/src p`, "p"},
		{"alternates", setUp + `; cd ..; mv p src; git clone -q --shared src p`, "p"},
		{"separate git directory", `cd ..; rmdir p; mkdir p; cd p; git init -q -b main --separate-git-dir ../elsewhere .; git config core.worktree "$PWD"; echo 1 >a.txt; echo 2 >b.txt; git add .; git commit -qm first`, "p"},
		{"before the first commit", `git init -q -b main; echo 1 >a.txt; echo 2 >b.txt`, "p"},
		{"loose refs of old git", setUp + `; rm -f .git/index; git reset -q; git config core.logAllRefUpdates false; rm -rf .git/logs`, "p"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			w.user(c.setup)
			w.root = filepath.Join(w.dir, c.in)
			w.open()
			rep := w.do(`echo new >n.txt; git add n.txt; git commit -qm mine; git tag t; echo staged >s.txt; git add s.txt; if git rev-parse -q --verify HEAD~1 >/dev/null; then echo x >>b.txt; git stash -q -- b.txt; fi`)
			if c.name == "loose refs of old git" { // the stash before has no reflog that would keep it
				rep.Kept = slices.DeleteFunc(rep.Kept, func(s string) bool { return strings.HasSuffix(s, "/stash") })
			}
			clean(t, rep)
			w.same("files", "git status --porcelain | grep -v '?? \\(a\\|b\\).txt' || :", "A  s.txt")
			w.same("commit", "git log -1 --format=%s; git rev-parse -q --verify t >/dev/null && echo tagged", "mine\ntagged")
			w.user(`test -z "$(git fsck --full --strict 2>&1 | grep -v -e ^dangling -e '^notice')"`)
		})
	}
}

// TestUnsupported shows repositories read-only that cannot be published to.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setUp)
	o := w.options()
	w.user("git config extensions.refStorage reftable")
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "reftable") {
		t.Errorf("reftable: %v", err)
	}
	w.user("git config --unset extensions.refStorage")
	o.Dirs = []string{"/proc/none", "/sys/kernel"}
	if _, err := Open(o); err == nil {
		t.Error("a layer in /proc")
	}
	o.Dirs = []string{filepath.Join(w.dir, "shared")}
	w.user("mkdir ../shared; chmod 1777 ../shared")
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "other users") {
		t.Errorf("a layer in a directory of all users: %v", err)
	}
}

// TestForged has commands leave objects, refs and indexes that git would not have
// written, in the upper layer itself, past everything that the overlay allows.
func TestForged(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"a loose object of another name":      `c=$(echo x | git hash-object -w --stdin); mkdir -p .git/objects/12; cp .git/objects/$(echo $c | cut -c1-2)/$(echo $c | cut -c3-) .git/objects/12/34567890123456789012345678901234567890; printf '100644 1234567890123456789012345678901234567890\tx\n' | git update-index --index-info; git commit -qm forged || git update-ref refs/heads/main $(git commit-tree -p HEAD -m forged $(git write-tree --missing-ok))`,
		"a commit over a missing tree":        `git update-ref refs/heads/main $(printf 'tree %s\nparent %s\nauthor a <a@a> 1 +0000\ncommitter a <a@a> 1 +0000\n\nx\n' 1234567890123456789012345678901234567890 $(git rev-parse HEAD) | git hash-object -t commit -w --stdin --literally)`,
		"a commit over a missing parent":      `git update-ref refs/heads/main $(printf 'tree %s\nparent %s\nauthor a <a@a> 1 +0000\ncommitter a <a@a> 1 +0000\n\nx\n' $(git rev-parse HEAD^{tree}) 1234567890123456789012345678901234567890 | git hash-object -t commit -w --stdin --literally)`,
		"a commit over a missing grandparent": `p=$(printf 'tree %s\nparent %s\nauthor a <a@a> 1 +0000\ncommitter a <a@a> 1 +0000\n\nx\n' $(git rev-parse HEAD^{tree}) 1234567890123456789012345678901234567890 | git hash-object -t commit -w --stdin --literally); git update-ref refs/heads/main $(git commit-tree -p $p -m x HEAD^{tree})`,
		"a tree with git's directory":         `b=$(echo evil | git hash-object -w --stdin); t=$(printf '100644 config\0' >x; echo $b | xxd -r -p >>x; git hash-object -t tree -w --literally x); t2=$(printf '40000 .git\0' >x; echo $t | xxd -r -p >>x; git hash-object -t tree -w --literally x); git update-ref refs/heads/main $(git commit-tree $t2 -p HEAD -m x)`,
		"an index with git's directory":       `b=$(echo evil | git hash-object -w --stdin); printf "100644 $b\t.giX/config\n" | git update-index --index-info; perl -0777 -pi -e 's/\.giX/.git/; substr($_,-20)=pack("H*","00"x20)' .git/index`,
		"an index with a missing blob":        `printf '100644 1234567890123456789012345678901234567890\tghost\n' | git update-index --index-info`,
		"a damaged pack":                      `for i in 1 2 3; do echo $i >n$i; done; git add .; git commit -qm x; git repack -adq; f=$(ls -t .git/objects/pack/*.pack | head -1); chmod u+w $f; printf XXXX | dd of=$f bs=1 seek=100 conv=notrunc status=none`,
		"alternates to another store":         `git init -q --bare /tmp/alt$$; t=$(echo a | GIT_DIR=/tmp/alt$$ git hash-object -w --stdin); echo /tmp/alt$$/objects >.git/objects/info/alternates; printf "100644 $t\tghost\n" | git update-index --index-info; git commit -qm alt; rm -rf /tmp/alt$$`,
		"a forged graph":                      `git commit-graph write --reachable; chmod u+w .git/objects/info/commit-graph; perl -0777 -pi -e 's/[\x01-\x7f]/\x00/sg' .git/objects/info/commit-graph`,
		"a link for the objects":              `mv .git/objects .git/o2; ln -s o2 .git/objects; git commit -q --allow-empty -m x`,
		"a pipe among the objects":            `mkdir -p .git/objects/ab; mkfifo .git/objects/ab/cdefabcdefabcdefabcdefabcdefabcdefabcd; mkfifo .git/refs/heads/pipe .git/MERGE_HEAD .git/index2; rm .git/index; mkfifo .git/index`,
		"rights of everything":                `echo x >x; git add x; git commit -qm x; chmod -R 000 .git`,
		"a branch for a directory":            `rm .git/refs/heads/main; mkdir -p .git/refs/heads/main; git rev-parse feature >.git/refs/heads/main/x`,
	}
	for name, script := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setUp)
			before := w.user(`git for-each-ref; git ls-files -s; cat .git/HEAD .git/config`)
			rep := w.do(script)
			w.user(`rm -rf x n? ghost`)
			w.whole()
			switch name {
			case "rights of everything", "alternates to another store", "a link for the objects", "a damaged pack":
				return // what is sound of it may be taken over
			}
			if after := w.user(`git for-each-ref; git ls-files -s; cat .git/HEAD .git/config`); after != before {
				t.Errorf("%v\n%s\nwant\n%s", rep.Lines(), after, before)
			}
		})
	}
}

// BenchmarkLayer measures what a command costs that writes nothing to the git
// directory, without the mount.
func BenchmarkLayer(b *testing.B) {
	for _, files := range []int{10, 5000} {
		b.Run(fmt.Sprint(files, " files"), func(b *testing.B) {
			dir := b.TempDir()
			w := &world{dir: dir, root: filepath.Join(dir, "p"), home: dir}
			if err := os.Mkdir(w.root, 0o755); err != nil {
				b.Fatal(err)
			}
			if out, err := w.try(fmt.Sprintf("git init -q -b main .; for i in $(seq %d); do echo $i >f$i; done; git add .; git commit -qm x; for i in $(seq 20); do git branch b$i; done", files)); err != nil {
				b.Fatal(err, out)
			}
			o := Options{Root: w.root, Records: filepath.Join(dir, "records"), Dirs: []string{filepath.Join(dir, "state")}}
			o.Git.Root, o.Git.GitDir, o.Git.CommonDir = w.root, filepath.Join(w.root, ".git"), filepath.Join(w.root, ".git")
			h, err := Open(o)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				c, _, err := h.Begin(context.Background(), Grant{})
				if err != nil {
					b.Fatal(err)
				}
				c.Publish(context.Background())
			}
		})
	}
}

// The state of a rebase that would have the user's next git command run a program or
// move another branch is not taken over, and neither is the HEAD that belongs to it.
func TestForgedRebase(t *testing.T) {
	const stop = `git checkout -q -b side HEAD~1; echo z >c.txt; git add .; git commit -qm z; ! git rebase main >/dev/null 2>&1; test -d .git/rebase-merge; `
	for name, script := range map[string]string{
		"a strategy that is a program": `echo d/evil >.git/rebase-merge/strategy`,
		"options of a strategy":        `echo " '--x;evil'" >.git/rebase-merge/strategy_opts`,
		"another branch to abort to":   `echo refs/heads/main >.git/rebase-merge/head-name; git rev-parse main~1 >.git/rebase-merge/orig-head`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setUp)
			rep := w.do(stop + script)
			if len(rep.Dropped) == 0 {
				t.Error("nothing is reported")
			}
			if got := w.user(`test -d .git/rebase-merge && echo there; cat .git/HEAD`); got != "ref: refs/heads/main" {
				t.Errorf("%q", got)
			}
		})
	}
	w := newWorld(t, setUp)
	w.do(stop + `echo " '--theirs'" >.git/rebase-merge/strategy_opts; echo ort >.git/rebase-merge/strategy`)
	w.user(`test -d .git/rebase-merge && git rebase --abort && test "$(git symbolic-ref --short HEAD)" = side`)
}

// A rebase that stops is taken over without what would be given to a program or move another ref
// when the user goes on.
func TestSparedState(t *testing.T) {
	for name, c := range map[string]struct{ script, left string }{
		"refs to move":           {`git branch mid; git commit -qam y --allow-empty; ! git rebase --update-refs main >/dev/null 2>&1`, "rebase-merge/update-refs"},
		"a ref that it did not":  {`! git rebase main >/dev/null 2>&1; printf 'refs/heads/main\n%s\n%s\n' $(git rev-parse main) $(git rev-parse main~1) >.git/rebase-merge/update-refs`, "rebase-merge/update-refs"},
		"signed":                 {`! git rebase -S main >/dev/null 2>&1`, "rebase-merge/gpg_sign_opt"},
		"signed by patches":      {`! git rebase -S --apply main >/dev/null 2>&1`, "rebase-apply/gpg_sign_opt"},
		"an option of a program": {`! git rebase main >/dev/null 2>&1; echo "-S --output=evil" >.git/rebase-merge/gpg_sign_opt`, "rebase-merge/gpg_sign_opt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setUp)
			rep := w.do(`git checkout -q -b side HEAD~1; echo z >c.txt; git add .; git commit -qm z; ` + c.script)
			if !slices.Contains(rep.Dropped, c.left) {
				t.Errorf("left out: %q", rep.Dropped)
			}
			main := w.user(`git rev-parse main`)
			w.user(`echo both >c.txt; git add c.txt; GIT_EDITOR=true git rebase --continue; test "$(git symbolic-ref --short HEAD)" = side; test "$(git merge-base main side)" = $(git rev-parse main)`)
			if now := w.user(`git rev-parse main`); now != main {
				t.Errorf("main moved to %s", now)
			}
		})
	}
}

// No file of the user is hidden from git status.
func TestHiddenFiles(t *testing.T) {
	w := newWorld(t, setUp)
	w.user(`git update-index --skip-worktree b.txt`)
	w.do(`git update-index --assume-unchanged a.txt; git update-index --skip-worktree d/x.txt; echo 4 >e.txt; git add e.txt`)
	if got := w.user(`git ls-files -v`); got != "H a.txt\nS b.txt\nH c.txt\nH d/x.txt\nH e.txt" {
		t.Errorf("%s", got)
	}
}
