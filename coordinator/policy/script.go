package policy

import (
	"bytes"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// script is what a shell command says, as far as it can be read without
// running it.
type script struct {
	text  string
	calls []call
	// literal says that every word of every command is known, so that nothing
	// can be run that is not in calls.
	literal bool
	// plain says that nothing is redirected, so that no command writes where
	// its arguments do not say.
	plain bool
	err   error
}

// call is one simple command of a script.
type call struct {
	text string
	argv []string
	// exact says that all of argv is literal; otherwise argv ends before the
	// first word that is not.
	exact bool
}

// scan reads a command with the grammar of bash.
func scan(text string) script {
	s := script{text: text, literal: true, plain: true}
	if text == "" {
		return s
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		s.err, s.literal, s.plain = err, false, false
		return s
	}
	printer := syntax.NewPrinter()
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				c := readCall(n, printer)
				s.calls = append(s.calls, c)
				s.literal = s.literal && c.exact && !runsOthers(c.argv)
			}
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.FuncDecl, *syntax.CoprocClause:
			s.literal = false
		case *syntax.Redirect:
			s.plain = false
		}
		return true
	})
	return s
}

func readCall(n *syntax.CallExpr, printer *syntax.Printer) call {
	var buf bytes.Buffer
	c := call{exact: true}
	if err := printer.Print(&buf, n); err == nil {
		c.text = buf.String()
	}
	if len(n.Assigns) > 0 {
		c.exact = false // an assignment can change what a program does
	}
	for _, w := range n.Args {
		word, ok := literalWord(w)
		if !ok {
			c.exact = false
			break
		}
		c.argv = append(c.argv, word)
	}
	return c
}

// literalWord is the value of a word without expansions; globs, tildes and
// braces count as expansions.
func literalWord(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "*?[{\\") || (b.Len() == 0 && strings.HasPrefix(p.Value, "~")) {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok || p.Dollar || strings.Contains(lit.Value, "\\") {
					return "", false
				}
				b.WriteString(lit.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// runsOthers reports whether a program takes another command as its argument,
// so that argv does not tell what will run.
func runsOthers(argv []string) bool {
	if len(argv) == 0 {
		return true
	}
	switch base(argv[0]) {
	case "eval", "exec", "source", ".", "sh", "bash", "dash", "zsh", "ksh", "env", "xargs", "find", "sudo", "doas", "su",
		"nohup", "setsid", "timeout", "nice", "command", "builtin", "time", "watch", "parallel", "ssh", "trap", "alias",
		"busybox", "strace", "chroot", "unshare":
		return true
	}
	return false
}

func base(program string) string { return program[strings.LastIndexByte(program, '/')+1:] }

// facts are all views of the request that a deny rule is held against.
func (s script) facts(r Request) []facts {
	whole := facts{Tool: r.Tool, Command: r.Command, Path: r.Path, Network: r.Network, Argv: strings.Fields(r.Command)}
	if len(s.calls) == 0 {
		return []facts{padded(whole)}
	}
	return append([]facts{padded(whole)}, s.parts(r)...)
}

// parts are the views that an allow rule must cover one by one.
func (s script) parts(r Request) []facts {
	if len(s.calls) == 0 {
		return []facts{padded(facts{Tool: r.Tool, Command: r.Command, Path: r.Path, Network: r.Network})}
	}
	out := make([]facts, len(s.calls))
	for i, c := range s.calls {
		out[i] = padded(facts{Tool: r.Tool, Command: c.text, Argv: c.argv, Path: r.Path, Network: r.Network})
	}
	return out
}

// padded keeps argv[0] readable in a rule when there is no command.
func padded(f facts) facts {
	if len(f.Argv) == 0 {
		f.Argv = []string{""}
	}
	return f
}

// risky names what in the script always asks: what throws work away or leaves
// the machine with it.
func (s script) risky() string {
	for _, c := range s.calls {
		if why := c.risky(); why != "" {
			return why
		}
	}
	return ""
}

func (c call) risky() string {
	argv := c.argv
	for len(argv) > 0 && wraps(argv[0]) {
		argv = argv[1:]
		for len(argv) > 0 && (strings.HasPrefix(argv[0], "-") || strings.Contains(argv[0], "=")) {
			argv = argv[1:]
		}
	}
	if len(argv) == 0 || base(argv[0]) != "git" {
		return ""
	}
	sub, rest := gitSubcommand(argv[1:])
	switch sub {
	case "":
		if !c.exact {
			return "a git command that cannot be read"
		}
	case "push", "clean":
		return "git " + sub
	case "reset":
		if slices.Contains(rest, "--hard") || slices.Contains(rest, "--merge") || slices.Contains(rest, "--keep") || !c.exact {
			return "git reset"
		}
	case "checkout", "switch", "branch", "tag", "rebase", "stash", "worktree", "restore":
		if slices.ContainsFunc(rest, isForce) || (sub == "stash" && slices.Contains(rest, "drop")) {
			return "git " + sub + " by force"
		}
	}
	return ""
}

func wraps(program string) bool {
	switch base(program) {
	case "command", "env", "nohup", "nice", "time", "exec", "builtin":
		return true
	}
	return false
}

func isForce(arg string) bool {
	return arg == "-f" || arg == "-D" || arg == "--force" || strings.HasPrefix(arg, "--force-") || arg == "--discard-changes"
}

// gitSubcommand skips git's own options.
func gitSubcommand(args []string) (sub string, rest []string) {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-C" || a == "-c" || a == "--git-dir" || a == "--work-tree" || a == "--namespace":
			i++
		case strings.HasPrefix(a, "-"):
		default:
			return a, args[i+1:]
		}
	}
	return "", nil
}
