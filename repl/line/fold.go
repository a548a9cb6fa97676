package line

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A paste of more lines or bytes than these is shown as a token.
const (
	foldLines = 8
	foldBytes = 1024
)

// A folded paste stands in the line as one rune of the last private plane, so
// that the cursor steps over it, a key takes it away as a whole, and no text that
// looks like its label is taken for it.
const (
	tokenFirst = '\U00100000'
	tokenLast  = '\U0010FFFD'
)

func isToken(r rune) bool { return r >= tokenFirst && r <= tokenLast }

// folder keeps the contents of folded pastes. The zero folder is empty. A token
// stays good for the whole session, so that it can be recalled from history.
type folder struct {
	pastes []folded // of tokenFirst and the runes after it
}

// folded is one folded paste.
type folded struct{ text, label string }

// fold returns what to put into the line for text: the text itself, or a token
// for a long one and for one that a token could be mistaken for.
func (f *folder) fold(text string) string {
	lines := strings.Count(strings.TrimRight(text, "\n"), "\n") + 1
	if lines <= foldLines && len(text) <= foldBytes && strings.IndexFunc(text, isToken) < 0 {
		return text
	}
	for i, p := range f.pastes {
		if p.text == text {
			return string(tokenFirst + rune(i))
		}
	}
	token := tokenFirst + rune(len(f.pastes))
	if !isToken(token) {
		return f.own(text)
	}
	size := fmt.Sprintf("%d lines, %s", lines, byteSize(len(text)))
	if lines <= foldLines {
		size = fmt.Sprintf("%d characters", utf8.RuneCountInString(text))
	}
	label := fmt.Sprintf("[pasted %s]", size)
	for n := 2; f.labelled(label); n++ {
		label = fmt.Sprintf("[pasted %s #%d]", size, n)
	}
	f.pastes = append(f.pastes, folded{text: text, label: label})
	return string(token)
}

func byteSize(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1000_000:
		return fmt.Sprintf("%.1f KB", float64(n)/1000)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1000_000)
}

func (f *folder) labelled(label string) bool {
	for _, p := range f.pastes {
		if p.label == label {
			return true
		}
	}
	return false
}

// of returns the paste of a token.
func (f *folder) of(r rune) (folded, bool) {
	if i := int(r - tokenFirst); isToken(r) && i < len(f.pastes) {
		return f.pastes[i], true
	}
	return folded{}, false
}

// own makes every token in text one of this folder; another rune that only looks
// like one becomes a replacement character.
func (f *folder) own(text string) string {
	return strings.Map(func(r rune) rune {
		if _, ok := f.of(r); isToken(r) && !ok {
			return utf8.RuneError
		}
		return r
	}, text)
}

// unfold puts the contents back in place of the tokens.
func (f *folder) unfold(text string) string {
	if len(f.pastes) == 0 || strings.IndexFunc(text, isToken) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if p, ok := f.of(r); ok {
			b.WriteString(p.text)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// drawn puts the labels in place of the tokens and moves the cursor with them.
func (f *folder) drawn(line []rune, pos int) ([]rune, int) {
	found := false
	for _, r := range line {
		found = found || isToken(r)
	}
	if !found {
		return line, pos
	}
	var out []rune
	at := pos
	for i, r := range line {
		if i == pos {
			at = len(out)
		}
		if p, ok := f.of(r); ok {
			out = append(out, []rune(p.label)...)
			continue
		}
		out = append(out, r)
	}
	if pos >= len(line) {
		at = len(out)
	}
	return out, at
}
