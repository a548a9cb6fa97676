package coordinator

import (
	"strings"
	"testing"
	"time"
)

func TestBare(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                    "",
		"a\tb\r\nc":                           "a\tb\nc",
		"\x1b[1;31mred\x1b[0m \x1b[2K.":       "red .",
		"\x1b]0;title\ax\x1b]8;;u\x1b\\y":     "xy",
		"\x1b]never ended\nnext":              "\nnext",
		"\x1b[12\nnext":                       "\nnext",
		"10%\r50%\r100%\ndone\r\r\nlast\r":    "100%\ndone\nlast",
		"key\x1b[31m-that":                    "key-that",
		"\x00\x07\x7fa\x1b(B\x1b7b\x1b\x1bMc": "abc",
		"\x1b":                                "",
		"日\x1b[1m本\x1b日":                      "日本日",
	} {
		if got := bare(in); got != want {
			t.Errorf("%q is told as %q, want %q", in, got, want)
		}
	}
	// A bar of progress at the end of much costs what it is long.
	begun := time.Now()
	bare(strings.Repeat("x\n", 500_000) + strings.Repeat("50%\r", 100_000))
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func FuzzBare(f *testing.F) {
	for _, s := range []string{"", "\x1b[1ma", "\x1b]0;x\a", "a\rb\r\n", "\x1b(", "\xff\x1b\x9b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := bare(s)
		if strings.ContainsAny(got, "\x1b\x00\r\a") || len(got) > len(s) {
			t.Fatalf("%q is told as %q", s, got)
		}
		if again := bare(got); again != got {
			t.Fatalf("%q is told as %q, and that as %q", s, got, again)
		}
	})
}
