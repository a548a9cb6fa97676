package git

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command finds the files of a work tree that the value of a configuration's key may name,
// as the shell that git gives it to would. What cannot be known is taken as any file of the
// tree that is there.
type command struct {
	tree, home string
	bases      []string // directories that relative paths begin at
}

// unknown stands in a word for what only the shell knows.
const unknown = "\x00"

// maxNested bounds how deep a word of a command is a command.
const maxNested = 3

// files returns the files, absolute; they need not exist.
func (c *command) files(value string, depth int) (out []string) {
	plain := map[*syntax.Word]bool{} // no files without a slash: programs, and what git takes
	var words []*syntax.Word
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(strings.TrimPrefix(value, "!")), "")
	if err != nil {
		for _, word := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\n;|&<>()'\"`=!{}$", r) }) {
			out = append(out, c.suffixes(word)...)
		}
		return out
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.CallExpr:
			for i, w := range n.Args {
				plain[w] = i == 0 || n.Args[0].Lit() == "git"
			}
			if len(n.Args) > 1 && n.Args[0].Lit() == "cd" {
				c.bases = append(c.bases, absolute(c.tree, strings.Trim(c.text(n.Args[1].Parts), unknown+"/")))
			}
		case *syntax.Word:
			words = append(words, n)
		}
		return true
	})
	for _, w := range words {
		text := c.text(w.Parts)
		out = append(out, c.named(text, plain[w])...)
		if depth < maxNested && strings.ContainsAny(text, " \t\n;|&<>()") {
			out = append(out, c.files(text, depth+1)...)
		}
	}
	return out
}

// text returns a word without its quotes.
func (c *command) text(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, "\\", ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(c.text(p.Parts))
		case *syntax.ParamExp:
			switch p.Param.Value {
			case "PWD":
				b.WriteString(c.tree)
			case "HOME":
				b.WriteString(c.home)
			default:
				b.WriteString(unknown)
			}
		default:
			b.WriteString(unknown)
		}
	}
	return b.String()
}

// named returns the files that a word may name; plain says that one without a slash names none.
func (c *command) named(word string, plain bool) (out []string) {
	if _, value, assigns := strings.Cut(word, "="); assigns {
		out = c.named(value, plain)
	}
	rest := word[strings.LastIndex(word, unknown)+1:]
	slash := strings.Contains(rest, "/")
	if rest != word {
		rest = strings.TrimLeft(rest, "/")
	}
	rest = expandHome(rest, c.home)
	switch {
	case rest == "" || strings.Contains(word, "://") || plain && !slash:
		return out
	case strings.HasPrefix(rest, "-"):
		return append(out, c.suffixes(rest)...)
	}
	for _, base := range c.bases {
		path := absolute(base, rest)
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() || err != nil && slash && !strings.HasSuffix(rest, "/") {
			out = append(out, path)
		}
	}
	return out
}

// suffixes returns the files that are there by what follows any slash of a word, or all of it.
func (c *command) suffixes(word string) (out []string) {
	for rest, more := word, true; more; _, rest, more = strings.Cut(rest, "/") {
		for _, base := range c.bases {
			path := filepath.Join(base, rest)
			if info, err := os.Stat(path); err == nil && !info.IsDir() && !slices.Contains(out, path) {
				out = append(out, path)
			}
		}
	}
	return out
}
