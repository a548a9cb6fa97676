package publish

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// indexForms are the forms of an index by gitformat-index(5): its versions, its
// extensions, and the checksum that git leaves out, each with what makes it and a
// text that the file holds then.
func indexForms() map[string]struct{ setup, mark string } {
	const fsmonitor = `printf '#!/bin/sh\nprintf "x\\000/\\000"\n' >.git/fs; chmod +x .git/fs; git config core.fsmonitor .git/fs; git update-index --fsmonitor; git status >/dev/null`
	const split = `git config core.splitIndex true; git config splitIndex.maxPercentChange 100; git update-index --split-index`
	return map[string]struct{ setup, mark string }{
		"version 2":          {`git update-index --index-version 2`, "DIRC\x00\x00\x00\x02"},
		"version 3":          {`echo i >i.txt; git add -N i.txt`, "DIRC\x00\x00\x00\x03"},
		"version 4":          {`git config index.version 4; git update-index --index-version 4`, "DIRC\x00\x00\x00\x04"},
		"cache tree":         {`git reset -q --hard`, "TREE"},
		"resolve undo":       {`git checkout -q feature; echo f >c.txt; git add .; git commit -qm f; git checkout -q main; git merge -q feature >/dev/null || :; echo r >c.txt; git add c.txt`, "REUC"},
		"split index":        {split, "link"},
		"split version 4":    {`git config index.version 4; git update-index --index-version 4; ` + split, "link"},
		"split with changes": {split + `; echo more >>a.txt; git rm -q --cached b.txt; echo 0 >0.txt; git add a.txt 0.txt; git reset -q; git add a.txt; git commit -qm changed`, "link"},
		"split hidden":       {split + `; git update-index --assume-unchanged b.txt`, "link"},
		"split and resolved": {split + `; git checkout -q feature; echo f >c.txt; git add .; git commit -qm f; git checkout -q main; git merge -q feature >/dev/null || :; echo r >c.txt; git add c.txt`, "REUC"},
		"untracked cache":    {`git config core.untrackedCache true; git update-index --force-untracked-cache; git status >/dev/null`, "UNTR"},
		"fsmonitor":          {fsmonitor, "FSMN"},
		"end of entries":     {`git config index.threads 2; git config index.recordEndOfIndexEntries true; git update-index --force-write-index`, "EOIE"},
		"offset table":       {`git config index.threads 2; git config index.recordOffsetTable true; git update-index --force-write-index`, "IEOT"},
		"sparse":             {`mkdir -p e/f; echo e >e/f/e.txt; git add e; git commit -qm e; git sparse-checkout set --cone --sparse-index d`, "sdir"},
		"many files":         {`git config feature.manyFiles true; git update-index --force-untracked-cache; git status >/dev/null`, "UNTR"},
		"no checksum":        {`perl -0777 -pi -e 'substr($_,-20)="\0"x20' .git/index`, strings.Repeat("\x00", 20)},
		"all at once":        {`git config feature.manyFiles true; git config index.threads 2; git config index.recordOffsetTable true; ` + fsmonitor + `; git update-index --force-untracked-cache; git status >/dev/null; ` + split, "link"},
	}
}

// TestIndexForms stages and commits through the layer in repositories with each
// form of an index, made by the user before and by the command itself: the index is
// what the same work on the repository itself gives, and the user's next commit
// takes nothing back.
func TestIndexForms(t *testing.T) {
	t.Parallel()
	const (
		work  = `echo new >n.txt; git add n.txt; git commit -qm mine; echo staged >s.txt; git add s.txt; git rm -q --cached a.txt`
		see   = `git ls-files -s; git ls-files -t; git log --format=%s; git status --porcelain | sort`
		after = `git commit -qm next; git show --name-status --format=%P HEAD | sort; git status --porcelain | sort`
	)
	for name, form := range indexForms() {
		for _, hash := range []string{"sha1", "sha256"} {
			if name == "no checksum" && hash == "sha256" {
				continue // the checksum is as long as an object id
			}
			for by, scripts := range map[string][2]string{"the user": {form.setup, work}, "the command": {"", form.setup + "; " + work}} {
				if by == "the command" && (name == "sparse" || strings.Contains(form.setup, "fsmonitor")) {
					continue // it needs settings, which a command cannot make
				}
				t.Run(name+" by "+by+" "+hash, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, "")
					w.user(strings.Replace(setUp, "git init -q", "git init -q --object-format="+hash, 1) + "\n" + scripts[0])
					w.open()
					if text, err := os.ReadFile(filepath.Join(w.root, ".git/index")); by == "the user" && (err != nil || !strings.Contains(string(text), form.mark)) {
						t.Fatalf("git did not write that form: %v", err)
					}
					plain := &world{T: t, dir: w.dir, root: filepath.Join(w.dir, "plain", "p"), home: w.home}
					if out, err := osexec.Command("sh", "-ec", `mkdir "$1"; cp -a "$0" "$1/p"`, w.root, filepath.Dir(plain.root)).CombinedOutput(); err != nil {
						t.Fatal(err, string(out))
					}
					plain.user(scripts[1])
					rep := w.do(scripts[1])
					rep.Dropped = slices.DeleteFunc(rep.Dropped, func(s string) bool { return strings.HasPrefix(s, "config (") })
					clean(t, rep)
					w.same("through the layer", see, plain.user(see))
					want := plain.user(after)
					w.same("the user's next commit", after, want)
					w.whole()
				})
			}
		}
	}
}

// TestIndexThatCannotBeTaken has a command commit and leave an index that git would
// not have written: neither the branch nor the index is moved, and the commit is
// kept and named.
func TestIndexThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	const commit = `echo new >n.txt; git add n.txt; git commit -qm mine; `
	for name, script := range map[string]string{
		"removed":                       `rm .git/index`,
		"a directory":                   `rm .git/index; mkdir .git/index`,
		"a link":                        `mv .git/index .git/i; ln -s i .git/index`,
		"empty":                         `: >.git/index`,
		"cut off":                       `head -c 100 .git/index >x; cat x >.git/index; rm x`,
		"a wrong checksum":              `printf x >>.git/index`,
		"an unknown version":            `perl -0777 -pi -e 'substr($_,7,1)="\5"; substr($_,-20)="\0"x20' .git/index`,
		"an unknown required extension": `perl -0777 -pi -e 'substr($_,-20)="abcd\0\0\0\0"."\0"x20' .git/index`,
		"split without its other part":  `git update-index --split-index; rm .git/sharedindex.*`,
		"split with another part":       `git update-index --split-index; cp .git/index i; git update-index --no-split-index; for f in .git/sharedindex.*; do cp .git/index $f; done; cat i >.git/index; rm i`,
		"split with bits past its end":  `git update-index --split-index; git rm -q --cached b.txt; perl -0777 -pi -e 's/(link\0\0\0.)(.{20})(....)(....)(.{8})(.{8})/$1$2$3$4$5\xff\xff\xff\xff\xff\xff\xff\xff/s; substr($_,-20)="\0"x20' .git/index`,
		"a path in git's directory":     `printf "100644 $(git rev-parse HEAD:a.txt)\t.giX/config\n" | git update-index --index-info; perl -0777 -pi -e 's/\.giX/.git/; substr($_,-20)="\0"x20' .git/index`,
		"a blob that is missing":        `printf '100644 1234567890123456789012345678901234567890\tghost\n' | git update-index --index-info`,
		"a state that git cannot leave": `git rev-parse HEAD~1 >.git/MERGE_HEAD; echo 'x y' >.git/MERGE_MODE; git rm -q --cached a.txt`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, setUp)
			const see = `git ls-files -s; git for-each-ref refs/heads; cat .git/HEAD; ls .git/MERGE_HEAD 2>/dev/null || :`
			before := w.user(see)
			rep := w.do(commit + script)
			w.same("branch and index", see, before)
			if len(rep.Dropped) == 0 || len(rep.Refused) > 0 {
				t.Errorf("reported %q", rep.Lines())
			}
			if !slices.ContainsFunc(rep.Late, func(ref string) bool {
				out, err := w.try("git log -1 --format=%s " + ref)
				return err == nil && strings.TrimSpace(out) == "mine"
			}) {
				t.Errorf("the commit is not kept: %q", rep.Lines())
			}
			w.user(`git commit -q --allow-empty -m next; test -z "$(git diff-tree -r --name-only HEAD~1 HEAD)"`)
			w.waysBack(rep)
			w.whole()
		})
	}
}
