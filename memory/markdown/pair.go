package markdown

import (
	"slices"
	"strings"
	"unicode"
)

// pairs says which task of one version is which of another.
type pairs struct {
	left  []int // for each task of the new version its index in the old, or -1
	right []int // the reverse

	others map[string]bool
}

// How alike two tasks have to be (shared words to all words) to be the same
// one under another title: anywhere, and between the same neighbours.
const (
	alike     = 0.5
	alikeHere = 0.3
)

// pair matches tasks: by id and title; by title where ids were given anew; by
// id where titles were reworded; else by likeness. Tasks of the new version
// with a title in others, which are known to be others, are not guessed at.
func pair(old, new *Document, others map[string]bool) pairs {
	p := pairs{others: others, left: make([]int, len(new.tasks)), right: make([]int, len(old.tasks))}
	for i := range p.left {
		p.left[i] = -1
	}
	for i := range p.right {
		p.right[i] = -1
	}
	p.by(old, new, func(n *node) string {
		if n.raw == "" {
			return "\x00" + n.Title
		}
		return strings.ToLower(n.ID) + "\x00" + n.Title
	}, nil)
	p.by(old, new, func(n *node) string {
		if n.raw != "" && n.ID != n.raw {
			return "" // a copy is not the one that the id names
		}
		return n.Title
	}, func(o, n *node, ids map[string]*node) bool {
		if o.raw == "" && n.raw != "" || o.raw != "" && n.raw == "" {
			return true
		}
		// The titles of two tasks may have been exchanged, not their ids.
		same := ids[strings.ToLower(n.raw)]
		return same == nil || agree(old, new, same, n) <= agree(old, new, o, n)
	})
	p.byLikeness(old, new, false)
	p.by(old, new, func(n *node) string { return strings.ToLower(strings.TrimPrefix(n.ID, "~")) },
		func(_, n *node, _ map[string]*node) bool { return !others[n.Title] })
	p.byLikeness(old, new, true)
	return p
}

// agree counts in what, other than id and title, two versions may be of the
// same task.
func agree(old, new *Document, o, n *node) int {
	count := 0
	for f := range numFields {
		if f != fieldAfter && o.value(f) == n.value(f) {
			count++ // ids of others may have changed too
		}
	}
	if slices.Equal(old.notes(o), new.notes(n)) {
		count += 2
	}
	return count
}

func (p *pairs) set(o, n int) { p.left[n], p.right[o] = o, n }

// by matches what is left by a key, first to first; fits may object.
func (p *pairs) by(old, new *Document, key func(*node) string, fits func(o, n *node, ids map[string]*node) bool) {
	n := 0
	for _, k := range p.right {
		if k < 0 {
			n++
		}
	}
	if n == 0 {
		return
	}
	left, ids := make(map[string][]int, n), make(map[string]*node, n)
	for i, o := range old.tasks {
		if p.right[i] >= 0 {
			continue
		}
		if k := key(o); k != "" {
			left[k] = append(left[k], i)
			ids[strings.ToLower(o.raw)] = o
		}
	}
	for i, n := range new.tasks {
		if p.left[i] >= 0 {
			continue
		}
		k := key(n)
		if list := left[k]; len(list) > 0 && (fits == nil || fits(old.tasks[list[0]], n, ids)) {
			p.set(list[0], i)
			left[k] = list[1:]
		}
	}
}

// byLikeness matches what is left by the words of titles and notes. Unless
// loose, only where a task is clearly more like another than like the one with
// its own id.
func (p *pairs) byLikeness(old, new *Document, loose bool) {
	byWord := map[string][]int{}
	words := map[int][]string{}
	ids := map[string]int{}
	for i, o := range old.tasks {
		if p.right[i] >= 0 {
			continue
		}
		words[i] = old.words(o)
		ids[strings.ToLower(o.raw)] = i
		for _, w := range words[i] {
			byWord[w] = append(byWord[w], i)
		}
	}
	if len(words) == 0 {
		return
	}
	for i, n := range new.tasks {
		if p.left[i] >= 0 || p.others[n.Title] {
			continue
		}
		mine := new.words(n)
		best, likeness := -1, 0.0
		tried := map[int]bool{}
		for _, w := range mine {
			if len(byWord[w]) > 64 {
				continue // says nothing
			}
			for _, o := range byWord[w] {
				if tried[o] || p.right[o] >= 0 {
					continue
				}
				tried[o] = true
				l := shared(words[o], mine)
				if n.raw != "" && old.tasks[o].raw != "" && !p.renumbered(old, new, o, i) {
					continue // two ids are two tasks, unless all around got new ones
				}
				if l >= alike && l > likeness || loose && best < 0 && l >= alikeHere && p.neighbours(new, o, i) {
					best, likeness = o, l
				}
			}
		}
		if best < 0 {
			continue
		}
		if same, ok := ids[strings.ToLower(n.raw)]; !loose && (n.raw == "" || !ok || shared(words[same], mine) >= alikeHere) {
			continue
		}
		p.set(best, i)
	}
}

// neighbours reports whether the tasks before and those behind are the same.
func (p *pairs) neighbours(new *Document, o, n int) bool {
	a, b := n-1, n+1
	for a >= 0 && p.others[new.tasks[a].Title] {
		a--
	}
	for b < len(p.left) && p.others[new.tasks[b].Title] {
		b++
	}
	before := a < 0 && o == 0 || a >= 0 && o > 0 && p.left[a] == o-1
	last := b == len(p.left) && o+1 == len(p.right)
	return before && (last || b < len(p.left) && o+1 < len(p.right) && p.left[b] == o+1)
}

// renumbered reports whether a neighbour of both tasks is the same task under
// another id.
func (p *pairs) renumbered(old, new *Document, o, n int) bool {
	for _, by := range []int{-1, 1} {
		if k := n + by; k >= 0 && k < len(p.left) && o+by >= 0 && p.left[k] == o+by && old.tasks[o+by].raw != new.tasks[k].raw {
			return true
		}
	}
	return false
}

// words are the distinct words of a task's title and notes, sorted.
func (d *Document) words(n *node) []string {
	text := strings.ToLower(n.Title + " " + strings.Join(d.notes(n), " "))
	out := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	slices.Sort(out)
	return slices.Compact(out)
}

// shared is the part of all words of two sorted lists that is in both.
func shared(a, b []string) float64 {
	both, i, j := 0, 0, 0
	for i < len(a) && j < len(b) {
		switch c := strings.Compare(a[i], b[j]); {
		case c == 0:
			both, i, j = both+1, i+1, j+1
		case c < 0:
			i++
		default:
			j++
		}
	}
	if all := len(a) + len(b) - both; all > 0 {
		return float64(both) / float64(all)
	}
	return 0
}
