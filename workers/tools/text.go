package tools

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"ralph/memory/text"
)

// head joins the lines of a Result's Head, leaving out empty ones.
func head(lines ...string) string {
	var kept []string
	for _, l := range lines {
		if l != "" {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "\n")
}

// countLines counts the lines of text; a last line without a newline counts.
func countLines[T string | []byte](text T) int {
	n := 0
	for i := range len(text) {
		if text[i] == '\n' {
			n++
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// visible returns b as text in which bytes that are not UTF-8 read \xNN, and
// says whether there were any.
func visible(b []byte) (string, bool) {
	if utf8.Valid(b) {
		return string(b), false
	}
	var t strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&t, `\x%02x`, b[0])
		} else {
			t.Write(b[:n])
		}
		b = b[n:]
	}
	return t.String(), true
}

// oneLine is a text that somebody else chose, such as a file name, as a part of
// one line of at most about n bytes: it cannot begin a line that reads as
// Ralph's.
func oneLine(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	s, _ = visible([]byte(s))
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\r', r == '\v', r == '\f', r == '\u0085', r == '\u2028', r == '\u2029':
			return '⏎'
		case r == '\t':
			return ' '
		}
		return r
	}, s)
}

// cutText returns the beginning of s of at most n bytes, in whole lines if
// there is one, else in whole runes.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if i := strings.LastIndexByte(s[:n+1], '\n'); i >= 0 {
		return s[:i]
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// outputs numbers the files of one OutputDir.
type outputs struct {
	mu   sync.Mutex
	next int // guarded by mu; 0: the directory was not looked at yet
}

// reserve returns the path of the next "<n>-<tool>.txt", which does not exist
// yet, and how the model should name it; both are empty without an OutputDir. A
// directory that a symlink leads elsewhere is refused: a repository does not
// choose where outputs go.
func (b *box) reserve(tool string) (file, label string, err error) {
	if b.OutputDir == "" {
		return "", "", nil
	}
	if rel, err := b.Files.Rel(b.OutputDir); err == nil {
		if real, err := b.Files.Resolve(rel); err != nil || real != rel {
			return "", "", fmt.Errorf("output directory %q: a symlink leads elsewhere", rel)
		}
	}
	b.outputs.mu.Lock()
	defer b.outputs.mu.Unlock()
	if b.outputs.next == 0 {
		b.outputs.next = nextOutput(b.OutputDir)
	}
	name := fmt.Sprintf("%d-%s.txt", b.outputs.next, tool)
	b.outputs.next++
	return filepath.Join(b.OutputDir, name), b.label(name), nil
}

// label is the name of an output file as the model should read it.
func (b *box) label(file string) string {
	if b.OutputLabel == "" {
		return filepath.Join(b.OutputDir, filepath.Base(file))
	}
	return path.Join(b.OutputLabel, filepath.Base(file))
}

// keep writes a whole output to a new file and returns how the model should
// name it.
func (b *box) keep(tool, text string) (string, error) {
	file, label, err := b.reserve(tool)
	if err != nil || file == "" {
		return "", err
	}
	if err := os.MkdirAll(b.OutputDir, 0o700); err != nil {
		return "", fmt.Errorf("create output directory: %w", err)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("create output file: %w", err)
	}
	data := []byte(text)
	if b.Redact != nil {
		data = b.Redact(data)
	}
	_, err = f.Write(data)
	return label, errors.Join(err, f.Close())
}

func nextOutput(dir string) int {
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return 1
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	last := 0
	for _, n := range names {
		number, _, _ := strings.Cut(n, "-")
		if i, err := strconv.Atoi(number); err == nil {
			last = max(last, i)
		}
	}
	return last + 1
}

// fit cuts text to what one result may hold. The notice says what was cut and
// where the whole is; it is empty when nothing was.
func (b *box) fit(tool, text string) (kept, notice string) {
	return b.fitTo(b.MaxOutputBytes, tool, text)
}

func (b *box) fitTo(most int, tool, content string) (kept, notice string) {
	if len(content) <= most {
		return content, ""
	}
	kept = cutText(content, most)
	notice = fmt.Sprintf("cut: the first %s of %d (%d of %d bytes)",
		text.Count(countLines(kept), "line"), countLines(content), len(kept), len(content))
	label, err := b.keep(tool, content)
	switch {
	case err != nil:
		notice += "; the rest could not be kept: " + err.Error()
	case label != "":
		notice += "; all of it: " + label
	}
	return kept, notice
}
