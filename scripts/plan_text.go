package scripts

import (
	"strings"

	"github.com/mattn/go-runewidth"

	"ralph/memory/text"
)

// The columns that a text for people never goes beyond, however wide the
// terminal is: longer lines are hard to read.
const maxColumns = 120

// sheet is text for people: lines in columns, in colour on a terminal. Foreign
// text in it is shown, never obeyed.
type sheet struct {
	b       strings.Builder
	colours bool
	columns int
}

func (inv *invocation) newSheet() *sheet {
	return &sheet{columns: min(inv.out.columns(), maxColumns),
		colours: inv.out.terminal && inv.Getenv("NO_COLOR") == "" && inv.Getenv("TERM") != "dumb"}
}

// paint is a colour of the 16 that a terminal's owner has chosen.
type paint string

const (
	plainPaint paint = ""
	boldPaint  paint = "1"
	dimPaint   paint = "2"
	red        paint = "31"
	green      paint = "32"
	yellow     paint = "33"
	cyan       paint = "36"
)

// in colours a text that is safe already.
func (s *sheet) in(p paint, text string) string {
	if !s.colours || p == plainPaint || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// line writes one line, cut to the columns.
func (s *sheet) line(text string) {
	s.b.WriteString(strings.TrimRight(cutTo(text, s.columns), " ") + "\n")
}

// prose writes foreign text, wrapped, of which at most so many lines.
func (s *sheet) prose(p paint, content string, indent, most int) {
	var b strings.Builder
	wrapped(&b, text.VisibleLine(strings.Join(strings.Fields(content), " ")), indent, s.columns)
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i, l := range lines {
		if i == most-1 && len(lines) > most {
			l = runewidth.Truncate(l, s.columns-2, "") + " …"
		}
		if i == most {
			return
		}
		s.line(s.in(p, l))
	}
}

// title writes the head of a part.
func (s *sheet) title(text string) {
	s.line("")
	s.line(s.in(boldPaint, text))
}

// pad fills a text up to a width in columns, or cuts it.
func pad(text string, width int) string {
	if runewidth.StringWidth(text) > width {
		text = runewidth.Truncate(text, width, "…")
	}
	return text + strings.Repeat(" ", max(0, width-runewidth.StringWidth(text)))
}

// widest is the width that a column of texts needs, at most most.
func widest(texts []string, most int) int {
	w := 0
	for _, t := range texts {
		w = max(w, runewidth.StringWidth(t))
	}
	return min(w, most)
}

// ids are ids in a row, of which only some are named.
func ids(list []string, most int) string {
	if len(list) == 0 {
		return "nothing"
	}
	var out []string
	for i, id := range list {
		if i == most {
			out = append(out, "… "+text.Count(len(list)-most, "more"))
			break
		}
		out = append(out, text.VisibleLine(id))
	}
	return strings.ReplaceAll(strings.Join(out, ", "), "mores", "more")
}
