package markdown

import (
	"slices"
	"strings"
)

// norm is what remains of a line when its indentation, its bullet and the
// level of its heading do not count.
func norm(s string) string {
	s = strings.TrimSpace(strings.TrimPrefix(s, bom))
	if level, _ := heading(s); level > 1 {
		return s[level-1:]
	}
	if bullet, rest := cutBullet(s); bullet != "" {
		return rest
	}
	return s
}

// align finds which elements of a are which of b, in order: for each of a the
// index in b, or -1. Elements that occur once on both sides are set first, as
// in a patience diff; what lies between them is aligned in turn.
func align(a, b []string) []int {
	out := make([]int, len(a))
	for i := range out {
		out[i] = -1
	}
	alignRange(a, b, 0, 0, out, 0)
	return out
}

// maxTable bounds the work on a stretch without any unique element.
const maxTable = 1 << 16

func alignRange(a, b []string, ai, bi int, out []int, depth int) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		out[ai] = bi
		a, b, ai, bi = a[1:], b[1:], ai+1, bi+1
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		out[ai+len(a)-1] = bi + len(b) - 1
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) == 0 || len(b) == 0 {
		return
	}
	anchors := unique(a, b)
	if len(anchors) == 0 || depth > 64 {
		alignTable(a, b, ai, bi, out)
		return
	}
	la, lb := 0, 0
	for _, at := range append(anchors, [2]int{len(a), len(b)}) {
		alignRange(a[la:at[0]], b[lb:at[1]], ai+la, bi+lb, out, depth+1)
		if at[0] < len(a) {
			out[ai+at[0]] = bi + at[1]
		}
		la, lb = at[0]+1, at[1]+1
	}
}

// unique returns the longest run in order of pairs of elements that occur once
// in a and once in b.
func unique(a, b []string) [][2]int {
	type place struct{ n, at int }
	inB := make(map[string]place, len(b))
	for i, s := range b {
		inB[s] = place{inB[s].n + 1, i}
	}
	inA := make(map[string]int, len(a))
	for _, s := range a {
		inA[s]++
	}
	var pairs [][2]int
	var seconds []int
	for i, s := range a {
		if p := inB[s]; p.n == 1 && inA[s] == 1 {
			pairs, seconds = append(pairs, [2]int{i, p.at}), append(seconds, p.at)
		}
	}
	var out [][2]int
	for _, i := range rising(seconds) {
		out = append(out, pairs[i])
	}
	return out
}

// rising returns the indices of a longest rising run of the values that are
// not negative.
func rising(values []int) []int {
	var ends []int // index of the smallest last value of a run of each length
	prev := make([]int, len(values))
	for i, v := range values {
		if v < 0 {
			continue
		}
		k, _ := slices.BinarySearchFunc(ends, v, func(e, v int) int { return values[e] - v })
		if prev[i] = -1; k > 0 {
			prev[i] = ends[k-1]
		}
		if k == len(ends) {
			ends = append(ends, i)
		} else {
			ends[k] = i
		}
	}
	out := make([]int, len(ends))
	for k := len(ends) - 1; k >= 0; k-- {
		if k == len(ends)-1 {
			out[k] = ends[k]
		} else {
			out[k] = prev[out[k+1]]
		}
	}
	return out
}

// alignTable aligns a short stretch by a table of longest common runs.
func alignTable(a, b []string, ai, bi int, out []int) {
	if len(a)*len(b) > maxTable {
		return
	}
	w := len(b) + 1
	table := make([]int, (len(a)+1)*w)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i*w+j] = table[(i+1)*w+j+1] + 1
			} else {
				table[i*w+j] = max(table[(i+1)*w+j], table[i*w+j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			out[ai+i] = bi + j
			i, j = i+1, j+1
		case table[(i+1)*w+j] >= table[i*w+j+1]:
			i++
		default:
			j++
		}
	}
}
