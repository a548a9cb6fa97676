package text_test

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"ralph/memory/text"
)

func TestShortened(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{text.Head("aé", 3), "aé"},
		{text.Head("aé", 2), "a"},
		{text.Head("é", -1), ""},
		{text.Tail("éa", 3), "éa"},
		{text.Tail("éa", 2), "a"},
		{text.Tail("a", -1), ""},
		{text.Clip("abcd", 4), "abcd"},
		{text.Clip("abcde", 4), "a…"},
		{text.Clip("abcde", 1), "…"},
		{text.ClipRunes("日本語", 3), "日本語"},
		{text.ClipRunes("日本語で", 3), "日本…"},
		{text.ClipRunes("ab", 0), "…"},
		{text.FirstLine("a\nb"), "a"},
		{text.OneLine(" a\n\tb  c "), "a b c"},
		{text.List(nil, 2), ""},
		{text.List([]string{"a", "b"}, 2), "a, b"},
		{text.List([]string{"a", "b", "c", "d"}, 2), "a, b and 2 more"},
		{text.Count(2, "match"), "2 matches"},
		{text.Count(2, "process"), "2 processes"},
		{text.Count(2, "key"), "2 keys"},
		{text.Count(0, "query"), "0 queries"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// What is shortened is no longer than was asked for, and never ends within a character.
func TestShortenedFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "s"), rapid.IntRange(3, 40).Draw(t, "n")
		for _, got := range []string{text.Head(s, n), text.Tail(s, n), text.Clip(s, n)} {
			if len(got) > n || !utf8.ValidString(got) {
				t.Fatalf("%q of %q in %d bytes", got, s, n)
			}
		}
		if got := text.ClipRunes(s, n); utf8.RuneCountInString(got) > n || !utf8.ValidString(got) {
			t.Fatalf("%q of %q in %d characters", got, s, n)
		}
	})
}
