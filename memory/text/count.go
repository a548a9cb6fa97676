package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Grouped writes a count with a comma between the thousands.
func Grouped[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count is "1 error", "2 errors", "1,200 retries", "3 matches".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Grouped(n) + " " + plural(noun)
}

// plural is the regular English plural of a noun.
func plural(noun string) string {
	stem, y := strings.CutSuffix(noun, "y")
	switch {
	case y && !strings.ContainsAny(stem[max(len(stem)-1, 0):], "aeiou"):
		return stem + "ies"
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "sh"):
		return noun + "es"
	}
	return noun + "s"
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

// Length says how long something took, in seconds: 340 ms, 4.2 s, 42 s,
// 1 min 05 s, 2 h 05 min, 3 d 4 h. What is no length is "unknown".
func Length(seconds float64) string {
	switch s := seconds; {
	case math.IsNaN(s) || s < 0 || s >= 1e10:
		return "unknown"
	case s == 0:
		return "0 s"
	case s < 0.9995:
		return strconv.FormatFloat(math.Max(1, math.Round(s*1000)), 'f', 0, 64) + " ms"
	case s < 9.95:
		return strconv.FormatFloat(math.Round(s*10)/10, 'f', -1, 64) + " s"
	case s < 59.5:
		return strconv.FormatFloat(s, 'f', 0, 64) + " s"
	case s < 3599.5:
		return parts(s, 60, " min", " s")
	case s < 86400-30:
		return parts(s/60, 60, " h", " min")
	}
	return parts(seconds/3600, 24, " d", " h")
}

// parts writes n in wholes of size and what is left, which is left out when it
// is nothing.
func parts(n float64, size int, whole, rest string) string {
	i := int(math.Round(n))
	switch {
	case i%size == 0:
		return strconv.Itoa(i/size) + whole
	case size == 60:
		return fmt.Sprintf("%d%s %02d%s", i/size, whole, i%size, rest)
	}
	return fmt.Sprintf("%d%s %d%s", i/size, whole, i%size, rest)
}

// Ago is how long ago something was, in whole minutes, hours or days: "just now", "3 hours ago".
func Ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return Count(int(d.Minutes()), "minute") + " ago"
	case d < 48*time.Hour:
		return Count(int(d.Hours()), "hour") + " ago"
	}
	return Count(int(d.Hours())/24, "day") + " ago"
}
