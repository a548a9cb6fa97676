package scripts

import (
	"strings"
	"unicode/utf8"

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
