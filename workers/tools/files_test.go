package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	b := newBench(t, func(e *Env) { e.MaxOutputBytes = 4000 })
	b.put("three", "one\ntwo\nthree\n")
	b.put("no-newline", "one\ntwo")
	b.put("empty", "")
	b.put("crlf", "\ufeffone\r\ntwo\r\n")
	b.put("latin1", "caf\xe9\nok\n")
	b.put("one-long", strings.Repeat("é", 5000))
	b.put("fits", strings.Repeat("y", 3000))
	b.put("many", strings.Repeat("0123456789\n", 1000))
	for _, c := range []struct {
		name          string
		offset, limit int
		head, text    string
	}{
		{"three", 0, 0, "three: lines 1-3 of 3", "1\tone\n2\ttwo\n3\tthree\n"},
		{"three", -4, -1, "three: lines 1-3 of 3", "1\tone\n2\ttwo\n3\tthree\n"},
		{"three", 2, 1, "three: lines 2-2 of 3; go on with offset=3", "2\ttwo\n"},
		{"three", 3, 9, "three: lines 3-3 of 3", "3\tthree\n"},
		{"three", 4, 0, "three: line 4 is past the end; the file has 3 lines", ""},
		{"no-newline", 2, 0, "no-newline: lines 2-2 of 2", "2\ttwo\n"},
		{"empty", 0, 0, "empty: empty file", ""},
		{"crlf", 0, 0, "crlf: lines 1-2 of 2", "1\tone\n2\ttwo\n"},
		{"latin1", 0, 0, "latin1: lines 1-2 of 2\nbytes that are not UTF-8 are shown as \\xNN", "1\tcaf\\xe9\n2\tok\n"},
		{"one-long", 0, 0, "one-long: lines 1-1 of 1\ncut after 2000 bytes: 1 long line, number 1", "1\t" + strings.Repeat("é", 1000) + "\n"},
		{"fits", 0, 0, "fits: lines 1-1 of 1", "1\t" + strings.Repeat("y", 3000) + "\n"},
	} {
		r := b.run("read", "path", c.name, "offset", c.offset, "limit", c.limit)
		if d := cmp.Diff(c.head, r.Head); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		if d := cmp.Diff(c.text, r.Text); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	// Page by page, all lines come once.
	seen := 0
	for next := 1; next > 0; {
		r := b.run("read", "path", "many", "offset", next)
		if len(r.Text) > 4000 {
			t.Errorf("%d bytes", len(r.Text))
		}
		seen += strings.Count(r.Text, "\n")
		at := strings.Index(r.Head, "offset=")
		next = 0
		if at >= 0 {
			fmt.Sscan(r.Head[at+7:], &next)
		}
	}
	if seen != 1000 {
		t.Errorf("%d lines", seen)
	}
}

func TestReadRefusesWhatIsNoText(t *testing.T) {
	b := newBench(t)
	b.put("x.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	b.put("x.bin", "abc\x00def")
	b.put("x.pdf", "%PDF-1.4 text")
	b.put("x.txt", "\xff\xfea\x00b\x00")
	b.put("d/x", "")
	for name, want := range map[string]string{
		"x.png": "an image (image/png, 16 bytes)", "x.bin": "a binary file (application/octet-stream, 7 bytes)",
		"x.pdf": "application/pdf", "x.txt": "UTF-16", "d": "it is a directory: use list",
	} {
		if _, err := b.try("read", "path", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadHugeFileOnlyAsNeeded(t *testing.T) {
	b := newBench(t)
	f, err := os.Create(b.path("huge"))
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(strings.Repeat("line\n", 10_000))
	if err := errors.Join(f.Truncate(100<<30), f.Close()); err != nil { // sparse: a hundred gigabytes of nothing
		t.Fatal(err)
	}
	began := time.Now()
	r := b.run("read", "path", "huge", "offset", 5000, "limit", 2)
	if r.Text != "5000\tline\n5001\tline\n" || !strings.Contains(r.Head, "of a file of 107374182400 bytes; go on with offset=5002") {
		t.Errorf("%q %q", r.Head, r.Text)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestWrite(t *testing.T) {
	b := newBench(t)
	r := b.run("write", "path", "new/a.txt", "content", "1\n2\n")
	if r.Head != "created new/a.txt: 2 lines, 4 bytes" || r.Brief != "+2 −0" || b.get("new/a.txt") != "1\n2\n" {
		t.Errorf("%+v", r)
	}
	r = b.run("write", "path", "new/a.txt", "content", "1\n3\n4")
	if r.Head != "overwrote new/a.txt: 3 lines, 5 bytes (+2 −1)" || b.get("new/a.txt") != "1\n3\n4" {
		t.Errorf("%+v", r)
	}
	r = b.run("write", "path", "new/a.txt", "content", "1\n3\n4")
	if r.Brief != "unchanged" || r.Failed {
		t.Errorf("%+v", r)
	}
	r = b.run("write", "path", "new/a.txt", "content", "")
	if r.Brief != "+0 −3" || b.get("new/a.txt") != "" {
		t.Errorf("%+v", r)
	}
	if _, err := b.try("write", "path", "new", "content", "x"); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.tryCtx(ctx, "write", "path", "late", "content", "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(b.path("late")); err == nil {
		t.Error("written after the stop")
	}
}

func TestEdit(t *testing.T) {
	edits := func(pairs ...string) (list []map[string]any) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, map[string]any{"old_string": pairs[i], "new_string": pairs[i+1]})
		}
		return list
	}
	for _, c := range []struct {
		name, file string
		args       []any
		want       string // the file afterwards
		says       string // in Head, Text or the error
	}{
		{"one", "a\nb\nc\n", []any{"old_string", "b", "new_string", "x"}, "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"delete", "a\nb\nc\n", []any{"old_string", "b\n", "new_string", ""}, "a\nc\n", "-b\n"},
		{"all", "b b\nb\n", []any{"old_string", "b", "new_string", "x", "replace_all", true}, "x x\nx\n", "+2 −2"},
		{"not unique", "b\na\nb\n", []any{"old_string", "b", "new_string", "x"}, "b\na\nb\n", "2 times (lines 1, 3)"},
		{"in order", "a\n", []any{"edits", edits("a", "b", "b", "c")}, "c\n", "+1 −1"},
		{"both forms", "a\nz\n", []any{"old_string", "a", "new_string", "b", "edits", edits("b", "c")}, "c\nz\n", "+1 −1"},
		{"all or nothing", "a\nb\n", []any{"edits", edits("a", "x", "q", "y")}, "a\nb\n", "edit 2 of 2: old_string is not in the file"},
		{"crlf kept", "a\r\nb\r\n", []any{"old_string", "a\nb", "new_string", "x\ny\nz"}, "x\r\ny\r\nz\r\n", "+3 −2"},
		{"crlf quoted", "a\r\nb\r\n", []any{"old_string", "a\r\nb", "new_string", "x\r\ny"}, "x\r\ny\r\n", "+2 −2"},
		{"mixed crlf part", "a\r\nb\r\nc\n", []any{"old_string", "a\nb", "new_string", "x\ny"}, "x\r\ny\r\nc\n", "+2 −2"},
		{"mixed lf part", "a\r\nb\nc\n", []any{"old_string", "b\nc", "new_string", "x"}, "a\r\nx\n", "+1 −2"},
		{"bom kept", "\ufeffa\n", []any{"old_string", "a", "new_string", "b"}, "\ufeffb\n", "+1 −1"},
		{"no last newline", "a", []any{"old_string", "a", "new_string", "b"}, "b", "+1 −1"},
		{"not utf-8", "\xe9 a\n", []any{"old_string", "a", "new_string", "b"}, "\xe9 b\n", `-\xe9 a`},
		{"white space", "if x {\n\treturn  1\n}\n", []any{"old_string", "if x {\n    return 1\n}", "new_string", "y"}, "if x {\n\treturn  1\n}\n", "line 1 differs only in white space"},
		{"white space shown", "if x {\n\treturn  1\n}\n", []any{"old_string", "if x {\n    return 1\n}", "new_string", "y"}, "if x {\n\treturn  1\n}\n", "2\t\treturn  1\n"},
		{"quotes", "say “hi” — now\n", []any{"old_string", `say "hi" - now`, "new_string", "y"}, "say “hi” — now\n", "differs only in case, quotes"},
		{"closest", "func a() {}\n\nfunc handleUpload(w io.Writer) error {\n\treturn nil\n}\n", []any{"old_string", "func handleUploads(w io.Writer) error {\n", "new_string", "y"},
			"func a() {}\n\nfunc handleUpload(w io.Writer) error {\n\treturn nil\n}\n", "closest lines begin at line 3"},
		{"nothing like it", "abc\n", []any{"old_string", "zzzzzz", "new_string", "y"}, "abc\n", "nor anything like it"},
		{"same", "a\n", []any{"old_string", "a", "new_string", "a"}, "a\n", "are the same"},
		{"no effect", "ab\n", []any{"edits", edits("a", "c", "c", "a")}, "ab\n", "leave the file as it is"},
		{"empty old", "a\n", []any{"old_string", "", "new_string", "x"}, "a\n", "old_string is empty"},
		{"no new", "a\n", []any{"old_string", "a"}, "a\n", `missing field "new_string"`},
		{"no old", "a\n", []any{"new_string", "a"}, "a\n", `missing field "old_string"`},
		{"none", "a\n", nil, "a\n", "give old_string and new_string, or edits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.put("f", c.file)
			r, err := b.try("edit", append([]any{"path", "f"}, c.args...)...)
			if got := b.get("f"); got != c.want {
				t.Errorf("file is %q, want %q", got, c.want)
			}
			all := r.Head + "\n" + r.Text
			if err != nil {
				all += err.Error()
			}
			if !strings.Contains(all, c.says) {
				t.Errorf("%q does not say %q", all, c.says)
			}
			if changed := c.want != c.file; changed == (r.Failed || err != nil) {
				t.Errorf("changed %v, failed %v, err %v", changed, r.Failed, err)
			}
		})
	}
	b := newBench(t)
	if _, err := b.try("edit", "path", "none", "old_string", "a", "new_string", "b"); err == nil || !strings.Contains(err.Error(), "create it with write") {
		t.Errorf("%v", err)
	}
}

func TestEditOfALargeFile(t *testing.T) {
	b := newBench(t)
	var text strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&text, "line number %d\n", i)
	}
	b.put("f", text.String())
	r := b.run("edit", "path", "f", "old_string", "number 50000\n", "new_string", "number two\n")
	if r.Brief != "+1 −1" || strings.Count(r.Text, "\n") != 9 {
		t.Errorf("%+v", r)
	}
	r = b.run("edit", "path", "f", "old_string", "line", "new_string", "row", "replace_all", true)
	if r.Brief != "+100000 −100000" || !strings.Contains(r.Head, "all of it: .ralph/out/1-edit.txt") || len(r.Text) > 16<<10 {
		t.Errorf("%q %q %d", r.Head, r.Brief, len(r.Text))
	}
	r = b.run("edit", "path", "f", "old_string", "nothing like that\n at all", "new_string", "")
	if !r.Failed {
		t.Errorf("%+v", r)
	}
}

func FuzzEdit(f *testing.F) {
	f.Add("a\r\nb\nc", "b", "x\ny", false)
	f.Add("\ufeffa\n", "a", "", true)
	f.Add("aaa", "a", "aa", true)
	f.Fuzz(func(t *testing.T, text, from, to string, all bool) {
		if plain := newEditable(text).String(); plain != text {
			t.Fatalf("%q became %q without an edit", text, plain)
		}
		if from == "" || from == to {
			return
		}
		e := newEditable(text)
		if err := e.apply(context.Background(), editArg{Old: from, New: to, All: all}); err != nil {
			if e.String() != text {
				t.Fatalf("%q became %q by an edit that failed", text, e)
			}
			return
		}
		if strings.HasPrefix(text, bom) != strings.HasPrefix(e.String(), bom) && !strings.HasPrefix(to, bom) {
			t.Fatal("byte order mark")
		}
		added, removed := lineChanges(text, lineEdits(text, e.String()))
		if e.String() != text && added+removed == 0 {
			t.Fatalf("%q to %q: no change counted", text, e)
		}
	})
}

func TestList(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"a.go", "src/b.go", "src/deep/c.go", "src/deep/er/d.go", ".gitignore", "out/x", ".git/HEAD", ".ralph/lock"} {
		b.put(name, "out\n")
	}
	if err := os.Symlink("a.go", b.path("link")); err != nil {
		t.Fatal(err)
	}
	r := b.run("list")
	if d := cmp.Diff(".gitignore\na.go\nlink@\nsrc/\n  b.go\n  deep/\n", r.Text); d != "" {
		t.Error(d)
	}
	if r.Head != "the project's root, 2 deep: 6 entries" {
		t.Error(r.Head)
	}
	r = b.run("list", "path", "src", "depth", 9)
	if d := cmp.Diff("b.go\ndeep/\n  c.go\n  er/\n    d.go\n", r.Text); d != "" {
		t.Error(d)
	}
	r = b.run("list", "path", "out")
	if r.Text != "x\n" || !strings.Contains(r.Head, "git ignores this directory") {
		t.Errorf("%+v", r)
	}
	if _, err := b.try("list", "path", "a.go"); err == nil || !strings.Contains(err.Error(), "it is a file: use read") {
		t.Errorf("%v", err)
	}
	if _, err := b.try("list", "path", "none"); err == nil {
		t.Error("no error")
	}
}

func TestListIsCapped(t *testing.T) {
	b := newBench(t)
	for i := range 300 {
		b.put(fmt.Sprintf("aaa/f%03d", i), "")
		b.put(fmt.Sprintf("dir%03d/x", i), "")
	}
	r := b.run("list")
	if !strings.Contains(r.Head, "cut at 600 entries") || !strings.Contains(r.Text, "dir299/") || !strings.Contains(r.Text, "aaa/…\n") {
		t.Errorf("%s\n%s", r.Head, r.Text)
	}
	if n := strings.Count(r.Text, "\n"); n > maxListed {
		t.Errorf("%d entries", n)
	}
}

func TestGlob(t *testing.T) {
	b := newBench(t)
	for i, name := range []string{"a.go", "src/b.go", "src/deep/c.go", "src/d.ts", "out/e.go", ".gitignore", "src/[x].go"} {
		b.put(name, "out\n")
		when := time.Now().Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(b.path(name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ pattern, path, want string }{
		{"*.go", "", "src/[x].go src/deep/c.go src/b.go a.go"},
		{"./*.go", "", "src/[x].go src/deep/c.go src/b.go a.go"},
		{"src/*.go", "", "src/[x].go src/b.go"},
		{"**/*.{go,ts}", "src", "src/[x].go src/d.ts src/deep/c.go src/b.go"},
		{"deep/*", "src", "src/deep/c.go"},
		{b.root + "/src/*.ts", "", "src/d.ts"},
		{b.root + "/src/*.ts", "src/deep", "src/d.ts"},
		{"src/\\[x\\].go", "", "src/[x].go"},
		{"*.py", "", ""},
		{"*", "out", "out/e.go"},
	} {
		pairs := []any{"pattern", c.pattern}
		if c.path != "" {
			pairs = append(pairs, "path", c.path)
		}
		r := b.run("glob", pairs...)
		if got := strings.Join(strings.Fields(r.Text), " "); got != c.want {
			t.Errorf("%s in %q: %q", c.pattern, c.path, got)
		}
	}
	for _, bad := range []string{"", "[", "{a", "../*", "src/../../*", "/etc/*", strings.Repeat("a", 2000)} {
		if r, err := b.try("glob", "pattern", bad); err == nil {
			t.Errorf("%.20q: %+v", bad, r)
		}
	}
	for i := range 400 {
		b.put(fmt.Sprintf("many/%d.txt", i), "")
	}
	r := b.run("glob", "pattern", "*.txt")
	if !strings.HasPrefix(r.Head, "400 files match") || !strings.Contains(r.Head, "cut: the 300 changed last") || strings.Count(r.Text, "\n") != 300 {
		t.Error(r.Head)
	}
}

func TestGrep(t *testing.T) {
	b := newBench(t)
	b.put("a.go", "package a\n\nfunc One() {}\nfunc Two() {}\n\n// end\n")
	b.put("sub/b.go", "package b\r\nfunc Three() {}\r\n")
	b.put("sub/c.txt", "func in text\nFUNC big\n")
	b.put("bin", "func\x00")
	b.put("out/d.go", "func Ignored() {}\n")
	b.put(".gitignore", "out\n")
	b.put("latin1", "caf\xe9 func\n")
	b.put("long", strings.Repeat("x", 5000)+" needle "+strings.Repeat("y", 5000)+"\n")
	b.put("bom", "\ufefffirst\n")
	for _, c := range []struct {
		args []any
		want string
	}{
		{[]any{"pattern", `func \w+\(`}, "a.go:3:func One() {}\na.go:4:func Two() {}\nsub/b.go:2:func Three() {}\n"},
		{[]any{"pattern", `^func`, "glob", "*.txt"}, "sub/c.txt:1:func in text\n"},
		{[]any{"pattern", `^func`, "glob", "*.txt", "ignore_case", true}, "sub/c.txt:1:func in text\nsub/c.txt:2:FUNC big\n"},
		{[]any{"pattern", `\{\}$`, "path", "sub"}, "sub/b.go:2:func Three() {}\n"},
		{[]any{"pattern", `b$`, "path", "sub/b.go"}, "sub/b.go:1:package b\n"},
		{[]any{"pattern", `Two`, "context", 1, "path", "a.go"}, "a.go-3-func One() {}\na.go:4:func Two() {}\na.go-5-\n"},
		{[]any{"pattern", `One|Two|end`, "context", 1, "path", "a.go"}, "a.go-2-\na.go:3:func One() {}\na.go:4:func Two() {}\na.go-5-\na.go:6:// end\n"},
		{[]any{"pattern", `package|end`, "context", 1, "path", "a.go"}, "a.go:1:package a\na.go-2-\n--\na.go-5-\na.go:6:// end\n"},
		{[]any{"pattern", `Ignored`}, ""},
		{[]any{"pattern", `Ignored`, "path", "out"}, "out/d.go:1:func Ignored() {}\n"},
		{[]any{"pattern", `a\n`}, ""},
		{[]any{"pattern", `\s+`, "path", "bom"}, ""},
		{[]any{"pattern", `^$`, "path", "a.go"}, "a.go:2:\na.go:5:\n"},
		{[]any{"pattern", `x*`, "path", "bom"}, "bom:1:first\n"},
		{[]any{"pattern", `^first`}, "bom:1:first\n"},
		{[]any{"pattern", `\Afirst\z`}, "bom:1:first\n"},
		{[]any{"pattern", `(?s)a.*z`, "path", "a.go"}, ""},
		{[]any{"pattern", `caf`}, "latin1:1:caf\\xe9 func\n"},
		{[]any{"pattern", `needle`}, "long:1:" + strings.Repeat("x", 99) + " needle " + strings.Repeat("y", 293) + "\n"},
		{[]any{"pattern", `func`, "glob", "sub/**"}, "sub/b.go:2:func Three() {}\nsub/c.txt:1:func in text\n"},
	} {
		r := b.run("grep", c.args...)
		if d := cmp.Diff(c.want, r.Text); d != "" {
			t.Errorf("%v: %s", c.args, d)
		}
	}
	r := b.run("grep", "pattern", "func", "limit", 2)
	if strings.Count(r.Text, "\n") != 2 || !strings.HasPrefix(r.Head, "the first 2 matches; there are more") {
		t.Errorf("%+v", r)
	}
	r = b.run("grep", "pattern", "func", "path", "a.go", "limit", 2)
	if !strings.HasPrefix(r.Head, "2 matches in 1 file") {
		t.Errorf("%+v", r)
	}
	for bad, want := range map[string]string{"": "empty", "(": "RE2", "(?<=x)y": "no look-around"} {
		if _, err := b.try("grep", "pattern", bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := b.try("grep", "pattern", "x", "path", "none"); err == nil {
		t.Error("no error")
	}
}

func TestGrepIsOrderedAndCapped(t *testing.T) {
	b := newBench(t)
	for i := range 500 {
		b.put(fmt.Sprintf("d%d/f%03d", i%7, i), strings.Repeat("noise\n", i)+"needle\n")
	}
	first := b.run("grep", "pattern", "needle", "limit", 300)
	lines := strings.Split(strings.TrimSpace(first.Text), "\n")
	if len(lines) != 300 {
		t.Fatalf("%d lines", len(lines))
	}
	for i := 1; i < len(lines); i++ {
		x, _, _ := strings.Cut(lines[i-1], ":")
		y, _, _ := strings.Cut(lines[i], ":")
		if x >= y {
			t.Fatalf("%s before %s", x, y)
		}
	}
	for range 5 {
		if again := b.run("grep", "pattern", "needle", "limit", 300); again.Text != first.Text {
			t.Fatal("another order")
		}
	}
	b.env.MaxOutputBytes = 500
	b.all = All(b.env)
	if r := b.run("grep", "pattern", "needle"); len(r.Text) > 500 || !strings.Contains(r.Head, "there are more") {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.tryCtx(ctx, "grep", "pattern", "needle"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func BenchmarkGrepTree(bb *testing.B) {
	b := newBench(bb)
	for i := range 5000 {
		b.put(filepath.Join(fmt.Sprintf("d%d/e%d", i%50, i%10), fmt.Sprintf("f%d.go", i)), strings.Repeat("some line of code here\n", 100))
	}
	for bb.Loop() {
		b.run("grep", "pattern", "nee+dle")
	}
}
