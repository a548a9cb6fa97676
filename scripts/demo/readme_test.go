package demo_test

import (
	"os"
	"strings"
	"testing"

	"ralph/scripts/demo"
)

// The picture in the README is what the demonstration prints, line for line in
// this order, with lines left out.
func TestReadmeShowsTheDemo(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(readme), "$ make demo\n")
	if !ok {
		t.Fatal("the README shows no demonstration")
	}
	block, _, _ = strings.Cut(block, "\n```")
	out, code, err := play(t, demo.Options{})
	if code != 0 || err != nil {
		t.Fatalf("code %d: %v", code, err)
	}
	rest := out
	for line := range strings.Lines(block) {
		line = strings.TrimRight(line, "\n")
		if strings.Contains(line, " read ") { // side by side: either may be first
			if !strings.Contains(out, line) {
				t.Errorf("the demonstration does not print %q", line)
			}
			continue
		}
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Errorf("the demonstration does not print, in this place: %q", line)
			continue
		}
		rest = after
	}
}
