package graph

import "strings"

// compareIDs orders ids as people count: T-2 before T-10. Runs of digits compare
// as numbers, everything else byte by byte; ids that only differ in leading
// zeros compare byte by byte.
func compareIDs(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		if digit(x[0]) && digit(y[0]) {
			p, q := digits(x), digits(y)
			if c := compareNumbers(x[:p], y[:q]); c != 0 {
				return c
			}
			x, y = x[p:], y[q:]
			continue
		}
		if x[0] != y[0] {
			return int(x[0]) - int(y[0])
		}
		x, y = x[1:], y[1:]
	}
	if x == "" && y == "" {
		return strings.Compare(a, b)
	}
	return len(x) - len(y)
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func digits(s string) int {
	n := 0
	for n < len(s) && digit(s[n]) {
		n++
	}
	return n
}

func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
