package line

import (
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// inScreen reports whether the terminal is GNU screen. It counts the columns of a
// joined emoji for each of its parts, while the terminal around it draws one:
// from there on both disagree about the whole row.
func inScreen(getenv func(string) string) bool {
	return getenv("TMUX") == "" && (getenv("STY") != "" || strings.HasPrefix(getenv("TERM"), "screen"))
}

// simpler is how a character is drawn where only single runes are safe: an emoji
// as its first part, a flag as its letters, one too new to be known as unknown. It
// takes as many columns.
func simpler(c cell) string {
	first, size := utf8.DecodeRuneInString(c.text)
	var text string
	switch {
	case isRegional(first):
		for _, r := range c.text {
			if isRegional(r) {
				text += string('A' + r - 0x1f1e6)
			}
		}
	case first >= newEmoji || isTone(first):
		text = "\uFFFD"
	case size < len(c.text) && isEmoji(c.text[size:], first):
		text = string(first)
	default:
		return c.text
	}
	return text + strings.Repeat(" ", max(c.width-runewidth.StringWidth(text), 0))
}

// isEmoji reports whether what follows a first rune makes an emoji of it.
func isEmoji(rest string, first rune) bool {
	for _, r := range rest {
		if r == '\ufe0f' || r == '\u20e3' || isTone(r) || isTag(r) || r == '\u200d' && first >= 0x2000 {
			return true
		}
	}
	return false
}

func isRegional(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

func isTone(r rune) bool { return r >= 0x1f3fb && r <= 0x1f3ff }
