package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// missError says that old_string is not in the file; help shows the lines that
// it was probably meant for.
type missError struct {
	message string
	help    string
}

func (e *missError) Error() string { return e.message }

const (
	maxHelpLines  = 40 // shown of the file
	maxHelpBytes  = 4 << 20
	maxHelpSearch = 50_000 // lines of a file that are compared
	maxHelpQuoted = 400    // lines of old_string that are compared
)

// miss explains why quoted is not in text, by the closest lines there are.
func miss(ctx context.Context, text, quoted string) error {
	if len(text) > maxHelpBytes {
		return &missError{message: "old_string is not in the file: read the lines and quote them exactly"}
	}
	lines := strings.Split(text, "\n")
	want := strings.Split(strings.Trim(quoted, "\r\n"), "\n")
	if len(lines) > maxHelpSearch || len(want) > maxHelpQuoted {
		return &missError{message: "old_string is not in the file: read the lines and quote them exactly"}
	}
	if at := sameBut(ctx, lines, want, squeeze); len(at) > 0 {
		return &missError{
			message: fmt.Sprintf("old_string is not in the file, but line %d differs only in white space; the lines as they are follow", at[0]+1),
			help:    excerpt(lines, at[0], len(want)),
		}
	}
	if at := sameBut(ctx, lines, want, foldSqueeze); len(at) > 0 {
		return &missError{
			message: fmt.Sprintf("old_string is not in the file, but line %d differs only in case, quotes or white space; the lines as they are follow", at[0]+1),
			help:    excerpt(lines, at[0], len(want)),
		}
	}
	at, score := closest(ctx, lines, want)
	if score == 0 {
		return &missError{message: "old_string is not in the file, nor anything like it: read the file first"}
	}
	return &missError{
		message: fmt.Sprintf("old_string is not in the file; the closest lines begin at line %d and follow", at+1),
		help:    excerpt(lines, at, len(want)),
	}
}

// squeeze makes lines comparable that differ only in white space.
func squeeze(line string) string { return strings.Join(strings.Fields(line), " ") }

func foldSqueeze(line string) string {
	line = plainer().Replace(line)
	return strings.ToLower(squeeze(line))
}

// plainer replaces typographic signs by those of a keyboard.
var plainer = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer("“", `"`, "”", `"`, "‘", "'", "’", "'", "–", "-", "—", "-", "\u00a0", " ")
})

// sameBut finds where all of want stands in lines when both are seen through
// view.
func sameBut(ctx context.Context, lines, want []string, view func(string) string) []int {
	seen, wanted := viewed(ctx, lines, view), viewed(ctx, want, view)
	if !slices.ContainsFunc(wanted, func(s string) bool { return s != "" }) {
		return nil
	}
	var at []int
	for i := 0; i+len(wanted) <= len(seen); i++ {
		if slices.Equal(seen[i:i+len(wanted)], wanted) {
			at = append(at, i)
		}
	}
	return at
}

// viewed returns the lines as seen through view, none of them once ctx has ended.
func viewed(ctx context.Context, lines []string, view func(string) string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		if i%256 == 0 && ctx.Err() != nil {
			return nil
		}
		out[i] = view(l)
	}
	return out
}

// closest returns the start of the window of lines that has most in common with
// want: whole lines first, else the pairs of letters of its most telling line.
func closest(ctx context.Context, lines, want []string) (at, score int) {
	places := map[string][]int{}
	for i, key := range viewed(ctx, lines, squeeze) {
		if len(key) > 3 {
			places[key] = append(places[key], i)
		}
	}
	votes := map[int]int{}
	for j, l := range want {
		const common = 20 // a line that is everywhere tells nothing
		if found := places[squeeze(l)]; len(found) <= common {
			for _, i := range found {
				votes[max(i-j, 0)]++
			}
		}
	}
	for i, n := range votes {
		if n > score || n == score && i < at {
			at, score = i, n
		}
	}
	if score > 0 {
		return at, score
	}
	longest := 0
	for j, l := range want {
		if len(squeeze(l)) > len(squeeze(want[longest])) {
			longest = j
		}
	}
	at, score = mostAlike(ctx, lines, squeeze(want[longest]))
	return max(at-longest, 0), score
}

// mostAlike returns the line with the most pairs of bytes in common with want,
// and 0 when less than half of them are.
func mostAlike(ctx context.Context, lines []string, want string) (at, score int) {
	const most = 500 // bytes of a line that count
	want = want[:min(len(want), most)]
	pairs := map[[2]byte]int{}
	for i := 0; i+1 < len(want); i++ {
		pairs[[2]byte{want[i], want[i+1]}]++
	}
	for i, l := range lines {
		if i%256 == 0 && ctx.Err() != nil {
			break
		}
		l = squeeze(l[:min(len(l), 4*most)])
		l = l[:min(len(l), most)]
		used, common := map[[2]byte]int{}, 0
		for j := 0; j+1 < len(l); j++ {
			p := [2]byte{l[j], l[j+1]}
			if used[p] < pairs[p] {
				used[p]++
				common++
			}
		}
		if 4*common > len(l)+len(want) && common > score {
			at, score = i, common
		}
	}
	return at, score
}

// excerpt shows lines with their numbers, as read does.
func excerpt(lines []string, from, n int) string {
	first := max(from-2, 0)
	last := min(from+n+2, len(lines), first+maxHelpLines)
	var b strings.Builder
	for i := first; i < last; i++ {
		text, _ := visible([]byte(cutText(lines[i], longLineBytes)))
		fmt.Fprintf(&b, "%d\t%s\n", i+1, text)
	}
	return b.String()
}
