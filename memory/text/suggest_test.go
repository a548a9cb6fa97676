package text_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ralph/memory/text"
)

func TestClosest(t *testing.T) {
	words := []string{"status", "run", "doctor", "max_agents", "schema"}
	for word, want := range map[string]string{
		"statsu": "status", "STATUS": "status", "docter": "doctor", "max_agnets": "max_agents", "rn": "run", "shcema": "schema",
		"banana": "", "fix": "", "": "", strings.Repeat("x", 100): "",
	} {
		if got := text.Closest(word, words); got != want {
			t.Errorf("closest to %q is %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"status", "statsu", 1}} {
		if got := text.Distance(c.a, c.b); got != c.want {
			t.Errorf("distance of %q and %q is %d, want %d", c.a, c.b, got, c.want)
		}
	}
	word := rapid.StringMatching(`[a-c]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := text.Distance(a, b)
		if d != text.Distance(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) {
			t.Fatalf("distance of %q and %q is %d", a, b, d)
		}
	})
}
