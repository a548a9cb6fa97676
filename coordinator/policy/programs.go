package policy

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"mvdan.cc/sh/v3/syntax"

	"ralph/workers/accesspolicy"
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
	if c.program == "command" && len(c.words) > 1 && strings.HasPrefix(strings.ToLower(c.words[1].text), "-v") {
		return false // it only looks
	}
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
	at := slices.IndexFunc(c.words, func(w word) bool {
		return strings.HasPrefix(w.text, "-exec") || strings.HasPrefix(w.text, "-ok") || w.text == "-x" || w.text == "-X"
	})
	if at < 0 {
		return len(c.words)
	}
	return at + 1
}

// led says that the program which another one runs is among the words: a name,
// and not the value of an option before it.
func (c call) led(words []word) bool {
	if c.program == "alias" || c.program == "trap" || c.program == "eval" {
		return false
	}
	for i, w := range words {
		if !w.known || w.option || strings.Contains(w.text, "=") || !strings.ContainsFunc(w.text, unicode.IsLetter) {
			continue
		}
		if i > 0 && words[i-1].option && len(words[i-1].text) == 2 && !strings.Contains("0rtiEHSbnkwfpxv", words[i-1].text[1:]) {
			continue
		}
		if _, err := time.ParseDuration(w.text); err == nil {
			continue // as timeout has it
		}
		return true
	}
	return false
}

// later says that a program keeps a command, which it reads, for another time.
func (c call) later() bool {
	switch c.program {
	case "at", "batch", "crontab":
		return !slices.Contains(c.argv, "-l")
	}
	return false
}

// mentions says that text which is run somehow speaks of what always asks.
func mentions(text string) bool { return standing().MatchString(text) }

var standing = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\bgit\b[^\n]{0,80}\b(push|send-pack|clean|reset\b[^\n]{0,20}--?(hard|merge|keep))`)
})

// tells says that a program which may run what it is given is given a git command
// that always asks. Programs that only show, compare or search text are not
// meant.
func (c call) tells(stmt *syntax.Stmt) bool {
	switch c.program {
	case "git", "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "test", "[", "true", "false", ":", "cat", "tee", "jq", "diff", "cmp", "wc", "sort", "head", "tail", "gh",
		"ralph", "man", "touch", "mkdir", "read":
		return false
	}
	if len(c.words) > 0 && mentions(joined(c.words[1:])) {
		return true
	}
	if stmt == nil {
		return false
	}
	for _, red := range stmt.Redirs {
		if text, ok := held(red); ok && mentions(text) {
			return true
		}
	}
	return false
}

func joined(words []word) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(w.text)
		b.WriteByte(' ')
	}
	return b.String()
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
	case "sed", "gsed":
		return slices.ContainsFunc(c.argv, sedRuns().MatchString)
	case "split", "csplit":
		return flag("--filter")
	case "sort":
		return flag("--compress-program")
	case "rsync":
		return flag("-e", "--rsh")
	case "zip":
		return flag("-TT", "--unzip-command")
	case "man":
		return flag("-P", "--pager", "-H", "--html")
	case "tar":
		return flag("--to-command", "--checkpoint-action", "-I", "--use-compress-program", "-F", "--info-script", "--rsh-command")
	}
	if strings.HasPrefix(c.program, "python") || strings.HasPrefix(c.program, "pypy") {
		return flag("-c")
	}
	return isShell(c.program) || c.carries()
}

// sedRuns matches a script with the command or the flag that runs something.
var sedRuns = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[;{}0-9$/!,\s])e(?:\s|$)|[^\w\s][a-zA-Z0-9]*e[a-zA-Z0-9]*\s*(?:$|[;}\n])`)
})

// risky names what in the command always asks. Inside the sandbox what is not
// known may run: it reaches nothing but the tree.
func (c call) risky(inside bool) string {
	if sub, ok := strings.CutPrefix(c.program, "git-"); ok && len(c.argv) > 0 {
		c.argv, c.program = append([]string{"git", sub}, c.argv[1:]...), "git"
	}
	if c.program != "git" {
		return cmp.Or(c.publishes(), c.removesGit())
	}
	return c.gitRisk(inside)
}

// removesGit says that a command takes a repository, or a part of one, away:
// history, and locks that somebody may hold.
func (c call) removesGit() string {
	switch c.program {
	case "rm", "rmdir", "unlink", "mv", "shred", "truncate", "dd", "srm", "trash", "find", "rsync":
	default:
		return ""
	}
	if c.program == "find" && !slices.ContainsFunc(c.words, func(w word) bool {
		return w.text == "-delete" || program(w.text) == "rm"
	}) {
		return ""
	}
	for _, w := range c.words[min(1, len(c.words)):] {
		path := strings.TrimPrefix(w.text, "of=")
		for part := range strings.SplitSeq(path, "/") {
			if accesspolicy.Fold(part) == ".git" {
				return c.program + " of " + path
			}
		}
	}
	return ""
}

// listed says that a program is looked at for what always asks.
func listed(program string) bool {
	switch program {
	case "rm", "rmdir", "unlink", "mv", "shred", "truncate", "find", "npm", "pnpm", "yarn", "cargo", "gem", "hg", "jj", "svn", "docker", "podman", "twine", "poetry", "uv", "dotnet", "gh", "glab", "helm":
		return true
	}
	return strings.HasPrefix(program, "git-")
}

// publishes names what sends work elsewhere without git, for others to see.
func (c call) publishes() string {
	if len(c.argv) < 2 {
		return ""
	}
	args := c.argv[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}
	if len(args) == 0 {
		return ""
	}
	words := args[0]
	if len(args) > 1 {
		words += " " + args[1]
	}
	sends := false
	switch c.program {
	case "npm", "pnpm", "yarn", "bun", "lerna":
		sends = slices.Contains([]string{"publish", "unpublish", "deprecate"}, args[0]) || words == "npm publish"
	case "cargo":
		sends = slices.Contains([]string{"publish", "yank", "owner"}, args[0])
	case "gem", "hg", "sl", "bzr", "brz", "fossil", "darcs", "helm", "vagrant":
		sends = slices.Contains([]string{"push", "yank", "purge"}, args[0])
	case "jj":
		sends = words == "git push"
	case "svn":
		sends = args[0] == "commit" || args[0] == "ci"
	case "docker", "podman", "nerdctl", "buildah", "skopeo":
		sends = args[0] == "push" || words == "image push" || words == "manifest push"
	case "twine":
		sends = args[0] == "upload"
	case "poetry", "uv", "flit", "hatch", "pdm":
		sends = args[0] == "publish"
	case "dotnet":
		sends = words == "nuget push"
	case "gh", "glab", "hub", "tea":
		looks := []string{"status", "auth status", "help", "version", "browse", "search"}
		verbs := []string{"view", "list", "ls", "status", "diff", "checks", "checkout", "clone", "watch", "download", "--help"}
		sends = !slices.Contains(looks, args[0]) && !slices.Contains(looks, words) && (len(args) < 2 || !slices.Contains(verbs, args[1]))
	}
	if !sends {
		return ""
	}
	return c.program + " " + args[0]
}

// gitRisk names what a git command does that always asks: what leaves the
// machine, throws work away, or may be one of these under another name.
func (c call) gitRisk(inside bool) string {
	for _, v := range c.assigned {
		if !inside && !v.harmless() {
			return "git with " + v.name + " set"
		}
	}
	if len(c.argv) == 0 {
		return "a git command that cannot be read"
	}
	g, ok := readGit(c.argv[1:])
	switch {
	case !ok && (!inside || mentions("git "+joined(c.words)) || strings.Contains(strings.ToLower(joined(c.words)), "alias.")):
		return "git with a configuration of its own"
	case g.sub == "" && (!c.exact || c.carried):
		return "a git command that cannot be read"
	case g.sub == "":
		return ""
	case g.sub == "push" || g.sub == "clean":
		return "git " + g.sub
	case !gitKnows(g.sub) && (!inside || sendsLike(g.sub, g.args)):
		return "git " + g.sub + ", which may be an alias or push,"
	}
	return g.risk(c.exact)
}

// sendsLike says that a command which is not git's own, or not for people, is
// one that sends.
func sendsLike(sub string, args []string) bool {
	switch sub {
	case "send-pack", "http-push", "send-email", "imap-send", "p4", "cvsexportcommit", "request-pull", "remote-http", "remote-https", "remote-ftp", "remote-ext", "remote-fd", "shell":
		return true
	}
	return strings.Contains(sub, "push") || slices.ContainsFunc(args, func(a string) bool { return a == "push" || a == "dcommit" || a == "submit" })
}

// gitCommand is a git command line.
type gitCommand struct {
	sub  string
	args []string
}

// readGit skips git's own options; false: they change what git runs.
func readGit(args []string) (gitCommand, bool) {
	ok := true
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-c":
			if i++; i < len(args) && !harmlessGitSetting(args[i]) {
				ok = false
			}
		case a == "-C" || a == "--git-dir" || a == "--work-tree" || a == "--namespace" || a == "--super-prefix" || a == "--attr-source":
			i++
		case a == "--config-env":
			i++
			ok = false
		case strings.HasPrefix(a, "--config-env"), strings.HasPrefix(a, "-c"), strings.HasPrefix(a, "--exec-path="):
			ok = false
		case strings.HasPrefix(a, "-"):
		default:
			return gitCommand{sub: a, args: args[i+1:]}, ok
		}
	}
	return gitCommand{}, ok
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
		force = short("fB") || long("--force") || is("--", ".") || !short("b") && !long("--orphan", "--track", "--detach") && g.names()
	case "switch":
		force = short("fC") || long("--force", "--discard-changes", "--force-create")
	case "branch":
		force = short("fDMC") || long("--force") || long("--delete") && short("f")
	case "restore":
		force = !is("--staged", "-S") || is("--worktree", "-W")
	case "stash":
		force = is("drop", "clear")
	case "tag", "rm", "mv":
		force = short("f") || long("--force")
	case "worktree":
		force = short("fB") || long("--force")
	case "gc":
		force = slices.ContainsFunc(g.args, func(a string) bool { return strings.HasPrefix(a, "--prune") })
	case "reflog":
		force = is("expire", "delete")
	case "update-ref", "filter-branch", "prune", "replace":
		force = true
	case "read-tree":
		force = long("--reset")
	case "remote":
		force = is("prune", "update")
	}
	if g.runs() {
		return "git " + g.sub + " with a command of its own"
	}
	if force {
		return "git " + g.sub + " by force"
	}
	return ""
}

// names says that a checkout names files, whose changes it would throw away: a
// second word, or one that looks like a file.
func (g gitCommand) names() bool {
	var words []string
	for _, a := range g.args {
		if !strings.HasPrefix(a, "-") {
			words = append(words, a)
		}
	}
	switch len(words) {
	case 0:
		return false
	case 1:
		at := strings.LastIndexByte(words[0], '.')
		ext := words[0][at+1:]
		return strings.HasPrefix(words[0], "./") || strings.HasSuffix(words[0], "/") ||
			at >= 0 && len(ext) > 0 && len(ext) <= 5 && !strings.ContainsFunc(ext, func(r rune) bool { return !unicode.IsLetter(r) })
	}
	return true
}

// runs says that an option of the command names a program, or that its work is
// to run one.
func (g gitCommand) runs() bool {
	has := func(prefixes ...string) bool {
		return slices.ContainsFunc(g.args, func(a string) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool {
				name, _, _ := strings.Cut(a, "=")
				return strings.HasPrefix(a, p) || len(name) > 4 && strings.HasPrefix(p, name)
			})
		})
	}
	switch g.sub {
	case "rebase":
		return has("--exec", "-x")
	case "bisect":
		return slices.Contains(g.args, "run")
	case "submodule":
		return slices.Contains(g.args, "foreach")
	case "difftool", "mergetool":
		return has("--extcmd", "-x")
	case "grep":
		return has("-O", "--open-files-in-pager")
	case "fetch", "pull", "clone", "ls-remote", "fetch-pack", "archive":
		return has("--upload-pack", "--exec=", "--exec", "ext::") || g.sub == "clone" && has("-u")
	case "maintenance":
		return slices.Contains(g.args, "start") || slices.Contains(g.args, "register")
	}
	return false
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

// harmless says that a variable has git run nothing.
func (v variable) harmless() bool {
	switch v.name {
	case "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "EDITOR", "VISUAL", "PAGER", "GIT_ASKPASS", "SSH_ASKPASS":
		return v.known && slices.Contains([]string{"", "cat", "true", "false", ":", "less", "vi", "vim", "nano"}, v.value)
	case "GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_MERGE_AUTOEDIT", "GIT_TRACE", "GIT_LFS_SKIP_SMUDGE", "GIT_ADVICE":
		return true
	}
	return !strings.HasPrefix(v.name, "GIT_") || strings.HasPrefix(v.name, "GIT_AUTHOR_") || strings.HasPrefix(v.name, "GIT_COMMITTER_")
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
