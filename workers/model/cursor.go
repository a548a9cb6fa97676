package model

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// cursor walks over one JSON text without building values, so that a chunk of a
// stream costs one pass and no allocation. It is lenient about types: a value
// of another type than asked for is stepped over. It is strict about the end:
// short says that the text stops in the middle of a value.
type cursor struct {
	b     []byte
	i     int
	buf   []byte // unescaped strings; slices handed out stay valid until reset
	short bool
	bad   bool
}

func (c *cursor) reset(b []byte) {
	c.b, c.i, c.buf, c.short, c.bad = b, 0, c.buf[:0], false, false
}

func (c *cursor) ok() bool { return !c.short && !c.bad }

// fail stops the walk: every later call finds nothing.
func (c *cursor) fail() {
	if c.i >= len(c.b) {
		c.short = true
	} else {
		c.bad = true
	}
	c.i = len(c.b)
}

// peek returns the first byte of the next value or token, 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.b) {
		switch b := c.b[c.i]; b {
		case ' ', '\t', '\r', '\n':
			c.i++
		default:
			return b
		}
	}
	return 0
}

// open enters an object ('{') or an array ('['); a value of another type is
// stepped over and open answers false.
func (c *cursor) open(kind byte) bool {
	if c.peek() == kind {
		c.i++
		return true
	}
	c.skip()
	return false
}

// key returns the n-th key of the object that was opened, or false at its end.
func (c *cursor) key(n int) ([]byte, bool) {
	if !c.next(n, '}') {
		return nil, false
	}
	if c.peek() != '"' {
		c.fail()
		return nil, false
	}
	k := c.text()
	if c.peek() != ':' {
		c.fail()
		return nil, false
	}
	c.i++
	return k, true
}

// elem steps to the n-th element of the array that was opened, or answers false
// at its end.
func (c *cursor) elem(n int) bool { return c.next(n, ']') }

func (c *cursor) next(n int, end byte) bool {
	b := c.peek()
	if b == end {
		c.i++
		return false
	}
	if n > 0 && b == ',' {
		c.i++
		b = c.peek()
	} else if n > 0 {
		b = 0
	}
	if b == 0 {
		c.fail()
		return false
	}
	return true
}

// str returns a string value; null and other types are stepped over.
func (c *cursor) str() ([]byte, bool) {
	if c.peek() != '"' {
		c.skip()
		return nil, false
	}
	s := c.text()
	return s, c.ok()
}

// num returns a number as an int; a fraction is cut off. Numbers within strings
// are understood as well.
func (c *cursor) num() (int, bool) {
	f, ok := c.float()
	return int(f), ok && f > -1e15 && f < 1e15
}

func (c *cursor) float() (float64, bool) {
	var raw []byte
	if c.peek() == '"' {
		raw = c.text()
	} else {
		raw = c.raw()
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil
}

// raw returns the bytes of the next value.
func (c *cursor) raw() []byte {
	c.peek()
	from := c.i
	c.skip()
	if !c.ok() {
		return nil
	}
	return c.b[from:c.i]
}

// skip steps over one value without looking into it. Brackets are counted, not
// matched: a text that is wrong only inside a value that nobody reads is taken.
func (c *cursor) skip() {
	depth := 0
	for {
		switch b := c.peek(); b {
		case 0:
			c.fail()
			return
		case '"':
			c.text()
		case '{', '[':
			depth++
			c.i++
		case '}', ']':
			depth--
			c.i++
			if depth < 0 {
				c.i--
				c.fail()
				return
			}
		case ',', ':':
			if depth == 0 {
				c.fail()
				return
			}
			c.i++
		default:
			c.word()
		}
		if depth == 0 || !c.ok() {
			return
		}
	}
}

// word steps over a number, true, false or null.
func (c *cursor) word() {
	from := c.i
	for c.i < len(c.b) {
		b := c.b[c.i]
		if b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b == '-' || b == '+' || b == '.' || b == 'E' || b == 'I' || b == 'N' {
			c.i++
			continue
		}
		break
	}
	if c.i == from {
		c.fail()
	}
}

// text reads the string at the cursor. The result aliases the text or buf.
// Bytes that are no UTF-8 are kept as they are, and a lone surrogate becomes its
// three-byte form: either may be half of a rune whose rest is in the next chunk.
func (c *cursor) text() []byte {
	c.i++
	from := c.i
	j := bytes.IndexByte(c.b[c.i:], '"')
	if j < 0 {
		c.i = len(c.b)
		c.fail()
		return nil
	}
	if k := bytes.IndexByte(c.b[c.i:c.i+j], '\\'); k >= 0 {
		c.i += k
		return c.escaped(from)
	}
	s := c.b[from : c.i+j]
	c.i += j + 1
	return s
}

// escaped goes on with text at the first backslash.
func (c *cursor) escaped(from int) []byte {
	at := len(c.buf)
	c.buf = append(c.buf, c.b[from:c.i]...)
	for c.i < len(c.b) {
		switch b := c.b[c.i]; b {
		case '"':
			c.i++
			return c.buf[at:len(c.buf):len(c.buf)]
		case '\\':
			if !c.escape() {
				c.fail()
				return nil
			}
		default:
			run := c.i
			for c.i < len(c.b) && c.b[c.i] != '"' && c.b[c.i] != '\\' {
				c.i++
			}
			c.buf = append(c.buf, c.b[run:c.i]...)
		}
	}
	c.fail()
	return nil
}

// escape decodes one backslash sequence into buf.
func (c *cursor) escape() bool {
	if c.i+1 >= len(c.b) {
		c.i = len(c.b)
		return false
	}
	b := c.b[c.i+1]
	switch b {
	case '"', '\\', '/':
	case 'b':
		b = '\b'
	case 'f':
		b = '\f'
	case 'n':
		b = '\n'
	case 'r':
		b = '\r'
	case 't':
		b = '\t'
	case 'u':
		return c.unicode()
	default:
		return false
	}
	c.buf = append(c.buf, b)
	c.i += 2
	return true
}

func (c *cursor) unicode() bool {
	r, ok := c.hex()
	if !ok {
		return false
	}
	if r >= 0xD800 && r < 0xDC00 && c.i+1 < len(c.b) && c.b[c.i] == '\\' && c.b[c.i+1] == 'u' {
		back := c.i
		low, ok := c.hex()
		switch {
		case !ok:
			return false
		case low >= 0xDC00 && low < 0xE000:
			r = (r-0xD800)<<10 | (low - 0xDC00) + 0x10000
		default:
			c.i = back
		}
	}
	if r >= 0xD800 && r < 0xE000 {
		c.buf = append(c.buf, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0xBF, 0x80|byte(r)&0xBF)
		return true
	}
	c.buf = utf8.AppendRune(c.buf, r)
	return true
}

// hex reads the four digits of \uXXXX and steps behind them.
func (c *cursor) hex() (rune, bool) {
	if c.i+6 > len(c.b) {
		c.i = len(c.b)
		return 0, false
	}
	var r rune
	for _, b := range c.b[c.i+2 : c.i+6] {
		switch {
		case b >= '0' && b <= '9':
			b -= '0'
		case b >= 'a' && b <= 'f':
			b -= 'a' - 10
		case b >= 'A' && b <= 'F':
			b -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(b)
	}
	c.i += 6
	return r, true
}
