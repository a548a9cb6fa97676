package text

import "strings"

// maxWord is the longest word, in bytes, that is compared; longer ones are
// simply far apart.
const maxWord = 64

// Closest returns the candidate that word is most likely a slip of, or "": one
// slip, and one more for every four letters, but at most three. Case does not
// count.
func Closest(word string, candidates []string) string {
	best, at := "", min(3, 1+len(word)/4)+1
	for _, c := range candidates {
		if d := Distance(strings.ToLower(word), strings.ToLower(c)); d < at {
			best, at = c, d
		}
	}
	return best
}

// Distance counts the insertions, deletions, substitutions and swaps of
// neighbours that make a into b (optimal string alignment), in bytes.
func Distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return maxWord
	}
	var older []int
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, before, row = before, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, before[j]+1, before[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
