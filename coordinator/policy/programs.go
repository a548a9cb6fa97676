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

	"ralph/workers/exec/acts"
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
	return runs().carriers.MatchString(c.program)
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
	if c.shows() {
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

// shows says that a program only shows, compares or searches what it is given, or
// is git, which is looked at for itself.
func (c call) shows() bool {
	switch c.program {
	case "git", "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "test", "[", "true", "false", ":", "cat", "tee", "jq", "diff", "cmp", "wc", "sort", "head", "tail", "gh",
		"ralph", "man", "touch", "mkdir", "read":
		return true
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
		c.argv = []string{c.program, g.sub}
		return !ok || g.runs() || c.runsByOption() || c.setsGit() || g.sub != "push" && g.sub != "" && !gitKnows(g.sub)
	}
	switch c.program {
	case "", "source", ".", "ed", "ex", "vi", "vim", "nvim", "emacs":
		return true
	case "awk", "gawk", "mawk", "nawk":
		return slices.ContainsFunc(c.argv, func(a string) bool { return strings.Contains(a, "system") || strings.ContainsAny(a, "|") })
	case "sed", "gsed":
		return slices.ContainsFunc(c.argv, sedRuns().MatchString)
	}
	if isPython(c.program) {
		c.program = "python"
	}
	return isShell(c.program) || c.carries() || c.runsByOption()
}

// sedRuns matches a script with the command or the flag that runs something.
var sedRuns = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[;{}0-9$/!,\s])e(?:\s|$)|(?:^|[;{}\n])\s*e[./~]|(?:^|[;{}\n])\s*(?:[\d$,~+!]+|\\?[/|,].*[/|,]I?!?)\s*e[./~\w]|[^\w\s][a-zA-Z0-9]*e[a-zA-Z0-9]*\s*(?:$|[;}\n])`)
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
			if acts.Fold(part) == ".git" {
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
