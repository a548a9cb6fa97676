package work

import "strings"

// Fence puts foreign text into a fence of backticks that is longer than any run
// of them in the text, so that the text cannot end it.
func Fence(name, text string) string {
	longest, run := 0, 0
	for _, r := range text {
		if r == '`' {
			run++
			longest = max(longest, run)
			continue
		}
		run = 0
	}
	bar := strings.Repeat("`", max(3, longest+1))
	info := strings.Map(func(r rune) rune {
		if r < ' ' || r == '`' || r == 0x7f {
			return '?'
		}
		return r
	}, name)
	return bar + info + "\n" + strings.TrimSuffix(text, "\n") + "\n" + bar
}
