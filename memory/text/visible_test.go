package text_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"ralph/memory/text"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"plain, ünïcode 日本 👍\n\tx": "plain, ünïcode 日本 👍\n\tx",
		"\x1b[31mred\x1b[0m":       "␛[31mred␛[0m",
		"\x1b]52;c;AAAA\a":         "␛]52;c;AAAA␇",
		"a\r\nb\rc":                "a\nb␍c",
		"\u202eevil\u2069":         `\u202eevil\u2069`,
		"zero\u200bwidth":          `zero\u200bwidth`,
		"\u009b31m":                `\u009b31m`,
		"\x9b\xff":                 `\x9b\xff`,
		"\x00\x7f":                 "␀␡",
		"\U000e0041":               `\U000e0041`,
		"\ufffd":                   "\ufffd",
		"👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 🏴\u200d☠\ufe0f": "👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 🏴\u200d☠\ufe0f",
		"می\u200cخواهم क्\u200dष":                       "می\u200cخواهم क्\u200dष",
		"👨\u200d\u200d👩 a\u200db":                       `👨\u200d\u200d👩 a\u200db`,
		"\u200d👩\u200d":                                 `\u200d👩\u200d`,
		"rm\u200c -rf م\u200c/":                         `rm\u200c -rf م\u200c/`,
	} {
		if got := text.Visible(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	if got := text.VisibleLine("a\nb\tc\x1b"); got != "a␊b c␛" {
		t.Errorf("Line = %q", got)
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", "\x1b[0m", "\u202e", "\xff", "\r\n", "\u2028", "é", "👨\u200d👩", "م\u200cم", "\u200c\u200d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := text.Visible(s)
		if !utf8.ValidString(out) {
			t.Fatalf("%q is no UTF-8", out)
		}
		for i, r := range out {
			if joiner := r == '\u200c' || r == '\u200d'; !text.Harmless(r) && (!joiner || i == 0 || out[i-1] < 0x80 || strings.HasSuffix(out, string(r))) {
				t.Fatalf("%q holds %U", out, r)
			}
		}
		if text.Visible(out) != out {
			t.Fatalf("%q changes again", out)
		}
		if line := text.VisibleLine(s); strings.ContainsAny(line, "\n\t\r") {
			t.Fatalf("%q is not one line", line)
		}
	})
}
