// Package tamper reads a change and says what in it weakens the checks that are to
// judge it: tests that are gone, emptied, skipped or expect nothing any more, check
// scripts that cannot fail, linters that are switched off.
//
// It owns what counts as such, for Go, Python, JavaScript and TypeScript, Rust,
// Java and its relatives, Ruby, shell, and for the files that configure tests,
// linters and CI. It refuses to run anything and to read more than it is given: it
// is pure, and compares text, so it neither proves a change honest nor a weakening
// intended. More tests, moved and renamed ones, and expectations that change with
// the code pass without a word; a finding that blocks is for a human to look at.
//
//	findings := tamper.Inspect([]tamper.File{{Path: "a_test.go", Before: old, After: nil}}, []string{"go test ./..."})
//	// findings[0].What == "test removed: TestLogin", findings[0].Blocks
package tamper

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// File is one file of a change.
type File struct {
	Path          string // relative to the root, with slashes
	Before, After []byte // nil = absent
}

// Finding is one thing in a change that weakens a check or a test.
type Finding struct {
	Path   string `json:"path"`
	Line   int    `json:"line"` // from 1, in After, or in Before of what is gone; 0 for the whole file
	What   string `json:"what"` // "test removed: TestLogin"
	Why    string `json:"why"`
	Blocks bool   `json:"blocks"` // the merge must wait for a human
	// Expectation says that only what a test expects was changed, which may be what
	// was asked for.
	Expectation bool `json:"expectation,omitempty"`
}

// maxFileBytes is the longest file that is read; what is longer and changed is
// generated, or no test that a person wrote.
const maxFileBytes = 1 << 20

// maxFindings bounds what one change can say.
const maxFindings = 200

// Inspect finds in a change what weakens the checks that judge it. checks are the
// commands that Ralph runs: the scripts and targets they name are watched whatever
// they are called. Findings are in the order of path and line; none means that
// nothing was seen. A file whose new side cannot be read is one if it checks anything.
func Inspect(files []File, checks []string) []Finding {
	c := &change{checks: checks}
	for _, f := range files {
		f.Path = strings.TrimPrefix(strings.ReplaceAll(f.Path, `\`, "/"), "./")
		switch {
		case bytes.Equal(f.Before, f.After) && (f.Before == nil) == (f.After == nil), unreadable(f.Before):
			continue
		case unreadable(f.After):
			if isTest(f.Path, string(f.Before)) || c.runs(f) != "" || tuned(f.Path) {
				c.block(f.Path, 0, "it cannot be read any more", "it is binary, or longer than 1 MB")
			}
			continue
		}
		c.files = append(c.files, f)
	}
	slices.SortStableFunc(c.files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	c.read()
	c.tests()
	c.scripts()
	c.configs()
	c.testscripts()
	c.suppressions()
	c.tricks()
	slices.SortStableFunc(c.found, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), strings.Compare(a.What, b.What))
	})
	c.found = slices.CompactFunc(c.found, func(a, b Finding) bool { return a.Path == b.Path && a.Line == b.Line && a.What == b.What })
	return c.found[:min(len(c.found), maxFindings)]
}

func unreadable(data []byte) bool { return len(data) > maxFileBytes || binary(data) }

func binary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }

// change is one inspection.
type change struct {
	files  []File
	checks []string
	found  []Finding

	before, after []*source // of test files
	pairs         []pair    // of their tests
	gone          map[string]bool
	came, went    map[string]bool // names that the code defines: new ones, and those that it no longer knows
	newRows       map[string]int  // rows of tables, by how many more there are now
}

func (c *change) say(f Finding) {
	f.What = short(f.What)
	c.found = append(c.found, f)
}

// short keeps a finding on one line.
func short(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if r := []rune(s); len(r) > 160 {
		return string(r[:159]) + "…"
	}
	return s
}
