package demo

import (
	"os"
	"strings"
	"testing"
)

// compareReadme holds the picture in the README against what the demonstration
// prints: each line of it is there, and the lines of each speaker are in the
// order of the picture. Agents work side by side: between them there is none.
func compareReadme(t *testing.T, out string) {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(readme), "$ make demo\n")
	if !ok {
		t.Fatal("the README shows no demonstration")
	}
	block, _, _ = strings.Cut(block, "\n```")
	rest := map[string]string{}
	for line := range strings.Lines(block) {
		line = strings.TrimRight(line, "\n")
		if line == "…" {
			continue
		}
		who, _, _ := strings.Cut(line, " ")
		text, begun := rest[who]
		if !begun {
			text = "\n" + out
		}
		_, after, found := strings.Cut(text, "\n"+line)
		if !found {
			t.Errorf("the demonstration does not print, in this place: %q", line)
			continue
		}
		rest[who] = after
	}
}
