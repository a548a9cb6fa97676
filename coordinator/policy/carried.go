package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// wrapped takes up the command that another program runs, which begins at a word.
func (r *reader) wrapped(c call, at int, stmt *syntax.Stmt) {
	feeds := c.program == "xargs" || c.program == "parallel"
	words := c.words[at:]
	if c.program == "parallel" {
		if end := slices.IndexFunc(words, func(w word) bool { return strings.HasPrefix(w.text, ":::") }); end >= 0 {
			words = words[:end]
		}
	}
	switch {
	case len(words) == 0 && c.program != "parallel":
		return
	case feeds && !feedable(words, c.placeholders()):
		r.s.hide("what " + c.program + " runs")
		return
	case c.program == "command" && at > 1 && strings.HasPrefix(strings.ToLower(c.words[1].text), "-v"):
		return // it only looks
	case strings.ContainsAny(words[0].text, " \t\n;|&"):
		r.inner(words[0].text)
		return
	}
	if feeds {
		stmt = nil
	}
	r.add(carriedCall(c, words), stmt)
}

// placeholders are the words that xargs or parallel replaces by its input.
func (c call) placeholders() []string {
	list := []string{"{}"}
	for i, w := range c.words {
		if (w.text == "-I" || w.text == "-J" || strings.HasPrefix(w.text, "-") && strings.HasSuffix(w.text, "I")) && i+1 < len(c.words) {
			list = append(list, c.words[i+1].text)
			continue
		}
		for _, option := range []string{"-I", "-i", "-J", "--replace="} {
			if name, ok := strings.CutPrefix(w.text, option); ok && name != "" {
				list = append(list, name)
			}
		}
	}
	return list
}

// feedable reports whether a command with more arguments, which are not seen, is still
// that command: its program is known, and runs nothing that an argument names.
func feedable(words []word, placeholders []string) bool {
	for len(words) > 0 {
		c := call{program: program(words[0].text), words: words}
		if !words[0].known || slices.ContainsFunc(placeholders, func(p string) bool { return strings.Contains(words[0].text, p) }) {
			return false
		}
		at, ok := c.behind()
		if !ok {
			return !c.feeds()
		}
		if c.program == "xargs" || c.program == "parallel" {
			return false
		}
		words = words[at:]
	}
	return false
}

// feeds reports whether a program runs what its arguments say.
func (c call) feeds() bool {
	switch c.program {
	case "docker", "podman":
		return len(c.words) < 2 || slices.Contains([]string{"run", "exec", "compose", "container"}, c.words[1].text) || c.words[1].option
	case "git", "make", "gmake", "find", "fd", "source", ".", "ninja", "just":
		return true
	}
	return strings.HasPrefix(c.program, "git-") || isShell(c.program) || c.interprets() || c.carries()
}

// found takes up the commands that find runs for what it finds.
func (r *reader) found(c call) {
	for i, w := range c.words {
		if !strings.HasPrefix(w.text, "-exec") && !strings.HasPrefix(w.text, "-ok") && (c.program == "find" || w.text != "-x" && w.text != "-X" && w.text != "--exec" && w.text != "--exec-batch") {
			continue
		}
		words := c.words[i+1:]
		if end := slices.IndexFunc(words, func(w word) bool { return w.text == ";" || w.text == "+" }); end >= 0 {
			words = words[:end]
		}
		if len(words) == 0 {
			continue
		}
		in := carriedCall(c, words)
		switch {
		case !words[0].known || !feedable(words, []string{"{}"}) && !isShell(in.program) && in.program != "git" && !in.interprets():
			r.s.hide("what " + c.program + " runs")
		case isShell(in.program) && scripted(words):
			r.s.hide("what " + c.program + " runs")
		default:
			r.add(in, nil)
		}
	}
}

// scripted reports whether the script of a shell holds the name of a file, which may be
// a command.
func scripted(words []word) bool {
	given := false
	for _, w := range words[1:] {
		switch {
		case !w.option:
			return given && strings.Contains(w.text, "{}")
		case !strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "c"):
			given = true
		}
	}
	return false
}
