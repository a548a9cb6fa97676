package tools

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// gitTree is a repository with .gitignore files in which git itself says what
// is ignored.
type gitTree struct{ root string }

func newGitTree(t testing.TB) gitTree {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := gitTree{root: root}
	if out, err := g.git("", "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	return g
}

func (g gitTree) git(stdin string, args ...string) *exec.Cmd {
	c := exec.Command("git", append([]string{"-c", "core.excludesFile=/dev/null", "-c", "core.ignoreCase=false"}, args...)...)
	c.Dir = g.root
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.root, "GIT_CONFIG_NOSYSTEM=1"}
	c.Stdin = strings.NewReader(stdin)
	return c
}

// ignored asks git about paths; what does not exist counts as a file.
func (g gitTree) ignored(t interface{ Fatalf(string, ...any) }, paths []string) map[string]bool {
	cmd := g.git(strings.Join(paths, "\x00")+"\x00", "check-ignore", "--no-index", "-z", "--stdin")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	// Exit 1 only says that nothing is ignored.
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("check-ignore: %v %s", err, errs.String())
	}
	got := map[string]bool{}
	for p := range strings.SplitSeq(string(out), "\x00") {
		got[p] = true
	}
	return got
}

// ours walks from the root down to p, as a walk does.
func ours(files map[string]string, dirs []string, p string) bool {
	isDir := slices.Contains(dirs, p)
	var rules ignores
	at := ""
	parts := strings.Split(p, "/")
	for i, c := range parts {
		if text, ok := files[path.Join(at, ".gitignore")]; ok {
			rules = append(rules, parseIgnore([]byte(text), at))
		}
		at = path.Join(at, c)
		if rules.match(at, isDir || i < len(parts)-1) {
			return true
		}
	}
	return false
}

// place writes the .gitignore files and makes the directories that hold them.
func (g gitTree) place(t interface{ Fatalf(string, ...any) }, files map[string]string, dirs []string) {
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(g.root, d), 0o755); err != nil {
			t.Fatalf("%v", err)
		}
		os.Remove(filepath.Join(g.root, d, ".gitignore"))
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(g.root, name), []byte(text), 0o644); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

func TestIgnoreAsGitDoes(t *testing.T) {
	g := newGitTree(t)
	dirs := []string{"", "a", "a/b", "a/b/c", "build", "x"}
	var paths []string
	for _, d := range dirs {
		for _, n := range []string{"a", "b", "foo", "foo.o", "foo.c", "build", "x.log", "#x", "!x", "ab", "a]", "sp ", "x\\y", "é", "-", "a-z", "[", "foo\r"} {
			paths = append(paths, path.Join(d, n))
		}
		if d != "" {
			paths = append(paths, d)
		}
	}
	for _, text := range []string{
		"foo", "/foo", "foo/", "/foo/", "*.o", "!*.o\n*.o", "*.o\n!foo.o", "a/", "a/*\n!a/b", "/a/*\n!/a/b/\n/a/b/*\n!/a/b/foo",
		"a/**", "a/**/foo", "**/foo", "**/b/foo", "a/**/c/foo", "**", "/**", "**/", "*", "/*", "*/", "*/*", "**/*", "a/***/foo", "a**/foo", "a**/c", "ab**/foo", "**a/foo",
		"a/b**", "a/**b", "a?b", "?", "fo[o]", "fo[!o]*", "fo[^x].o", "[a-b]", "[]a]", "[!]a]", "a[]]", "a[", "[", "[[]", "[a-]", "[-a]", "[[:alpha:]]", "[[:digit:]x]*", "[[:nope:]]",
		"[[:]", "[[::]]", "[\\]]", "[a\\-z]", "\\#x", "#x", "\\!x", "!x\nx", "sp\\ ", "sp ", "sp\\", "foo   ", "foo\t", "foo\r", "foo\r\n*.o\r\n", "x\\\\y", "\\foo", "foo\\", "é", "[é]", "??",
		"\ufefffoo", "/", "//", "a//b", "!", "!/", "", " ", "./foo", "a/../foo", "a/./foo", "foo*", "*foo*", "*o*o*", "f*o.?", "a/b/c", "/a/b/c/", "b/c", "c/", "/b",
		"a/[b/]foo", "a[/]b", "a\\/b", "**\\/foo", "a/**\\/foo", "build\n!build", "build/\n!build", "*\n!*/\n!foo.c", "*\n!.gitignore", "a\x00b", "***", "a/***", "*/b/**", "**/**/foo", "**/a/**",
	} {
		files := map[string]string{".gitignore": text}
		g.place(t, files, dirs)
		want := g.ignored(t, paths)
		for _, p := range paths {
			if got := ours(files, dirs, p); got != want[p] {
				t.Errorf(".gitignore %q: %q ignored: %v, git says %v", text, p, got, want[p])
			}
		}
	}
	nested := map[string]string{
		".gitignore": "*.o\n/build\n!keep.o\nlogs/", "a/.gitignore": "!foo.o\n/x.log\nb/foo\n**/c", "a/b/.gitignore": "!foo\n!c\nab", "build/.gitignore": "!*",
	}
	g.place(t, nested, dirs)
	want := g.ignored(t, paths)
	for _, p := range paths {
		if got := ours(nested, dirs, p); got != want[p] {
			t.Errorf("nested: %q ignored: %v, git says %v", p, got, want[p])
		}
	}
}

func TestIgnoreAsGitDoesForAnyPattern(t *testing.T) {
	g := newGitTree(t)
	dirs := []string{"", "a", "a/b", "b", "b/a"}
	pattern := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"a", "b", "ab", "*", "**", "?", "/", "/", "!", "\\", "[a]", "[!a]", "[a-b]", "[", "]", " ", "#", "-", ".", "[[:alpha:]]", "\\*", "é",
		}), 0, 7).Draw(t, "parts")
		return strings.Join(parts, "")
	})
	var paths []string
	for _, d := range dirs {
		for _, n := range []string{"a", "b", "ab", "ba", "aab", "*", ".", "x y", "é", "a.b", "b/ab", "a/b/ab"} {
			if n != "." {
				paths = append(paths, path.Join(d, n))
			}
		}
		if d != "" {
			paths = append(paths, d)
		}
	}
	began := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		if time.Since(began) > 3*time.Second {
			return // each check starts git: what there is time for, in another order each run
		}
		files := map[string]string{".gitignore": strings.Join(rapid.SliceOfN(pattern, 1, 4).Draw(t, "root"), "\n")}
		if rapid.Bool().Draw(t, "nested") {
			files["a/.gitignore"] = strings.Join(rapid.SliceOfN(pattern, 1, 3).Draw(t, "a"), "\n")
		}
		g.place(t, files, dirs)
		want := g.ignored(t, paths)
		for _, p := range paths {
			if got := ours(files, dirs, p); got != want[p] {
				t.Fatalf("%q: %q ignored: %v, git says %v", files, p, got, want[p])
			}
		}
	})
}

// slowMatch is the same by trying everything.
func slowMatch(tokens []globToken, text string) bool {
	if len(tokens) == 0 {
		return text == ""
	}
	t := tokens[0]
	switch t.kind {
	case tokenStar:
		for i := 0; i <= len(text); i++ {
			if slowMatch(tokens[1:], text[i:]) {
				return true
			}
			if i < len(text) && text[i] == '/' {
				return false
			}
		}
		return false
	case tokenDirs, tokenAnything:
		for i := 0; i <= len(text); i++ {
			if (t.kind == tokenAnything || i == 0 || text[i-1] == '/') && slowMatch(tokens[1:], text[i:]) {
				return true
			}
		}
		return false
	}
	return text != "" && t.takes(text[0]) && slowMatch(tokens[1:], text[1:])
}

func FuzzIgnore(f *testing.F) {
	for _, p := range []string{"a/**/b", "*a*b?", "[!a-c]*/", "**/x/**", "!\\ ", "a**/b", "/[[:alpha:]]*", "*/**/*/**"} {
		f.Add(p, "a/x/b")
	}
	f.Fuzz(func(t *testing.T, line, text string) {
		parseIgnore([]byte(line), "base").rulesUsed(text)
		r, ok := parseIgnoreLine(line)
		if !ok || len(line) > 12 || len(text) > 16 {
			return
		}
		if got, want := matchGlob(r.tokens, text), slowMatch(r.tokens, text); got != want {
			t.Errorf("%q matches %q: %v, trying everything says %v", line, text, got, want)
		}
	})
}

func (f ignoreFile) rulesUsed(text string) bool {
	return ignores{f}.match(path.Join("base", text), len(text)%2 == 0)
}

func TestIgnoreIsNotSlow(t *testing.T) {
	hostile := parseIgnore([]byte(strings.Repeat("*a", 2000)+"b\n"+strings.Repeat("**/a*/", 500)+"b\n"), "")
	began := time.Now()
	ignores{hostile}.match(strings.Repeat("a", 255), false)
	ignores{hostile}.match(strings.Repeat("aaaaaaaa/", 400), false)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestWalkHonoursIgnoreFiles(t *testing.T) {
	b := newBench(t)
	for name, text := range map[string]string{
		".gitignore": "/out\n*.log\n", ".git/info/exclude": "private\n", ".git/HEAD": "ref", ".ralph/lock": "x", "out/x.go": "x", "a.go": "x", "a.log": "x", "private": "x",
		"sub/.gitignore": "!keep.log\n/gen/\n", "sub/keep.log": "x", "sub/gen/g.go": "x", "sub/deep/gen/g.go": "x", "sub/b.go": "x",
	} {
		b.put(name, text)
	}
	if err := os.Symlink("sub", b.path("link")); err != nil {
		t.Fatal(err)
	}
	walked := func(base string) (all []string, k *walker) {
		dir, base, err := b.env.Files.OpenDir(base)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		k, err = b.env.Files.walk(t.Context(), dir, base, func(e entry) error {
			if !e.d.IsDir() {
				all = append(all, e.path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all, k
	}
	for base, want := range map[string]string{
		".":        ".gitignore a.go link sub/.gitignore sub/b.go sub/deep/gen/g.go sub/keep.log",
		"sub":      "sub/.gitignore sub/b.go sub/deep/gen/g.go sub/keep.log",
		"link":     "sub/.gitignore sub/b.go sub/deep/gen/g.go sub/keep.log",
		"out":      "out/x.go",
		"sub/gen":  "sub/gen/g.go",
		".ralph":   ".ralph/lock",
		".git":     ".git/HEAD .git/info/exclude",
		"sub/deep": "sub/deep/gen/g.go",
	} {
		got, k := walked(base)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s", base, got)
		}
		if all := slices.Contains([]string{"out", "sub/gen", ".ralph", ".git"}, base); all != k.all {
			t.Errorf("%s: all is %v", base, k.all)
		}
	}
}

func BenchmarkMatchGlob(b *testing.B) {
	r, _ := parseIgnoreLine("a/**/node_*/x?.[ch]")
	text := fmt.Sprintf("a/%snode_modules/xy.c", strings.Repeat("deep/", 10))
	for b.Loop() {
		matchGlob(r.tokens, text)
	}
}
