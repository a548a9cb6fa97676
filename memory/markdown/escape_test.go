package markdown

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/yuin/goldmark"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"":                       "",
		"plain text_with words":  "plain text_with words",
		"# head":                 `\# head`,
		"a\n\nb\t c":             "a b c",
		"_x_ *y* `z` [l](u) <b>": "\\_x\\_ \\*y\\* \\`z\\` \\[l\\](u) \\<b>",
		"\x1b[31m\u202e":         `␛\[31m\\u202e`,
	} {
		if got := Escape(in, 100); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Escape(strings.Repeat("ä", 500), 10); got != strings.Repeat("ä", 9)+"…" {
		t.Errorf("cut: %q", got)
	}
	if got := EscapeCell("a|b", 10); got != `a\|b` {
		t.Errorf("cell: %q", got)
	}
}

// FuzzEscape sees that whatever stands there is one paragraph of text.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "<script>", "* a", "1. x", "![x](http://y)", "a  \nb", "&lt;", "\x00\xff", "===", "~~~", "|a|"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Escape(s, 80)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x1b") || utf8.RuneCountInString(got) > 160 {
			t.Fatalf("%q became %q", s, got)
		}
		var html strings.Builder
		if err := goldmark.Convert([]byte("x "+got), &html); err != nil {
			t.Fatal(err)
		}
		if h := html.String(); strings.Contains(h, "<script") || strings.Contains(h, "<a ") || strings.Contains(h, "<img") || strings.Contains(h, "<em") || strings.Contains(h, "<!--") {
			t.Fatalf("%q became %q, which is %q", s, got, h)
		}
	})
}
