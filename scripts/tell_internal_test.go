package scripts

import "testing"

func TestPlainLinks(t *testing.T) {
	for in, want := range map[string]string{
		"| T-1 | [001](iterations/001-T-1.md) [002](iterations/002-T-1.md) |": "| T-1 | 001 002 |",
		"- [journal.jsonl](journal.jsonl)":                                    "- journal.jsonl",
		"- [iterations](iterations/): 14 files":                               "- iterations: 14 files",
		"see [the site](https://example.com/x) and [x](https://x)":            "see [the site](https://example.com/x) and [x](https://x)",
	} {
		if got := plainLinks(in); got != want {
			t.Errorf("%q is %q, not %q", in, got, want)
		}
	}
}
