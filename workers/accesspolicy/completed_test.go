package accesspolicy_test

import (
	"maps"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// completed are the ways in which a command can have the user's git take a directory of the
// user's, such as a fixture, for one of git's, by gitrepository-layout(5): a configuration in it
// acts, or a hook. "u" is such a directory, whole but for HEAD; git runs in n, or in u.
func completed() map[string]string {
	return map[string]string{
		"a file that leads":            `echo "ref: refs/heads/main" >u/HEAD; mkdir n; echo "gitdir: ../u" >n/.git`,
		"a file to a whole one":        `mkdir n; echo "gitdir: ../whole" >n/.git`,
		"a file, renamed":              `mkdir n; echo "gitdir: ../whole" >f; mv f n/.git`,
		"a file, linked":               `mkdir n; echo "gitdir: ../whole" >f; ln f n/.git`,
		"a file through a link":        `ln -s whole l; mkdir n; echo "gitdir: ../l" >n/.git`,
		"a file by the absolute path":  `mkdir n; echo "gitdir: $PWD/whole" >n/.git`,
		"a file through a process":     `mkdir n; echo "gitdir: /proc/self/cwd/whole" >n/.git`,
		"a file in other case":         `mkdir n; echo "gitdir: ../whole" >n/.Git; mv n/.Git n/.git`,
		"a link":                       `mkdir n; ln -s ../whole n/.git`,
		"HEAD":                         `echo "ref: refs/heads/main" >u/HEAD; ln -s u n`,
		"HEAD, renamed":                `echo "ref: refs/heads/main" >u/h; mv u/h u/HEAD; ln -s u n`,
		"HEAD, a link":                 `ln -s refs/heads/main u/HEAD; ln -s u n`,
		"objects":                      `mkdir o/objects; ln -s o n`,
		"objects, renamed":             `mkdir o/x; mv o/x o/objects; ln -s o n`,
		"refs":                         `mkdir r/refs; ln -s r n`,
		"a common directory":           `mkdir -p n/.git; echo "ref: refs/heads/main" >n/.git/HEAD; echo ../../u >n/.git/commondir`,
		"a common directory elsewhere": `mkdir -p n g; echo "ref: refs/heads/main" >g/HEAD; echo ../u >g/commondir; echo "gitdir: ../g" >n/.git`,
		"one that leads on":            `mkdir n; echo "gitdir: ../on" >n/.git`,
		"a file to hooks":              `mkdir n; echo "gitdir: ../hooked" >n/.git`,
		"copied":                       `cp -r whole m; mkdir n; echo "gitdir: ../m" >n/.git`,
		"configuration by a link":      `mkdir -p m/objects m/refs n; ln -s ../whole/config m/config; echo "ref: refs/heads/main" >m/HEAD; echo "gitdir: ../m" >n/.git`,
		"moved":                        `mv whole n/.git`,
	}
}

// TestCompletedRepositories has the user's git work beside commands that complete what the user
// has of a repository.
func TestCompletedRepositories(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(completed())) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			needGuard(t, w)
			ran := filepath.Join(filepath.Dir(w.root), "ran")
			w.shell(`
acts() { mkdir -p $1/objects $1/refs; touch $1/refs/keep $1/objects/keep; printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch %s; false"\n\tpager = "touch %s"\n[alias]\n\tst = !touch %s\n' "$2" "$2" "$2" >$1/config; }
for d in u o r whole; do acts $d "$2"; done; rm -r o/objects r/refs; echo "ref: refs/heads/main" >whole/HEAD
mkdir -p on hooked/objects hooked/refs hooked/hooks; cp whole/HEAD on; echo ../u >on/commondir; cp whole/HEAD hooked; printf '#!/bin/sh\ntouch %s\n' "$2" >hooked/hooks/post-index-change; chmod +x hooked/hooks/*; printf '[core]\n\trepositoryformatversion = 0\n' >hooked/config; touch hooked/objects/keep hooked/refs/keep`, w.root, ran)
			git := func() {
				for _, args := range [][]string{{"status"}, {"st"}, {"add", "-A"}} {
					cmd := osexec.Command("git", append([]string{"-C", "n"}, args...)...)
					cmd.Dir, cmd.Env = w.root, append(w.environ(), "GIT_CEILING_DIRECTORIES="+w.root)
					_ = cmd.Run() // mostly there is no repository
				}
			}
			s := w.open(nil)
			j, err := s.Start(t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", completed()[name] + "\ntouch begun; while ! test -e stop; do sleep 0.01; done"}, Dir: w.root, Timeout: time.Minute}, accesspolicy.Call{})
			if err != nil {
				t.Fatal(err)
			}
			w.await(filepath.Join(w.root, "begun"))
			git()
			w.file(filepath.Join(w.root, "stop"), "")
			<-j.Done()
			rep := s.Ended(j)
			git()
			if _, err := os.Lstat(ran); err == nil {
				t.Errorf("git ran what the user's directory says; the command got %q, %q", rep.Denied, rep.Reverted)
			}
		})
	}
}

// TestUnpackedRepositories has commands copy and unpack repositories of the user's in every order
// of their parts: they may lose settings, and nothing else.
func TestUnpackedRepositories(t *testing.T) {
	w := newWorld(t, true)
	s := w.open(nil)
	w.shell(`git init -q --bare ../bare.git; git -C ../bare.git config http.postBuffer 1000; git -C ../bare.git config gc.auto 0; git -C ../bare.git config foo.bar x
git -C ../bare.git config remote.origin.url https://example.com/update-proxy; mkdir -p fix; cp -r ../bare.git fix/b.git; git init -q --bare --shared fix/s.git`, w.root)
	for _, command := range []string{
		"cp -r fix/b.git c.git && git -C c.git branch", "git init -q --bare --shared d.git && git -C d.git branch",
		"git clone -q --bare -c foo.bar=1 -c gc.auto=0 . e.git && git -C e.git log --oneline", "cp -a fix f2 && git -C f2/b.git branch",
		"git init -q --separate-git-dir g g2 && git -C g2 status", "tar -C fix -cf t.tar . && mkdir t && tar -C t -xf t.tar && git -C t/b.git branch",
		"mkdir k && cp fix/b.git/config k && mkdir k/refs k/objects && cp fix/b.git/HEAD k && git -C k branch",
		"mkdir l && cp fix/b.git/HEAD l && mkdir l/refs l/objects && cp fix/b.git/config l && git -C l branch",
	} {
		if o := w.run(s, w.root, command, accesspolicy.Call{}); o.code != 0 {
			t.Errorf("%s: exit %d, %q\n%s", command, o.code, o.rep.Denied, o.out)
		}
	}
}
