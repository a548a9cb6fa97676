package repl

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ralph/coordinator/plan"
)

func tree() []string {
	return []string{"README.md", "cmd/app/main.go", "cmd/tool/main.go", "docs/a b.md", "docs/login.md", "go.mod", "main.go", "repl/line/term.go", "repl/shell.go", "repl/shell_test.go"}
}

func TestFilesOfAWord(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"":        "README.md cmd/ docs/ go.mod main.go repl/",
		"re":      "repl/",
		"repl/":   "repl/line/ repl/shell.go repl/shell_test.go",
		"repl/sh": "repl/shell.go repl/shell_test.go",
		"x":       "",
	} {
		if got := strings.Join(steps(tree(), word, 30), " "); got != want {
			t.Errorf("%q goes on as %q, want %q", word, got, want)
		}
	}
	for word, want := range map[string]string{
		"main":  "main.go cmd/app/main.go cmd/tool/main.go", // its own first
		"shell": "repl/shell.go repl/shell_test.go",
		"SHELL": "repl/shell.go repl/shell_test.go",
		"app":   "cmd/app/main.go",
		"rshl":  "repl/shell.go repl/shell_test.go", // some letters of it
		"zzz":   "",
	} {
		if got := strings.Join(like(tree(), word), " "); got != want {
			t.Errorf("%q means %q, want %q", word, got, want)
		}
	}
	for path, want := range map[string]string{"main.go": "main.go ", "a b": `"a b" `, `a"$b`: `"a\"\$b" `, "a b/": `"a b/`, "x/": "x/", "a(1)": `"a(1)" `, "{a,b}": `"{a,b}" `, "a\nrm b": "\"a\nrm b\" "} {
		if got := pathWord("", path); got != want {
			t.Errorf("%q is typed as %q, want %q", path, got, want)
		}
	}
	for path, want := range map[string]string{`a"b`: `@a"b `, "main.go": "@main.go ", "docs/": "@docs/", "docs/a b.md": `@"docs/a b.md" `, "a b/": `@"a b/`} {
		if got := pathWord("@", path); got != want {
			t.Errorf("%q is typed as %q, want %q", path, got, want)
		}
	}
}

// Whatever steps and like give for a word is of the paths, and every path can be
// reached step by step.
func TestStepsReachEveryPath(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOfDistinct(rapid.StringMatching(`[ab](/?[abc ]){0,6}`), func(s string) string { return s }).Draw(t, "paths")
		paths = slices.DeleteFunc(paths, func(p string) bool {
			return strings.Contains(p, "//") || strings.HasSuffix(p, "/") || slices.ContainsFunc(paths, func(q string) bool { return strings.HasPrefix(q, p+"/") })
		})
		slices.Sort(paths)
		for _, p := range paths {
			word := ""
			for range len(p) + 1 {
				next := steps(paths, word, 100)
				next = slices.DeleteFunc(next, func(n string) bool { return n == word || !strings.HasPrefix(p, n) })
				if len(next) == 0 {
					t.Fatalf("%q does not lead to %q", word, p)
				}
				if word = next[0]; word == p {
					break
				}
			}
			if word != p {
				t.Fatalf("%q was never reached, only %q", p, word)
			}
			if !slices.Contains(like(paths, p), p) {
				t.Fatalf("%q does not mean itself", p)
			}
		}
	})
}

func TestSpot(t *testing.T) {
	t.Parallel()
	s := &Shell{agentNames: []string{"auth", "docs"}, taskIDs: []string{"T-1", "T-12"}}
	for text, want := range map[string]struct {
		typed, name, first string
		more               source
		words              int // -1: any
	}{
		"/st":                 {"/st", "/st", "/agents ", fromTable, -1},
		"/":                   {"/", "/", "/agents ", fromTable, -1},
		"see (@ma":            {"@ma", "ma", "", fromFiles, 0},
		"/etc/pass":           {"/etc/pass", "/etc/pass", "", fromNowhere, 0},
		"see @ma":             {"@ma", "ma", "", fromFiles, 0},
		"@a":                  {"@a", "a", "@auth: ", fromFiles, 2},
		"/now @a":             {"@a", "a", "@auth: ", fromFiles, 2},
		"/ask @a":             {"@a", "a", "", fromFiles, 0},
		`see @"docs/a b`:      {`@"docs/a b`, "docs/a b", "", fromFiles, 0},
		`see @"docs/a b.md" `: {"", "", "", fromNowhere, 0},
		`see @"a" and @b`:     {"@b", "b", "", fromFiles, 0},
		"line\n@x":            {"@x", "x", "", fromFiles, 0},
		"a@b":                 {"a@b", "a@b", "", fromNowhere, 0},
		"!cat ma":             {"ma", "ma", "", fromFiles, 0},
		"!ca":                 {"!ca", "!ca", "", fromNowhere, 0},
		"/why T":              {"T", "T", "T-1", fromTasks, 2},
		"/edit ma":            {"ma", "ma", "tasks", fromFiles, 5},
		"/trace ma":           {"ma", "ma", "", fromFiles, 0},
		"/model g":            {"g", "g", "", fromModels, 0},
		"/sessions sw":        {"sw", "sw", "switch ", fromSessions, 1},
		"/sessions switch 00": {"00", "00", "", fromSessions, 0},
		"/handoff to 0":       {"0", "0", "", fromSessions, 0},
		"/plan ":              {"", "", "show", fromNowhere, 4},
		"/plan switch p":      {"p", "p", "", fromPlans, 0},
		"/agents ":            {"", "", "auth", fromNowhere, 4},
		"/agents prune a":     {"a", "a", "auth", fromNowhere, 2},
		"/stop a":             {"a", "a", "auth", fromNowhere, 2},
		"/stop a b":           {"b", "b", "", fromNowhere, 0},
		"/queue drop m":       {"m", "m", "", fromQueue, 0},
		"/config max":         {"max", "max", "all", fromNowhere, -1},
		"/help ":              {"", "", "help", fromNowhere, -1},
		"/run --tr":           {"--tr", "--tr", "", fromNowhere, -1},
		"/run --plan pr":      {"pr", "pr", "", fromFiles, 0},
		"/run --epic E":       {"E", "E", "", fromPlans, 0},
		"/run --parallel 3":   {"3", "3", "", fromNowhere, 0},
		"/run --tracker ":     {"", "", "", fromNowhere, -1},
		"/unknown x":          {"x", "x", "", fromNowhere, 0},
		"hello wor":           {"wor", "wor", "", fromNowhere, 0},
		"":                    {"", "", "", fromNowhere, 0},
	} {
		sp := s.spot(text)
		first := ""
		if len(sp.words) > 0 {
			first = sp.words[0].Text
		}
		if sp.typed != want.typed || sp.name != want.name || sp.more != want.more || want.words >= 0 && len(sp.words) != want.words || want.first != "" && first != want.first || text[sp.from:] != sp.typed {
			t.Errorf("%q: typed %q, name %q, from %d, %q of %d words, more %q", text, sp.typed, sp.name, sp.from, first, len(sp.words), sp.more)
		}
	}
}

func FuzzSpot(f *testing.F) {
	for _, s := range []string{"", "/", "@", `@"`, `"@"`, "/run --", "/plan switch ", "!x y", "@a: @b", "\n@\xff", "/edit \"a b"} {
		f.Add(s)
	}
	s := &Shell{agentNames: []string{"auth"}, taskIDs: []string{"T-1"}}
	f.Fuzz(func(t *testing.T, text string) {
		c := s.complete(text)
		if c.From < 0 || c.From > len(text) {
			t.Fatalf("%q is completed from %d", text, c.From)
		}
		for _, w := range c.Words {
			if !strings.HasPrefix(w.Text, text[c.From:]) {
				t.Fatalf("%q is completed with %q", text[c.From:], w.Text)
			}
		}
	})
}

// completing waits until the line is completed to want.
func completing(t *testing.T, c *chat, keys, want string) {
	t.Helper()
	c.Type("\x15\x0b" + keys + "\t")
	c.Has("❯ " + want + "▏")
}

func TestFilesAreCompleted(t *testing.T) {
	h := &ownHands{paths: tree()}
	c := open(t, echo, withHands(h))
	c.idle()
	completing(t, c, "see @RE", "see @README.md ")
	completing(t, c, "see @login", "see @docs/login.md ") // by the last part
	completing(t, c, "see @app", "see @cmd/app/main.go ") // by a folder
	completing(t, c, "see @lntrm", "see @repl/line/term.go ")
	completing(t, c, `see @"a b`, `see @"docs/a b.md" `)
	completing(t, c, "see @cmd/t", "see @cmd/tool/")
	completing(t, c, "see @repl/sh", "see @repl/shell")
	completing(t, c, "!cat go", "!cat go.mod ")
	completing(t, c, "/edit READ", "/edit README.md ")
	completing(t, c, "/edit prog", "/edit progress")
	if n := h.looks(); n != 1 {
		t.Errorf("the files were looked at %d times", n)
	}
	c.Type("\x15\x0c" + "see @zzz\t")
	c.Has("no file fits @zzz")
	c.Has("❯ see @zzz▏")
	c.bye(t)
}

// Where there is no menu a list is shown, and the line stays.
func TestAmbiguousFileIsListed(t *testing.T) {
	h := &ownHands{paths: tree()}
	c := open(t, echo, withHands(h))
	c.idle()
	c.Type("see @main\t")
	s := c.Has("3  cmd/tool/main.go")
	if !strings.Contains(s, "1  main.go") {
		t.Errorf("the list is\n%s", s)
	}
	c.Has("❯ see @main▏")
	c.bye(t)
}

// A line that was changed while the files were looked for stays as it is.
func TestLateCompletionIsDropped(t *testing.T) {
	h := &ownHands{paths: tree(), loads: make(chan struct{})}
	c := open(t, echo, withHands(h))
	c.idle()
	c.Type("see @login\t")
	for h.looks() == 0 {
		time.Sleep(time.Millisecond)
	}
	c.Type("x")
	c.Has("❯ see @loginx▏")
	h.loads <- struct{}{}
	c.Type("y")
	c.Has("❯ see @loginxy▏")
	c.bye(t)
}

func TestWordsAreCompleted(t *testing.T) {
	h := &ownHands{paths: tree()}
	c := open(t, echo, withHands(h))
	c.f.mu.Lock()
	c.f.plan = &plan.Plan{Path: "prd.json", Tasks: []plan.Task{{ID: "US-1", Title: "login"}, {ID: "US-2", Title: "upload", Status: plan.Done}}}
	c.f.mu.Unlock()
	c.idle()
	completing(t, c, "/conf", "/config ")
	completing(t, c, "/config sandb", "/config sandbox")
	completing(t, c, "/model l", "/model llama-tiny")
	completing(t, c, "/model tiny", "/model llama-tiny") // a part of it
	completing(t, c, "/sessions sw", "/sessions switch ")
	completing(t, c, "/sessions 0", "/sessions 004")
	completing(t, c, "/handoff to 0", "/handoff to 004")
	completing(t, c, "/why log", "/why US-1") // by its title
	completing(t, c, "/why US", "/why US-1")  // the one that is open
	completing(t, c, "/help un", "/help undo")
	completing(t, c, "/run --dry", "/run --dry-run ")
	completing(t, c, "/run --on-error ret", "/run --on-error retry")
	c.bye(t)
}

// A hundred thousand files are found through in a moment.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	var paths []string
	for i := range 100_000 {
		paths = append(paths, fmt.Sprintf("dir%03d/sub%d/file%05d.go", i%997, i%7, i))
	}
	slices.Sort(paths)
	begun := time.Now()
	if got := like(paths, "file99999"); len(got) != 1 {
		t.Errorf("found %d", len(got))
	}
	by := time.Since(begun)
	begun = time.Now()
	if got := like(paths, "d5s2f9"); len(got) == 0 {
		t.Error("nothing was found by some letters")
	}
	t.Logf("100,000 files: by a name %v, by some letters %v", by, time.Since(begun))
}
