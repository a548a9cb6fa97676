package policy

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

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
	// plain says that nothing is redirected or assigned, so that no command
	// writes, or means, what its arguments do not say.
	plain bool
	// hidden says why what is run is not known at all; "" when it is.
	hidden string
	err    error
}

// call is one simple command of a script.
type call struct {
	text string
	argv []string
	// exact says that all of argv is literal; otherwise argv ends before the
	// first word that is not.
	exact bool
	// program is the base name of what is run, "" when that is not known.
	program string
	// words are all of it; of those that are not known, what is literal.
	words []word
	// assigned are the variables set for it.
	assigned []variable
	// carried says that another program gives it more arguments.
	carried bool
}

// word is one word of a command.
type word struct {
	text  string
	known bool
	// option says that it begins with a dash or sets a variable, also when its
	// end is not known.
	option bool
	// process says that it holds a process substitution that is read.
	process bool
	// file says that, though it is not all known, it names a file by its place.
	file bool
	// quoted marks a word that stays one, whatever its expansions are.
	quoted bool
}

// variable is one that is set; known says that its value is literal.
type variable struct {
	name, value string
	known       bool
}

// maxDepth bounds scripts within scripts.
const maxDepth = 5

// scan reads a command with the grammar of bash, and the commands that it hands
// to other shells.
func scan(text string) script { return scanAt(text, 0) }

func scanAt(text string, depth int) script {
	s := script{text: text, literal: true, plain: true}
	if text == "" {
		return s
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		s.err, s.literal, s.plain = err, false, false
		return s
	}
	r := reader{s: &s, depth: depth, printer: syntax.NewPrinter()}
	syntax.Walk(file, r.visit)
	return s
}

// reader collects a script.
type reader struct {
	s       *script
	depth   int
	printer *syntax.Printer
	// set are the variables that the script sets for what comes later.
	set []variable
	// input is what the command about to be visited reads.
	input *syntax.Stmt
}

func (r *reader) visit(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.Stmt:
		r.input = n
	case *syntax.CallExpr:
		r.command(n)
	case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.FuncDecl, *syntax.CoprocClause:
		r.s.literal = false
	case *syntax.Redirect:
		r.s.plain = false
	case *syntax.DeclClause:
		r.declare(n)
	case *syntax.LetClause, *syntax.ArithmCmd:
		r.s.plain = false
	case *syntax.TestClause:
		r.s.plain = false
		r.evaluates(n)
	case *syntax.ForClause:
		r.s.plain = false
		r.loop(n.Loop)
	case *syntax.ParamExp:
		r.expand(n)
	case *syntax.SglQuoted:
		r.quoted(n.Value)
	}
	return true
}

// quoted looks at text that the shell takes as it is: what looks like a
// substitution there may be evaluated later, as by test -v 'a[$(…)]'.
func (r *reader) quoted(text string) {
	if substitutes().MatchString(text) {
		r.s.literal = false
		if mentions(text) {
			r.s.hide("text with a git command that may be run")
		}
	}
}

var substitutes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[$][(]|`|[$][{][\\s|]") })

func (r *reader) command(n *syntax.CallExpr) {
	stmt := r.input
	r.input = nil
	var names []variable
	for _, a := range n.Assigns {
		names = r.assign(names, a)
	}
	if len(n.Args) == 0 {
		r.set = append(r.set, names...)
		return
	}
	c := readCall(n, names, r.printer)
	c.assigned = append(names, r.set...)
	if redefines(c.argv) {
		r.s.plain = false
	}
	r.add(c, stmt)
}

// add takes up a command and those that it hands on.
func (r *reader) add(c call, stmt *syntax.Stmt) {
	s := r.s
	s.calls = append(s.calls, c)
	for _, w := range c.words {
		r.quoted(w.text)
	}
	s.literal = s.literal && c.exact && !c.runsOthers()
	if c.program == "" {
		s.hide("a program whose name cannot be read")
	}
	r.hides(c, stmt)
	if isShell(c.program) {
		r.shell(c, stmt)
		return
	}
	if c.tells(stmt) {
		s.hide("a git command in what " + c.program + " is given")
	}
	if c.program == "find" || c.program == "fd" {
		r.found(c)
		return
	}
	if at, ok := c.behind(); ok {
		r.wrapped(c, at, stmt)
	} else if c.carries() {
		r.carried(c)
	}
}

// carried looks for the command among the words of a program that runs one, where
// nothing says where it begins.
func (r *reader) carried(c call) {
	s := r.s
	if c.later() {
		s.hide("a command for later")
		return
	}
	words := c.words[min(1, len(c.words)):]
	for i, w := range words {
		arg := w.text
		if !w.known {
			if !w.option && !c.led(words[:i]) {
				s.hide("a command that " + c.program + " is given and that cannot be read")
				return
			}
			continue
		}
		if _, value, ok := strings.Cut(arg, "="); ok && (c.program == "alias" || strings.HasPrefix(arg, "-")) {
			arg = value
		}
		switch {
		case c.program == "eval":
			if c.exact {
				r.inner(strings.Join(c.argv[1:], " "))
			} else {
				s.hide("a command that eval makes up")
			}
			return
		case strings.ContainsAny(arg, " \t\n;|&"), c.program == "alias":
			r.inner(arg)
		case program(arg) == "git" || isShell(program(arg)) || listed(program(arg)):
			r.add(carriedCall(c, words[i:]), nil)
			return
		}
	}
}

// carriedCall is the command that the words of another one begin with.
func carriedCall(c call, words []word) call {
	in := call{text: c.text, exact: true, program: program(words[0].text), words: words, assigned: c.assigned, carried: true}
	for _, w := range words {
		if !w.known {
			in.exact = false
			break
		}
		in.argv = append(in.argv, w.text)
	}
	in.exact = in.exact && len(c.assigned) == 0
	return in
}

// shell looks for the script of a shell: an argument, or what it reads.
func (r *reader) shell(c call, stmt *syntax.Stmt) {
	given := false // -c: the first argument that is no option is the script
	for i := 1; i < len(c.argv); i++ {
		arg := c.argv[i]
		switch {
		case strings.HasPrefix(arg, "--"):
			if arg == "--rcfile" || arg == "--init-file" {
				i++
			}
		case strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "+"):
			given = given || arg[0] == '-' && strings.Contains(arg, "c")
			if strings.HasSuffix(strings.ToLower(arg), "o") {
				i++
			}
		case given:
			r.inner(arg)
			return
		case special(arg):
			r.s.hide("a shell whose commands cannot be read")
			return
		default:
			return // a script file
		}
	}
	if stmt != nil {
		for _, red := range stmt.Redirs {
			if text, ok := held(red); ok {
				r.inner(text)
				return
			}
		}
	}
	if len(c.argv) > 1 && strings.HasPrefix(c.argv[1], "--") && c.exact {
		return // --version, --help
	}
	r.s.hide("a shell whose commands cannot be read")
}

// held is the text that a redirection holds itself.
func held(red *syntax.Redirect) (string, bool) {
	switch red.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if red.Hdoc == nil {
			return "", true
		}
		return literalWord(red.Hdoc, true)
	case syntax.WordHdoc:
		return literalWord(red.Word, false)
	}
	return "", false
}

// inner takes up a script within the script.
func (r *reader) inner(text string) {
	s := r.s
	if r.depth >= maxDepth {
		s.hide("commands within commands")
		return
	}
	in := scanAt(text, r.depth+1)
	if in.err != nil {
		return // not a script: an argument with blanks
	}
	for _, c := range in.calls {
		c.carried = true
		s.calls = append(s.calls, c)
	}
	if in.hidden != "" {
		s.hide(in.hidden)
	}
	s.literal, s.plain = false, false
}

func (s *script) hide(why string) {
	s.literal = false
	if s.hidden == "" {
		s.hidden = why
	}
}

func readCall(n *syntax.CallExpr, assigned []variable, printer *syntax.Printer) call {
	var buf bytes.Buffer
	c := call{exact: true}
	if err := printer.Print(&buf, &syntax.CallExpr{Args: n.Args}); err == nil {
		c.text = buf.String()
	}
	for _, v := range assigned {
		c.exact = c.exact && v.ordinary() // another assignment can change what a program does
	}
	cut := false
	for _, w := range n.Args {
		text, ok := literalWord(w, false)
		if !ok {
			text = partly(w)
		}
		start, _, _ := strings.Cut(text, "\x00")
		c.words = append(c.words, word{text: text, known: ok, option: strings.HasPrefix(start, "-") || strings.Contains(start, "="), process: readsProcess(w), file: ok && !special(text) || !ok && endsInFile(text), quoted: ok || staysOne(w)})
		cut = cut || !ok
		if !cut {
			c.argv = append(c.argv, text)
		}
	}
	c.exact = c.exact && !cut
	if len(c.argv) > 0 {
		c.program = program(c.argv[0])
	} else {
		c.program = lastPart(n.Args[0])
	}
	return c
}

// lastPart is the base name of a program whose directory is not literal.
func lastPart(w *syntax.Word) string {
	lit, ok := w.Parts[len(w.Parts)-1].(*syntax.Lit)
	if !ok || !strings.Contains(lit.Value, "/") {
		return ""
	}
	name, ok := literalWord(&syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: base(lit.Value)}}}, false)
	if !ok {
		return ""
	}
	return program(name)
}

func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// program is what a rule calls the program, whatever its directory and, as some
// filesystems do not care, its case.
func program(name string) string { return strings.ToLower(base(name)) }

// facts are all views of the request that a deny rule is held against: as it is
// written, and with quotes and directories taken off.
func (s script) facts(r Request) []facts {
	whole := facts{Tool: r.Tool, Command: r.Command, Path: r.Path, Network: r.Network, Acts: r.acts(), Outside: r.Outside, Argv: strings.Fields(r.Command)}
	if len(s.calls) == 0 {
		return []facts{padded(whole)}
	}
	out := append([]facts{padded(whole)}, s.parts(r)...)
	for _, c := range s.calls {
		if len(c.argv) == 0 {
			continue
		}
		argv := append([]string{c.program}, c.argv[1:]...)
		out = append(out, facts{Tool: r.Tool, Command: strings.Join(argv, " "), Argv: argv, Path: r.Path, Network: r.Network, Acts: r.acts(), Outside: r.Outside})
	}
	return out
}

// parts are the views that an allow rule must cover one by one.
func (s script) parts(r Request) []facts {
	if len(s.calls) == 0 {
		return []facts{padded(facts{Tool: r.Tool, Command: r.Command, Path: r.Path, Network: r.Network, Acts: r.acts(), Outside: r.Outside})}
	}
	out := make([]facts, len(s.calls))
	for i, c := range s.calls {
		out[i] = padded(facts{Tool: r.Tool, Command: c.text, Argv: c.argv, Path: r.Path, Network: r.Network, Acts: r.acts(), Outside: r.Outside})
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
// the machine with it, and what may be that because it cannot be read.
// Inside the sandbox, without the network, the latter is nothing to ask about
// unless it names such a command, or is one of git.
func (s script) risky(inside bool) string {
	for _, c := range s.calls {
		if why := c.risky(inside); why != "" {
			return why
		}
	}
	if inside && !mentions(s.text) && !slices.ContainsFunc(s.calls, call.unreadGit) {
		return ""
	}
	return s.hidden
}

// unreadGit reports whether a call runs git with a command that cannot be read: one that
// comes from the input of xargs, or from an alias in a variable.
func (c call) unreadGit() bool {
	if c.program == "git" {
		return slices.ContainsFunc(c.assigned, func(v variable) bool {
			return (v.name == "GIT_CONFIG_PARAMETERS" || strings.HasPrefix(v.name, "GIT_CONFIG_KEY_")) && (!v.known || strings.Contains(strings.ToLower(v.value), "alias"))
		})
	}
	if c.program != "xargs" && c.program != "parallel" {
		return false
	}
	at := slices.IndexFunc(c.words, func(w word) bool { return path.Base(w.text) == "git" })
	if at < 0 {
		return false
	}
	for _, w := range c.words[at+1:] {
		if !w.option {
			return !w.known || strings.ContainsFunc(w.text, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') })
		}
	}
	return true
}

// redefines says that a builtin changes what later words of the script mean.
func redefines(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	switch argv[0] {
	case "set", "shopt", "hash", "enable", "read", "mapfile", "readarray", "getopts", "unset", "complete", "compgen", "bind", "fc", "wait":
		return true
	case "printf":
		return slices.ContainsFunc(argv, func(a string) bool { return strings.HasPrefix(a, "-v") })
	}
	return false
}
