package policy

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// hides looks for what a command runs and does not say.
func (r *reader) hides(c call, stmt *syntax.Stmt) {
	s, args := r.s, c.words[min(1, len(c.words)):]
	has := func(is func(word) bool) bool { return slices.ContainsFunc(args, is) }
	switch {
	case c.program == "source" || c.program == ".":
		if len(args) == 0 || !args[0].file || args[0].process {
			s.hide("a script that cannot be read")
		}
	case c.interprets() && c.readsInput(stmt):
		s.hide("a program for " + c.program + " that cannot be read")
	case c.builtinRuns():
		s.hide(c.program + ", which changes what a command runs,")
	case c.evaluates() && has(func(w word) bool { return substitutes().MatchString(w.text) }):
		s.hide("a substitution that " + c.program + " makes")
	case has(func(w word) bool { return w.process }) && !c.readsOnly():
		s.hide("what " + c.program + " is given in a process substitution")
	case c.readsProgram():
		s.hide("a file of " + c.program + " that cannot be read")
	case c.program == "git" && c.setsGit():
		s.hide("a configuration of git that runs something")
	}
	r.words(c, args)
}

// words looks for variables that are set by a word.
func (r *reader) words(c call, words []word) {
	bare := false
	switch c.program {
	case "read", "mapfile", "readarray", "getopts", "printf", "wait":
		bare = true
	case "export", "declare", "typeset", "local", "readonly", "env":
	case "git":
		return
	default:
		if c.shows() {
			return
		}
	}
	for _, w := range words {
		name, value, set := strings.Cut(w.text, "=")
		if v := (variable{name: strings.TrimSuffix(name, "+"), value: value, known: w.known && set}); (set || bare && w.known) && w.option == set {
			r.sets(v)
		}
	}
}

// sets takes up a variable that is set somewhere in the script.
func (r *reader) sets(v variable) {
	switch {
	case strings.HasPrefix(v.name, "\x00"):
		r.s.hide("a variable whose name cannot be read")
	case v.runsProgram():
		r.s.hide(v.name + ", with which a program runs another,")
	}
}

// assign takes up an assignment.
func (r *reader) assign(all []variable, a *syntax.Assign) []variable {
	if a.Name == nil {
		r.s.plain = false
		if a.Value == nil {
			return all
		}
		text, known := literalWord(a.Value, false)
		if !known {
			text = partly(a.Value)
		}
		name, value, set := strings.Cut(text, "=")
		if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
			return all
		}
		if substitutes().MatchString(name) {
			r.s.hide("a substitution in the name of a variable")
		}
		v := variable{name: name, value: value, known: known && set}
		if set || !known {
			r.sets(v)
		}
		return append(all, v)
	}
	v := variable{name: a.Name.Value}
	switch {
	case a.Value != nil:
		if v.value, v.known = literalWord(a.Value, false); !v.known {
			v.value = partly(a.Value)
		}
		if a.Append {
			v.value, v.known = "\x00"+v.value, false
		}
		if readsProcess(a.Value) {
			r.s.hide("a variable that names a process substitution")
		}
		if subscript().MatchString(v.value) {
			r.s.hide("text that may be evaluated")
		}
	case a.Array == nil && a.Index == nil:
		v.known = !a.Append && !a.Naked
	}
	if a.Array != nil && slices.ContainsFunc(a.Array.Elems, func(e *syntax.ArrayElem) bool { return readsProcess(e.Value) }) {
		r.s.hide("a variable that names a process substitution")
	}
	if !a.Naked {
		r.sets(v)
	}
	if !v.ordinary() {
		r.s.plain, r.s.literal = false, false
	}
	return append(all, v)
}

// declare takes up what declare, export, local, readonly and typeset set.
func (r *reader) declare(n *syntax.DeclClause) {
	reference := false
	for _, a := range n.Args {
		if a.Name == nil && a.Value != nil {
			text := partly(a.Value)
			reference = reference || strings.HasPrefix(text, "-") && strings.Contains(text, "n")
		}
		if r.set = r.assign(r.set, a); reference && a.Name != nil {
			r.sets(variable{name: r.set[len(r.set)-1].value})
		}
	}
}

// loop takes up the variable of a loop.
func (r *reader) loop(l syntax.Loop) {
	it, ok := l.(*syntax.WordIter)
	if !ok {
		return
	}
	r.sets(variable{name: it.Name.Value})
	if slices.ContainsFunc(it.Items, readsProcess) {
		r.s.hide("a variable that names a process substitution")
	}
}

// expand takes up an expansion that sets a variable or runs what one holds.
func (r *reader) expand(n *syntax.ParamExp) {
	if n.Exp == nil || n.Param == nil {
		return
	}
	switch n.Exp.Op {
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		r.s.plain = false
		r.sets(variable{name: n.Param.Value})
	case syntax.OtherParamOps:
		if n.Exp.Word != nil && strings.Contains(partly(n.Exp.Word), "P") {
			r.s.hide("a variable that is expanded as a prompt")
		}
	}
}

// evaluates looks for text in a condition that the shell would evaluate.
func (r *reader) evaluates(n *syntax.TestClause) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok {
			if text, known := literalWord(w, false); known && substitutes().MatchString(text) {
				r.s.hide("text that may be evaluated")
			}
		}
		return true
	})
}

// subscript matches an index that runs a command when it is evaluated.
var subscript = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\\w\\[[^\\]]*([$][(]|`|[$][{][\\s|])") })

// evaluates says that a builtin evaluates an index in the name of a variable.
func (c call) evaluates() bool {
	switch c.program {
	case "test", "[", "unset", "read", "let", "getopts", "wait", "mapfile", "readarray", "declare", "typeset", "local", "export", "readonly", "compgen":
		return true
	case "printf":
		return redefines(c.argv)
	}
	return false
}

// builtinRuns says that a builtin is told to run something, or what a command is.
func (c call) builtinRuns() bool {
	flag := func(letters string) bool {
		return slices.ContainsFunc(c.words[min(1, len(c.words)):], func(w word) bool {
			return w.option && w.text[0] == '-' && !strings.HasPrefix(w.text, "--") && strings.ContainsAny(w.text, letters)
		})
	}
	switch c.program {
	case "hash":
		return flag("p")
	case "enable":
		return flag("f")
	case "mapfile", "readarray", "complete":
		return flag("C")
	case "compgen":
		return flag("CF") || flag("W") && slices.ContainsFunc(c.words, func(w word) bool { return !w.known })
	case "bind":
		return flag("xf")
	case "fc":
		return !flag("l")
	case "alias":
		return slices.ContainsFunc(c.words, func(w word) bool { return !w.known })
	}
	return false
}

// interprets says that a program reads programs in a language that runs others.
func (c call) interprets() bool {
	switch c.program {
	case "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "tclsh", "wish", "osascript", "rscript", "julia", "guile", "ed", "ex", "expect":
		return true
	}
	return isPython(c.program)
}

func isPython(program string) bool {
	return strings.HasPrefix(program, "python") || strings.HasPrefix(program, "pypy")
}

// readsInput says that an interpreter reads its program from where nobody sees it.
func (c call) readsInput(stmt *syntax.Stmt) bool {
	editor := c.program == "ed" || c.program == "ex"
	for i, w := range c.words[min(1, len(c.words)):] {
		if w.text == "-" || w.process && i == 0 || w.known && special(w.text) {
			break
		}
		told := !w.option || slices.Contains([]string{"--version", "--help", "-V", "-v", "-h", "--test", "--run"}, w.text)
		if told || c.runsByOption() || isPython(c.program) && strings.ContainsAny(w.text, "cm") {
			return editor
		}
	}
	return stmt == nil || !slices.ContainsFunc(stmt.Redirs, func(red *syntax.Redirect) bool {
		return red.Op == syntax.Hdoc || red.Op == syntax.DashHdoc || red.Op == syntax.WordHdoc && !wholly(red.Word)
	})
}

// wholly says that nothing of a word is literal.
func wholly(w *syntax.Word) bool { return strings.Trim(partly(w), "\x00") == "" }

// readsProgram says that an option of the program names what it runs, and that
// this is no file.
func (c call) readsProgram() bool {
	switch c.program {
	case "make", "gmake", "awk", "gawk", "mawk", "nawk", "sed", "gsed", "just", "ninja", "rake", "task":
	default:
		return false
	}
	args := c.words[min(1, len(c.words)):]
	for i, w := range args {
		if !w.option || !strings.HasPrefix(w.text, "-") {
			continue
		}
		name, value, set := strings.Cut(w.text, "=")
		long := len(name) > 3 && (strings.HasPrefix("--file", name) || strings.HasPrefix("--makefile", name) || strings.HasPrefix("--eval", name))
		at := strings.IndexByte(w.text, 'f')
		switch {
		case long && set:
			w = word{text: value, known: w.known, process: w.process, file: w.file}
		case !long && !strings.HasPrefix(w.text, "--") && at > 0 && at+1 < len(w.text) && w.text[1] == 'f':
			w = word{text: w.text[at+1:], known: w.known, process: w.process, file: w.file}
		case (long || !strings.HasPrefix(w.text, "--") && at == len(w.text)-1) && i+1 < len(args):
			w = args[i+1]
		default:
			continue
		}
		if w.process || w.text == "-" || w.known && special(w.text) || !w.known && !w.file {
			return true
		}
	}
	return false
}

// readsOnly says that a program takes the files it is given for data.
func (c call) readsOnly() bool {
	switch c.program {
	case "comm", "paste", "join", "uniq", "cut", "column", "sdiff", "colordiff", "md5sum", "sha1sum", "sha256sum", "sha512sum", "shasum", "cksum", "fmt", "fold", "nl", "rev", "tac",
		"shuf", "tsort", "pr", "od", "xxd", "hexdump", "file", "stat", "ls", "mapfile", "readarray", "yq", "zcat", "base64", "openssl", "icdiff", "difft", "delta":
		return true
	case "awk", "gawk", "mawk", "nawk", "sed", "gsed":
		return !c.readsProgram()
	}
	if c.interprets() {
		return len(c.words) > 1 && c.words[1].known && !c.words[1].option
	}
	return c.shows()
}

// special says that a path names no file but what a process has open.
func special(path string) bool {
	return path == "-" || strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")
}

// endsInFile says of a word that is partly known that it ends in a name below a
// directory: not in what a process has open.
func endsInFile(text string) bool {
	at := strings.LastIndexByte(text, '/')
	name := text[at+1:]
	return at >= 0 && !special(text) && strings.Trim(name, "0123456789") != "" && name != "stdin" && !strings.Contains(name, "\x00")
}

// readsProcess says that a word holds a process substitution that is read.
func readsProcess(w *syntax.Word) bool {
	found := false
	if w != nil {
		syntax.Walk(w, func(n syntax.Node) bool {
			if p, ok := n.(*syntax.ProcSubst); ok && p.Op != syntax.CmdOut {
				found = true
			}
			_, inner := n.(*syntax.CmdSubst)
			return !inner
		})
	}
	return found
}
