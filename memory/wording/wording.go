// Package wording says numbers as people read them, the same wherever a report, a
// page, a check or a rule tells of them.
//
// It owns how things are counted and how digits are written. It refuses
// languages other than English and nouns whose plural is neither -s nor -ies.
//
//	wording.Count(1200, "retry") // 1,200 retries
package wording

import (
	"math"
	"strconv"
	"strings"
)

// Grouped writes a count with a comma between the thousands.
func Grouped[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count is "1 error", "2 errors", "1,200 retries".
func Count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "y"):
		return Grouped(n) + " " + strings.TrimSuffix(noun, "y") + "ies"
	}
	return Grouped(n) + " " + noun + "s"
}

// Clause is Count with the verb for one or for many: "1 task stands", "2 tasks
// stand".
func Clause(n int, noun, one, many string) string {
	if n == 1 {
		return Count(n, noun) + " " + one
	}
	return Count(n, noun) + " " + many
}

// Times is "once", "2 times".
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return Grouped(n) + " times"
}

// Decimal writes a number with as many digits behind the point as it has, and
// four at most.
func Decimal(f float64) string { return strconv.FormatFloat(math.Round(f*1e4)/1e4, 'f', -1, 64) }
