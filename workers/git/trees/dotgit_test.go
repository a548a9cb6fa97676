package trees

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sound demands that git finds nothing wrong with any object of the user's
// repository, whether something refers to it or not.
func (w *world) sound(t *testing.T) {
	t.Helper()
	out, err := w.tryIn(w.root, "fsck", "--full", "--strict", "--no-dangling", "--no-progress")
	if out = strings.TrimSpace(out); err != nil || strings.Contains(out, "error") || strings.Contains(out, "missing") || strings.Contains(out, "warning") {
		t.Errorf("git fsck: %v\n%s", err, out)
	}
}

// dotGits are spellings of .git, by is_ntfs_dotgit in git's path.c, is_hfs_dotgit and
// the code points of next_hfs_char in its utf8.c, and the cases of hasDotgit in its
// t1450-fsck.sh and t1014-read-tree-confusing.sh. None of them is git's own, which
// no index takes.
func dotGits() []string {
	list := []string{".GIT", ".Git", "git~1", "GIT~1", ".git ", ".git.", ".git . .", "git~1.", "GIT~1 ", ".git::$INDEX_ALLOCATION", ".git:x", "git~1:x", `.git\config`, `x\.git`, `.\.GIT\foobar`}
	for _, r := range "\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u206a\u206b\u206c\u206d\u206e\u206f\ufeff" {
		list = append(list, ".g"+string(r)+"it")
	}
	return append(list, "\u200c.git", ".gIT\ufeff")
}

// TestDotGit has agents leave and commit what some file system takes for a git
// directory: the rest of their work lands, and nothing of it ever reaches the
// user's tree or objects.
func TestDotGit(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"left", "staged", "committed", "committed by parts"} {
		for _, name := range dotGits() {
			if way != "left" && !slices.Contains([]string{".GIT", "git~1", ".git:x", `x\.git`, ".g\u200cit"}, name) {
				continue // the way matters, not the spelling
			}
			t.Run(way+" "+strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
				t.Parallel()
				w := newRepo(t)
				w.write("a.txt", "1\n")
				w.commitAll("one")
				tr := w.trees()
				x := w.add(tr, "x")
				w.write(filepath.Join(x.Dir, "new.txt"), "x\n")
				forced := []string{"-c", "core.protectHFS=false", "-c", "core.protectNTFS=false"}
				switch way {
				case "committed by parts":
					blob := w.gitIn(x.Dir, "rev-parse", "HEAD:a.txt")
					raw, err := hex.DecodeString(blob)
					if err != nil {
						t.Fatal(err)
					}
					at := filepath.Join(t.TempDir(), "tree")
					store := func(text string) string {
						if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
							t.Fatal(err)
						}
						return w.gitIn(x.Dir, "hash-object", "-t", "tree", "-w", "--literally", at)
					}
					inner, err := hex.DecodeString(store("100644 config\x00" + string(raw)))
					if err != nil {
						t.Fatal(err)
					}
					w.gitIn(x.Dir, "update-ref", "HEAD", w.gitIn(x.Dir, "commit-tree", "-p", "HEAD", "-m", "bad", store("40000 "+name+"\x00"+string(inner))))
				default:
					w.write(filepath.Join(x.Dir, name, "config"), "[core]\n\tfsmonitor = touch ran\n")
					if way == "left" {
						break
					}
					_, _ = w.tryIn(x.Dir, append(forced, "add", "-A")...) // git itself refuses some
					if way == "committed" {
						_, _ = w.tryIn(x.Dir, append(forced, "commit", "-q", "--allow-empty", "-am", "bad")...)
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
				equal(t, "status", w.git("status", "--porcelain"), "")
				equal(t, "files", w.git("ls-files"), "a.txt\nnew.txt")
				if _, err := os.Lstat(w.path(name)); err == nil {
					t.Errorf("%q is in the user's tree", name)
				}
				if !slices.ContainsFunc(append(work.LeftOut, m.LeftOut...), func(s string) bool { return strings.Contains(s, "hasDotgit") }) {
					t.Errorf("left out %q, %q", work.LeftOut, m.LeftOut)
				}
				w.sound(t)
			})
		}
	}
}
