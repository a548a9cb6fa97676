package tamper_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ralph/coordinator/policy/tamper"
)

func TestFindingsSayWhatAndWhere(t *testing.T) {
	const before = "package a\n\nfunc TestAdd(t *testing.T) {\n\tif got := Add(2, 3); got != 5 {\n\t\tt.Errorf(\"got %d\", got)\n\t}\n}\n"
	for _, c := range []struct {
		name string
		file tamper.File
		want []tamper.Finding
	}{
		{"removed", tamper.File{Path: "./a_test.go", Before: []byte(before), After: []byte("package a\n")},
			[]tamper.Finding{{Path: "a_test.go", Line: 3, What: "test removed: TestAdd", Why: "nothing in the change takes its place", Blocks: true}}},
		{"skipped", tamper.File{Path: "a_test.go", Before: []byte(before), After: []byte(strings.Replace(before, "{\n\tif", "{\n\tt.Skip()\n\tif", 1))},
			[]tamper.Finding{{Path: "a_test.go", Line: 4, What: "test skipped: TestAdd", Why: "it is not run any more", Blocks: true}}},
		{"a new test that is skipped is only shown", tamper.File{Path: "a_test.go", Before: []byte(before), After: []byte(before + "\nfunc TestSub(t *testing.T) {\n\tt.Skip()\n}\n")},
			[]tamper.Finding{{Path: "a_test.go", Line: 9, What: "new test is skipped: TestSub", Why: "it proves nothing yet"}}},
		{"one line is silenced", tamper.File{Path: "a.go", Before: []byte("package a\n"), After: []byte("package a\n\nvar x = f() //nolint:errcheck\n")},
			[]tamper.Finding{{Path: "a.go", Line: 3, What: "linter silenced: var x = f() //nolint:errcheck", Why: "the linter says nothing there"}}},
		{"check", tamper.File{Path: "check.sh", Before: []byte("set -e\ngo test ./...\n"), After: []byte("set -e\ngo test ./... || true\n")},
			[]tamper.Finding{
				{Path: "check.sh", Line: 2, What: "check made weaker: go test ./... || true", Why: "it has || true", Blocks: true},
				{Path: "check.sh", Line: 2, What: "failure ignored: go test ./... || true", Why: "it cannot fail any more", Blocks: true},
			}},
		{"nothing", tamper.File{Path: "a_test.go", Before: []byte(before), After: []byte(before)}, nil},
		{"binary", tamper.File{Path: "a_test.go", Before: []byte("\x00" + before), After: nil}, nil},
	} {
		if d := cmp.Diff(c.want, tamper.Inspect([]tamper.File{c.file}, nil)); d != "" && (len(c.want) > 0 || len(tamper.Inspect([]tamper.File{c.file}, nil)) > 0) {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestAnUnknownScriptIsWatchedWhenItIsACheck(t *testing.T) {
	files := []tamper.File{{Path: "tools/gate", Before: []byte("./prove-it\ngo build ./...\n"), After: []byte("echo\n")}}
	if found := tamper.Inspect(files, nil); len(found) > 0 {
		t.Errorf("not a check: %+v", found)
	}
	if found := tamper.Inspect(files, []string{"sh ./tools/gate --all"}); !blocks(found) {
		t.Errorf("a check: %+v", found)
	}
}

// What else is in a change does not hide what it weakens, nor do the order of the
// files and their line ends; and what does not change weakens nothing.
func TestProperties(t *testing.T) {
	weak, honest := corpus(t, "testdata/weak.txtar"), corpus(t, "testdata/honest.txtar")
	var beside []tamper.File
	for _, s := range honest {
		for _, f := range s.files {
			if slices.Contains([]string{"docs-only", "lockfile", "cargo-deps", "code-only", "go-generated", "deploy-script", "ci-more", "go-comment", "js-new-file"}, s.name) {
				f.Path = "other/" + f.Path
				beside = append(beside, f)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SampledFrom(weak).Draw(t, "weak")
		files := append(slices.Clone(w.files), rapid.SliceOfDistinct(rapid.SampledFrom(beside), func(f tamper.File) string { return f.Path }).Draw(t, "beside")...)
		for i := range files {
			for _, side := range []*[]byte{&files[i].Before, &files[i].After} {
				if *side != nil && rapid.Bool().Draw(t, "crlf") {
					*side = bytes.ReplaceAll(*side, []byte("\n"), []byte("\r\n"))
				}
			}
		}
		n := rapid.IntRange(0, len(files)).Draw(t, "turn")
		files = append(slices.Clone(files[n:]), files[:n]...)
		if found := tamper.Inspect(files, w.checks); !blocks(found) {
			t.Fatalf("%s is hidden: %+v", w.name, found)
		}
	})
	for _, s := range append(weak, honest...) {
		for i := range s.files {
			s.files[i].Before = s.files[i].After
		}
		if found := tamper.Inspect(s.files, s.checks); len(found) > 0 {
			t.Errorf("%s without a change: %+v", s.name, found)
		}
	}
}

// A large change that has nothing in common with what was there is read to its end,
// and its findings are bounded.
func TestLargeChange(t *testing.T) {
	var before, after strings.Builder
	for i := range 300 {
		fmt.Fprintf(&before, "func TestA%d(t *testing.T) {\n\tif got := f(%d); got != %d {\n\t\tt.Errorf(\"got\")\n\t}\n}\n", i, i, i+1)
		fmt.Fprintf(&after, "func TestB%d(t *testing.T) {\n\tif got := g(%d); got != %d {\n\t\tt.Errorf(\"got\")\n\t}\n}\n", i, i*7, i+9)
	}
	files := []tamper.File{{Path: "a_test.go", Before: []byte(before.String()), After: []byte(after.String())}}
	for _, path := range []string{"Makefile", "package.json", ".golangci.yml", "a.test.ts", "test_a.py", "a_spec.rb", "tests/a.rs", "src/test/java/A.java"} {
		files = append(files, tamper.File{Path: path, Before: []byte(strings.Repeat("{ \"a\": [(it('x', () => {\n", 200)), After: []byte(strings.Repeat("test: a b\n\tgo test './...' || (\n", 200))})
	}
	found := tamper.Inspect(files, []string{"make check"})
	if len(found) == 0 || len(found) > 200 {
		t.Errorf("%d findings", len(found))
	}
}

func FuzzInspect(f *testing.F) {
	for _, s := range append(corpus(f, "testdata/weak.txtar"), corpus(f, "testdata/honest.txtar")...) {
		for _, file := range s.files {
			f.Add(file.Path, file.Before, file.After, strings.Join(s.checks, "\n"))
		}
	}
	for _, path := range []string{"a_test.go", "test_a.py", "a.test.ts", "tests/a.rs", "ATest.java", "a_spec.rb", "t_test.sh", "package.json", "Makefile", ".golangci.yml", "tsconfig.json", "x.bats", "", "/", "..", "\xff"} {
		f.Add(path, []byte("func TestA(\"'`{[(\\\n"), []byte("\xff\xfe'''\"\"\"/* #["), "make")
		f.Add(path, []byte("it('"), []byte("@test \""), "")
		f.Add(path, []byte("    def test_x(\n"), []byte("#[test]\nfn a<'a>() { '\\"), "")
	}
	f.Fuzz(func(t *testing.T, path string, before, after []byte, checks string) {
		for _, file := range []tamper.File{{Path: path, Before: before, After: after}, {Path: path, Before: before}, {Path: path, After: after}} {
			for _, x := range tamper.Inspect([]tamper.File{file}, strings.Split(checks, "\n")) {
				if x.Line < 0 || x.Line > 2+bytes.Count(before, []byte("\n"))+bytes.Count(after, []byte("\n"))+len(after) || x.What == "" || strings.ContainsAny(x.What, "\n\r") {
					t.Fatalf("%+v", x)
				}
			}
		}
	})
}
