package main

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"

	"github.com/hinshun/vt10x"
)

// The attributes of the model, which keeps their names to itself.
const (
	_ = 1 << iota // reversed, which it has carried out already
	underlined
	bold
	_
	italic
	dim // blinking, which stands for faint: see feed
)

// The measures of a cell, in pixels: those of a monospaced face of this size.
const (
	fontSize   = 14.0
	cellWidth  = 8.4
	cellHeight = 18.0
	margin     = 14.0
	titleBar   = 30.0
)

type cell struct {
	r      rune
	mode   int16
	fg, bg vt10x.Color
}

// shot is a screen as it stood.
type shot struct {
	name, title string
	cols        int
	rows        [][]cell
	cursor      bool
	at          vt10x.Cursor
}

// text is the screen without colours, and without blanks at the ends.
func (s shot) text() string {
	var lines []string
	for _, row := range s.rows {
		var b strings.Builder
		for _, c := range row {
			if c.r != filler {
				b.WriteRune(c.r)
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// svg draws the screen: real text on a grid, on a ground of its own so that it
// can be read on a light and on a dark page, with all of it in words for those
// who do not see it.
func (s shot) svg() string {
	rows := s.rows
	for len(rows) > 1 && blank(rows[len(rows)-1]) && s.at.Y < len(rows)-1 {
		rows = rows[:len(rows)-1]
	}
	width, height := margin*2+float64(s.cols)*cellWidth, titleBar+margin+float64(len(rows))*cellHeight+margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-labelledby="title desc">`+"\n",
		number(width), number(height), number(width), number(height))
	fmt.Fprintf(&b, "<title id=\"title\">%s</title>\n<desc id=\"desc\">%s</desc>\n", html.EscapeString(s.title), html.EscapeString(s.text()))
	fmt.Fprintf(&b, "<style>text{font:%spx ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace;fill:%s;white-space:pre}.b{font-weight:700}.i{font-style:italic}.u{text-decoration:underline}.d{opacity:.62}</style>\n",
		number(fontSize), ink)
	fmt.Fprintf(&b, `<rect x=".5" y=".5" width="%s" height="%s" rx="8" fill="%s" stroke="#39424e"/>`+"\n", number(width-1), number(height-1), ground)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="15" r="5" fill="%s"/>`, 18+i*17, colour)
	}
	b.WriteByte('\n')
	for y, row := range rows {
		s.row(&b, y, row)
	}
	if s.cursor && s.at.Y < len(rows) {
		fmt.Fprintf(&b, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s" opacity=".55"/>`+"\n", number(left(s.at.X)), number(top(s.at.Y)), number(cellWidth), number(cellHeight), ink)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func left(x int) float64 { return margin + float64(x)*cellWidth }
func top(y int) float64  { return titleBar + margin/2 + float64(y)*cellHeight }

func blank(row []cell) bool {
	for _, c := range row {
		if c.r != ' ' || c.bg != vt10x.DefaultBG {
			return false
		}
	}
	return true
}

// row draws the runs of cells that look alike. The width of each is given, so
// that the columns stay in place whatever the face.
func (s shot) row(b *strings.Builder, y int, row []cell) {
	for x := 0; x < len(row); {
		n := 1
		for x+n < len(row) && alike(row[x], row[x+n]) {
			n++
		}
		run := row[x : x+n]
		fore, back := colours(run[0])
		if back != "" {
			fmt.Fprintf(b, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>`, number(left(x)), number(top(y)), number(float64(n)*cellWidth), number(cellHeight), back)
		}
		for at := 0; at < n; {
			if run[at].r == ' ' || run[at].r == filler {
				at++
				continue
			}
			end := at + 1
			for end < n && (run[end].r != ' ' || end+1 < n && run[end+1].r != ' ') && run[end].r != filler {
				end++
			}
			for run[end-1].r == ' ' {
				end--
			}
			wide := end
			if end < n && run[end].r == filler {
				wide++
			}
			word(b, x+at, y, wide-at, run[at:end], fore)
			at = wide
		}
		x += n
	}
	b.WriteByte('\n')
}

// word draws text that begins and ends with something.
func word(b *strings.Builder, x, y, cells int, run []cell, fore string) {
	var text strings.Builder
	for _, c := range run {
		text.WriteRune(c.r)
	}
	fmt.Fprintf(b, `<text x="%s" y="%s" textLength="%s" lengthAdjust="spacingAndGlyphs"`, number(left(x)), number(top(y)+13.5), number(float64(cells)*cellWidth))
	var classes []string
	for _, k := range []struct {
		bit  int16
		name string
	}{{bold, "b"}, {italic, "i"}, {underlined, "u"}, {dim, "d"}} {
		if run[0].mode&k.bit != 0 {
			classes = append(classes, k.name)
		}
	}
	if len(classes) > 0 {
		fmt.Fprintf(b, ` class="%s"`, strings.Join(classes, " "))
	}
	if fore != ink {
		fmt.Fprintf(b, ` style="fill:%s"`, fore)
	}
	fmt.Fprintf(b, ">%s</text>", html.EscapeString(text.String()))
}

const shown = underlined | bold | italic | dim

func alike(a, b cell) bool {
	return a.mode&shown == b.mode&shown && a.fg == b.fg && a.bg == b.bg
}

const (
	ground = "#10151c"
	ink    = "#d5dce5"
)

// colours are those of a cell, of which the model has swapped the reversed ones;
// back is "" where it is the window's.
func colours(c cell) (fore, back string) {
	fore, back = colour(c.fg), colour(c.bg)
	if back == ground {
		back = ""
	}
	return fore, back
}

// colour is one of the model's: the first sixteen as most terminals of today have
// them, the others as xterm numbers them.
func colour(c vt10x.Color) string {
	basic := [...]string{"#3d4652", "#ff7b72", "#7ee787", "#e3b341", "#79b8ff", "#d2a8ff", "#56d4dd", "#c9d1d9",
		"#7d8794", "#ffa198", "#a5f3ae", "#f2cc60", "#a5d6ff", "#e2c5ff", "#8be9f0", "#f0f6fc"}
	level := func(n vt10x.Color) vt10x.Color {
		if n == 0 {
			return 0
		}
		return 55 + 40*n
	}
	switch {
	case c < 16:
		return basic[c]
	case c < 232:
		n := c - 16
		return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
	case c < 256:
		n := 8 + 10*(c-232)
		return fmt.Sprintf("#%02x%02x%02x", n, n, n)
	case c < 1<<24:
		return fmt.Sprintf("#%06x", uint32(c))
	}
	if c == vt10x.DefaultBG {
		return ground
	}
	return ink
}

func number(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", f), "0"), ".")
}

// textOf reads the words back from a picture.
func textOf(svg string) string {
	_, text, _ := strings.Cut(svg, `<desc id="desc">`)
	text, _, _ = strings.Cut(text, "</desc>")
	return html.UnescapeString(text)
}

// same says whether two screens say the same, but for what changes from run to run.
func same(a, b string) bool { return a != "" && slices.Equal(settled(a), settled(b)) }

// settled is a screen without what changes from run to run: times, durations,
// sizes of what was sent, hashes, names of runs, the spinner. What is left are its
// words in the order of the alphabet: agents that end at the same moment are told
// of in any order, and a longer time can make a line break elsewhere.
func settled(screen string) []string {
	for _, x := range [][2]string{
		{`[⠀-⣿◐◓◑◒]`, "*"},
		{`\br-\d{8}-\d{6}-[0-9a-f]{6}\b`, "RUN"},
		{`/tmp/ralph-pictures-\d+`, "TMP"},
		{`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?Z?\b`, "TIME"},
		{`\b\d\d:\d\d(?::\d\d)?\b`, "TIME"},
		{`\b[0-9a-f]{7,40}\b`, "HASH"},
		{`\b(?:less than )?(?:a|an|\d+(?:\.\d+)?) (?:seconds?|minutes?)(?: ago)?\b|\bjust now\b`, "SPAN"},
		{`\b\d+(?:\.\d+)?[ \x{a0}]?(?:ms|s|m|h)(?:[ \x{a0}]?\d+[ \x{a0}]?s)?\b`, "SPAN"},
		{`\b\d+(?:\.\d+)?k? tok\b`, "N tok"},
		{`[█▉▊▋▌▍▎▏░▒▓━╸╺─]+`, "BAR"},
		{`\b(\d+ commands? ended), \d+ killed\b`, "$1"},             // whether they end by themselves in the time that they get
		{`fix_\w+ begins: Make the test of the \w+ pass`, "BEGINS"}, // which of three is the first line of a screen
	} {
		screen = regexp.MustCompile(x[0]).ReplaceAllString(screen, x[1])
	}
	words := strings.Fields(screen)
	slices.Sort(words)
	return words
}
