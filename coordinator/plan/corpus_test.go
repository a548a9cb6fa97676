package plan

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden compares a text with testdata/name, which RALPH_TEST_UPDATE=1 writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("RALPH_TEST_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

func openFile(t *testing.T, root, name string) (Tracker, error) {
	t.Helper()
	return Open(t.Context(), Options{Root: root, Path: name})
}

// TestBad: every file of testdata/bad is refused, with all its faults at once,
// each with its line; none is taken as a plan with nothing left to do.
func TestBad(t *testing.T) {
	root, err := filepath.Abs("testdata/bad")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		b.WriteString("== " + e.Name() + "\n")
		tr, err := openFile(t, root, e.Name())
		if err == nil {
			_, err = tr.Load(t.Context())
		}
		var p *Problems
		if !errors.As(err, &p) {
			t.Errorf("%s: %v", e.Name(), err)
			continue
		}
		if p.Hint == "" {
			t.Errorf("%s: no hint", e.Name())
		}
		for _, one := range p.List {
			if one.Line == 0 || one.File == "" {
				t.Errorf("%s: no line: %s", e.Name(), one)
			}
		}
		b.WriteString(err.Error() + "\n")
	}
	golden(t, "bad.golden", b.String())
}

// TestGood: what can be read with certainty is read, with a word on how.
func TestGood(t *testing.T) {
	root, err := filepath.Abs("testdata/good")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		b.WriteString("== " + e.Name() + "\n")
		tr, err := openFile(t, root, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		p, err := tr.Load(t.Context())
		if err != nil {
			t.Error(err)
			continue
		}
		stamp, err := tr.Stamp(t.Context())
		if err != nil || stamp != p.Stamp || stamp == "" {
			t.Errorf("%s: stamp %q, loaded %q, %v", e.Name(), stamp, p.Stamp, err)
		}
		p.Stamp = ""
		out, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(out, '\n'))
	}
	golden(t, "good.golden", b.String())
}
