package history

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTermBytes bounds one term; what is longer is data, such as base64, and no
// word that anybody looks for.
const maxTermBytes = 64

// terms calls each for every term of a text, in order. A term is lower-case. An
// identifier gives its parts and the whole without separators, so that
// maxUploadSize, max_upload_size and MAX-UPLOAD-SIZE meet; a path gives its
// names too; CJK text gives pairs of neighbours. The slice is only valid during
// the call.
func terms(text string, each func(term []byte)) {
	s := scanner{each: each}
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if !wordByte(c) {
				i++
				continue
			}
			end := i + 1
			for end < len(text) && (wordByte(text[end]) || joins(text, end)) {
				end++
			}
			if end < len(text) && text[end] >= utf8.RuneSelf {
				end = s.mixed(text, i)
			} else {
				s.name(text[i:end])
			}
			i = end
			continue
		}
		i = s.mixed(text, i)
	}
}

// scanner makes terms; its buffers are used again and again.
type scanner struct {
	each  func([]byte)
	buf   []byte
	whole []byte
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// joins says whether the byte at i holds a name together: a dot, dash or slash
// between two word bytes.
func joins(text string, i int) bool {
	c := text[i]
	return (c == '.' || c == '-' || c == '/' || c == ':') && i+1 < len(text) && wordByte(text[i+1]) && i > 0 && wordByte(text[i-1])
}

// name takes an ASCII name apart: upload/retryPolicy.go.
func (s *scanner) name(name string) {
	parts := 0
	s.whole = s.whole[:0]
	for i := 0; i < len(name); {
		if !wordByte(name[i]) || name[i] == '_' {
			i++
			continue
		}
		end := partEnd(name, i)
		s.term(name[i:end])
		s.whole = appendLower(s.whole, name[i:end])
		parts++
		i = end
	}
	if parts > 1 && len(s.whole) <= maxTermBytes {
		s.each(s.whole)
	}
	if i := strings.LastIndexByte(name, '/'); i >= 0 && i < len(name)-1 {
		s.base(name[i+1:])
	}
}

// base emits the last name of a path as a whole: what stands for the file.
func (s *scanner) base(name string) {
	s.buf = s.buf[:0]
	parts := 0
	for i := 0; i < len(name); {
		if !wordByte(name[i]) || name[i] == '_' {
			i++
			continue
		}
		end := partEnd(name, i)
		s.buf = appendLower(s.buf, name[i:end])
		parts++
		i = end
	}
	if parts > 1 && len(s.buf) <= maxTermBytes {
		s.each(s.buf)
	}
}

// partEnd is where the part of a name that begins at i ends: at a separator, at
// the hump of camelCase, between letters and digits.
func partEnd(name string, i int) int {
	kind := kindOf(name[i])
	end := i + 1
	if kind == upper && end < len(name) && kindOf(name[end]) == lower {
		kind = lower
		end++
	}
	for end < len(name) && kindOf(name[end]) == kind {
		end++
	}
	// In HTTPServer the S belongs to Server.
	if kind == upper && end < len(name) && kindOf(name[end]) == lower && end-i > 1 {
		end--
	}
	return end
}

const (
	other = iota
	lower
	upper
	digit
)

func kindOf(c byte) int {
	switch {
	case c >= 'a' && c <= 'z':
		return lower
	case c >= 'A' && c <= 'Z':
		return upper
	case c >= '0' && c <= '9':
		return digit
	}
	return other
}

func appendLower(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}

// term emits one word, reduced to its stem unless it says nothing.
func (s *scanner) term(word string) {
	if len(word) > maxTermBytes {
		return
	}
	s.buf = appendLower(s.buf[:0], word)
	if idle(s.buf) {
		return
	}
	s.each(stem(s.buf))
}

// mixed takes a run of letters that is not plain ASCII, and returns its end.
func (s *scanner) mixed(text string, i int) int {
	s.buf = s.buf[:0]
	var before rune
	cjk := 0
	flush := func() {
		if len(s.buf) > 0 && len(s.buf) <= maxTermBytes {
			s.each(s.buf)
		}
		s.buf = s.buf[:0]
	}
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case ideograph(r):
			if cjk == 0 {
				flush()
			} else {
				s.buf = utf8.AppendRune(utf8.AppendRune(s.buf[:0], before), r)
				flush()
			}
			before, cjk = r, cjk+1
		case cjk == 0 && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)):
			s.buf = utf8.AppendRune(s.buf, unicode.ToLower(r))
		default:
			if cjk == 1 {
				s.buf = utf8.AppendRune(s.buf[:0], before)
			}
			flush()
			if cjk == 0 {
				i += n
			} else if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
				i += n
			}
			return i
		}
		i += n
	}
	if cjk == 1 {
		s.buf = utf8.AppendRune(s.buf[:0], before)
	}
	flush()
	return i
}

// ideograph says whether words are written in r's script without spaces.
func ideograph(r rune) bool {
	return r >= 0x2E80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// stem cuts the common endings off an English word in lower case, in place, so
// that retry, retries and retrying meet. It need not give a word, only the same
// letters for the same word.
func stem(w []byte) []byte {
	if len(w) < 4 || kindOf(w[0]) != lower {
		return w
	}
	cut := func(ending, instead string, least int) bool {
		n := len(w) - len(ending)
		if n < least || string(w[n:]) != ending {
			return false
		}
		w = append(w[:n], instead...)
		return true
	}
	switch {
	case cut("sses", "ss", 2), cut("ies", "y", 2):
	case string(w[len(w)-2:]) == "ss" || string(w[len(w)-2:]) == "us" || string(w[len(w)-2:]) == "is":
	default:
		cut("s", "", 3)
	}
	switch {
	case cut("our", "or", 3): // colour, behaviour
	case cut("ied", "y", 2):
	case cut("ations", "", 4), cut("ation", "", 4), cut("ating", "", 4), cut("ated", "", 4), cut("ator", "", 4), cut("ate", "", 4):
	case cut("ing", "", 4), cut("ed", "", 4), cut("ment", "", 4), cut("ally", "", 4), cut("ly", "", 4), cut("er", "", 5), cut("ion", "", 4):
		if n := len(w); n > 3 && w[n-1] == w[n-2] && w[n-1] != 'l' && w[n-1] != 's' && w[n-1] != 'z' {
			w = w[:n-1]
		}
	}
	cut("e", "", 3)
	return w
}

// idle says whether a word is too common to tell texts apart.
func idle(w []byte) bool {
	if len(w) == 1 {
		return kindOf(w[0]) != digit
	}
	switch string(w) {
	case "the", "and", "for", "that", "this", "with", "are", "was", "were", "be", "been", "is", "it", "its", "of", "to", "in", "on", "at", "by", "an", "as", "or", "if",
		"not", "no", "but", "so", "we", "you", "he", "she", "they", "them", "their", "our", "my", "me", "us", "your", "do", "does", "did", "has", "have", "had", "can",
		"could", "should", "would", "will", "shall", "may", "might", "must", "from", "into", "than", "then", "there", "here", "what", "which", "who", "when", "where",
		"why", "how", "all", "any", "some", "also", "just", "now", "please", "let", "about", "up", "out", "too", "very", "am", "these", "those", "because", "while",
		"der", "die", "das", "und", "ist", "ein", "eine", "den", "dem", "des", "nicht", "mit", "auf", "zu", "ich", "wir", "sie", "es", "im", "von", "bitte":
		return true
	}
	return false
}
