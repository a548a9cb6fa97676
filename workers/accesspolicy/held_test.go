package accesspolicy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// replacing are the ways in which a user puts something else in the place of what
// is protected, by rename(2), unlink(2), rmdir(2) and link(2), and by what git and
// editors do: the path that is protected, and how it is replaced.
func replacing() map[string][2]string {
	return map[string][2]string{
		"a copy of .git":                {".git", `cp -a .git y; mv .git x; mv y .git`},
		"a new repository":              {".git", `git init -q n; rm -rf .git; mv n/.git .git`},
		"another clone":                 {".git", `git clone -q . c; mv .git x; mv c/.git .git`},
		"renamed over":                  {".git", `git clone -q . c; mv .git x; mv -T c/.git .git`},
		"a link to .git":                {".git", `cp -a .git y; mv .git x; ln -s y .git`},
		"a file for .git":               {".git", `cp -a .git y; mv .git x; echo "gitdir: y" >.git`},
		"exchanged":                     {".git", `cp -a .git x; python3 -c 'import ctypes; assert ctypes.CDLL(None).renameat2(-100, b".git", -100, b"x", 2) == 0'`},
		"a nested .git":                 {"lib/nested/.git", `cp -a lib/nested/.git y; mv lib/nested/.git x; mv y lib/nested/.git`},
		"a nested clone":                {"lib/nested/.git", `git clone -q . n; rm -rf lib/nested; mv n lib/nested`},
		"what holds a nested clone":     {"lib/nested/.git", `mkdir new; git clone -q . new/nested; mv lib old; mv new lib`},
		"a bare repository":             {"bare.git", `git clone -q --bare . b2.git; rm -rf bare.git; mv b2.git bare.git`},
		"a start-up file, by an editor": {".envrc", `echo new >new; mv new .envrc`},
		"a start-up file, by git":       {".envrc", `rm .envrc; echo new >.envrc`},
		"a start-up file, by a link":    {".envrc", `echo new >new; ln -f new .envrc`},
		"a directory of an editor":      {".vscode", `mv .vscode v; cp -a v .vscode`},
		"what holds the workflows":      {".github/workflows", `mv .github g; cp -a g .github`},
	}
}

// TestReplacedMeanwhile has the user replace a protected name while a command
// runs that writes to it: the command is ended, what git would run is taken away,
// and it is said.
func TestReplacedMeanwhile(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(replacing())) {
		for _, background := range []bool{false, true} {
			if testing.Short() && background && !strings.HasPrefix(name, "a ") {
				continue
			}
			how := map[bool]string{false: "foreground", true: "background"}[background]
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, true)
				path, script := replacing()[name][0], replacing()[name][1]
				w.shell(`mkdir lib .vscode .github .github/workflows; git clone -q . lib/nested; git clone -q --bare . bare.git; for f in .envrc .vscode/settings.json .github/workflows/ci.yml; do echo x >$f; done`, w.root)
				s := w.open(nil)
				// It goes on for ever, and writes wherever it can as soon as it can.
				command := `trap '' INT TERM; touch began; while :; do for g in ` + path + ` "$(sed -n 's/^gitdir: //p' ` + path + ` 2>/dev/null)"; do
					[ -d "$g/objects" ] && { mkdir "$g/hooks"; echo evil >"$g/hooks/post-commit"; chmod +x "$g/hooks/post-commit"; printf '[core]\n\tfsmonitor = evil\n' >>"$g/config"; }; done 2>/dev/null; [ -e began ] || break; done`
				spec := exec.Spec{Argv: []string{exec.Shell(""), "-c", command}, Dir: w.root}
				done := make(chan accesspolicy.Report, 1)
				if background {
					j, err := s.Start(t.Context(), spec, accesspolicy.Call{})
					if err != nil {
						t.Fatal(err)
					}
					go func() {
						<-j.Done()
						done <- s.Ended(j)
					}()
				} else {
					go func() {
						_, rep, err := s.Run(t.Context(), spec, accesspolicy.Call{})
						if err != nil {
							t.Error(err)
						}
						done <- rep
					}()
				}
				w.await(filepath.Join(w.root, "began"))
				w.shell(script, w.root)
				rep := <-done
				if told := strings.Join(rep.Reverted, "\n"); !strings.Contains(told, "replaced from outside") || !strings.Contains(told, "ended") {
					t.Errorf("reported %q", told)
				}
				for _, evil := range []string{"evil", "fsmonitor"} {
					if found := w.shell(`grep -rls --include=config --include=post-commit "$2" . | grep -v '^./.ralph/' || :`, w.root, evil); found != "" {
						t.Errorf("%s is in %s", evil, found)
					}
				}
				if strings.HasSuffix(path, ".git") && name != "a link to .git" { // a command may have made that link
					w.shell(`git -C "$(dirname "$2")" log --oneline >/dev/null 2>&1 || git --git-dir="$2" for-each-ref`, w.root, path)
				}
			})
		}
	}
}

// TestMovedAwayIsTheUsers has the user move a repository with hooks away while a
// command runs: it is kept as it is.
func TestMovedAwayIsTheUsers(t *testing.T) {
	w := newWorld(t, true)
	w.file(filepath.Join(w.root, ".git", "hooks", "pre-commit"), "mine")
	w.git("config", "core.pager", "mine")
	s := w.open(nil)
	w.beside(s, "sleep 60", func() { w.shell(`mv .git x; git clone -q x c; mv c/.git .git; rm -r c`, w.root) })
	for _, name := range []string{"hooks/pre-commit", "config"} {
		if text, err := os.ReadFile(filepath.Join(w.root, "x", name)); err != nil || !strings.Contains(string(text), "mine") {
			t.Errorf("%s: %v %q", name, err, text)
		}
	}
}

// TestOrdinaryWorkBesideACommand has the user change what is protected without
// replacing it, and much else: the command goes on to its end.
func TestOrdinaryWorkBesideACommand(t *testing.T) {
	w := newWorld(t, true)
	w.shell(`git clone -q . nested; mkdir .vscode; echo x >.envrc`, w.root)
	s := w.open(nil)
	rep := w.beside(s, "touch end", func() {
		w.shell(`git config user.name u; git commit -q --no-gpg-sign --allow-empty -m x; git gc -q; git switch -q -c topic; git -C nested fetch -q; git -C nested config user.name u
			echo y >>.envrc; echo y >.vscode/settings.json; echo z >z; mv z a.txt; mkdir d; mv d e; rmdir e`, w.root)
	})
	if _, err := os.Stat(filepath.Join(w.root, "end")); err != nil || len(rep.Reverted) > 0 {
		t.Errorf("%v, reported %q", err, rep.Reverted)
	}
}
