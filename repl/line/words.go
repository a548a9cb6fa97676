package line

import (
	"unicode"

	"github.com/rivo/uniseg"
)

// clusterReach bounds how far a character of several runes is looked for.
const clusterReach = 64

// right is the place after the character at pos: what a reader takes for one, of
// however many runes.
func right(line []rune, pos int) int {
	if pos >= len(line) {
		return len(line)
	}
	if single(line, pos) {
		return pos + 1
	}
	piece := string(line[pos:min(pos+clusterReach, len(line))])
	cluster, _, _, _ := uniseg.FirstGraphemeClusterInString(piece, -1)
	n := len([]rune(cluster))
	for i := pos + 1; i < pos+n; i++ {
		if isToken(line[i]) {
			return i
		}
	}
	return pos + max(n, 1)
}

// single reports whether the rune at pos is a character for certain, which spares
// most text the tables.
func single(line []rune, pos int) bool {
	r := line[pos]
	return isToken(r) || r < 0x80 && (pos+1 == len(line) || line[pos+1] < 0x300)
}

// left is the place of the character before pos.
func left(line []rune, pos int) int {
	pos = min(pos, len(line))
	if pos <= 0 {
		return 0
	}
	// A character begins at each ASCII letter and token, whatever stands before it:
	// from there on the count is certain, which it is not in a row of flags.
	start := pos - 1
	for start > 0 && pos-start < clusterReach && (line[start] >= 0x80 && !isToken(line[start]) || line[start] < 0x20) {
		start--
	}
	for {
		next := right(line, start)
		if next >= pos {
			return start
		}
		start = next
	}
}

// kind sorts runes for the motions by words.
type kind int

const (
	kindBlank kind = iota
	kindSign
	kindWord
	kindToken // a folded paste is a word of its own
)

// kindOf sorts a rune. In vi's bigger words all but blanks are alike.
func kindOf(r rune, big bool) kind {
	switch {
	case isToken(r):
		return kindToken
	case unicode.IsSpace(r):
		return kindBlank
	case big || r == '_' || r == '\u200d' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
		return kindWord
	}
	return kindSign
}

// inWord is what M-f and M-b take for a part of a word: as in readline, no underscore.
func inWord(r rune) bool { return r != '_' && kindOf(r, false) >= kindWord }

// wordRight is the end of the word at or after pos.
func wordRight(line []rune, pos int) int {
	for pos < len(line) && !inWord(line[pos]) {
		pos++
	}
	if pos < len(line) && isToken(line[pos]) {
		return pos + 1
	}
	for pos < len(line) && inWord(line[pos]) && !isToken(line[pos]) {
		pos++
	}
	return pos
}

// wordLeft is the beginning of the word before pos.
func wordLeft(line []rune, pos int) int {
	for pos > 0 && !inWord(line[pos-1]) {
		pos--
	}
	if pos > 0 && isToken(line[pos-1]) {
		return pos - 1
	}
	for pos > 0 && inWord(line[pos-1]) && !isToken(line[pos-1]) {
		pos--
	}
	return pos
}

// blankLeft is the beginning of what stands between blanks before pos, as C-w of
// a terminal takes it.
func blankLeft(line []rune, pos int) int {
	for pos > 0 && unicode.IsSpace(line[pos-1]) {
		pos--
	}
	if pos > 0 && isToken(line[pos-1]) {
		return pos - 1
	}
	for pos > 0 && !unicode.IsSpace(line[pos-1]) && !isToken(line[pos-1]) {
		pos--
	}
	return pos
}

func lineStart(text []rune, pos int) int {
	for pos > 0 && text[pos-1] != '\n' {
		pos--
	}
	return pos
}

func lineEnd(text []rune, pos int) int {
	for pos < len(text) && text[pos] != '\n' {
		pos++
	}
	return pos
}
