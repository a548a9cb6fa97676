package model

import (
	"strings"
	"unicode/utf8"
)

// runes gathers streamed text and hands it out in whole runes. A rune may be
// split between two chunks, as UTF-8 bytes or as two surrogates; its first half
// waits for the second. What can never become a rune turns into U+FFFD.
type runes struct {
	b    strings.Builder
	half []byte
	sent int
}

func (r *runes) add(p []byte) {
	if len(r.half) == 0 && utf8.Valid(p) {
		r.b.Write(p)
		return
	}
	p = append(r.half, p...)
	for len(p) > 0 {
		v, n := decodeRune(p)
		if n == 0 {
			break
		}
		r.b.WriteRune(v)
		p = p[n:]
	}
	r.half = append([]byte(nil), p...)
}

// decodeRune decodes the first rune of p; n is 0 when p ends before its end.
func decodeRune(p []byte) (v rune, n int) {
	if v, ok := surrogate(p); ok {
		if v >= 0xDC00 {
			return utf8.RuneError, 3
		}
		rest := p[3:]
		if low, ok := surrogate(rest); ok && low >= 0xDC00 {
			return (v-0xD800)<<10 | (low - 0xDC00) + 0x10000, 6
		}
		if len(rest) == 0 {
			return 0, 0
		}
		return utf8.RuneError, 3
	}
	if !utf8.FullRune(p) {
		return 0, 0
	}
	return utf8.DecodeRune(p)
}

// surrogate decodes the three-byte form that cursor gives a lone surrogate.
func surrogate(p []byte) (rune, bool) {
	if len(p) < 3 || p[0] != 0xED || p[1] < 0xA0 || p[1] > 0xBF || p[2]&0xC0 != 0x80 {
		return 0, false
	}
	return 0xD000 | rune(p[1]&0x3F)<<6 | rune(p[2]&0x3F), true
}

// take returns what came in since the last take. It shares the memory of the
// whole text.
func (r *runes) take() string {
	s := r.b.String()[r.sent:]
	r.sent = r.b.Len()
	return s
}

// finish gives up on a rune that never became whole.
func (r *runes) finish() {
	if len(r.half) > 0 {
		r.b.WriteRune(utf8.RuneError)
		r.half = nil
	}
}

func (r *runes) len() int       { return r.b.Len() }
func (r *runes) String() string { return r.b.String() }
