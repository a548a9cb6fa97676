package git

import (
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCheckoutIsTheUsers compares a checkout with what git makes of the same commit
// in the user's tree, under every setting of git-config(1) and gitattributes(5) that
// changes what files are made, in the repository and for all of the user's.
func TestCheckoutIsTheUsers(t *testing.T) {
	cases := map[string]string{
		"none":                    `:`,
		"eol=crlf":                `echo '* text eol=crlf' >.gitattributes`,
		"autocrlf":                `git config $SCOPE core.autocrlf true`,
		"autocrlf input":          `git config $SCOPE core.autocrlf input`,
		"core.eol":                `git config $SCOPE core.eol crlf; echo '* text' >.gitattributes`,
		"core.eol, automatic":     `git config $SCOPE core.eol crlf; echo '* text=auto' >.gitattributes`,
		"fileMode":                `git config $SCOPE core.fileMode false`,
		"symlinks":                `git config $SCOPE core.symlinks false`,
		"ignoreCase":              `git config $SCOPE core.ignoreCase true`,
		"attributes of the user":  `mkdir -p .git/info; echo '* text eol=crlf' >.git/info/attributes`,
		"ident":                   `echo '* ident' >.gitattributes`,
		"an encoding":             `echo '*.txt working-tree-encoding=UTF-16LE text' >.gitattributes; iconv -t UTF-16LE a.txt >x; mv x a.txt`,
		"attributes file":         `echo '* text eol=crlf' >"$HOME/attributes"; git config $SCOPE core.attributesFile "$HOME/attributes"`,
		"attributes file, usual":  `mkdir -p "$HOME/.config/git"; echo '* text eol=crlf' >"$HOME/.config/git/attributes"`,
		"settings of a work tree": `git config extensions.worktreeConfig true; git config --worktree core.autocrlf true`,
	}
	files := func(dir string) map[string]string {
		out := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == ".git" {
				return fs.SkipDir
			}
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(dir, path) // it is below
			var text []byte
			if target, lerr := os.Readlink(path); lerr == nil {
				text = []byte(target)
			} else {
				text, err = os.ReadFile(path)
			}
			out[rel] = fmt.Sprintf("%v %q", info.Mode(), text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, script := range cases {
		for _, scope := range []string{"--local", "--global"} {
			t.Run(name+" "+scope, func(t *testing.T) {
				w := newRepo(t)
				script := "SCOPE=" + scope + `; printf 'one\ntwo $Id$\n' >a.txt; printf '#!/bin/sh\n' >run.sh; chmod +x run.sh; ln -s a.txt link; ` + script +
					`; git add -A 2>/dev/null; git update-index --chmod=+x run.sh; git commit -qm x; git rm -qrf --cached .; rm -rf a.txt run.sh link .gitattributes; git reset -q --hard`
				cmd := osexec.Command("sh", "-ec", script)
				cmd.Dir, cmd.Env = w.root, append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				dir := filepath.Join(filepath.Dir(w.root), "checkout")
				if _, err := w.open().Checkout(t.Context(), w.git("rev-parse", "HEAD"), dir); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(files(w.root), files(dir)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}
