package line

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"pgregory.net/rapid"
)

// paper is a terminal that keeps all that was ever on it, for what a screen
// cannot show: whether a line was lost, torn or shown twice. It rewraps its rows
// when its width changes, as VTE, kitty and tmux do, or cuts them, as xterm does.
type paper struct {
	cols, rows int
	reflows    bool
	pulls      bool // a window that grows shows what had left it at the top
	// tmux takes a row for as long as it was until it is emptied as a whole, and keeps
	// a copy of a screen that is emptied from its first cell on.
	tmux     bool
	all      []paperRow
	top      int // the row of all in the window's first row
	row, col int // of the cursor, row among all
	noWrap   bool
	hidden   bool
	unknown  []string
}

type paperRow struct {
	text []string // one a column; "" is the second half of a wide character
	soft bool     // it goes on in the next row
}

func newPaper(cols, rows int, reflows, pulls bool) *paper {
	return &paper{cols: cols, rows: rows, reflows: reflows, pulls: pulls, all: make([]paperRow, 1)}
}

func (p *paper) write(s string) {
	for len(s) > 0 {
		if strings.HasPrefix(s, "\x1b[") {
			i := 2
			for s[i] < 0x40 {
				i++
			}
			p.control(s[2:i], s[i])
			s = s[i+1:]
			continue
		}
		r := []rune(s)[0]
		s = s[len(string(r)):]
		switch r {
		case '\r':
			p.col = 0
		case '\n':
			p.down()
		default:
			p.put(r)
		}
	}
}

func (p *paper) control(arg string, final byte) {
	n, _ := strconv.Atoi(arg)
	switch {
	case final == 'A':
		p.row = max(p.row-max(n, 1), p.top)
	case final == 'B':
		p.row = min(p.row+max(n, 1), p.top+p.rows-1)
		p.need(p.row)
	case final == 'C':
		p.col = min(p.col+max(n, 1), p.cols-1)
	case final == 'G':
		p.col = min(max(n, 1), p.cols) - 1
	case final == 'K':
		p.clear(p.row, min(p.col, p.cols-1))
	case final == 'J':
		if p.tmux && p.row == p.top && p.col == 0 {
			p.all = append(p.all[:p.row:p.row], append(append([]paperRow(nil), p.all[p.row:]...), p.all[p.row:]...)...)
			p.row += (len(p.all) - p.row) / 2
			p.top = p.row
		}
		p.clear(p.row, min(p.col, p.cols-1))
		for i := p.row + 1; i < len(p.all); i++ {
			p.all[i] = paperRow{}
		}
	case final == 'm':
	case arg == "?7":
		p.noWrap = final == 'l'
	case arg == "?25":
		p.hidden = final == 'l'
	case arg == "?2004":
	default:
		p.unknown = append(p.unknown, arg+string(final))
	}
}

func (p *paper) clear(row, col int) {
	r := &p.all[row]
	if p.tmux && col > 0 {
		for i := col; i < len(r.text); i++ {
			r.text[i] = " "
		}
		r.soft = false
		return
	}
	r.text, r.soft = r.text[:min(col, len(r.text))], false
}

func (p *paper) need(row int) {
	for len(p.all) <= row {
		p.all = append(p.all, paperRow{})
	}
}

func (p *paper) down() {
	p.row++
	p.need(p.row)
	p.top = max(p.top, p.row-p.rows+1)
}

func (p *paper) put(r rune) {
	w := runewidth.RuneWidth(r)
	if w == 0 {
		return
	}
	if w > p.cols {
		w = 1 // a real one shows a part of it
	}
	if p.col+w > p.cols {
		if p.noWrap {
			p.col = p.cols - w
		} else {
			p.all[p.row].soft = true
			p.down()
			p.col = 0
		}
	}
	row := &p.all[p.row]
	for len(row.text) < p.col+w {
		row.text = append(row.text, " ")
	}
	row.text[p.col] = string(r)
	if w == 2 {
		row.text[p.col+1] = ""
	}
	p.col += w
}

func (p *paper) resize(cols, rows int) {
	switch {
	case cols == p.cols:
	case p.reflows:
		p.rewrap(cols)
	default:
		for i := p.top; i < len(p.all); i++ {
			r := &p.all[i]
			r.text = r.text[:min(cols, len(r.text))]
		}
		p.col = min(p.col, cols-1)
	}
	p.cols, p.rows = cols, rows
	// What is below the cursor and blank goes first, then rows leave at the top.
	end := len(p.all)
	for end > p.row+1 && (len(p.all[end-1].text) == 0 || !p.reflows) && end-p.top > rows {
		end--
	}
	p.all = p.all[:end]
	if end-p.top > rows {
		p.top = end - rows
	} else if p.pulls && end-p.top < rows {
		p.top = max(0, end-rows)
	}
	p.top = min(p.top, p.row)
	if p.row >= p.top+rows {
		p.top = p.row - rows + 1
	}
}

func (p *paper) rewrap(cols int) {
	var out []paperRow
	row, col := 0, 0
	for i := 0; i < len(p.all); {
		var text []string
		at := -1
		for {
			if i == p.row {
				at = len(text) + p.col
			}
			text = append(text, p.all[i].text...)
			soft := p.all[i].soft
			i++
			if !soft || i == len(p.all) {
				break
			}
		}
		first := len(out)
		for len(text) > cols {
			n := cols
			if text[n] == "" && n > 1 {
				n-- // a wide character is not cut in two
			}
			out = append(out, paperRow{text: append([]string(nil), text[:n]...), soft: true})
			if at >= n && len(text) > n {
				at -= n
				first = len(out)
			} else if at >= 0 {
				row, col, at = first, at, -1
			}
			text = text[n:]
		}
		out = append(out, paperRow{text: append([]string(nil), text...)})
		if at >= 0 {
			row, col = len(out)-1, min(at, cols-1)
		}
	}
	p.all, p.row, p.col = out, row, col
	p.top = min(max(0, len(out)-p.rows), row)
}

// lines is all the text that is on the paper, rows that were wrapped as one.
func (p *paper) lines() []string {
	var out []string
	var b strings.Builder
	for _, r := range p.all {
		b.WriteString(strings.Join(r.text, ""))
		if r.soft {
			continue
		}
		out = append(out, strings.TrimRight(b.String(), " "))
		b.Reset()
	}
	return append(out, strings.TrimRight(b.String(), " "))
}

// printedLines are the lines that were printed: each begins with its number. Before
// it may stand what is left of a frame that had left a very low window at the top,
// where nothing can be erased.
func printedLines(lines []string) []string {
	var out []string
	for _, l := range lines {
		if i := strings.Index(l, "L0"); i >= 0 {
			out = append(out, l[i:])
		}
	}
	return out
}

// TestNothingPrintedIsLost: whatever is printed, typed and resized, each printed
// line stands on the paper once, whole and in its place, and the cursor stands in
// the line that is typed.
func TestNothingPrintedIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reflows := rapid.Bool().Draw(t, "reflows")
		least := 9
		if reflows {
			least = 1
		}
		width := rapid.OneOf(rapid.IntRange(least, 40), rapid.IntRange(least, 200), rapid.SampledFrom([]int{least, 80, 500}))
		height := rapid.OneOf(rapid.IntRange(1, 12), rapid.IntRange(1, 60), rapid.SampledFrom([]int{1, 24, 200}))
		cols, rows := width.Draw(t, "cols"), height.Draw(t, "rows")
		p := newPaper(cols, rows, reflows, rapid.Bool().Draw(t, "pulls"))
		s := screen{reflows: reflows, cols: cols}
		prompt := Prompt{Text: "ralph", Mark: "❯ "}
		var now state
		var want []string
		text := rapid.SampledFrom([]string{"", "x", " some words of a sentence", strings.Repeat(" 世界", 20), strings.Repeat("-", 200), "\x1b[31m red\x1b[0m"})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0: // print
				var b strings.Builder
				for range rapid.IntRange(1, 4).Draw(t, "lines") {
					l := fmt.Sprintf("L%06d", len(want)) + text.Draw(t, "text")
					want = append(want, strings.TrimRight(strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "").Replace(l), " "))
					b.WriteString(l + "\n")
				}
				p.write(s.printAbove(b.String(), layout(prompt, now, cols, rows)))
			case 1: // what stands below
				prompt.Live = nil
				for range rapid.IntRange(0, 6).Draw(t, "live") {
					prompt.Live = append(prompt.Live, "live"+text.Draw(t, "text"))
				}
				p.write(s.paint(layout(prompt, now, cols, rows)))
			case 2: // a draft
				now.line = []rune(strings.Repeat(rapid.SampledFrom([]string{"a", "é", "字", "\n", "word "}).Draw(t, "piece"), rapid.IntRange(0, 60).Draw(t, "n")))
				now.pos = rapid.IntRange(0, len(now.line)).Draw(t, "pos")
				p.write(s.paint(layout(prompt, now, cols, rows)))
			case 3: // by one, as by dragging
				cols = max(least, cols+rapid.IntRange(-1, 1).Draw(t, "by"))
				rows = max(1, rows+rapid.IntRange(-1, 1).Draw(t, "by"))
				p.resize(cols, rows)
				p.write(s.resize(cols) + s.paint(layout(prompt, now, cols, rows)))
			case 4: // several before it is noticed
				for range rapid.IntRange(1, 3).Draw(t, "times") {
					cols, rows = width.Draw(t, "cols"), height.Draw(t, "rows")
					p.resize(cols, rows)
				}
				p.write(s.resize(cols) + s.paint(layout(prompt, now, cols, rows)))
			case 5: // lent and taken back
				p.write(s.erase())
				p.write(s.paint(layout(prompt, now, cols, rows)))
			}
			if len(p.unknown) > 0 {
				t.Fatalf("sequences that the terminal does not know: %q", p.unknown)
			}
			if diff := p.shows(layout(prompt, now, cols, rows)); diff != "" {
				t.Fatal(diff)
			}
			got := printedLines(p.lines())
			if !reflows { // what was cut is gone in such a terminal
				got, want := heads(got), heads(want)
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Fatalf("on the paper is %q\nprinted was %q", got, want)
				}
				continue
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Fatalf("on the paper is\n%q\nprinted was\n%q", got, want)
			}
		}
		if p.hidden || p.noWrap {
			t.Fatal("the terminal is left without a cursor or without wrapping")
		}
	})
}

// TestNoFrameStaysInTmux: of the frames that were shown nothing stays but the last
// one, however they changed and the window with them, as long as it holds them.
func TestNoFrameStaysInTmux(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cols, rows := 80, 60
		p := newPaper(cols, rows, true, true)
		p.tmux = true
		s := screen{reflows: true, cols: cols}
		prompt, now, n := Prompt{Text: "ralph", Mark: "❯ "}, state{}, 0
		for range rapid.IntRange(2, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				n++
				p.write(s.printAbove(fmt.Sprintf("L%06d\n", n), layout(prompt, now, cols, rows)))
			case 1:
				prompt.Live = nil
				for range rapid.IntRange(0, 3).Draw(t, "live") {
					prompt.Live = append(prompt.Live, "live"+strings.Repeat("字-", rapid.IntRange(0, 30).Draw(t, "long")))
				}
				p.write(s.paint(layout(prompt, now, cols, rows)))
			case 2:
				now.line = []rune(strings.Repeat("draft ", rapid.IntRange(0, 40).Draw(t, "words")))
				now.pos = len(now.line)
				p.write(s.paint(layout(prompt, now, cols, rows)))
			case 3:
				cols, rows = rapid.IntRange(20, 120).Draw(t, "cols"), rapid.IntRange(50, 70).Draw(t, "rows")
				p.resize(cols, rows)
				p.write(s.resize(cols) + s.paint(layout(prompt, now, cols, rows)))
			}
			text := strings.Join(p.lines(), "\n")
			f := layout(prompt, now, cols, rows)
			if got, want := strings.Count(text, "live"), strings.Count(strings.Join(f.rows, "\n"), "live"); got != want {
				t.Fatalf("%d live rows, want %d:\n%s", got, want, text)
			}
			if got, want := strings.Count(text, "❯"), strings.Count(strings.Join(f.rows, "\n"), "❯"); got != want {
				t.Fatalf("%d prompts, want %d:\n%s", got, want, text)
			}
			if got := len(printedLines(p.lines())); got != n {
				t.Fatalf("%d printed lines, want %d:\n%s", got, n, text)
			}
		}
		p.write(s.erase())
		if left := strings.Join(p.lines(), ""); strings.Contains(left, "❯") || strings.Contains(left, "live") {
			t.Fatalf("a frame stays: %q", p.lines())
		}
	})
}

// shows says how the rows around the cursor differ from a frame.
func (p *paper) shows(f frame) string {
	if p.col != f.col {
		return fmt.Sprintf("the cursor is in column %d, not %d", p.col, f.col)
	}
	for i, r := range f.rows {
		want := ""
		for _, c := range rowCells(r) {
			want += c.text
		}
		got, at := "", p.row-f.row+i
		if at >= 0 && at < len(p.all) {
			got = strings.Join(p.all[at].text, "")
		}
		if strings.TrimRight(got, " ") != strings.TrimRight(want, " ") {
			return fmt.Sprintf("row %d of the frame is %q, not %q", i, got, want)
		}
	}
	for i := p.row - f.row + len(f.rows); i < len(p.all); i++ {
		if len(p.all[i].text) > 0 {
			return fmt.Sprintf("below the frame stands %q", p.all[i].text)
		}
	}
	return ""
}

func heads(lines []string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l[:7]
	}
	return out
}
