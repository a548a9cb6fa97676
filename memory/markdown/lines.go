package markdown

import "slices"

// leafLines is how many lines a leaf begins with; one is split at twice that.
const leafLines = 256

// lines are the lines of a document in leaves, so that putting one in moves
// few others. It remembers the leaf that was used last: neighbours are near.
type lines struct {
	leaves [][]line
	n      int
	leaf   int // used last
	base   int // the number of its first line
}

// newLines takes over all.
func newLines(all []line) lines {
	s := lines{n: len(all)}
	for len(all) > 0 {
		k := min(leafLines, len(all))
		// The capacity ends with the leaf, so that growing it moves it away.
		s.leaves = append(s.leaves, all[:k:k])
		all = all[k:]
	}
	return s
}

// at returns line i, which must exist. The pointer is good until the next
// insert.
func (s *lines) at(i int) *line {
	if k := i - s.base; k >= 0 && s.leaf < len(s.leaves) && k < len(s.leaves[s.leaf]) {
		return &s.leaves[s.leaf][k]
	}
	s.seek(i)
	return &s.leaves[s.leaf][i-s.base]
}

// seek makes the leaf of line i the current one; of the end the last.
func (s *lines) seek(i int) {
	if i < s.base {
		s.leaf, s.base = 0, 0
	}
	for s.leaf+1 < len(s.leaves) && i >= s.base+len(s.leaves[s.leaf]) {
		s.base += len(s.leaves[s.leaf])
		s.leaf++
	}
}

// remove takes out line i, which must exist.
func (s *lines) remove(i int) {
	s.seek(i)
	s.n--
	s.leaves[s.leaf] = slices.Delete(s.leaves[s.leaf], i-s.base, i-s.base+1)
	if len(s.leaves[s.leaf]) == 0 {
		s.leaves = slices.Delete(s.leaves, s.leaf, s.leaf+1)
		s.leaf, s.base = 0, 0
	}
}

// insert puts lines before line i.
func (s *lines) insert(i int, added []line) {
	if len(added) == 0 {
		return
	}
	s.n += len(added)
	if len(s.leaves) == 0 {
		*s = newLines(slices.Clone(added))
		return
	}
	s.seek(i)
	leaf := slices.Insert(s.leaves[s.leaf], i-s.base, added...)
	var parts [][]line
	for len(leaf) > 2*leafLines {
		parts = append(parts, leaf[:leafLines:leafLines])
		leaf = leaf[leafLines:]
	}
	if parts == nil {
		s.leaves[s.leaf] = leaf
		return
	}
	s.leaves = slices.Replace(s.leaves, s.leaf, s.leaf+1, append(parts, leaf)...)
}
