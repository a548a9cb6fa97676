package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// literalWord is the value of a word without expansions; globs, tildes and
// braces count as expansions, but not within a here-document.
func literalWord(w *syntax.Word, document bool) (string, bool) {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if !document && p.Value != "[" && (unescaped(p.Value, "*?[") || unescaped(p.Value, "{") && braces(w) || (b.Len() == 0 && strings.HasPrefix(p.Value, "~"))) {
				return "", false
			}
			b.WriteString(unescape(p.Value, document))
		case *syntax.SglQuoted:
			text, err := p.Value, error(nil)
			if p.Dollar {
				if text, _, err = expand.Format(nil, strings.ReplaceAll(text, "%", "%%"), nil); err != nil {
					return "", false
				}
			}
			b.WriteString(text)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok || p.Dollar {
					return "", false
				}
				b.WriteString(unescape(lit.Value, true))
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// braces says that a word with a brace may stand for several: {} alone is text.
func braces(w *syntax.Word) bool {
	for _, part := range w.Parts {
		if lit, ok := part.(*syntax.Lit); !ok || strings.Contains(lit.Value, ",") || strings.Contains(lit.Value, "..") {
			return true
		}
	}
	return false
}

// unescaped says that text holds one of the characters without a backslash
// before it.
func unescaped(text, chars string) bool {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.IndexByte(chars, text[i]) >= 0:
			return true
		}
	}
	return false
}

// unescape takes the backslashes out as bash does; within double quotes it
// takes only those before a few characters.
func unescape(text string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) || quoted && strings.IndexByte("$`\"\\\n", text[i+1]) < 0 {
			b.WriteByte(text[i])
			continue
		}
		if i++; text[i] != '\n' {
			b.WriteByte(text[i])
		}
	}
	return b.String()
}

// staysOne reports whether a word is in double quotes as a whole, and none of its
// expansions is a list, which makes words of its own.
func staysOne(w *syntax.Word) bool {
	q, ok := w.Parts[0].(*syntax.DblQuoted)
	if !ok || len(w.Parts) > 1 {
		return false
	}
	return !slices.ContainsFunc(q.Parts, func(part syntax.WordPart) bool {
		p, ok := part.(*syntax.ParamExp)
		return ok && (p.Index != nil || p.Names != 0 || p.Exp != nil || p.Excl || !syntax.ValidName(p.Param.Value))
	})
}

// partly is what of a word is literal, with a NUL for what is not.
func partly(w *syntax.Word) string {
	var b strings.Builder
	for _, part := range w.Parts {
		text, ok := literalWord(&syntax.Word{Parts: []syntax.WordPart{part}}, false)
		if quoted, is := part.(*syntax.DblQuoted); is && !ok {
			text = partly(&syntax.Word{Parts: quoted.Parts})
			ok = true
		}
		if !ok {
			text = "\x00"
			if lit, is := part.(*syntax.Lit); is && strings.HasPrefix(lit.Value, "~") && !unescaped(lit.Value, "*?[{") {
				_, below, _ := strings.Cut(lit.Value, "/")
				text = "\x00/" + unescape(below, false)
			}
		}
		b.WriteString(text)
	}
	return b.String()
}
