package policy

import (
	"slices"
	"strings"
)

func isShell(program string) bool {
	switch program {
	case "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash":
		return true
	}
	return false
}

// carries says that a program runs a command that its arguments hold.
func (c call) carries() bool {
	switch c.program {
	case "eval", "exec", "env", "xargs", "find", "fd", "sudo", "doas", "su", "runuser", "setpriv", "nohup", "setsid", "timeout", "nice", "ionice",
		"chrt", "taskset", "stdbuf", "command", "builtin", "time", "watch", "parallel", "ssh", "trap", "alias", "busybox", "toybox", "strace", "ltrace",
		"gdb", "chroot", "unshare", "nsenter", "systemd-run", "flock", "script", "entr", "unbuffer", "fakeroot", "sg", "prlimit", "pkexec",
		"docker", "podman", "xvfb-run", "dbus-run-session", "hash", "enable", "complete", "compgen", "mapfile", "readarray", "coproc", "run-parts",
		"start-stop-daemon", "at", "batch", "crontab", "expect", "tmux", "screen", "npx", "bunx", "uvx":
		return true
	}
	return false
}

// firstCarried is where in argv the command that a program runs may begin.
func (c call) firstCarried() int {
	if c.program != "find" && c.program != "fd" {
		return 1
	}
	at := slices.IndexFunc(c.argv, func(a string) bool {
		return strings.HasPrefix(a, "-exec") || strings.HasPrefix(a, "-ok") || a == "-x" || a == "-X"
	})
	if at < 0 {
		return len(c.argv)
	}
	return at + 1
}

// runsOthers reports whether what runs is not told by the program and its
// arguments alone.
func (c call) runsOthers() bool {
	if c.program == "git" {
		g, ok := readGit(c.argv[min(1, len(c.argv)):])
		return !ok || g.sub != "push" && g.sub != "" && !gitKnows(g.sub)
	}
	flag := func(flags ...string) bool {
		return slices.ContainsFunc(c.argv, func(a string) bool {
			return slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(a, f) })
		})
	}
	switch c.program {
	case "", "source", ".", "ed", "ex", "vi", "vim", "nvim", "emacs":
		return true
	case "hash", "enable", "complete", "compgen", "mapfile", "readarray":
		return flag("-p", "-f", "-C", "-F")
	case "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "osascript", "tclsh":
		return flag("-e", "-E", "-p", "-r", "-n", "eval", "--eval", "--print")
	case "awk", "gawk", "mawk", "nawk":
		return slices.ContainsFunc(c.argv, func(a string) bool { return strings.Contains(a, "system") || strings.ContainsAny(a, "|") })
	case "tar":
		return flag("--to-command", "--checkpoint-action", "-I", "--use-compress-program", "-F", "--info-script", "--rsh-command")
	}
	if strings.HasPrefix(c.program, "python") || strings.HasPrefix(c.program, "pypy") {
		return flag("-c")
	}
	return isShell(c.program) || c.carries()
}

// risky names what in the command always asks.
func (c call) risky() string {
	if sub, ok := strings.CutPrefix(c.program, "git-"); ok && len(c.argv) > 0 {
		c.argv, c.program = append([]string{"git", sub}, c.argv[1:]...), "git"
	}
	if c.program != "git" {
		return ""
	}
	return c.gitRisk()
}

// gitRisk names what a git command does that always asks: what leaves the
// machine, throws work away, or may be one of these under another name.
func (c call) gitRisk() string {
	for _, name := range c.assigned {
		if strings.HasPrefix(name, "GIT_") && !harmlessGitVariable(name) {
			return "git with " + name + " set"
		}
	}
	if len(c.argv) == 0 {
		return "a git command that cannot be read"
	}
	g, ok := readGit(c.argv[1:])
	switch {
	case !ok:
		return "git with a configuration of its own"
	case g.sub == "" && (!c.exact || c.carried):
		return "a git command that cannot be read"
	case g.sub == "":
		return ""
	case g.sub == "push" || g.sub == "clean":
		return "git " + g.sub
	case !gitKnows(g.sub):
		return "git " + g.sub + ", which may be an alias or push,"
	}
	return g.risk(c.exact)
}

// gitCommand is a git command line.
type gitCommand struct {
	sub  string
	args []string
}

// readGit skips git's own options; false: they change what git runs.
func readGit(args []string) (gitCommand, bool) {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-c":
			if i++; i < len(args) && !harmlessGitSetting(args[i]) {
				return gitCommand{}, false
			}
		case a == "-C" || a == "--git-dir" || a == "--work-tree" || a == "--namespace" || a == "--super-prefix" || a == "--attr-source":
			i++
		case strings.HasPrefix(a, "--config-env"), strings.HasPrefix(a, "-c"), strings.HasPrefix(a, "--exec-path="):
			return gitCommand{}, false
		case strings.HasPrefix(a, "-"):
		default:
			return gitCommand{sub: a, args: args[i+1:]}, true
		}
	}
	return gitCommand{}, true
}

func (g gitCommand) risk(exact bool) string {
	is := func(words ...string) bool {
		return slices.ContainsFunc(g.args, func(a string) bool { return slices.Contains(words, a) })
	}
	// An option may be cut short as long as it stays unique.
	long := func(options ...string) bool {
		return slices.ContainsFunc(g.args, func(a string) bool {
			return len(a) > 3 && slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, a) || strings.HasPrefix(a, o+"-") })
		})
	}
	short := func(letters string) bool {
		return slices.ContainsFunc(g.args, func(a string) bool {
			return len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.ContainsAny(a, letters)
		})
	}
	force := false
	switch g.sub {
	case "reset":
		if !exact || is("--h", "--m", "--k") || long("--hard", "--merge", "--keep") {
			return "git reset"
		}
	case "checkout":
		force = short("fB") || long("--force") || is("--", ".")
	case "switch":
		force = short("fC") || long("--force", "--discard-changes", "--force-create")
	case "branch":
		force = short("fDMC") || long("--force") || long("--delete") && short("f")
	case "restore":
		force = !is("--staged", "-S") || is("--worktree", "-W")
	case "stash":
		force = is("drop", "clear")
	case "tag", "worktree", "rm", "mv":
		force = short("f") || long("--force")
	case "reflog":
		force = is("expire", "delete")
	case "update-ref", "filter-branch", "prune", "replace":
		force = true
	case "read-tree":
		force = long("--reset")
	case "remote":
		force = is("prune", "update")
	case "rebase", "bisect", "submodule", "difftool", "mergetool":
		if long("--exec", "--extcmd") || short("x") || is("run", "foreach") {
			return "git " + g.sub + " with a command of its own"
		}
	}
	if force {
		return "git " + g.sub + " by force"
	}
	return ""
}

// gitKnows lists git's own commands but those that send. A name that is none
// may be an alias, which a repository can define for anything.
func gitKnows(sub string) bool {
	const known = ` add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap check-ref-format
 checkout checkout-index cherry cherry-pick clone column commit commit-graph commit-tree config count-objects describe diff diff-files diff-index
 diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch fmt-merge-msg for-each-ref format-patch fsck gc grep hash-object help
 index-pack init interpret-trailers log ls-files ls-remote ls-tree mailinfo maintenance merge merge-base merge-file merge-index merge-tree mergetool
 mktag mktree mv name-rev notes pack-objects pack-refs patch-id prune prune-packed pull range-diff read-tree rebase reflog remote repack replace
 rerere reset restore rev-list rev-parse revert rm shortlog show show-branch show-index show-ref sparse-checkout stash status stripspace submodule
 switch symbolic-ref tag unpack-objects update-index update-ref update-server-info var verify-commit verify-pack verify-tag version whatchanged
 worktree write-tree `
	return !strings.ContainsAny(sub, " \t\n") && slices.Contains(strings.Fields(known), sub)
}

func harmlessGitVariable(name string) bool {
	return strings.HasPrefix(name, "GIT_AUTHOR_") || strings.HasPrefix(name, "GIT_COMMITTER_") ||
		slices.Contains([]string{"GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_MERGE_AUTOEDIT"}, name)
}

// harmlessGitSetting says that a key=value runs nothing.
func harmlessGitSetting(setting string) bool {
	key, value, _ := strings.Cut(strings.ToLower(setting), "=")
	for _, section := range []string{"user.", "author.", "committer.", "color.", "advice.", "init.", "safe."} {
		if strings.HasPrefix(key, section) {
			return true
		}
	}
	switch key {
	case "core.quotepath", "core.autocrlf", "core.safecrlf", "core.filemode", "commit.gpgsign", "tag.gpgsign", "merge.conflictstyle", "diff.renames", "log.showsignature":
		return true
	case "core.pager", "core.editor", "sequence.editor":
		return value == "cat" || value == "true" || value == ":" || value == ""
	}
	return false
}
