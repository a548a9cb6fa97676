package trees

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// listing is all that a directory holds, by path, with type, right to run and
// content; what skip names is left out.
func listing(t *testing.T, dir string, skip ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		for _, s := range skip {
			if rel == s && d.IsDir() {
				return fs.SkipDir
			} else if rel == s {
				return nil
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := (info.Mode() & (fs.ModeType | 0o100)).String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text += to
		case info.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += string(b)
		}
		all[rel] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sh runs a command line in a directory.
func (w *world) sh(dir, line string) {
	w.t.Helper()
	if out, err := w.tryIn(dir, "-c", "alias.sh=!cd "+dir+" && "+line, "sh"); err != nil {
		w.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// isolated is a tree of an agent with what no commit holds.
func isolated(t *testing.T) (*world, *Trees, Tree) {
	t.Helper()
	w := newRepo(t)
	w.write(".gitignore", "ignored/\n*.log\n")
	w.write(".gitattributes", "*.dos text eol=crlf\n")
	w.write("a.txt", "a\n")
	w.write("b.dos", "b\n")
	w.write("dir/c.txt", "c\n")
	w.write("dir/d.txt", "d\n")
	w.write("AGENT.md", "learned\n")
	w.commitAll("base")
	tr := w.trees()
	tree := w.add(tr, "x")
	w.sh(tree.Dir, `echo work > work.txt; chmod +x a.txt; printf 'b\n' > b.dos; git tag mine; git branch other; git stash list
		mkdir -p ignored/deep empty/er; echo i > ignored/deep/i; echo l > dir/x.log; git init -q nested; echo n > nested/n; git init -q ignored/repo
		mkfifo pipe; ln -s / out; echo s > .env; echo more >> AGENT.md; rm dir/d.txt; echo s > RALPH_GOALS.md; git init -q dir; mkdir closed; chmod 0 closed`)
	return w, tr, tree
}

// While a tree is isolated it is what a checkout gives, and ignored files; after
// that it is what its agent left, whatever was written meanwhile.
func TestIsolate(t *testing.T) {
	t.Parallel()
	w, tr, tree := isolated(t)
	before := listing(t, tree.Dir)
	rec, release, err := tr.Isolate(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	w.git("branch", "checked", rec.Commit)
	w.git("clone", "-q", "--branch", "checked", w.root, fresh)
	seen := listing(t, tree.Dir, ".git", "ignored")
	equal(t, "the ignored file", seen["dir/x.log"], before["dir/x.log"])
	delete(seen, "dir/x.log")
	equal(t, "the isolated tree", seen, listing(t, fresh, ".git"))
	equal(t, "ignored", listing(t, filepath.Join(tree.Dir, "ignored"))["deep/i"], before["ignored/deep/i"])
	equal(t, "its status", w.gitIn(tree.Dir, "status", "--porcelain"), "")
	equal(t, "its head", w.gitIn(tree.Dir, "rev-parse", "HEAD"), rec.Commit)
	if tags := w.gitIn(tree.Dir, "for-each-ref", "refs/tags", "refs/heads/other"); tags != "" {
		t.Errorf("it sees refs of the agent's: %s", tags)
	}
	left := strings.Join(rec.LeftOut, "\n")
	for _, name := range []string{".env (", "AGENT.md (", "RALPH_GOALS.md (", "nested/ (", "out (", "pipe (", "empty (", "b.dos (", "dir/.git (", "closed ("} {
		if !strings.Contains("\n"+left, "\n"+name) {
			t.Errorf("%q is not named in\n%s", name, left)
		}
	}
	w.sh(tree.Dir, "echo check > a.txt; echo new > made.txt; rm -rf .git work.txt; mkdir -p nested/other; echo x > .env; echo kept > ignored/made; mkdir .git; echo forged > dir/c.txt")
	if err := release(); err != nil {
		t.Fatal(err)
	}
	before["ignored/made"] = listing(t, tree.Dir)["ignored/made"]
	equal(t, "the tree after it", listing(t, tree.Dir), before)
	work := w.commit(tr, "x")
	equal(t, "what is committed", work.Tree, rec.Tree)
}

// A Ralph that was killed while a tree was isolated has lost nothing of the agent's.
func TestIsolateIsUndoneAfterAKill(t *testing.T) {
	t.Parallel()
	w, tr, tree := isolated(t)
	before := listing(t, tree.Dir)
	for _, again := range []func(*Trees) error{
		func(tr *Trees) error { _, err := tr.Add(t.Context(), AddOptions{Agent: "x"}); return err },
		func(tr *Trees) error {
			_, release, err := tr.Isolate(t.Context(), "x")
			if err != nil {
				return err
			}
			return release()
		},
	} {
		rec, _, err := tr.Isolate(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		w.sh(tree.Dir, "echo check > a.txt; rm work.txt")
		tr = w.trees()
		if err := again(tr); err != nil {
			t.Fatal(err)
		}
		after := listing(t, tree.Dir)
		// What the check wrote into files of the commit is not told from the agent's.
		for _, name := range []string{"a.txt", "work.txt"} {
			delete(after, name)
			delete(before, name)
		}
		equal(t, "the tree", after, before)
		w.sh(tree.Dir, "git cat-file -e "+rec.Commit+"; echo a > a.txt; chmod +x a.txt; echo work > work.txt")
	}
	if entries, err := filepath.Glob(filepath.Join(tr.private(), "*", "aside")); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestNewRulesHideNothing has an agent ignore by rules of its own what its work needs, in each place
// that gitignore(5) names: while its tree is isolated that is away and named, and what the rules
// of the base ignore is there.
func TestNewRulesHideNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, away, there string }{
		"a name":               {"echo b.val >> .gitignore; echo 1 > b.val", "b.val", ""},
		"a file that hides":    {"mkdir -p sub; printf '*\\n' > sub/.gitignore; echo 1 > sub/b.val", "sub", ""},
		"a directory":          {"echo gen/ >> .gitignore; mkdir -p gen/deep; echo 1 > gen/deep/b.val", "gen", ""},
		"beside what was":      {"echo 'dir/*.val' >> .gitignore; echo 1 > dir/b.val; echo 1 > dir/x.log", "dir/b.val", "dir/x.log"},
		"only what was, in it": {"mkdir -p out; echo 1 > out/x.log; echo new >> .gitignore", "", "out/x.log"},
		"both, in it":          {"echo out/ >> .gitignore; mkdir -p out; echo 1 > out/x.log; echo 1 > out/b.val", "out/b.val", "out/x.log"},
		"exclude":              {"echo b.val >> .git/info/exclude; echo 1 > b.val; git config core.excludesFile .git/more; echo c.val > .git/more; echo 1 > c.val", "", "b.val"},
		"dependencies":         {"printf 'node_modules/\\n*.val\\n' >> .gitignore; mkdir -p node_modules/x web/node_modules; echo 1 > node_modules/x/i; echo 1 > web/node_modules/i; echo 1 > b.val", "b.val", "node_modules/x/i web/node_modules/i"},
		"a rule taken back":    {"printf '!*.log\\n' > .gitignore; echo 1 > y.log", "", "y.log"},
		"committed":            {"echo b.val > .gitignore; echo 1 > b.val; git add -A; git -c user.name=x -c user.email=x commit -qm x", "b.val", ""},
		"whitelist":            {"printf '*\\n!*/\\n!*.txt\\n' > .gitignore; mkdir -p gen; echo 1 > gen/b.val; echo 1 > gen/b.txt", "gen/b.val", "gen/b.txt"},
		"ignored as before":    {"mkdir -p ignored; echo 1 > ignored/b.val; echo 1 > b.log", "", "ignored/b.val b.log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRepo(t)
			w.write(".gitignore", "ignored/\n*.log\n")
			w.write("dir/c.txt", "c\n")
			w.commitAll("base")
			tr := w.trees()
			tree := w.add(tr, "x")
			w.sh(tree.Dir, c.script)
			before := listing(t, tree.Dir)
			rec, release, err := tr.Isolate(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range strings.Fields(c.there) {
				if _, err := os.Lstat(filepath.Join(tree.Dir, path)); err != nil {
					t.Error(err)
				}
			}
			if c.away != "" {
				if _, err := os.Lstat(filepath.Join(tree.Dir, c.away)); err == nil {
					t.Errorf("%s is seen", c.away)
				}
				if left := strings.Join(rec.LeftOut, "\n"); !strings.Contains(left, c.away) || !strings.Contains(left, "ignored by a rule") {
					t.Errorf("left out: %q", left)
				}
			} else if len(rec.LeftOut) > 0 {
				t.Errorf("left out: %q", rec.LeftOut)
			}
			if err := release(); err != nil {
				t.Fatal(err)
			}
			equal(t, "the tree after it", listing(t, tree.Dir), before)
		})
	}
}
