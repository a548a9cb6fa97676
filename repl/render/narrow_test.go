package render

import (
	"strings"
	"testing"
)

// TestATableThatIsALittleTooWide keeps every figure: the widest column gives.
func TestATableThatIsALittleTooWide(t *testing.T) {
	const table = "| agent              | turns | calls | tokens | cost |   time |\n|---|---:|---:|---:|---:|---:|\n" +
		"| will_never_work    |    24 |    24 | 24,480 |    – | 5.93 s |\n| build_right_slowly |     2 |     2 |  2,040 |    – | 674 ms |\n"
	for width := 51; width < 70; width++ {
		rows := (&markdown{width: width, theme: ThemeNone}).rows(table, -1)
		text := strings.Join(rows, "\n")
		for _, whole := range []string{"agent", "turns", "calls", "tokens", "cost", "time", "24,480", "5.93 s", "674 ms"} {
			if !strings.Contains(text, whole) {
				t.Errorf("%d columns: %s is cut:\n%s", width, whole, text)
				break
			}
		}
		for _, row := range rows {
			if columns(row) > width {
				t.Errorf("%d columns: %q has %d", width, row, columns(row))
			}
		}
	}
	if _, ok := narrowed("| a | b |\n|---|---|\n| a very long **bold text** here | b |\n", 20); ok {
		t.Error("markup is torn")
	}
}
