package tamper

import "strings"

// mask returns two texts of the same length as src: code, in which comments are
// blank, and bare, in which the insides of strings are blank too. Newlines stay.
// It is no parser: what it cannot close ends with its line.
func mask(src string, l *language) (code, bare string) {
	m := masker{src: src, code: []byte(src), bare: []byte(src), l: l}
	for m.i < len(src) {
		m.step()
	}
	return string(m.code), string(m.bare)
}

type masker struct {
	src        string
	code, bare []byte
	l          *language
	i          int
}

func (m *masker) step() {
	rest := m.src[m.i:]
	switch {
	case m.l.lineComment != "" && strings.HasPrefix(rest, m.l.lineComment) && m.starts():
		m.blank(end(rest, "\n"), true)
	case m.l.blockComment && strings.HasPrefix(rest, "/*"):
		n := strings.Index(rest[2:], "*/")
		if n < 0 {
			n = len(rest) - 4
		}
		m.blank(n+4, true)
	case m.l.triple && (strings.HasPrefix(rest, `"""`) || strings.HasPrefix(rest, "'''")):
		if m.statement() {
			m.blank(6+end(rest[3:], rest[:3]), true)
			return
		}
		m.quoted(rest[:3], true)
	case rest[0] == '"':
		m.quoted(`"`, m.l.long)
	case rest[0] == '`' && m.l.backtick:
		m.quoted("`", true)
	case rest[0] == '\'' && m.l.lifetimes:
		m.char(rest)
	case rest[0] == '\'' && m.l.single:
		m.quoted("'", m.l.long)
	default:
		m.i++
	}
}

// starts says that a # begins a comment here: it does not within a word, as in $#.
func (m *masker) starts() bool {
	return m.l.lineComment != "#" || m.i == 0 || strings.ContainsRune(" \t\n;({", rune(m.src[m.i-1]))
}

// statement says that a string begins a statement of Python, which makes it a
// comment.
func (m *masker) statement() bool {
	if m.l.name != "python" {
		return false
	}
	before := m.src[:m.i]
	line := strings.LastIndexByte(before, '\n') + 1
	if strings.TrimSpace(before[line:]) != "" {
		return false
	}
	previous := strings.TrimRight(before[:line], " \t\n")
	return previous == "" || strings.IndexByte("([{,=+\\", previous[len(previous)-1]) < 0
}

// end is the length up to the separator, which is not part of it.
func end(s, separator string) int {
	if i := strings.Index(s, separator); i >= 0 {
		return i
	}
	return len(s)
}

// blank makes the next n bytes empty.
func (m *masker) blank(n int, code bool) {
	for j := m.i; j < min(len(m.src), m.i+n); j++ {
		if m.src[j] == '\n' {
			continue
		}
		m.bare[j] = ' '
		if code {
			m.code[j] = ' '
		}
	}
	m.i += max(1, n)
}

// quoted blanks the inside of a string; one that may not be long ends with its
// line.
func (m *masker) quoted(quote string, long bool) {
	j := m.i + len(quote)
	for j < len(m.src) && !strings.HasPrefix(m.src[j:], quote) {
		if m.src[j] == '\n' && !long {
			m.i = j
			return
		}
		if m.src[j] == '\\' && (quote != "`" || m.l.escapes) {
			j++
		}
		j++
	}
	j = min(j, len(m.src))
	m.i += len(quote)
	if n := j - m.i; n > 0 {
		m.blank(n, false)
	}
	m.i = min(len(m.src), j+len(quote))
}

// char is a character of Rust, C or Java: 'x' or '\n', but not a lifetime 'a.
func (m *masker) char(rest string) {
	n := 2
	if len(rest) > 1 && rest[1] == '\\' {
		n = 3
	}
	if len(rest) > n && rest[n] == '\'' {
		m.i++
		m.blank(n-1, false)
	}
	m.i++
}
