package queue

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"ralph/memory/visible"
)

// What Ralph writes around the items of queue.md. The mark at the end of the
// second line says up to which number the items were complete when it was
// written, so that one who is missing was taken out by the user and not
// accepted since; and a checksum, so that a file nobody edited is known.
const (
	heading     = "# Queue"
	explanation = "Accepted and not delivered yet. Change a text or a class (urgent, ask, steer, later) here, or delete an item to drop it; `ralph send` adds one."
	markBegin   = "<!-- through m-"
	markEnd     = " -->"
	nothing     = "Nothing waits."
	notTaken    = "Not taken, as it has no id of a message that waits:"
)

const (
	maxShownBytes = 64 << 10 // of one message
	maxViewBytes  = 4 << 20  // of all, before they are cut shorter
	minShownBytes = 256
	maxFromRunes  = 40
)

// item is one message in the file.
type item struct {
	n     uint64
	rev   int
	class string
	text  string
	lines []string // as they stand in the file
	parts []string // of the text
}

// document is what the file says.
type document struct {
	through uint64 // 0: the mark is gone
	pure    bool   // as Ralph wrote it
	known   bool   // something in it is Ralph's
	items   []item
	rest    []string // lines of the user's
}

// classes are those that the user can give a message.
func classes() []string { return []string{"urgent", "ask", "steer", "later"} }

// render writes the file, of what waits and of the highest number. Stops are not
// shown: there is nothing to edit.
func render(waiting []record, last uint64, rest []string) []byte {
	var body bytes.Buffer
	shown := 0
	for _, m := range waiting {
		if m.Class != "stop" {
			limit := maxShownBytes
			if body.Len() > maxViewBytes {
				limit = minShownBytes
			}
			m.show(&body, limit)
			shown++
		}
	}
	if shown == 0 {
		body.WriteString(nothing + "\n")
	}
	if len(rest) > 0 {
		body.WriteString("\n" + notTaken + "\n\n" + strings.Join(rest, "\n") + "\n")
	}
	head := heading + "\n\n" + explanation + " " + markBegin + strconv.FormatUint(last, 10) + " "
	tail := markEnd + "\n\n" + body.String()
	return []byte(head + sum([]byte(head), []byte(tail)) + tail)
}

// show writes one item.
func (m record) show(b *bytes.Buffer, limit int) {
	class := m.Class
	if class == "" || strings.Trim(class, "abcdefghijklmnopqrstuvwxyz") != "" {
		class = "unknown"
	}
	from := strings.Map(func(r rune) rune {
		if r == ')' || r == '(' {
			return '|'
		}
		return r
	}, visible.Line(m.From))
	if runes := []rune(from); len(runes) > maxFromRunes {
		from = string(runes[:maxFromRunes]) + "…"
	}
	about := m.At.Local().Format("2006-01-02 15:04")
	if from != "" {
		about += ", " + from
	}
	switch {
	case m.Rev == 1:
		about += ", edited"
	case m.Rev > 1:
		about += fmt.Sprintf(", edited %d", m.Rev)
	}
	text := m.Text
	if cut := cutAt(text, limit); cut < len(text) {
		text = text[:cut] + "\n" + moreLine(len(text)-cut)
	}
	fmt.Fprintf(b, "- %s %s (%s):", m.ID, class, about)
	for i, line := range strings.Split(plain(text), "\n") {
		switch {
		case line == "":
		case i == 0:
			b.WriteString(" " + line)
		default:
			b.WriteString("  " + line)
		}
		b.WriteByte('\n')
	}
}

// cutAt is where a text of more than limit bytes is cut: between two
// characters.
func cutAt(text string, limit int) int {
	if len(text) <= limit+limit/4 {
		return len(text)
	}
	for n := limit; n > limit-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return n
		}
	}
	return limit
}

const moreBegin, moreEnd = "[… ", " more bytes; without this line they are dropped]"

func moreLine(n int) string { return moreBegin + strconv.Itoa(n) + moreEnd }

// more reads the line that stands for what is not shown of a text.
func more(line string) (n int, ok bool) {
	digits, ok := strings.CutPrefix(line, moreBegin)
	if digits, ok2 := strings.CutSuffix(digits, moreEnd); ok && ok2 {
		n, err := strconv.Atoi(digits)
		return n, err == nil && n > 0
	}
	return 0, false
}

// plain is a text as it can stand in the file and be read from it again: what a
// terminal would obey is shown, and white space at the ends of lines and of the
// text, which editors remove, is not there.
func plain(text string) string {
	lines := strings.Split(visible.Text(strings.ReplaceAll(text, "\r\n", "\n")), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t")
	}
	for len(lines) > 1 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines, "\n")
}

// parse reads the file. ok is false for what is no text.
func parse(data []byte) (d document, ok bool) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) {
		return d, false
	}
	d.pure = isPure(data)
	var at *item
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if it, ok := parseItem(line); ok {
			d.items = append(d.items, it)
			at = &d.items[len(d.items)-1]
			continue
		}
		if at != nil {
			if text, ok := continued(line); ok {
				at.lines, at.parts = append(at.lines, line), append(at.parts, text)
				continue
			}
			at = nil
		}
		if !d.own(line) {
			d.rest = append(d.rest, line)
		}
	}
	for i := range d.items {
		d.items[i].text = plain(strings.Join(d.items[i].parts, "\n"))
	}
	d.known = d.known || len(d.items) > 0
	d.rest = trimBlank(d.rest)
	return d, true
}

// own takes a line that Ralph wrote around the items.
func (d *document) own(line string) bool {
	line = strings.TrimSpace(line)
	switch {
	case line == nothing, line == notTaken:
		return true
	case line == heading && !d.known:
		d.known = true
		return true
	case strings.HasPrefix(line, "Accepted and not delivered yet."):
		_, mark, ok := strings.Cut(line, markBegin)
		digits, _, _ := strings.Cut(mark, " ")
		if n, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && n < maxNumber && d.through == 0 {
			d.through = n
		}
		d.known = true
		return true
	}
	return false
}

// isPure says that a file is as render wrote it.
func isPure(data []byte) bool {
	at := bytes.Index(data, []byte(markBegin))
	end := bytes.Index(data, []byte(markEnd))
	if at < 0 || end < at+sumLength {
		return false
	}
	return string(data[end-sumLength:end]) == sum(data[:end-sumLength], data[end:])
}

// trimBlank leaves out blank lines at both ends.
func trimBlank(lines []string) []string {
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	for len(lines) > 0 && blank(lines[0]) {
		lines = lines[1:]
	}
	for len(lines) > 0 && blank(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// continued reads a further line of an item: indented by two spaces, or what an
// editor makes of them, or blank.
func continued(line string) (string, bool) {
	if strings.Trim(line, " \t") == "" {
		return "", true
	}
	for _, indent := range []string{"  ", "\t", " "} {
		if text, ok := strings.CutPrefix(line, indent); ok {
			return text, true
		}
	}
	return "", false
}

// parseItem reads the first line of an item: "- m-17 later (2026-11-21 10:02,
// chat): text". Only the id must be there.
func parseItem(line string) (it item, ok bool) {
	if len(line) < 2 || !strings.ContainsRune("-*+", rune(line[0])) || line[1] != ' ' && line[1] != '\t' {
		return it, false
	}
	rest := strings.TrimLeft(line[1:], " \t")
	rest, ok = strings.CutPrefix(rest, "m-")
	end := strings.IndexFunc(rest+" ", func(r rune) bool { return r < '0' || r > '9' })
	n, err := strconv.ParseUint(rest[:end], 10, 64)
	if !ok || err != nil || n == 0 || n >= maxNumber {
		return it, false
	}
	it.n, it.lines = n, []string{line}
	rest = rest[end:]
	if rest != "" && !strings.ContainsRune(" \t:(", rune(rest[0])) {
		return item{}, false
	}
	it.class, rest = parseClass(strings.TrimLeft(rest, " \t"))
	if strings.HasPrefix(rest, "(") {
		if about, after, ok := strings.Cut(rest[1:], ")"); ok {
			it.rev, rest = parseRev(about), after
		}
	}
	rest = strings.TrimPrefix(rest, ":")
	it.parts = []string{strings.TrimPrefix(rest, " ")}
	return it, true
}

// parseClass takes the word before the parenthesis or the colon.
func parseClass(rest string) (class, after string) {
	end := strings.IndexAny(rest, "(: \t")
	if end < 0 {
		end = len(rest)
	}
	word := strings.ToLower(rest[:end])
	after = strings.TrimLeft(rest[end:], " \t")
	if word == "" || !slices.Contains(classes(), word) && !strings.HasPrefix(after, "(") && !strings.HasPrefix(after, ":") {
		return "", rest
	}
	return word, after
}

func parseRev(about string) int {
	_, rev, ok := cutLast(about, ", edited")
	if !ok {
		return 0
	}
	if n, err := strconv.Atoi(strings.TrimSpace(rev)); err == nil && n > 0 {
		return n
	}
	return 1
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
