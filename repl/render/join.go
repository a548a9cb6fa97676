package render

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	joiner    = '\u200d' // makes one picture of several, or joins two letters
	nonJoiner = '\u200c' // keeps two letters apart
	// maxHeld bounds the end of a text that waits for what it may be joined to.
	maxHeld = 64
)

// keepJoiners puts stand-ins for the joiners that have something to do: between two
// pictures, or between two letters of a script that joins its letters. Anywhere
// else a joiner only hides.
func keepJoiners(text string) string {
	if !strings.ContainsRune(text, joiner) && !strings.ContainsRune(text, nonJoiner) {
		return text
	}
	var b strings.Builder
	before := utf8.RuneError
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		after, _ := utf8.DecodeRuneInString(text[i+n:])
		pictures := r == joiner && picture(before) && picture(after)
		letters := (r == joiner || r == nonJoiner) && joins(before) && joins(after)
		switch {
		case r == joiner && (pictures || letters):
			b.WriteRune(joinMark)
		case r == nonJoiner && letters:
			b.WriteRune(apartMark)
		default:
			b.WriteString(text[i : i+n])
		}
		before, i = r, i+n
	}
	return b.String()
}

// picture says that r may be a part of a picture made of several.
func picture(r rune) bool {
	return r >= 0x1f000 && r < 0x1fb00 || r == 0xfe0f || r >= 0x2190 && r < 0x2c00 && unicode.Is(unicode.So, r)
}

// joins says that r is of a script in which joiners change how letters look.
func joins(r rune) bool {
	return r >= 0x600 && unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi,
		unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala)
}

// unfinished is how many bytes at the end of a piece of text may look different
// together with the next piece: a carriage return, a part of a character, a picture
// or a letter that may be joined.
func unfinished(text string) int {
	if strings.HasSuffix(text, "\r") {
		return 1
	}
	end := len(text) - partOfRune(text)
	for end > 0 && len(text)-end < maxHeld {
		r, n := utf8.DecodeLastRuneInString(text[:end])
		if r != joiner && r != nonJoiner && !picture(r) && !joins(r) {
			break
		}
		end -= n
	}
	if len(text)-end >= maxHeld {
		return 0
	}
	return len(text) - end
}

// partOfRune counts the bytes at the end of text that begin a character.
func partOfRune(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		tail := text[len(text)-n:]
		if utf8.RuneStart(tail[0]) {
			if tail[0] >= utf8.RuneSelf && !utf8.FullRuneInString(tail) {
				return n
			}
			return 0
		}
	}
	return 0
}
