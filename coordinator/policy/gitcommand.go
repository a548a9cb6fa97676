package policy

import (
	"slices"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"
)

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
	g, ok := readGit(c.elsewhere())
	switch {
	case !ok && (!inside || mentions("git "+joined(c.words)) || strings.Contains(strings.ToLower(joined(c.words)), "alias.")):
		return "git with a configuration of its own"
	case g.sub == "" && (!c.exact || c.carried):
		return "a git command that cannot be read"
	case g.sub == "":
		return ""
	case g.sub == "push", g.sub == "clean" && !(c.exact && g.lists()):
		return "git " + g.sub
	case !gitKnows(g.sub) && (!inside || sendsLike(g.sub, g.args)):
		return "git " + g.sub + ", which may be an alias or push,"
	}
	return g.risk(c.exact, inside)
}

// elsewhere returns the arguments that are known. A directory that is not known, as in
// `git -C "$dir" status`, is taken to be the current one.
func (c call) elsewhere() []string {
	args := slices.Clone(c.argv[1:])
	for _, w := range c.words[min(len(c.argv), len(c.words)):] {
		switch {
		case w.known:
			args = append(args, w.text)
		case w.quoted && len(args) == 1 && args[0] == "-C":
			args = append(args, ".")
		default:
			return args
		}
	}
	return args
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

// gitForce lists the options by which commands of git overwrite or remove what is not to be
// had back, one command a line: its letters, then its long options. The source is the manual
// of each command.
const gitForce = `
branch         fDMC --force
checkout       fB   --force
checkout-index f    --force
fast-import    -    --force
fetch          f    --force
mv             f    --force
notes          f    --force
pull           f    --force
rm             f    --force
submodule      f    --force
switch         fC   --force --discard-changes --force-create
tag            f    --force
worktree       fB   --force
`

// lists reports whether a "git clean" only lists what it would remove, see git-clean(1).
func (g gitCommand) lists() bool {
	dry := false
	for i := 0; i < len(g.args); i++ {
		switch a := g.args[i]; {
		case a == "--":
			return dry
		case strings.HasPrefix(a, "--no-"):
			return false
		case strings.HasPrefix(a, "--e"):
			if !strings.Contains(a, "=") {
				i++
			}
		case a == "--dry-run":
			dry = true
		case len(a) > 1 && a[0] == '-' && a[1] != '-':
			flags, pattern, excludes := strings.Cut(a[1:], "e")
			dry = dry || strings.Contains(flags, "n")
			if excludes && pattern == "" {
				i++
			}
		}
	}
	return dry
}

// onto returns the refspecs of a fetch that name a ref to move, but those of remotes; see
// git-fetch(1).
func (g gitCommand) onto() []string {
	return slices.DeleteFunc(slices.Clone(g.args), func(a string) bool {
		_, to, found := strings.Cut(a, ":")
		return strings.HasPrefix(a, "-") || strings.HasPrefix(to, "refs/remotes/") || !found || strings.Contains(a, "//") || strings.Contains(a, "@")
	})
}

// risk names what of the command always asks. Inside the sandbox that are reset, clean
// and force alone: what replaces files as any other program can is undone like that,
// objects that git drops there stay in the user's repository, and a program that git
// starts is looked at like one that a shell starts.
func (g gitCommand) risk(exact, inside bool) string {
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
	for line := range strings.Lines(gitForce) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == g.sub {
			force = short(strings.Trim(f[1], "-")) || long(f[2:]...)
		}
	}
	switch g.sub {
	case "reset":
		if !exact || is("--h", "--m", "--k") || long("--hard", "--merge", "--keep") {
			return "git reset"
		}
	case "checkout":
		force = force || !inside && (is("--", ".") || !short("b") && !long("--orphan", "--track", "--detach") && g.names())
	case "fetch", "pull":
		onto := g.onto()
		plus := func(a string) bool { return strings.HasPrefix(a, "+") }
		force = force && (len(onto) > 0 || !long("--tags")) || slices.ContainsFunc(onto, plus)
	case "submodule":
		force = force && !is("foreach")
	case "restore":
		force = !inside && (!is("--staged", "-S") || is("--worktree", "-W"))
	case "stash":
		force = is("drop", "clear")
	case "gc":
		force = !inside && slices.ContainsFunc(g.args, func(a string) bool { return strings.HasPrefix(a, "--prune") })
	case "prune":
		force = !inside
	case "reflog":
		force = is("expire", "delete")
	case "update-ref", "filter-branch", "replace":
		force = true
	case "read-tree":
		force = long("--reset")
	case "remote":
		force = is("prune", "update")
	}
	if g.runs() {
		if !inside || g.sub == "maintenance" {
			return "git " + g.sub + " with a command of its own"
		}
		for _, text := range g.commands() {
			if why := scan(text).risky(inside); why != "" {
				return why
			}
		}
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
	if slices.ContainsFunc(g.args, func(a string) bool { return strings.HasPrefix(a, "ext::") }) {
		return true
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
		return has("--upload-pack", "--exec=", "--exec") || g.sub == "clone" && has("-u")
	case "maintenance":
		return slices.Contains(g.args, "start") || slices.Contains(g.args, "register")
	}
	return false
}

// commands are the shell commands that the arguments of one that runs give it: each
// of them may be one.
func (g gitCommand) commands() (list []string) {
	after := func(word string) []string {
		args := g.args[slices.Index(g.args, word)+1:]
		for len(args) > 0 && strings.HasPrefix(args[0], "-") {
			args = args[1:]
		}
		return args
	}
	args := g.args
	switch g.sub {
	case "bisect":
		return []string{quoted(after("run"))}
	case "submodule":
		if args = after("foreach"); len(args) > 1 {
			return []string{quoted(args)}
		}
	}
	for _, a := range args {
		if name, value, set := strings.Cut(a, "="); set && strings.HasPrefix(name, "--") {
			a = value
		} else if len(a) > 2 && (strings.HasPrefix(a, "-x") || strings.HasPrefix(a, "-O")) {
			a = a[2:]
		}
		list = append(list, a)
	}
	return list
}

// setsGit reports whether a git command writes a setting with which git runs a program,
// here or in a clone, or one that cannot be read.
func (c call) setsGit() bool {
	harmless := []string{"", "true", "false", ":", "cat"}
	at := slices.IndexFunc(c.words, func(w word) bool { return slices.Contains([]string{"config", "clone", "init"}, w.text) })
	if at < 0 {
		return false
	}
	var rest []word
	for i, w := range c.words[at+1:] {
		name, value, _ := strings.Cut(w.text, "=")
		switch {
		case strings.HasPrefix("--get", name) && len(name) > 4 || slices.Contains([]string{"--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l", "--unset", "--unset-all", "get", "list", "unset"}, name) && len(rest) == 0:
			return false
		case c.words[at].text != "config" && len(name) > 3 && strings.HasPrefix("--template", name):
			return !w.known || value != "" || i+at+2 < len(c.words) && w.text == name
		case c.words[at].text != "config":
			key, value, set := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(w.text, "--config="), "-c"), "=")
			if set && runs().gitKeys.MatchString(strings.ToLower(key)) && !slices.Contains(harmless, value) {
				return true
			}
		case w.text != "set" && !strings.HasPrefix(w.text, "-"):
			rest = append(rest, w)
		}
	}
	key := slices.IndexFunc(rest, func(w word) bool { return !w.known || runs().gitKeys.MatchString(strings.ToLower(w.text)) })
	return key >= 0 && key+1 < len(rest) && !(rest[key+1].known && slices.Contains(harmless, rest[key+1].text))
}

// quoted is an argument list as a command of a shell.
func quoted(args []string) string {
	var words []string
	for _, a := range args {
		if word, err := syntax.Quote(a, syntax.LangBash); err == nil {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// gitKnows lists git's own commands but those that send. A name that is none
// may be an alias, which a repository can define for anything.
func gitKnows(sub string) bool {
	const known = ` add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap check-ref-format
 checkout checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree config count-objects describe diff diff-files diff-index
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
	return !v.runsProgram() && (!strings.HasPrefix(v.name, "GIT_") || v.listed() || runs().safe.MatchString(v.name))
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
