package folder

import "unicode/utf8"

// outcome is what a scan found.
type outcome int

const (
	whole  outcome = iota // a whole value
	cut                   // the begin of one
	broken                // none
)

// maxNesting is how deep a value may nest, as encoding/json has it.
const maxNesting = 10000

func space(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// scan finds the end of the JSON value that begins at i. Of one that is broken
// the end is where it is.
func scan(b []byte, i, depth int) (end int, how outcome) {
	if i >= len(b) {
		return i, cut
	}
	switch c := b[i]; {
	case c == '"':
		return scanString(b, i)
	case c == '{' || c == '[':
		if depth >= maxNesting {
			return i, broken
		}
		return scanList(b, i, depth)
	case c == '-' || '0' <= c && c <= '9':
		return scanNumber(b, i)
	case c == 't':
		return scanWord(b, i, "true")
	case c == 'f':
		return scanWord(b, i, "false")
	case c == 'n':
		return scanWord(b, i, "null")
	}
	return i, broken
}

// scanList is scan for lists and objects.
func scanList(b []byte, i, depth int) (int, outcome) {
	object := b[i] == '{'
	closing := b[i] + 2 // in ASCII, of both
	for first := true; ; first = false {
		if i = skipSpace(b, i+1); i >= len(b) {
			return i, cut
		}
		if first && b[i] == closing {
			return i + 1, whole
		}
		how := whole
		if object {
			if b[i] != '"' {
				return i, broken
			}
			if i, how = scanString(b, i); how != whole {
				return i, how
			}
			if i = skipSpace(b, i); i >= len(b) {
				return i, cut
			}
			if b[i] != ':' {
				return i, broken
			}
			i = skipSpace(b, i+1)
		}
		if i, how = scan(b, i, depth+1); how != whole {
			return i, how
		}
		if i = skipSpace(b, i); i >= len(b) {
			return i, cut
		}
		switch b[i] {
		case closing:
			return i + 1, whole
		case ',':
		default:
			return i, broken
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && space(b[i]) {
		i++
	}
	return i
}

func scanString(b []byte, i int) (int, outcome) {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, whole
		case c < ' ':
			return i, broken
		case c == '\\':
			how := whole
			if i, how = scanEscape(b, i+1); how != whole {
				return i, how
			}
		}
	}
	return i, cut
}

// scanEscape takes what stands behind a backslash, and returns its last byte.
func scanEscape(b []byte, i int) (int, outcome) {
	if i >= len(b) {
		return i, cut
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i, whole
	case 'u':
	default:
		return i, broken
	}
	for range 4 {
		if i++; i >= len(b) {
			return i, cut
		}
		if !hex(b[i]) {
			return i, broken
		}
	}
	return i, whole
}

func hex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func scanWord(b []byte, i int, word string) (int, outcome) {
	for n := range len(word) {
		switch {
		case i+n >= len(b):
			return i + n, cut
		case b[i+n] != word[n]:
			return i + n, broken
		}
	}
	return i + len(word), whole
}

// scanNumber takes the end of what is there for the number's own only where
// something stands behind it.
func scanNumber(b []byte, i int) (int, outcome) {
	if b[i] == '-' {
		i++
	}
	how := whole
	if i < len(b) && b[i] == '0' {
		i++
	} else if i, how = scanDigits(b, i); how != whole {
		return i, how
	}
	if i < len(b) && b[i] == '.' {
		if i, how = scanDigits(b, i+1); how != whole {
			return i, how
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i, how = scanDigits(b, i); how != whole {
			return i, how
		}
	}
	if i >= len(b) {
		return i, cut
	}
	return i, whole
}

func scanDigits(b []byte, i int) (int, outcome) {
	begin := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	switch {
	case i >= len(b):
		return i, cut
	case i == begin:
		return i, broken
	}
	return i, whole
}

// plainText says that the inside of a JSON string is what it says.
func plainText(b []byte) bool {
	ascii := true
	for _, c := range b {
		if c == '\\' {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.Valid(b)
}
