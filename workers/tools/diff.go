package tools

import (
	"fmt"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"
)

// changes is how a person reads a change: "+3 −1".
func changes(added, removed int) string { return fmt.Sprintf("+%d −%d", added, removed) }

// maxDiffedBytes bounds the part of a file that is compared line by line; the
// rest of a rewrite is counted as removed and added whole.
const maxDiffedBytes = 1 << 20

// lineEdits compares two texts by lines. What they share at the beginning and
// the end is left out first, so that the cost is that of the change.
func lineEdits(before, after string) []udiff.Edit {
	start := 0
	for i := 0; i < len(before) && i < len(after) && before[i] == after[i]; i++ {
		if before[i] == '\n' {
			start = i + 1
		}
	}
	a, b := before[start:], after[start:]
	same := 0
	for i := 1; i <= len(a) && i <= len(b) && a[len(a)-i] == b[len(b)-i]; i++ {
		// The shared end begins after a newline of both.
		if i < len(a) && i < len(b) && a[len(a)-i-1] == '\n' && b[len(b)-i-1] == '\n' {
			same = i
		}
	}
	a, b = a[:len(a)-same], b[:len(b)-same]
	if len(a)+len(b) > maxDiffedBytes {
		return []udiff.Edit{{Start: start, End: start + len(a), New: b}}
	}
	edits := udiff.Lines(a, b)
	for i := range edits {
		edits[i].Start += start
		edits[i].End += start
	}
	return edits
}

// lineChanges counts the lines that edits add to before and remove from it.
func lineChanges(before string, edits []udiff.Edit) (added, removed int) {
	for _, e := range edits {
		added += countLines(e.New)
		removed += countLines(before[e.Start:e.End])
	}
	return added, removed
}

// unified is the unified diff of one file without the header lines, which would
// only repeat the path.
func unified(before string, edits []udiff.Edit) string {
	text, err := udiff.ToUnified("a", "b", before, edits, udiff.DefaultContextLines)
	if err != nil {
		return ""
	}
	if i := strings.Index(text, "@@ "); i >= 0 {
		return text[i:]
	}
	return text
}
