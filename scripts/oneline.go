package scripts

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"ralph/memory/visible"
)

// oneLine returns the first line of text that says something, made safe and
// cut to max runes.
// Joined emoji stand apart: how wide a joined one is depends on the terminal.
func oneLine(text string, max int) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		line = strings.NewReplacer("\t", " ", joiner, "").Replace(visible.Text(line))
		if utf8.RuneCountInString(line) > max {
			line = string([]rune(line)[:max-1]) + "…"
		}
		return line
	}
	return ""
}

// joiner makes one emoji of two, where a terminal knows it.
const joiner = "\u200d"

// cutTo cuts a line of safe text to a width in columns.
func cutTo(line string, columns int) string { return ansi.Truncate(line, columns, "…") }

// wrapped writes safe text in lines of at most columns, each indented. Only a word
// that fits no line is broken: an id with a hyphen stays whole.
func wrapped(b *strings.Builder, text string, indent, columns int) {
	pad, room := strings.Repeat(" ", indent), max(10, columns-indent)
	end := func(line string) { b.WriteString(pad + strings.TrimRight(line, " ") + "\n") }
	for paragraph := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		line := ""
		for i, word := range strings.Split(paragraph, " ") {
			if i > 0 && width(line)+1+width(word) <= room {
				line += " " + word
				continue
			}
			if i > 0 {
				end(line)
			}
			for width(word) > room {
				head := ansi.Truncate(word, room, "")
				if head == "" {
					break
				}
				end(head)
				word = strings.TrimPrefix(word, head)
			}
			line = word
		}
		end(line)
	}
}
