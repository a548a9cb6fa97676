package accesspolicy_test

import (
	"maps"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// fixtures makes directories in which git would touch "$2", some of them not whole.
const fixtures = `
acts() { mkdir -p $1/objects $1/refs; touch $1/refs/keep $1/objects/keep; printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch %s; false"\n\tpager = "touch %s"\n[alias]\n\tst = !touch %s\n' "$2" "$2" "$2" >$1/config; }
for d in u o r whole; do acts $d "$2"; done; rm -r o/objects r/refs; echo "ref: refs/heads/main" >whole/HEAD
mkdir -p on hooked/objects hooked/refs hooked/hooks; cp whole/HEAD on; echo ../u >on/commondir; cp whole/HEAD hooked; printf '#!/bin/sh\ntouch %s\n' "$2" >hooked/hooks/post-index-change; chmod +x hooked/hooks/*; printf '[core]\n\trepositoryformatversion = 0\n' >hooked/config; touch hooked/objects/keep hooked/refs/keep
mkdir deep; cp -r whole deep`

// usersGit has the user's git work in a directory.
func (w *world) usersGit(dir string) {
	for _, args := range [][]string{{"status"}, {"st"}, {"add", "-A"}} {
		cmd := osexec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Dir, cmd.Env = w.root, append(w.environ(), "GIT_CEILING_DIRECTORIES="+w.root)
		_ = cmd.Run() // mostly there is no repository
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
			w.shell(fixtures, w.root, ran)
			s := w.open(nil)
			j, err := s.Start(t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", completed()[name] + "\ntouch begun; while ! test -e stop; do sleep 0.01; done"}, Dir: w.root, Timeout: time.Minute}, accesspolicy.Call{})
			if err != nil {
				t.Fatal(err)
			}
			w.await(filepath.Join(w.root, "begun"))
			w.usersGit("n")
			w.file(filepath.Join(w.root, "stop"), "")
			<-j.Done()
			rep := s.Ended(j)
			w.usersGit("n")
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

// moved are the ways in which a command leads git to a directory of the user's by moving that, or
// what lies on the way, when the file that leads there is made already.
func moved() map[string]string {
	return map[string]string{
		"the directory":       `mkdir n; echo "gitdir: ../z" >n/.git; mv whole z`,
		"one with hooks":      `mkdir n; echo "gitdir: ../z" >n/.git; mv hooked z`,
		"one above":           `mkdir n; echo "gitdir: ../z/whole" >n/.git; mv deep z`,
		"a link made":         `mkdir n; echo "gitdir: ../z" >n/.git; ln -s whole z`,
		"a link above made":   `mkdir n; echo "gitdir: ../z/whole" >n/.git; ln -s deep z`,
		"a link turned":       `git init -q --bare c; ln -s c l; mkdir n; echo "gitdir: ../l" >n/.git; ln -sfn whole l`,
		"its own put aside":   `git init -q --bare z; mkdir n; echo "gitdir: ../z" >n/.git; mv z y; mv whole z`,
		"the file":            `mkdir n; echo "gitdir: z" >n/.git; mv whole z; mv n m; mkdir n; mv m/.git n/.git; mv z n/z`,
		"the file's":          `mkdir -p a/b; echo "gitdir: ../whole" >a/b/.git; mv a/b n`,
		"a common directory":  `mkdir -p n/.git; echo "ref: refs/heads/main" >n/.git/HEAD; echo ../../z >n/.git/commondir; mv whole z`,
		"completed and moved": `echo "ref: refs/heads/main" >u/HEAD; mkdir n; echo "gitdir: ../z" >n/.git; mv u z`,
	}
}

// swapped are those of moved where the file leads to a harmless one of the command's first. They
// wait until it is in its place.
func swapped() map[string]string {
	const made = "git init -q --bare z; mkdir n; echo 'gitdir: ../z' >n/.git; while test -L n/.git; do :; done; "
	return map[string]string{
		"for a link":       made + "mv z y; ln -s whole z",
		"for a link above": "mkdir a; git init -q --bare a/whole; mkdir n; echo 'gitdir: ../a/whole' >n/.git; while test -L n/.git; do :; done; mv a b; ln -s deep a",
		"its place":        "mkdir x; cd x; " + made + "cp -r z whole; echo 'gitdir: ../whole' >n/.git; while test -L n/.git; do :; done; mv n ..",
	}
}

// TestMovedRepositories has commands lead git to directories of the user's by moving them: the
// command's part goes within 100 ms, also when a program goes on, and what is the user's stays.
func TestMovedRepositories(t *testing.T) {
	all := moved()
	for name, script := range swapped() {
		all["swapped "+name] = script
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			needGuard(t, w)
			ran := filepath.Join(filepath.Dir(w.root), "ran")
			w.shell(fixtures, w.root, ran)
			s := w.open(nil)
			j, err := s.Start(t.Context(), exec.Spec{Argv: []string{exec.Shell(""), "-c", "TOP=$PWD; " + all[name] + "\ntouch \"$TOP/begun\"; while ! test -e \"$TOP/stop\"; do sleep 0.01; done"}, Dir: w.root, Timeout: time.Minute}, accesspolicy.Call{})
			if err != nil {
				t.Fatal(err)
			}
			w.await(filepath.Join(w.root, "begun"))
			if _, late := swapped()[strings.TrimPrefix(name, "swapped ")]; late {
				w.awaitGone(filepath.Join(w.root, "n", ".git"))
			}
			w.usersGit("n")
			w.file(filepath.Join(w.root, "stop"), "")
			<-j.Done()
			rep := s.Ended(j)
			w.usersGit("n")
			if slices.ContainsFunc(rep.Reverted, func(line string) bool {
				return !strings.HasPrefix(line, "n/.git") && !strings.HasPrefix(line, "m/.git") && !strings.HasPrefix(line, "x/n/.git")
			}) {
				t.Errorf("what the user has is taken away: %q", rep.Reverted)
			}
			if _, err := os.Lstat(ran); err == nil {
				t.Errorf("git ran what the user's directory says; the command got %q, %q", rep.Denied, rep.Reverted)
			}
		})
	}
}
