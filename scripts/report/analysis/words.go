package analysis

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"ralph/memory/session/folder"
	"ralph/memory/text"
)

const (
	// maxWords bounds by how many words something is counted, and maxWord how
	// long one is, in bytes.
	maxWords = 100
	maxWord  = 120
	// others is under what the rest is counted, and unknown what has no word.
	others  = "(others)"
	unknown = "unknown"
)

// words counts by foreign words.
type words map[string]int

func (w words) add(word string, n int) {
	if _, known := w[word]; known && word != "" {
		w[word] += n
		return
	}
	if word = cmp.Or(clip(word), unknown); len(w) >= maxWords {
		if _, known := w[word]; !known {
			word = others
		}
	}
	w[word] += n
}

// top keeps the most frequent words; the rest is under others.
func (w words) top(n int) words {
	if len(w) <= n {
		return w
	}
	keys := slices.SortedFunc(maps.Keys(w), func(a, b string) int { return cmp.Or(w[b]-w[a], cmp.Compare(a, b)) })
	kept := words{}
	for i, k := range keys {
		if i < n {
			kept[k] += w[k]
		} else {
			kept[others] += w[k]
		}
	}
	return kept
}

// clip makes foreign text a short line of its own, which does not keep the text
// that it was cut from.
func clip(s string) string {
	if cut := len(s) > maxWord; cut {
		s = strings.ToValidUTF8(s[:maxWord], "") + "…"
	}
	s = text.VisibleLine(strings.Join(strings.Fields(s), " "))
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "�")
	}
	return strings.Clone(s)
}

// optional is nil for no text.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// outcomeOf reads how something turned out; false when it did neither well nor
// badly, or not yet.
func outcomeOf(word string) (well, known bool) {
	how := folder.TaskStatus(word).Meant()
	return how == folder.TaskCompleted, how == folder.TaskCompleted || how == folder.TaskError
}
