package acts_test

import (
	"path"
	"strings"
	"testing"

	"ralph/workers/exec/acts"
)

func TestMatch(t *testing.T) {
	for name, guarded := range map[string]bool{
		".bashrc": true, ".GITLAB-CI.yml": true, "a/b/.gitlab-ci.yml": false, ".github/workflows/x.yml": true, ".GitHub/Workflows./x": true, ".github/actions/a/b": true, "x/.github/workflows/a.yml": false, ".vscode": true, "sub/.idea/x": true, "home/.config/fish/config.fish": true,
		"Jenkinsfile": true, ".en\u200cvrc": true, "./a/../.envrc": true,
		"a.go": false, ".github/ISSUE_TEMPLATE/x.md": false, "a/.git/hooks/pre-commit": true, "a/.git/hooks/pre-commit.sample": false, "x.code-workspace": true, "workflows/x.yml": false, "bashrc": false, ".vscodex/x": false, "docs/jenkinsfile.md": false, "": false, ".gitignore": false, ".config/x": false,
	} {
		if got, ok := (acts.Rules{}).Match(name); ok != guarded {
			t.Errorf("%q: %+v", name, got)
		}
	}
}

// Names has no name twice, and each is folded and found again.
func TestNames(t *testing.T) {
	seen, classes := map[string]bool{}, map[string]int{}
	for _, n := range acts.Names() {
		if seen[n.Path] || n.Path != path.Clean(n.Path) || acts.Why(n.Class) == "" {
			t.Errorf("%+v", n)
		}
		seen[n.Path] = true
		classes[n.Class]++
		for part := range strings.SplitSeq(n.Path, "/") {
			if acts.Fold(part) != part {
				t.Errorf("%q is not folded", n.Path)
			}
		}
		at := strings.ReplaceAll(n.Path, "*", "x")
		for _, p := range []string{at, at + "/below", strings.ToUpper(at)} {
			if _, ok := (acts.Rules{}).Match(p); !ok {
				t.Errorf("%q is not found", p)
			}
		}
		if got, ok := (acts.Rules{}).Match("sub/" + at); ok == n.Root && got.Root == n.Root {
			t.Errorf("%q below the root: %v", n.Path, ok)
		}
		if _, ok := (acts.Rules{Roots: []string{"sub"}}).Match("sub/" + at); !ok {
			t.Errorf("%q at the root of a repository below is not found", n.Path)
		}
		if _, ok := (acts.Rules{Free: []string{"node_modules"}}).Match("a/node_modules/" + at); ok != n.Repo {
			t.Errorf("%q in a dependency: %v", n.Path, ok)
		}
		if _, ok := (acts.Rules{Allow: []string{n.Class}}).Match(at); ok {
			t.Errorf("%q is refused although its class is allowed", n.Path)
		}
		if !acts.Candidate(path.Base(at)) && !n.Repo {
			t.Errorf("%q is no candidate", n.Path)
		}
	}
	t.Logf("%d names: %v", len(seen), classes)
}
