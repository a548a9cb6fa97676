package trees

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// badFiles are contents and forms of files that git reads by their names, by the
// identifiers that git-fsck(1) lists for them: a fetch with fetch.fsckObjects
// refuses each. gitmodulesParse is information there, but a work tree with such a
// file has no git status any more. gitmodulesLarge and gitattributesLarge are larger
// than what Ralph commits.
func badFiles() map[string]func(w *world, dir string) {
	text := func(name, text string) func(w *world, dir string) {
		return func(w *world, dir string) { w.write(filepath.Join(dir, name), text) }
	}
	link := func(name, to string) func(w *world, dir string) {
		return func(w *world, dir string) {
			if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	module := func(name, settings string) string { return "[submodule \"" + name + "\"]\n\tpath = sub\n" + settings }
	const url = "\turl = https://example.org/x\n"
	return map[string]func(w *world, dir string){
		"gitmodulesName":             text(".gitmodules", module("../../hooks", url)),
		"gitmodulesUrl option":       text(".gitmodules", module("sub", "\turl = -u./payload\n")),
		"gitmodulesUrl newline":      text(".gitmodules", module("sub", "\turl = \"https://example.org/x%0ahost=evil\"\n")),
		"gitmodulesUrl traversal":    text(".gitmodules", module("sub", "\turl = ../../../../:/evil\n")),
		"gitmodulesPath":             text(".gitmodules", "[submodule \"sub\"]\n\tpath = -sub\n"+url),
		"gitmodulesUpdate":           text(".gitmodules", module("sub", url+"\tupdate = !touch ran\n")),
		"gitmodulesParse":            text(".gitmodules", "[submodule \"sub\n"),
		"gitmodulesSymlink":          link(".gitmodules", "a.txt"),
		"gitmodulesUrl below":        text("deep/er/.gitmodules", module("sub", "\turl = -u./payload\n")),
		"gitmodulesUrl in NTFS":      text("GITMOD~1", module("sub", "\turl = -u./payload\n")),
		"gitmodulesUrl folded":       text(".GitModules", module("sub", "\turl = -u./payload\n")),
		"gitmodulesUrl with a space": text(".gitmodules ", module("sub", "\turl = -u./payload\n")),
		"gitmodulesUrl in HFS":       text(".git\u200cmodules", module("sub", "\turl = -u./payload\n")),
		"gitattributesLineLength":    text(".gitattributes", "*.x "+strings.Repeat("a", 3000)+"\n"),
	}
}

// An agent leaves files that git refuses in a fetch, committed by itself or not.
// The rest of its work lands, and what is in the user's repository is what a clone
// with fsckObjects accepts.
func TestFilesThatGitRefuses(t *testing.T) {
	t.Parallel()
	for name, bad := range badFiles() {
		for _, way := range []string{"uncommitted", "staged", "committed", "on another branch"} {
			if (way == "staged" || way == "on another branch") && name != "gitmodulesUpdate" {
				continue // the way matters, not what is wrong
			}
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				w := newRepo(t)
				w.write("a.txt", "1\n")
				w.commitAll("one")
				tr := w.trees()
				x := w.add(tr, "x")
				w.write(filepath.Join(x.Dir, "new.txt"), "x\n")
				bad(w, x.Dir)
				forced := []string{"-c", "core.protectHFS=false", "-c", "core.protectNTFS=false"}
				git := func(args ...string) { w.gitIn(x.Dir, append(forced, args...)...) }
				linked := name == "gitmodulesSymlink"
				switch {
				case way == "uncommitted" || linked && way != "committed": // git add refuses the link, a tree takes it
				case linked:
					blob := w.gitIn(x.Dir, "rev-parse", "HEAD:a.txt")
					w.write("tree", "120000 blob "+blob+"\t.gitmodules\n100644 blob "+blob+"\tnew.txt\n")
					out, err := w.tryIn(x.Dir, "-c", "alias.t=!git mktree <"+w.path("tree"), "t")
					w.remove("tree")
					if err != nil {
						t.Fatal(out)
					}
					git("update-ref", "HEAD", w.gitIn(x.Dir, "commit-tree", "-p", "HEAD", "-m", "bad", out))
				default:
					if way == "on another branch" {
						git("checkout", "-q", "-b", "other")
					}
					git("add", "-A")
					if way != "staged" {
						git("commit", "-qm", "bad")
					}
				}
				work, err := tr.Commit(t.Context(), "x", "work")
				if err != nil {
					t.Fatalf("commit: %v", err)
				}
				m, err := tr.Merge(t.Context(), "x", "merge")
				if err != nil {
					t.Fatalf("merge: %v", err)
				}
				equal(t, "landed", m.Landed && m.Committed, true)
				equal(t, "the rest", w.read("new.txt"), "x\n")
				if !slices.ContainsFunc(append(work.LeftOut, m.LeftOut...), func(s string) bool { return strings.Contains(s, whyRefused) }) {
					t.Errorf("left out %q, %q", work.LeftOut, m.LeftOut)
				}
				equal(t, "status", w.git("status", "--porcelain"), "")
				equal(t, "files", w.git("ls-files"), "a.txt\nnew.txt")
				out, err := w.tryIn(filepath.Dir(w.root), "-c", "fetch.fsckObjects=true", "clone", "-q", "--no-local", "--mirror", w.root, "mirror")
				if err != nil {
					t.Errorf("git refuses the user's repository: %v %s", err, out)
				}
				w.sound(t)
			})
		}
	}
}
