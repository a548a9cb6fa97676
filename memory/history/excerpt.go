package history

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// gap stands where an excerpt leaves lines out.
const gap = "…"

// Excerpt returns the lines of a text that fit a query best, in their order, in
// at most limit bytes; a text that is no longer stays whole. Where no line fits
// it is the beginning.
func Excerpt(text, query string, limit int) string {
	if len(text) <= limit {
		return text
	}
	wanted := map[string]bool{}
	terms(query, func(t []byte) { wanted[string(t)] = true })
	lines := strings.Split(text, "\n")
	type line struct{ at, hits int }
	ranked := make([]line, len(lines))
	for i, l := range lines {
		seen := map[string]bool{}
		terms(cut(l, limit), func(t []byte) {
			if wanted[string(t)] {
				seen[string(t)] = true
			}
		})
		// The neighbours of a line that fits say what it is about.
		ranked[i].at = i
		ranked[i].hits += 4 * len(seen)
		if i > 0 {
			ranked[i-1].hits += len(seen)
		}
		if i+1 < len(lines) {
			ranked[i+1].hits += len(seen)
		}
	}
	slices.SortFunc(ranked, func(a, b line) int { return cmp.Or(b.hits-a.hits, a.at-b.at) })
	keep := map[int]bool{}
	left := limit
	for _, r := range ranked {
		if r.hits == 0 && ranked[0].hits > 0 {
			break
		}
		if n := len(lines[r.at]) + len(gap) + 2; n <= left {
			keep[r.at] = true
			left -= n
		} else if len(keep) == 0 {
			return cut(lines[r.at], limit-len(gap)) + gap
		}
	}
	var b strings.Builder
	last := -1
	for i, l := range lines {
		if !keep[i] {
			continue
		}
		if i != last+1 {
			b.WriteString(gap + "\n")
		}
		b.WriteString(l + "\n")
		last = i
	}
	return cut(strings.TrimSuffix(b.String(), "\n"), limit)
}

// cut is at most the first n bytes of a text, without half a rune.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
