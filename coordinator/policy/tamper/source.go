package tamper

import (
	"path"
	"regexp"
	"strings"
)

// source is one side of a test file.
type source struct {
	path  string
	l     *language
	raw   string
	code  string // without comments
	bare  string // without the insides of strings as well
	units []*unit
	// outside is code without its units, and starts the offsets of lines.
	outside     string
	outsideBare string
	// helpers are the functions of all tests that assert, and whether strongly.
	helpers map[string]bool
	starts  []int
}

// unit is a test, or a function of a test file that tests may call.
type unit struct {
	name   string
	helper bool
	file   *source
	from   int
	to     int
	line   int
	bag    map[string]int // tokens with their number
	tests  []assertion
	direct []assertion // those that are not calls of helpers
}

func (u *unit) raw() string  { return u.file.raw[u.from:u.to] }
func (u *unit) code() string { return u.file.code[u.from:u.to] }
func (u *unit) bare() string { return u.file.bare[u.from:u.to] }
func (u *unit) view() view   { return view{u.code(), u.bare()} }

// view is a text without comments, with and without the insides of its strings.
type view struct{ code, bare string }

// plain is a view of what has no strings to hide.
func plain(text string) view { return view{text, text} }

const maxUnits = 4000

func readSource(path, raw string) *source {
	s := &source{path: path, l: languageOf(path), raw: strings.ReplaceAll(raw, "\r\n", "\n")}
	s.code, s.bare = mask(s.raw, s.l)
	s.starts = []int{0}
	for i := range len(s.raw) {
		if s.raw[i] == '\n' {
			s.starts = append(s.starts, i+1)
		}
	}
	s.find(s.l.test, false)
	s.find(s.l.helper, true)
	out, outBare := []byte(s.code), []byte(s.bare)
	for _, u := range s.units {
		for i := u.from; i < u.to; i++ {
			if out[i] != '\n' {
				out[i], outBare[i] = ' ', ' '
			}
		}
	}
	s.outside, s.outsideBare = string(out), string(outBare)
	return s
}

// find appends the units that re begins and no other unit holds.
func (s *source) find(re *regexp.Regexp, helper bool) {
	name, fname := re.SubexpIndex("name"), re.SubexpIndex("fname")
	for _, m := range re.FindAllStringSubmatchIndex(s.bare, -1) {
		if len(s.units) >= maxUnits {
			return
		}
		from := m[0]
		for from < m[1] && strings.IndexByte(" \t\n;{(", s.bare[from]) >= 0 {
			from++
		}
		if s.within(from) {
			continue
		}
		helper := helper || s.uncollected(from)
		u := &unit{helper: helper, file: s, from: s.lead(from), line: s.lineAt(from)}
		begin := m[1]
		if s.bare[begin-1] == '{' {
			begin--
		}
		switch {
		case fname >= 0 && m[2*fname] >= 0:
			u.name = s.raw[m[2*fname]:m[2*fname+1]]
		case m[2*name+1]-m[2*name] == 1 && strings.IndexByte("\"'`", s.bare[m[2*name]]) >= 0:
			begin = m[2*name]
			u.name = s.stringAt(begin)
		default:
			u.name = strings.Trim(s.raw[m[2*name]:m[2*name+1]], "`")
		}
		if u.to = s.close(from, begin); u.to <= u.from {
			continue
		}
		s.units = append(s.units, u)
	}
}

// uncollected says that a function of Python stands in a file or a class that no
// test program looks into.
func (s *source) uncollected(from int) bool {
	if s.l.name != "python" {
		return false
	}
	if base := path.Base(s.path); !strings.HasPrefix(base, "test") && !strings.HasSuffix(base, "_test.py") {
		return true
	}
	if from == 0 || s.bare[from-1] == '\n' {
		return false
	}
	own := indentation(s.bare[strings.LastIndexByte(s.bare[:from], '\n')+1:])
	for i := s.lineAt(from) - 2; i >= 0; i-- {
		text := until(s.bare[s.starts[i]:], "\n")
		if strings.TrimSpace(text) == "" || indentation(text) >= own {
			continue
		}
		m := class().FindStringSubmatch(text)
		return m != nil && !strings.HasPrefix(m[1], "Test") && !strings.Contains(m[2], "Test")
	}
	return false
}

func (s *source) within(at int) bool {
	for i := len(s.units) - 1; i >= 0; i-- {
		if at >= s.units[i].from && at < s.units[i].to {
			return true
		}
	}
	return false
}

func (s *source) lineAt(offset int) int {
	lo, hi := 0, len(s.starts)
	for lo+1 < hi {
		if mid := (lo + hi) / 2; s.starts[mid] <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo + 1
}

// stringAt is the string literal that begins at i.
func (s *source) stringAt(i int) string {
	rest := s.bare[i+1:]
	n := strings.IndexByte(rest, s.bare[i])
	if n < 0 {
		n = end(rest, "\n")
	}
	return s.raw[i+1 : i+1+n]
}

// lead moves the beginning up over attributes and decorators.
func (s *source) lead(from int) int {
	first := s.lineAt(from) - 1
	best := first
	for i := first - 1; i >= 0 && first-i < 60; i-- {
		text := strings.TrimSpace(s.code[s.starts[i] : s.starts[i+1]-1])
		if text == "" || strings.HasSuffix(text, ";") || strings.HasSuffix(text, "}") || strings.HasPrefix(text, "def ") || strings.HasPrefix(text, "class ") {
			break
		}
		if strings.HasPrefix(text, "@") || strings.HasPrefix(text, "#[") || strings.HasPrefix(text, "[") {
			best = i
		} else if s.l.style != indent {
			break
		}
	}
	if best == first {
		return from
	}
	return s.starts[best]
}

// close is the end of the block that begins at from, whose head ends at head.
func (s *source) close(from, head int) int {
	switch s.l.style {
	case indent:
		return s.dedent(from)
	case keyword:
		return s.ended(from)
	}
	if s.l.name == "javascript" {
		if i := strings.LastIndexByte(s.bare[from:head], '('); i >= 0 && strings.IndexByte("\"'`", s.bare[min(head, len(s.bare)-1)]) >= 0 {
			return s.match(from+i, '(', ')')
		}
	}
	i := strings.IndexByte(s.bare[head:], '{')
	if i < 0 || strings.Contains(s.bare[head:head+i], ";") {
		return head + end(s.bare[head:], "\n")
	}
	return s.match(head+i, '{', '}')
}

// match is the offset after the bracket that closes the one at i; all that is
// left when none does.
func (s *source) match(i int, open, shut byte) int {
	depth := 0
	for j := i; j < len(s.bare); j++ {
		switch s.bare[j] {
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				return j + 1
			}
		}
	}
	return len(s.bare)
}

// dedent is the end of a Python block.
func (s *source) dedent(from int) int {
	line := s.lineAt(from) - 1
	own := indentation(s.bare[s.starts[line]:])
	at := from
	if open := strings.IndexByte(s.bare[from:], '('); open >= 0 {
		at = s.match(from+open, '(', ')')
	}
	depth := 0
	for i := s.lineAt(min(at, len(s.bare)-1)); i < len(s.starts); i++ {
		text := s.bare[s.starts[i]:]
		text = text[:end(text, "\n")]
		if strings.TrimSpace(text) != "" && depth <= 0 && indentation(text) <= own {
			return s.starts[i]
		}
		depth += strings.Count(text, "(") + strings.Count(text, "[") + strings.Count(text, "{") - strings.Count(text, ")") - strings.Count(text, "]") - strings.Count(text, "}")
	}
	return len(s.bare)
}

func indentation(text string) int {
	n := 0
	for _, r := range text {
		switch r {
		case ' ':
			n++
		case '\t':
			n += 8
		default:
			return n
		}
	}
	return n
}

// ended is the end of a Ruby block.
func (s *source) ended(from int) int {
	line := s.lineAt(from) - 1
	text := s.bare[s.starts[line]:]
	text = text[:end(text, "\n")]
	if t := strings.TrimSpace(text); !strings.HasPrefix(t, "def ") && !strings.HasSuffix(t, " do") && !strings.HasSuffix(t, "|") && !strings.HasSuffix(t, "{") {
		return s.starts[line] + len(text)
	}
	own := indentation(text)
	for i := line + 1; i < len(s.starts); i++ {
		text := s.bare[s.starts[i]:]
		text = text[:end(text, "\n")]
		if t := strings.TrimSpace(text); indentation(text) <= own && (strings.HasPrefix(t, "end") || strings.HasPrefix(t, "}")) {
			return s.starts[i] + len(text)
		}
	}
	return len(s.bare)
}

// assertion is one line that can fail a test.
type assertion struct {
	text    string // with its spaces made one
	line    int
	strong  bool
	trivial bool
}

// assertions are those of a text that begins at line.
func (s *source) assertions(code, raw string, line int) []assertion {
	var found []assertion
	lines, raws := strings.Split(code, "\n"), strings.Split(raw, "\n")
	for i, text := range lines {
		helped, strong := s.helped(text)
		passed, strongly := s.passed(text)
		comment := s.l.name == "go" && strings.HasPrefix(strings.TrimSpace(raws[i]), "// Output:")
		if comment {
			text = raws[i]
		}
		if !comment && !helped && !passed && !s.l.asserts.MatchString(text) {
			continue
		}
		a := assertion{text: squeeze(text), line: line + i}
		whole := text
		if s.l.name == "go" {
			if cond := guard(lines, i); cond != "" {
				whole = cond
				a.text = squeeze(cond) + " => " + squeeze(until(text, "("))
			}
		} else {
			whole = statement(lines, i)
		}
		a.strong = comment || helped && strong || passed && strongly || s.l.strong.MatchString(whole) && !onlyNil(whole)
		a.trivial = s.trivialIn(whole)
		found = append(found, a)
	}
	return found
}

// helped says that a line calls a function of the tests that asserts, and whether
// that is strong.
func (s *source) helped(text string) (calls, strong bool) {
	if len(s.helpers) == 0 || strings.HasPrefix(strings.TrimSpace(text), "def ") || strings.HasPrefix(text, "func ") {
		return false, false
	}
	for _, m := range callees().FindAllStringSubmatch(text, -1) {
		if is, ok := s.helpers[m[1]]; ok {
			return true, is
		}
	}
	return false, false
}

// passed says that a line of Go gives the test to a function, which may then fail
// it, as functions of other files do; strongly, when it gives it something to look
// at as well.
func (s *source) passed(text string) (calls, strongly bool) {
	if s.l.name != "go" || strings.HasPrefix(text, "func ") || strings.Contains(text, ":= ") || strings.Contains(text, " = ") {
		return false, false
	}
	m := passing().FindStringSubmatch(text)
	return m != nil, m != nil && m[1] == ","
}

func (s *source) trivialIn(text string) bool { return s.l.trivial.MatchString(text) || same(text) }

// until is the text before the separator.
func until(text, separator string) string { return text[:end(text, separator)] }

// guard is the condition of Go's `if … { t.Error(…)`, on this line or one of the
// two before.
func guard(lines []string, i int) string {
	for j := i; j >= 0 && j > i-3; j-- {
		t := strings.TrimSpace(lines[j])
		if strings.HasPrefix(t, "for ") && j == i-1 {
			return t + " != none" // what it ranges over is what is wrong
		}
		if strings.HasPrefix(t, "if ") || strings.HasPrefix(t, "} else if ") || strings.HasPrefix(t, "case ") {
			return t
		}
		if j < i && strings.HasPrefix(t, "}") {
			return ""
		}
	}
	return ""
}

// statement is the line with those that follow while its brackets are open.
func statement(lines []string, i int) string {
	text := lines[i]
	for j := i + 1; j < len(lines) && j < i+12 && (opens(text) > 0 || strings.HasPrefix(strings.TrimSpace(lines[j]), ".")); j++ {
		text += " " + strings.TrimSpace(lines[j])
	}
	return text
}

func opens(text string) int {
	return strings.Count(text, "(") + strings.Count(text, "[") - strings.Count(text, ")") - strings.Count(text, "]")
}

// onlyNil says that a condition only asks whether there is something at all.
func onlyNil(text string) bool {
	rest := nilChecks().ReplaceAllString(text, "")
	return rest != text && !comparison().MatchString(rest)
}

func squeeze(s string) string {
	return strings.Join(strings.Fields(strings.TrimRight(strings.TrimSpace(s), ",;")), " ")
}
