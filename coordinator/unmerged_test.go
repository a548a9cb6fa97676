package coordinator_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ralph/coordinator"
	"ralph/coordinator/loop"
)

// unmerged are what a command can leave in a work tree that no commit gives to
// anybody else: by gitignore(5), gitattributes(5), git-update-index(1),
// git-sparse-checkout(1), gitrepository-layout(5), by what the index can hold, and
// by what Ralph leaves out of a commit. The check of each passes where it was made.
func unmerged() []unmergedCase {
	list := []unmergedCase{
		{"nested repository", "git init -q sub && echo x > sub/proof && git -C sub add -A && git -C sub commit -qm x", "test -s sub/proof"},
		{"nested repository without a commit", "git init -q sub && echo x > sub/proof", "test -s sub/proof"},
		{"nested repository deep", "mkdir -p a/b && git init -q a/b/c && echo x > a/b/c/proof", "test -s a/b/c/proof"},
		{"repository in a tracked directory", "git init -q dir && echo x > dir/proof", "test -s dir/proof && test -d dir/.git"},
		{"bare repository", "git init -q --bare bare.git", "test -f bare.git/HEAD && git --git-dir=bare.git rev-parse --is-bare-repository"},
		{"empty submodule", "git init -q sub && git -C sub commit -q --allow-empty -m x && echo x > sub/proof && git add sub", "test -s sub/proof"},
		{"file .git", "mkdir sub && echo 'gitdir: ../.git' > sub/.git && echo x > sub/proof", "test -s sub/proof"},
		{"learnings", "echo proof >> AGENT.md", "grep -q proof AGENT.md"},
		{"progress", "echo proof > RALPH_PROGRESS.md", "grep -q proof RALPH_PROGRESS.md"},
		{"goals", "echo proof > RALPH_GOALS.md", "grep -q proof RALPH_GOALS.md"},
		{"tracked state", "echo proof > RALPH_TODO.md", "grep -q proof RALPH_TODO.md"},
		{"removed state", "rm RALPH_TODO.md", "! test -e RALPH_TODO.md"},
		{"state directory", "mkdir -p .ralph && echo x > .ralph/proof", "test -s .ralph/proof"},
		{"state as a directory", "mkdir RALPH_GOALS.md && echo x > RALPH_GOALS.md/proof", "test -s RALPH_GOALS.md/proof"},
		{"secret", "echo x > .env", "test -s .env"},
		{"key", "mkdir tls && echo x > tls/a.pem", "test -s tls/a.pem"},
		{"link outside", "ln -s /etc/hostname proof", "test -e proof || test -L proof"},
		{"link above", "ln -s ../../../.. proof", "test -e proof"},
		{"big file", "truncate -s 101M big", "test -s big"},
		{"empty directory", "mkdir proof", "test -d proof"},
		{"empty directories", "mkdir -p dir/a/b/proof", "test -d dir/a/b/proof"},
		{"pipe", "mkfifo proof", "test -p proof"},
		{"pipe for a file", "rm a.txt && mkfifo a.txt", "test -p a.txt"},
		{"planted exclude", "mkdir -p .git/info && echo proof >> .git/info/exclude && echo x > proof", "test -s proof"},
		{"planted excludes file", "git config core.excludesFile $PWD/.git/x && echo proof > .git/x && echo x > proof", "test -s proof"},
		{"rule of its own", "echo proof > .gitignore && echo x > proof", "test -s proof"},
		{"rule that hides itself", "mkdir sub && echo '*' > sub/.gitignore && echo x > sub/proof", "test -s sub/proof"},
		{"assume unchanged", "git update-index --assume-unchanged a.txt && echo proof > a.txt", "grep -q proof a.txt"},
		{"skip worktree", "git update-index --skip-worktree a.txt && echo proof > a.txt", "grep -q proof a.txt"},
		{"fsmonitor valid", "git update-index --fsmonitor-valid a.txt; echo proof > a.txt", "grep -q proof a.txt"},
		{"sparse checkout", "git sparse-checkout set --no-cone /dir/ && echo proof > a.txt", "grep -q proof a.txt"},
		{"sparse without a file", "git sparse-checkout set --no-cone /dir/", "! test -e a.txt"},
		{"same time and size", "t=$(stat -c %y a.txt) && printf 'X' > a.txt && truncate -s 2 a.txt && touch -d \"$t\" a.txt", "grep -q X a.txt"},
		{"intent to add", "echo x > proof && git add -N proof", "test -s proof"},
		{"staged and gone", "echo x > proof && git add proof && rm proof && mkdir proof", "test -d proof"},
		{"staged other content", "echo proof > a.txt && git add a.txt && echo no > a.txt", "git show :a.txt | grep -q proof"},
		{"mode not recorded", "git config core.fileMode false && chmod +x a.txt", "test -x a.txt"},
		{"case ignored", "git config core.ignoreCase true && echo proof > A.TXT", "grep -q proof A.TXT"},
		{"no symlinks", "git config core.symlinks false && ln -s a.txt proof", "test -L proof"},
		{"line ends", "echo '*.txt text' > .gitattributes && printf 'a\\r\\n' > new.txt", "grep -q $'\\r' new.txt"},
		{"line ends of old attributes", "printf 'a\\r\\n' > new.unix", "grep -q $'\\r' new.unix"},
		{"line ends asked for", "printf 'a\\n' > new.dos", "! grep -q $'\\r' new.dos"},
		{"line ends of an unchanged blob", "printf 'old\\r\\n' > old.unix", "grep -q $'\\r' old.unix"},
		{"identity", "echo '$Id: proof $' > new.id", "grep -q proof new.id"},
		{"encoding", "printf 'x' | iconv -t UTF-16 > new.u16", "true"},
		{"filter", "git config filter.f.clean 'sed s/proof/x/' && git config filter.f.smudge cat && echo '*.flt filter=f' > .gitattributes && echo proof > new.flt", "grep -q proof new.flt"},
		{"attributes of the clone", "echo '*.txt text' > .git/info/attributes && printf 'a\\r\\n' > new.txt", "grep -q $'\\r' new.txt"},
		{"file of the repository", "echo x > .git/proof", "test -s .git/proof"},
		{"tag", "git tag proof", "git rev-parse -q --verify refs/tags/proof"},
		{"branch", "git branch proof", "git rev-parse -q --verify refs/heads/proof"},
		{"configuration", "git config x.proof 1", "git config x.proof"},
		{"stash", "echo proof > a.txt && git stash -q && echo x > new.txt", "git stash list | grep -q stash"},
		{"hook", "printf '#!/bin/sh\\n' > .git/hooks/pre-push; mkdir -p .git/hooks && printf '#!/bin/sh\\n' > .git/hooks/pre-push", "test -f .git/hooks/pre-push"},
		{"object", "echo proof | git hash-object -w --stdin", "git cat-file -e $(echo proof | git hash-object --stdin)"},
		{"read through a link", "mkdir real && echo x > real/.env && ln -s real/.env proof", "test -s proof"},
		{"committed", "echo x > .env && git add -f .env && git commit -qm x", "test -s .env"},
		{"committed elsewhere", "git checkout -q -b other && echo x > .env && git add -f .env && git commit -qm x && git checkout -q -", "git show other:.env"},
	}
	if testing.Short() {
		list = slices.DeleteFunc(list, func(c unmergedCase) bool { return !slices.Contains(unmergedShort(), c.name) })
	}
	return list
}

// unmergedShort names the cases that are run with -short: one of each kind.
func unmergedShort() []string {
	return []string{"nested repository", "learnings", "big file", "skip worktree", "line ends of an unchanged blob", "file of the repository"}
}

type unmergedCase struct{ name, command, check string }

// unmergedProject is a project with what the cases need.
func unmergedProject(t *testing.T) *project {
	p := confined(t)
	unmergedFiles(p)
	return p
}

func unmergedFiles(p *project) {
	p.flags["check_retries"] = []string{"0"}
	p.write(".gitattributes", "*.unix text eol=lf\n*.dos text eol=crlf\n*.id ident\n*.u16 text working-tree-encoding=UTF-16\n")
	p.write("a.txt", "a\n")
	p.write("old.unix", "old\n")
	p.write("dir/b.txt", "b\n")
	p.write("AGENT.md", "# learned\n")
	p.write("RALPH_TODO.md", "- [ ] x\n")
	p.git("add", "-A")
	p.git("commit", "-qm", "base")
}

// passes reports whether a check passes in a directory for its user.
func passes(t *testing.T, dir, check string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", check)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	t.Logf("the check outside: %v %s", err, out)
	return err == nil
}

// What a run calls verified passes the same check in the user's tree.
func TestWhatIsVerifiedIsMerged(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{false, true} {
		for _, c := range unmerged() {
			t.Run(fmt.Sprintf("%s/clean=%v", c.name, clean), func(t *testing.T) {
				t.Parallel()
				p := unmergedProject(t)
				p.session = "new"
				p.flags["check_clean"] = []string{fmt.Sprint(clean)}
				p.flags["check"] = []string{c.check}
				p.write("RALPH_TASKS.md", "# Tasks\n\n- [ ] **T-1** Write one\n")
				k := played(p)
				k.part("write_one", calls(shell(c.command+" && echo work > work.txt")), finished("done"))
				out := p.run(coordinator.Job{Loop: &loop.Settings{Retries: -1}})
				for _, w := range out.Warnings {
					t.Log("warning: ", w)
				}
				t.Logf("status %s, verified %v, failure %+v, %q", out.Status, out.Verified, out.Failure, k.heard("write_one")[max(0, len(k.heard("write_one"))-600):])
				if p.read("work.txt") != "" != out.Verified {
					t.Errorf("verified %v, and the work is %q", out.Verified, p.read("work.txt"))
				}
				if ok := passes(t, p.root, c.check); out.Verified && !ok {
					t.Error("verified, and the check fails in the user's tree")
				}
			})
		}
	}
}

// A clean check of one piece of work sees what the user would commit.
func TestACleanCheckIsOfACommit(t *testing.T) {
	t.Parallel()
	for _, c := range unmerged() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := confined(t, calls(shell(c.command)), text("done"))
			unmergedFiles(p)
			p.flags["check"], p.flags["check_clean"] = []string{c.check}, []string{"true"}
			out := p.run(coordinator.Job{})
			if out.Check == nil || out.Check.Tree != "clean" || out.Verified != (out.Check.ExitCode == 0) {
				t.Fatalf("check %+v, verified %v, failure %+v", out.Check, out.Verified, out.Failure)
			}
			if !out.Verified {
				return
			}
			clone := t.TempDir()
			p.git("add", "-A", "--", ".", ":!.env", ":!.ralph")
			p.git("commit", "-qm", "by the user", "--allow-empty")
			p.git("clone", "-q", ".", clone)
			if !passes(t, clone, c.check) {
				t.Error("verified, and the check fails in a clone of what the user commits")
			}
		})
	}
}

// What git ignores is the agent's work: a check in its tree sees it, a clean one
// does not.
func TestAnIgnoredFileIsSeenByACheck(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{false, true} {
		t.Run(fmt.Sprint(clean), func(t *testing.T) {
			t.Parallel()
			p := unmergedProject(t)
			p.session = "new"
			p.flags["check"], p.flags["check_clean"] = []string{"test -s node_modules/dep/index.js && test -s work.txt"}, []string{fmt.Sprint(clean)}
			p.write("RALPH_TASKS.md", "# Tasks\n\n- [ ] **T-1** Write one\n")
			played(p).part("write_one", calls(shell("echo node_modules/ > .gitignore && mkdir -p node_modules/dep && echo x > node_modules/dep/index.js && echo work > work.txt")), finished("done"))
			if out := p.run(coordinator.Job{Loop: &loop.Settings{Retries: -1}}); out.Verified == clean {
				t.Errorf("verified %v, %+v", out.Verified, out.Failure)
			}
		})
	}
}

// What a check writes is not the agent's work, and is neither merged nor seen by the
// agent that has to go on; what the check did not see is named to it and to the user.
func TestWhatACheckWritesIsNotMerged(t *testing.T) {
	t.Parallel()
	p := unmergedProject(t)
	p.session = "new"
	p.flags["check_retries"] = []string{"1"}
	p.flags["check"] = []string{"echo check >> a.txt; echo check > made.txt; test -s work.txt && ! test -e .env"}
	p.write("RALPH_TASKS.md", "# Tasks\n\n- [ ] **T-1** Write one\n")
	k := played(p)
	k.part("write_one", calls(shell("echo x > .env")), finished("done"), calls(shell("test -s .env && ! test -e made.txt && echo work > work.txt")), finished("done"))
	out := p.run(coordinator.Job{Loop: &loop.Settings{Retries: -1}})
	if !out.Verified || p.read("a.txt") != "a\n" || p.read("made.txt") != "" || p.read("work.txt") != "work\n" {
		t.Errorf("verified %v, a.txt %q, made.txt %q, work.txt %q", out.Verified, p.read("a.txt"), p.read("made.txt"), p.read("work.txt"))
	}
	if heard := k.heard("write_one"); !strings.Contains(heard, "It did not see this:\n- .env (a secret by its name)") {
		t.Errorf("it heard\n%s", heard)
	}
	if !p.warned("did not see what no commit of the work holds: .env") {
		t.Errorf("warnings %q", out.Warnings)
	}
}

// The work of an agent on a file that goes through a filter of the user's, such as
// git-lfs, is neither lost nor called done: it stays in its tree, and is named.
func TestFilteredWorkIsKept(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"echo new > a.bin", "echo new > new.bin", "echo new > a.bin && git add -A && git commit -qm x", "rm a.bin; ln a.txt a.bin"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			p := unmergedProject(t)
			p.session = "new"
			p.write(".gitattributes", "*.bin filter=big\n")
			p.write("a.bin", "old\n")
			p.write("RALPH_TASKS.md", "# Tasks\n\n- [ ] **T-1** Write one\n")
			p.git("add", "-A", "--", ":!RALPH_TASKS.md")
			p.git("commit", "-qm", "filtered")
			p.git("config", "filter.big.clean", "sed s/new/pointer/")
			p.git("config", "filter.big.smudge", "cat")
			played(p).part("write_one", calls(shell(command+" && echo work > work.txt")), finished("done"))
			out := p.run(coordinator.Job{Loop: &loop.Settings{Retries: -1}})
			if out.Verified || out.Status == "completed" || !strings.Contains(p.read("RALPH_TASKS.md"), "[ ]") {
				t.Errorf("status %s, verified %v, %s", out.Status, out.Verified, p.read("RALPH_TASKS.md"))
			}
			if p.read("work.txt") != "" {
				t.Error("half of the work is merged")
			}
			name := "a.bin"
			if strings.Contains(command, "new.bin") {
				name = "new.bin"
			}
			all := fmt.Sprint(out.Failure, out.Warnings, out.Children)
			if !strings.Contains(all, name) {
				t.Errorf("%s is not named: %s", name, all)
			}
			kept, err := filepath.Glob(filepath.Join(p.root, ".ralph", "worktrees", "*", name))
			if err != nil || len(kept) == 0 {
				t.Fatalf("the work is not kept: %v", err)
			}
			if text, err := os.ReadFile(kept[0]); err != nil || string(text) != "new\n" && string(text) != "a\n" {
				t.Errorf("what is kept is %q, %v", text, err)
			}
		})
	}
}

// What an agent changes in a checked out submodule is seen by its check, and no
// commit that is merged has it: the work stays in its tree, and is not called done.
func TestSubmoduleContentIsKept(t *testing.T) {
	t.Parallel()
	const update = "git -c protocol.file.allow=always submodule --quiet update --init && "
	cases := map[string]bool{
		update + "echo new > lib/f": false, update + "echo new > lib/new": false, update + "rm lib/f": false, update + "echo new > lib/f && git -C lib add -A": false,
		update + "git init -q lib/nested && echo x > lib/nested/x": false, update + "true": true, update + "echo x > lib/ignored": true, "true": true,
	}
	for command, done := range cases {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			p := unmergedProject(t)
			p.session = "new"
			lib := t.TempDir()
			p.git("init", "-q", lib)
			for name, text := range map[string]string{"f": "old\n", ".gitignore": "ignored\n"} {
				if err := os.WriteFile(filepath.Join(lib, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			p.git("-C", lib, "add", "-A")
			p.git("-C", lib, "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "lib")
			p.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "lib")
			p.git("commit", "-qm", "lib")
			p.write("RALPH_TASKS.md", "# Tasks\n\n- [ ] **T-1** Write one\n")
			played(p).part("write_one", calls(shell(command+" && echo work > work.txt")), finished("done"))
			out := p.run(coordinator.Job{Loop: &loop.Settings{Retries: -1}})
			if got := p.read("work.txt") != ""; got != done {
				t.Errorf("merged %v, want %v; status %s, %+v, warnings %q", got, done, out.Status, out.Failure, out.Warnings)
			}
			if !done && !strings.Contains(fmt.Sprint(out.Failure, out.Warnings, out.Children), "lib/") {
				t.Errorf("nothing is named: %+v %q", out.Failure, out.Warnings)
			}
		})
	}
}
