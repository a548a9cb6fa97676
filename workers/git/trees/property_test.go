package trees

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ralph/workers/git"
)

// seeds is how many random histories are tried; RALPH_SWEEP has more.
func seeds(t *testing.T, n int) int {
	if s, err := strconv.Atoi(os.Getenv("RALPH_SWEEP")); err == nil {
		return s
	}
	if testing.Short() {
		return 1
	}
	return n
}

// files gives all files of a directory but those of git and Ralph.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" || d.Name() == ".ralph" {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		rel, _ := filepath.Rel(dir, p)
		if d.Type()&os.ModeSymlink != 0 {
			target, err := os.Readlink(p)
			all[rel] = "-> " + target
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(p)
		all[rel] = info.Mode().Perm().String() + string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// scribble changes some files of a directory at random and gives their names.
func scribble(t *testing.T, r *rand.Rand, dir, who string, n int) map[string]bool {
	t.Helper()
	touched := map[string]bool{}
	for i := range n {
		name := fmt.Sprintf("d%d/f%d", r.Intn(2), r.Intn(4))
		full := filepath.Join(dir, name)
		touched[name] = true
		b, err := os.ReadFile(full)
		switch k := r.Intn(10); {
		case err != nil || k == 0:
			err = errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.RemoveAll(full),
				os.WriteFile(full, []byte(strings.Repeat(who+" new "+strconv.Itoa(i)+"\n", 3)), 0o644))
		case k == 1:
			err = os.Remove(full)
		case k == 2:
			err = os.Chmod(full, 0o755)
		case k == 3:
			err = errors.Join(os.Remove(full), os.Symlink("f0", full))
		default:
			lines := bytes.Split(b, []byte("\n"))
			at := r.Intn(len(lines))
			lines[at] = []byte(fmt.Sprintf("%s %d", who, i))
			// Not through a link: another file would change.
			err = errors.Join(os.Remove(full), os.WriteFile(full, bytes.Join(lines, []byte("\n")), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return touched
}

// Random edits of a user and of agents, and merges between them: what an agent
// did not touch is the user's to the byte, and its work is there as a whole or
// not at all.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 1) {
		w := newRepo(t)
		r := rand.New(rand.NewSource(int64(seed)))
		scribble(t, r, w.root, "base", 12)
		w.write("d0/anchor", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
		w.commitAll("one")
		tr := w.trees()
		landed, refused := 0, 0
		for round := range 3 {
			agents := []string{fmt.Sprintf("a%d", round), fmt.Sprintf("b%d", round)}
			if r.Intn(2) == 0 {
				scribble(t, r, w.root, "user", 1+r.Intn(2))
			}
			touched := map[string]map[string]bool{}
			for _, a := range agents {
				tree := w.add(tr, a)
				touched[a] = scribble(t, r, tree.Dir, a, 1+r.Intn(3))
				w.write(filepath.Join(tree.Dir, "mark_"+a), a+"\n")
				touched[a]["mark_"+a] = true
				w.commit(tr, a)
			}
			for _, a := range agents {
				switch r.Intn(4) {
				case 0:
					scribble(t, r, w.root, "user", 1)
				case 1:
					w.git("add", "-A")
					_, _ = w.tryIn(w.root, "commit", "-q", "-m", "user")
				case 2:
					w.git("add", "d0")
				}
				before := files(t, w.root)
				staged := w.git("diff", "--cached", "--name-only", "--no-renames")
				m, err := tr.Merge(t.Context(), a, "merge "+a)
				if err != nil && !errors.Is(err, git.ErrNothingToCommit) {
					t.Fatalf("seed %d: %v", seed, err)
				}
				after := files(t, w.root)
				if !m.Landed {
					refused++
					equal(t, fmt.Sprintf("seed %d: nothing landed", seed), after, before)
				} else {
					landed++
				}
				if got := after["mark_"+a] != ""; got != m.Landed {
					t.Fatalf("seed %d: landed %v, the file is there: %v", seed, m.Landed, got)
				}
				for name, content := range before {
					// What waited from before may land together with this.
					if !touched[a][name] && !touchedByOthers(touched, m, name) && after[name] != content {
						t.Fatalf("seed %d: %s was %q and is %q: %+v", seed, name, content, after[name], m)
					}
				}
				now := w.git("diff", "--cached", "--name-only", "--no-renames")
				for _, f := range strings.Fields(staged) {
					if !slices.Contains(strings.Fields(now), f) && !touched[a][f] && !touchedByOthers(touched, m, f) {
						t.Fatalf("seed %d: %s is no longer staged", seed, f)
					}
				}
				if m.Committed {
					w.git("fsck", "--connectivity-only", "--no-dangling")
				}
			}
			for _, a := range agents {
				if err := tr.Remove(t.Context(), a, r.Intn(2) == 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Logf("seed %d: %d landed, %d did not", seed, landed, refused)
	}
}

func touchedByOthers(touched map[string]map[string]bool, m Merge, name string) bool {
	for _, f := range m.Files {
		if f.Path == name || f.OldPath == name {
			return true
		}
	}
	for _, names := range touched {
		if names[name] {
			return true
		}
	}
	return false
}

func FuzzMergeTree(f *testing.F) {
	h := strings.Repeat("a", 40)
	f.Add([]byte(h + "\x00"))
	f.Add([]byte(h + "\x00100644 " + h + " 1\ta b\x00\x001\x00a b\x00CONFLICT (contents)\x00text\n\x00"))
	f.Add([]byte(h + "\x00\x009\x00x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMergeTree(b)
		if err == nil && !isHash(m.tree) {
			t.Errorf("tree %q", m.tree)
		}
	})
}
