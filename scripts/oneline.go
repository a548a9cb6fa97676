package scripts

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"ralph/memory/visible"
)

// oneLine returns the first line of text that says something, made safe and
// cut to max runes.
func oneLine(text string, max int) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		line = strings.ReplaceAll(visible.Text(line), "\t", " ")
		if utf8.RuneCountInString(line) > max {
			line = string([]rune(line)[:max-1]) + "…"
		}
		return line
	}
	return ""
}

// cutTo cuts a line of safe text to a width in columns.
func cutTo(line string, columns int) string { return ansi.Truncate(line, columns, "…") }

// wrapped writes safe text in lines of at most columns, each indented.
func wrapped(b *strings.Builder, text string, indent, columns int) {
	pad := strings.Repeat(" ", indent)
	for line := range strings.Lines(ansi.Wrap(text, max(10, columns-indent), "")) {
		b.WriteString(pad + strings.TrimRight(line, " \n") + "\n")
	}
}
