package pick

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sahilm/fuzzy"

	"ralph/repl/render"
)

const (
	// shownAtMost is how many of the items that match can be walked through.
	shownAtMost = 200
	// ranked is how many matches are ranked with care: with more, what was typed
	// says too little for an order to mean anything.
	ranked = 600
	// scores is how many marks the quick look gives.
	scores = 1024
)

// list is what can be chosen, made ready for being searched at each key. One
// goroutine uses it.
type list struct {
	items []Item
	names []string // the values, safe to show
	lower []string // what is searched, in lower case
	past  []search // the last searches, each narrower than the one before
}

// search is what a query has found.
type search struct {
	query string
	hits  []int32 // all that match, in the order of the items
	best  []int   // the best of them, best first
}

func newList(items []Item) *list {
	l := &list{items: items, names: make([]string, len(items)), lower: make([]string, len(items))}
	all := make([]int32, len(items))
	for i, it := range items {
		l.names[i] = safe(it.Value)
		text := l.names[i]
		if it.Detail != "" {
			text += " " + safe(it.Detail)
		}
		l.lower[i] = strings.ToLower(text)
		all[i] = int32(i)
	}
	best := make([]int, min(len(items), shownAtMost))
	for i := range best {
		best[i] = i
	}
	l.past = []search{{hits: all, best: best}}
	return l
}

// safe is text that can be shown; most names are as they are.
func safe(text string) string {
	for i := range len(text) {
		if text[i] < 0x20 || text[i] >= 0x7f {
			return render.SafeLine(text)
		}
	}
	return text
}

// find returns the places of the best matches for query, best first; the items
// as they come for an empty one.
func (l *list) find(query string) []int {
	query = strings.ToLower(strings.TrimSpace(query))
	for len(l.past) > 1 && !strings.HasPrefix(query, l.past[len(l.past)-1].query) {
		l.past = l.past[:len(l.past)-1]
	}
	last := l.past[len(l.past)-1]
	if query == last.query {
		return last.best
	}
	s := search{query: query}
	for _, i := range last.hits {
		if within(query, l.lower[i]) {
			s.hits = append(s.hits, i)
		}
	}
	s.best = l.rank(query, s.hits)
	l.past = append(l.past, s)
	return s.best
}

// within reports whether the characters of query stand in text in that order.
func within(query, text string) bool {
	for _, r := range query {
		i := 0
		if r < utf8.RuneSelf {
			i = strings.IndexByte(text, byte(r))
		} else {
			i = strings.IndexRune(text, r)
		}
		if i < 0 {
			return false
		}
		text = text[i+utf8.RuneLen(r):]
	}
	return true
}

// rank returns the best of hits, best first. Of many it first takes those that a
// quick look finds best.
func (l *list) rank(query string, hits []int32) []int {
	hits = l.promising(query, hits)
	picked := fuzzy.FindFrom(query, chosenText{l, hits})
	best := make([]int, 0, min(len(picked), shownAtMost))
	for _, m := range picked[:min(len(picked), shownAtMost)] {
		best = append(best, int(hits[m.Index]))
	}
	if i := slices.IndexFunc(best, func(i int) bool { return strings.EqualFold(l.names[i], query) }); i > 0 {
		exact := best[i]
		best = slices.Insert(slices.Delete(best, i, i+1), 0, exact)
	}
	return best
}

// promising returns hits, or about as many of them as are ranked with care.
func (l *list) promising(query string, hits []int32) []int32 {
	if len(hits) <= ranked {
		return hits
	}
	marks := make([]int16, len(hits))
	var count [scores]int
	for k, i := range hits {
		marks[k] = mark(query, l.lower[i], len(l.names[i]))
		count[marks[k]]++
	}
	least, sum := scores-1, 0
	for ; least > 0 && sum+count[least] <= ranked; least-- {
		sum += count[least]
	}
	room := ranked - sum // of those with the lowest mark that is taken
	kept := make([]int32, 0, ranked)
	for k, i := range hits {
		switch {
		case int(marks[k]) > least:
			kept = append(kept, i)
		case int(marks[k]) == least && room > 0:
			kept = append(kept, i)
			room--
		}
	}
	return kept
}

// mark is what a quick look at a match says, at most scores-1: what was typed
// stands there as it is, at the start of a word, in a short name.
func mark(query, text string, name int) int16 {
	m := 200 - min(len(text), 200)
	if at := strings.Index(text, query); at >= 0 {
		m += 300 - min(at, 100)
		r, _ := utf8.DecodeLastRuneInString(text[:at])
		if at == 0 || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			m += 200
		}
		if len(query) == name && at == 0 {
			m += 300
		}
	}
	return int16(min(m, scores-1))
}

// exact is the place of the item that text names, -1 when none has that name.
func (l *list) exact(text string) int {
	for i, it := range l.items {
		if it.Value == text || l.names[i] == text {
			return i
		}
	}
	return -1
}

// chosenText is what the ranking sees of some items: in the case in which they are
// written, which it values.
type chosenText struct {
	l    *list
	hits []int32
}

func (c chosenText) String(i int) string {
	it := c.l.items[c.hits[i]]
	return c.l.names[c.hits[i]] + " " + it.Detail
}
func (c chosenText) Len() int { return len(c.hits) }
