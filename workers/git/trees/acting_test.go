package trees

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ralph/workers/exec/acts"
)

// changesOfTree are the ways in which an agent changes "$N" in its tree so that a commit
// of its work has it. W is a file with other content, B the base.
func changesOfTree() map[string]string {
	return map[string]string{
		"file":           `mkdir -p "$(dirname "$N")"; cp "$W" "$N"`,
		"forced":         `mkdir -p "$(dirname "$N")"; echo "/$N" >> .git/info/exclude; cp "$W" "$N"; git add -f -- "$N"`,
		"committed":      `mkdir -p "$(dirname "$N")"; cp "$W" "$N"; git add -f -- "$N"; git commit -qm x`,
		"history":        `mkdir -p "$(dirname "$N")"; cp "$W" "$N"; git add -f -- "$N"; git commit -qm x; git checkout -q "$B" -- "$N" || git rm -q --cached -- "$N"; git commit -qm y; rm -f "$N"; git checkout -q -- "$N" || true`,
		"index only":     `git update-index --add --cacheinfo 100644,"$(git hash-object -w "$W")","$N"`,
		"plumbing":       `git update-index --add --cacheinfo 100644,"$(git hash-object -w "$W")","$N"; git update-ref HEAD "$(git commit-tree -p HEAD -m x "$(git write-tree)")"; git update-index --skip-worktree "$N"`,
		"executable":     `mkdir -p "$(dirname "$N")"; cp "$W" "$N"; chmod +x "$N"`,
		"link":           `mkdir -p "$(dirname "$N")"; rm -f "$N"; ln -s other "$N"`,
		"another branch": `git checkout -qb mine; mkdir -p "$(dirname "$N")"; cp "$W" "$N"; git add -f -- "$N"; git commit -qm x`,
		"detached":       `git checkout -q --detach; mkdir -p "$(dirname "$N")"; cp "$W" "$N"; git add -f -- "$N"; git commit -qm x`,
		"merge":          `git checkout -qb mine; mkdir -p "$(dirname "$N")"; cp "$W" "$N"; git add -f -- "$N"; git commit -qm x; git checkout -q -; echo 1 > z; git add z; git commit -qm z; git merge -q --no-ff -m m mine`,
		"mode":           `chmod +x "$N"`,
		"removal":        `rm -f "$N"`,
		"renamed":        `git mv -- "$N" renamed`,
		"rewritten":      `git checkout -q --orphan new; mkdir -p "$(dirname "$N")"; cp "$W" "$N"; git add -A -f; git commit -qm x`,
		"capitals":       `U="$(dirname "$N")/$(basename "$N" | tr a-z A-Z)"; mkdir -p "$(dirname "$N")"; cp "$W" "$U"`,
	}
}

// Whatever an agent does in its tree, no name that acts comes into the user's that Refuse
// does not let pass; the rest of the work does.
func TestNamesThatActAreNotTakenOver(t *testing.T) {
	t.Parallel()
	names := []string{".envrc", "web/.envrc", ".github/workflows/ci.yml", "a/b/.vscode/tasks.json", ".husky/pre-commit", ".cargo/config.toml",
		"sub/.mcp.json", ".claude/settings.json", ".gitlab-ci.yml", "web/.idea/runConfigurations/x.xml"}
	if testing.Short() {
		names = names[1:3]
	}
	ways := changesOfTree()
	for way := range ways {
		t.Run(strings.ReplaceAll(way, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for _, name := range names {
				for _, there := range []bool{false, true} {
					if there && way == "forced" || !there && slices.Contains([]string{"mode", "removal", "renamed"}, way) {
						continue
					}
					w := newRepo(t)
					w.write("a.txt", "1\n")
					if there {
						w.write(name, "the user's\n")
					}
					w.commitAll("one")
					before := w.git("ls-files", "-s", "--", ":!ok.txt", ":!z", ":!renamed")
					tr := w.trees()
					refused := 0
					tr.Refuse = func(p Proposed) string {
						if n, ok := (acts.Rules{}).Match(p.Path); ok {
							refused++
							return acts.Why(n.Class)
						}
						return ""
					}
					tree := w.add(tr, "x")
					w.write(filepath.Join(tree.Dir, "ok.txt"), "1")
					other := filepath.Join(t.TempDir(), "other")
					w.write(other, "other\n")
					sh(t, tree.Dir, "N="+name+" W="+other+" B="+tree.Base+"\n"+ways[way])
					w.commit(tr, "x")
					w.merge(tr, "x")
					if got := w.git("ls-files", "-s", "--", ":!ok.txt", ":!z", ":!renamed"); got != before {
						t.Errorf("%s, there %v: the user's tree has\n%s\nand had\n%s", name, there, got, before)
					}
					if !w.exists("ok.txt") {
						t.Errorf("%s, there %v: the rest of the work is missing", name, there)
					}
					if log := w.git("log", "--name-only", "--format=", "main", "--", ":(icase)"+name); !there && log != "" {
						t.Errorf("%s: the history has %q", name, log)
					}
					if refused == 0 && way != "index only" { // there the file counts
						t.Errorf("%s, there %v: nothing was asked", name, there)
					}
				}
			}
		})
	}
}

// Refuse is asked with the content as the work has it, and what it lets pass lands.
func TestRefuseSeesTheContent(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	granted := sha256.Sum256([]byte("granted\n"))
	tr.Refuse = func(p Proposed) string {
		if content, err := p.Content(); path.Base(p.Path) == ".envrc" && (err != nil || sha256.Sum256(content) != granted) {
			return "no"
		}
		return ""
	}
	tree := w.add(tr, "x")
	w.write(filepath.Join(tree.Dir, "yes/.envrc"), "granted\n")
	w.write(filepath.Join(tree.Dir, "no/.envrc"), "another\n")
	work := w.commit(tr, "x")
	equal(t, "left out", work.LeftOut, []string{"no/.envrc (no)"})
	w.merge(tr, "x")
	equal(t, "granted", w.read("yes/.envrc"), "granted\n")
	equal(t, "refused", w.exists("no/.envrc"), false)
}

// The layouts by which git takes a directory for a repository, by
// gitrepository-layout(5): all at once, by parts over what was there, in capitals, and
// what lies in one.
func TestBareRepositoriesAreProposedAsSuch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ base, work, repo string }{
		"whole":       {work: "x/HEAD x/objects/a x/refs/b x/config", repo: "x"},
		"deep":        {work: "a/b/x/HEAD a/b/x/objects/a a/b/x/refs/b a/b/x/hooks/pre-commit", repo: "a/b/x"},
		"linked":      {work: "x/HEAD x/commondir", repo: "x"},
		"completed":   {base: "x/objects/a x/refs/b", work: "x/HEAD", repo: "x"},
		"completed 2": {base: "x/HEAD x/refs/b x/config", work: "x/objects", repo: "x"},
		"capitals":    {work: "x/head x/Objects/a x/REFS/b", repo: "x"},
		"existing":    {base: "x/HEAD x/objects/a x/refs/b", work: "x/config", repo: "x"},
		"no refs":     {work: "x/HEAD x/objects/a"},
		"the root":    {work: "HEAD objects/a refs/b"},
		"as files":    {work: "x/HEAD x/objects x/refs", repo: "x"},
		"on disk":     {work: "x/objects/a x/refs/b", repo: "x"},
		"elsewhere":   {base: "x/HEAD x/objects/a x/refs/b", work: "y/config"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			w := newRepo(t)
			for _, f := range append(strings.Fields(c.base), "a.txt") {
				w.write(f, "the user's\n")
			}
			w.commitAll("one")
			if name == "on disk" { // what git ignores is in no commit
				w.write("x/HEAD", "the user's\n")
			}
			tr := w.trees()
			repos := map[string]string{}
			tr.Refuse = func(p Proposed) string { repos[p.Path] = p.Repository; return "" }
			tree := w.add(tr, "x")
			for _, f := range strings.Fields(c.work) {
				w.write(filepath.Join(tree.Dir, f), "1\n")
			}
			w.commit(tr, "x")
			for _, f := range strings.Fields(c.work) {
				if got, asked := repos[f]; !asked || got != c.repo {
					t.Errorf("%s is of %q (asked: %v), want %q", f, got, asked, c.repo)
				}
			}
		})
	}
}

func sh(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@a")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// The parts of a repository that different agents bring are judged together; of a file that
// is left out under its new name the old one stays.
func TestWhatAgentsBringTogether(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("a.txt", "1\n")
	w.write("script.sh", "echo\n")
	w.commitAll("one")
	tr := w.trees()
	tr.Refuse = func(p Proposed) string {
		if p.Repository != "" {
			return "of a repository"
		}
		if n, ok := (acts.Rules{}).Match(p.Path); ok {
			return acts.Why(n.Class)
		}
		return ""
	}
	one, two := w.add(tr, "one"), w.add(tr, "two")
	w.write(filepath.Join(one.Dir, "b/HEAD"), "ref: refs/heads/main\n")
	w.write(filepath.Join(one.Dir, "b/config"), "[core]\n")
	w.write(filepath.Join(two.Dir, "b/objects/k"), "k\n")
	w.write(filepath.Join(two.Dir, "b/refs/k"), "k\n")
	w.write(filepath.Join(two.Dir, "ok.txt"), "k\n")
	w.gitIn(two.Dir, "mv", "script.sh", ".envrc")
	w.commit(tr, "one")
	w.commit(tr, "two") // before the other is merged
	w.merge(tr, "one")
	w.merge(tr, "two")
	equal(t, "tree", w.git("ls-files"), "a.txt\nb/HEAD\nb/config\nok.txt\nscript.sh")
}

// What lands is judged as it lands: a merge follows the user's rename to a name that acts, and
// work that waited meets the rules of the present.
func TestLandingIsJudged(t *testing.T) {
	t.Parallel()
	w := newRepo(t)
	w.write("script.sh", strings.Repeat("a line of a script\n", 20))
	w.write("a.txt", "1\n")
	w.commitAll("one")
	tr := w.trees()
	allowed := false
	tr.Refuse = func(p Proposed) string {
		if n, ok := (acts.Rules{}).Match(p.Path); ok && !allowed {
			return acts.Why(n.Class)
		}
		return ""
	}
	tree := w.add(tr, "renames")
	w.write(filepath.Join(tree.Dir, "script.sh"), strings.Repeat("a line of a script\n", 20)+"evil\n")
	w.commit(tr, "renames")
	w.git("mv", "script.sh", ".envrc")
	w.commitAll("two")
	m := w.merge(tr, "renames")
	equal(t, "held", m.Held, []string{".envrc"})
	equal(t, "why", m.Why, ".envrc (is a start-up or access file)")
	equal(t, "content", strings.Contains(w.read(".envrc"), "evil"), false)

	allowed = true
	m, err := tr.Land(t.Context())
	if err != nil || !m.Landed {
		t.Fatal(err, m)
	}
	equal(t, "with a rule", strings.Contains(w.read(".envrc"), "evil"), true)
}
