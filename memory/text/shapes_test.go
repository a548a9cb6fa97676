package text

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// issued returns tokens made by the templates of testdata/tokens.txt; marked are those that are
// known from their first character on.
func issued(t *testing.T) (all []string, marked map[string]bool) {
	t.Helper()
	text, err := os.ReadFile("testdata/tokens.txt")
	if err != nil {
		t.Fatal(err)
	}
	const digits, lower, upper = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	sets := map[string]string{"a": digits + lower + upper, "h": digits + "abcdef", "u": digits + upper, "l": digits + lower, "w": digits + lower + upper + "_-", "d": digits, "b": digits + lower + upper + "+/"}
	random := rand.New(rand.NewPCG(1, 2))
	marked = map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		all = append(all, regexp.MustCompile(`\{([a-z])([0-9]+)\}`).ReplaceAllStringFunc(line, func(m string) string {
			n, _ := strconv.Atoi(m[2 : len(m)-1])
			set, b := sets[m[1:2]], make([]byte, n)
			for i := range b {
				b[i] = set[random.IntN(len(set))]
			}
			return string(b)
		}))
		marked[all[len(all)-1]] = line[0] != '{'
	}
	return all, marked
}

// TestIssuedTokens redacts a token of each kind that vendors document, in text, JSON and a log, and
// lets none pass in parts.
func TestIssuedTokens(t *testing.T) {
	var none *Redactor
	list, marked := issued(t)
	for _, token := range list {
		for _, frame := range []string{"%", "TOKEN=%", "a\n%\nb", `{"k":"%"}`, `{"k":"a\n%"}`, "--token=% x", "export X='%';"} {
			got := none.String(strings.ReplaceAll(frame, "%", token))
			if !strings.Contains(got, Redacted) || strings.Contains(got, token[len(token)-8:]) {
				t.Errorf("%s in %q becomes %q", token, frame, got)
				break
			}
		}
		text := "x " + token + " y"
		for size := 1; size < len(text) && len(text) < maxOpenBytes && marked[token]; size += 7 {
			held, out := "", ""
			for at := 0; at < len(text); at += size {
				held += text[at:min(at+size, len(text))]
				n := none.Open(held)
				out += none.String(held[:n])
				held = held[n:]
			}
			if out += none.String(held); strings.Contains(out, token[len(token)-8:]) {
				t.Errorf("%s in parts of %d: %q", token, size, out)
			}
		}
	}
	if len(list) < 140 {
		t.Errorf("only %d kinds", len(list))
	}
}

// TestPlainText keeps what only looks random: lock files, hashes, ids and code of public projects,
// and Go's own sources.
func TestPlainText(t *testing.T) {
	text, err := os.ReadFile("testdata/plain.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if got := (*Redactor)(nil).String(line); got != line {
			t.Errorf("%q becomes %q", line, got)
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no go: ", err)
	}
	bytes, hits := 0, 0
	for _, dir := range strings.Fields("net crypto encoding go/parser cmd/go/internal html archive compress math") {
		err := filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src", dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			bytes += len(text)
			for line := range strings.Lines(string(text)) {
				if got := replaceTokens(line); got != line {
					hits++
					t.Errorf("%s: %.200q becomes %.200q", path, line, got)
				}
			}
			return err
		})
		if err != nil {
			t.Skip("no sources of Go here: ", err)
		}
	}
	t.Logf("%d bytes, %d hits", bytes, hits)
}

// TestShapesAreRead has each line of shapes.txt say what is needed.
func TestShapesAreRead(t *testing.T) {
	seen := map[string]bool{}
	for _, list := range shapes() {
		for _, s := range list {
			if s.least < 10 || !strings.ContainsRune("ahulwpbrd", rune(s.class)) || seen[s.prefix] {
				t.Errorf("%+v", s)
			}
			seen[s.prefix] = true
		}
	}
}

func BenchmarkString(b *testing.B) {
	text, err := os.ReadFile("redact.go")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		(*Redactor)(nil).Bytes(text)
	}
}
