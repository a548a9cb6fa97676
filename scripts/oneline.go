package scripts

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"ralph/memory/text"
)

// oneLine returns the first line of text that says something, made safe and
// cut to max runes.
// Joined emoji stand apart: how wide a joined one is depends on the terminal.
func oneLine(content string, max int) string {
	if len(content) <= max && plainASCII(content) {
		return strings.TrimSpace(content)
	}
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		line = strings.NewReplacer("\t", " ", joiner, "").Replace(text.Visible(line))
		if utf8.RuneCountInString(line) > max {
			line = string([]rune(line)[:max-1]) + "…"
		}
		return line
	}
	return ""
}

// plainASCII says that a text is one row of characters that are one column wide.
func plainASCII(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// joiner makes one emoji of two, where a terminal knows it.
const joiner = "\u200d"

// cutTo cuts a line of safe text to a width in columns.
func cutTo(line string, columns int) string { return ansi.Truncate(line, columns, "…") }

// hanging is how far what is wrapped stands to the right.
const hanging = 4

// hung wraps the lines of text that are wider than that many columns between
// words; what follows the first row of one stands hang columns to the right. Zero
// columns wrap nothing: there is no screen, or nobody knows how wide it is.
func hung(text string, columns, hang int) string {
	if columns < 2*hang || width(text) <= columns {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.CutSuffix(line, "\n")
		if width(line) > columns {
			line = hangLine(line, columns, strings.Repeat(" ", hang))
		}
		b.WriteString(line)
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// hangLine wraps one line. A word that fits no row stays whole: it is a path or a
// command to be copied.
func hangLine(line string, columns int, pad string) string {
	var b strings.Builder
	row := ""
	for i, word := range strings.Split(line, " ") {
		switch {
		case i == 0:
			row = word
		case strings.TrimSpace(row) != "" && width(row)+1+width(word) > columns:
			b.WriteString(strings.TrimRight(row, " ") + "\n")
			row = pad + word
		default:
			row += " " + word
		}
	}
	return b.String() + row
}

// columnsOf is how wide a line on w may be, zero where w is no terminal. One
// column stays free, as in an area.
func columnsOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		if cols, _ := sizeOf(f); cols >= 10 {
			return cols - 1
		}
	}
	return 0
}

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
