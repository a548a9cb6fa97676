package tools

import (
	"bytes"
	"strings"
)

// ignoreFile is one .gitignore: its rules and the directory that they are
// relative to ("" for the root).
type ignoreFile struct {
	base  string
	rules []ignoreRule
}

type ignoreRule struct {
	negate   bool
	dirOnly  bool
	anchored bool // matched against the path below base, not the last name
	tokens   []globToken
}

// ignores are the files that hold for a directory, weakest first.
type ignores []ignoreFile

// match says whether git would ignore path, relative to the root, given that
// none of its parents is ignored. The strongest file with a matching rule
// decides, and in it the last such rule.
func (g ignores) match(path string, dir bool) bool {
	for i := len(g) - 1; i >= 0; i-- {
		below := path
		if base := g[i].base; base != "" {
			if len(path) <= len(base) || path[:len(base)] != base || path[len(base)] != '/' {
				continue
			}
			below = path[len(base)+1:]
		}
		name := below[strings.LastIndexByte(below, '/')+1:]
		for j := len(g[i].rules) - 1; j >= 0; j-- {
			r := &g[i].rules[j]
			if r.dirOnly && !dir {
				continue
			}
			text := name
			if r.anchored {
				text = below
			}
			if matchGlob(r.tokens, text) {
				return !r.negate
			}
		}
	}
	return false
}

// parseIgnore reads a .gitignore. Patterns that cannot match anything are left
// out.
func parseIgnore(data []byte, base string) ignoreFile {
	f := ignoreFile{base: base}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if r, ok := parseIgnoreLine(string(bytes.TrimSuffix(line, []byte("\r")))); ok {
			f.rules = append(f.rules, r)
		}
	}
	return f
}

func parseIgnoreLine(line string) (r ignoreRule, ok bool) {
	// Git's parser ends a line at a NUL like at its end.
	line, _, _ = strings.Cut(line, "\x00")
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line = trimIgnoreSpaces(line)
	if line, r.negate = strings.CutPrefix(line, "!"); line == "" {
		return r, false
	}
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	r.tokens, ok = parseGlob(line, r.anchored)
	return r, ok
}

// trimIgnoreSpaces cuts unescaped spaces off the end.
func trimIgnoreSpaces(s string) string {
	end := -1 // where the run of spaces that may end the line begins
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			if end < 0 {
				end = i
			}
		case '\\':
			if i++; i >= len(s) {
				return s
			}
			end = -1
		default:
			end = -1
		}
	}
	if end >= 0 {
		return s[:end]
	}
	return s
}

type tokenKind uint8

const (
	tokenByte     tokenKind = iota // exactly b
	tokenSet                       // one byte of set
	tokenStar                      // any bytes but slashes
	tokenDirs                      // nothing, or anything that ends in a slash
	tokenAnything                  // anything
)

type globToken struct {
	kind tokenKind
	b    byte
	set  *byteSet
}

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) has(b byte) bool { return s[b>>6]&(1<<(b&63)) != 0 }
func (s *byteSet) addRange(a, b byte) {
	for c := int(a); c <= int(b); c++ {
		s.add(byte(c))
	}
}

// parseGlob compiles a pattern the way git's wildmatch reads it. In a pattern
// that is matched against a path, ** is special as a whole component; git also
// takes it so right after the literal beginning of a pattern, because it
// compares that beginning separately.
func parseGlob(p string, paths bool) (tokens []globToken, ok bool) {
	literal := strings.IndexAny(p, `*?[\`)
	for i := 0; i < len(p); {
		switch c := p[i]; c {
		case '*':
			stars := i
			for i < len(p) && p[i] == '*' {
				i++
			}
			component := paths && i-stars > 1 && (stars == 0 || stars == literal || p[stars-1] == '/')
			switch {
			case component && i == len(p):
				tokens = append(tokens, globToken{kind: tokenAnything})
			case component && p[i] == '/':
				tokens = append(tokens, globToken{kind: tokenDirs})
				i++
			case component && strings.HasPrefix(p[i:], `\/`):
				tokens = append(tokens, globToken{kind: tokenAnything})
			default:
				tokens = append(tokens, globToken{kind: tokenStar})
			}
		case '?':
			set := &byteSet{}
			set.addRange(1, 255)
			tokens = append(tokens, globToken{kind: tokenSet, set: set})
			i++
		case '[':
			set, n, ok := parseSet(p[i:])
			if !ok {
				return nil, false
			}
			tokens = append(tokens, globToken{kind: tokenSet, set: set})
			i += n
		case '\\':
			if i+1 == len(p) {
				return nil, false
			}
			tokens = append(tokens, globToken{b: p[i+1]})
			i += 2
		default:
			tokens = append(tokens, globToken{b: c})
			i++
		}
	}
	return tokens, true
}

// parseSet reads a bracket expression at the start of p and returns its length.
// It follows wildmatch.c in what ends the expression and what is literal.
func parseSet(p string) (set *byteSet, n int, ok bool) {
	set = &byteSet{}
	at := func(i int) byte {
		if i < len(p) {
			return p[i]
		}
		return 0
	}
	i := 1
	negate := at(i) == '!' || at(i) == '^'
	if negate {
		i++
	}
	var prev byte
	for first := true; first || at(i) != ']'; first = false {
		c := at(i)
		switch {
		case c == 0:
			return nil, 0, false
		case c == '\\':
			i++
			if c = at(i); c == 0 {
				return nil, 0, false
			}
			set.add(c)
		case c == '-' && prev != 0 && at(i+1) != 0 && at(i+1) != ']':
			i++
			if c = at(i); c == '\\' {
				i++
				if c = at(i); c == 0 {
					return nil, 0, false
				}
			}
			set.addRange(prev, c)
			c = 0
		case c == '[' && at(i+1) == ':':
			end := strings.IndexByte(p[i+2:], ']')
			if end < 0 {
				return nil, 0, false
			}
			name, isClass := strings.CutSuffix(p[i+2:i+2+end], ":")
			if !isClass {
				set.add('[')
				break
			}
			if !set.addClass(name) {
				return nil, 0, false
			}
			i += 2 + end
			c = 0
		default:
			set.add(c)
		}
		prev = c
		i++
	}
	if negate {
		for j := range set {
			set[j] = ^set[j]
		}
	}
	return set, i + 1, true
}

// addClass adds a POSIX class in the C locale.
func (s *byteSet) addClass(name string) bool {
	for c := 1; c < 128; c++ {
		b := byte(c)
		lower, upper, digit := b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9'
		var in bool
		switch name {
		case "alnum":
			in = lower || upper || digit
		case "alpha":
			in = lower || upper
		case "blank":
			in = b == ' ' || b == '\t'
		case "cntrl":
			in = b < 32 || b == 127
		case "digit":
			in = digit
		case "graph":
			in = b > 32 && b < 127
		case "lower":
			in = lower
		case "print":
			in = b >= 32 && b < 127
		case "punct":
			in = b > 32 && b < 127 && !lower && !upper && !digit
		case "space":
			in = b == ' ' || b >= 9 && b <= 13
		case "upper":
			in = upper
		case "xdigit":
			in = digit || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
		default:
			return false
		}
		if in {
			s.add(b)
		}
	}
	return true
}

// matchGlob matches text whole. It remembers one point to come back to for * and
// one for **, the latest of each, which is enough: what an earlier one could
// take, the later one can take as well. So the work is bounded by the product of
// the lengths, for any pattern of a hostile repository.
func matchGlob(tokens []globToken, text string) bool {
	type point struct{ token, text int }
	star, dirs := point{token: -1}, point{token: -1}
	ti, si := 0, 0
	for {
		switch {
		case ti == len(tokens) && si == len(text):
			return true
		case ti == len(tokens):
		case tokens[ti].kind == tokenStar:
			star = point{ti, si}
			ti++
			continue
		case tokens[ti].kind == tokenDirs || tokens[ti].kind == tokenAnything:
			dirs, star = point{ti, si}, point{token: -1}
			ti++
			continue
		case si < len(text) && tokens[ti].takes(text[si]):
			ti, si = ti+1, si+1
			continue
		}
		if star.token >= 0 && star.text < len(text) && text[star.text] != '/' {
			star.text++
			ti, si = star.token+1, star.text
			continue
		}
		if dirs.token < 0 {
			return false
		}
		if dirs.text = tokens[dirs.token].advance(text, dirs.text); dirs.text < 0 {
			return false
		}
		ti, si, star = dirs.token+1, dirs.text, point{token: -1}
	}
}

func (t *globToken) takes(b byte) bool {
	if t.kind == tokenSet {
		return b != '/' && t.set.has(b)
	}
	return t.b == b
}

// advance returns the next place up to which ** can reach, or -1.
func (t *globToken) advance(text string, from int) int {
	if from >= len(text) {
		return -1
	}
	if t.kind == tokenAnything {
		return from + 1
	}
	if i := strings.IndexByte(text[from:], '/'); i >= 0 {
		return from + i + 1
	}
	return -1
}
