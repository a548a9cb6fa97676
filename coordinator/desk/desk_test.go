package desk_test

import (
	"slices"
	"strings"
	"testing"

	"ralph/coordinator/desk"
)

func TestMentions(t *testing.T) {
	t.Parallel()
	files := []string{"main.go", "a b.go", "dir", "dir/x.go", "a-1", "odd.", "ünï/文.md", "Makefile", "x:12"}
	cases := map[string][]string{
		"see @main.go":                      {"main.go"},
		"@main.go":                          {"main.go"},
		"@main.go, @dir/x.go.":              {"main.go", "dir/x.go"},
		"(@main.go)":                        {"main.go"},
		"@main.go:12 and @dir/x.go:3-7!":    {"main.go", "dir/x.go"},
		"the file @x:12":                    {"x:12"},
		`look at @"a b.go", please`:         {"a b.go"},
		`@"a b.go`:                          nil,
		"@\"a b\n.go\"":                     nil,
		"@main.go @main.go":                 {"main.go"},
		"@odd.":                             {"odd."},
		"in @dir/":                          {"dir/"},
		"mail bob@main.go":                  nil,
		"bob@Makefile @Makefile":            {"Makefile"},
		"@a-1: do it":                       nil,
		"  @a-1: do it\n@main.go: it":       nil,
		"what of @main.go: it is odd":       {"main.go"},
		"@nothing @ @@ @@main.go":           nil,
		"ÿ@main.go":                         nil,
		"「@main.go":                         nil,
		"@ünï/文.md，":                        nil,
		"@ünï/文.md":                         {"ünï/文.md"},
		"`@main.go`":                        {"main.go"},
		"first\n@main.go\tsecond\r\n@dir\n": {"main.go", "dir"},
		"":                                  nil,
	}
	for text, want := range cases {
		got := desk.Mentions(text, func(p string) bool { return slices.Contains(files, strings.TrimSuffix(p, "/")) && p != "odd" })
		if !slices.Equal(got, want) {
			t.Errorf("%q mentions %q, want %q", text, got, want)
		}
	}
	tried := 0
	desk.Mentions(strings.Repeat(" @x", 100_000), func(string) bool { tried++; return false })
	desk.Mentions(strings.Repeat("(@", 1<<20), func(string) bool { tried++; return false })
	desk.Mentions(strings.Repeat(" @"+strings.Repeat(")", 5000), 200), func(string) bool { tried++; return false })
	if tried > 3000 {
		t.Errorf("%d paths were looked for", tried)
	}
}

func TestReportIsOK(t *testing.T) {
	t.Parallel()
	for want, r := range map[bool][]desk.CheckRun{true: {{Command: "a"}}, false: {{Command: "a"}, {Command: "b", NotRun: "denied"}}} {
		if (desk.CheckReport{Runs: r}).OK() != want {
			t.Errorf("%+v is not %v", r, want)
		}
	}
	if (desk.CheckReport{}).OK() || (desk.CheckReport{Runs: []desk.CheckRun{{ExitCode: 1}}}).OK() {
		t.Error("no check, or one that failed, is in order")
	}
}

func FuzzMentions(f *testing.F) {
	for _, s := range []string{"@main.go", `@"a b"`, "x@y @z:", "@a:1-2:3.,", "@\x00", "\xff@\xff", strings.Repeat("@(", 50)} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, is bool) {
		n := 0
		for _, p := range desk.Mentions(text, func(p string) bool { n++; return is && n%2 == 0 }) {
			if p == "" || !strings.Contains(text, p) || strings.ContainsAny(p, "\n") {
				t.Errorf("%q mentions %q", text, p)
			}
		}
	})
}
