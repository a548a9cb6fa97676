package line

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestOnlyWhatChangesIsWritten bounds the bytes of what happens all the time.
func TestOnlyWhatChangesIsWritten(t *testing.T) {
	draft := "a draft that is already quite long and goes on"
	at := func(p Prompt, text string, pos int) frame {
		return layout(p, state{line: []rune(text), pos: pos}, 100, 30)
	}
	colour := "\x1b[36m⠋\x1b[0m working \x1b[2m12 s · 4,321 tokens\x1b[0m"
	busy := Prompt{Text: "ralph ⠋", Mark: "❯ ", Live: []string{"half a sentence", colour}}
	spun := busy
	spun.Text = "ralph ⠙"
	turned := busy
	turned.Live = []string{"half a sentence", strings.Replace(colour, "⠋", "⠙", 1)}
	grown := busy
	grown.Live = []string{"half a sentence, and more", colour}
	n := len([]rune(draft))
	for _, c := range []struct {
		name     string
		from, to frame
		most     int
	}{
		{"nothing", at(busy, draft, n), at(busy, draft, n), 0},
		{"a key at the end", at(busy, draft, n), at(busy, draft+"x", n+1), 1},
		{"a wide key at the end", at(busy, draft, n), at(busy, draft+"字", n+1), 3},
		{"backspace at the end", at(busy, draft, n), at(busy, draft[:len(draft)-1], n-1), 20},
		{"an arrow", at(busy, draft, n), at(busy, draft, n-1), 6},
		{"a key at the start", at(busy, "b", 0), at(busy, "ab", 1), 20},
		{"the spinner in the prompt", at(busy, draft, n), at(spun, draft, n), 40},
		{"the spinner above", at(busy, draft, n), at(turned, draft, n), 40},
		{"a word of a live row", at(busy, draft, n), at(grown, draft, n), 40},
	} {
		s := screen{cols: 100}
		s.paint(c.from)
		out := s.paint(c.to)
		if len(out) > c.most || c.most > 0 && out == "" {
			t.Errorf("%s: %d bytes, at most %d: %q", c.name, len(out), c.most, out)
		}
	}
}

// TestColoursStayWithTheirCells paints one row over another, by the difference and
// whole, and compares what stands there, colours too.
func TestColoursStayWithTheirCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "b", " ", "字", "\x1b[31m", "\x1b[1m", "\x1b[0m", "\x1b[m", "\x1b[0;7m", "word", "e\u0301", "👨\u200d👩\u200d👧", "🇩🇪"})
		row := func(name string) string {
			return cut(strings.Join(rapid.SliceOfN(piece, 0, 20).Draw(t, name), ""), 60)
		}
		var s screen
		var p styled
		for range 4 {
			f := frame{rows: []string{row("row")}}
			p.draw(s.paint(f))
			var whole styled
			whole.draw((&screen{}).paint(f))
			if got, want := p.row(), whole.row(); got != want {
				t.Fatalf("painted is %q, want %q", got, want)
			}
		}
	})
}

// styled is one row of a terminal that draws each rune by itself, with colours.
type styled struct {
	cells []string
	style string
	col   int
}

func (p *styled) put(at int, s string) {
	for len(p.cells) <= at {
		p.cells = append(p.cells, " ")
	}
	p.cells[at] = s
}

func (p *styled) draw(s string) {
	for len(s) > 0 {
		if n := sgrLength(s); n > 0 {
			p.style, s = restyled(p.style, s[:n]), s[n:]
			continue
		}
		if strings.HasPrefix(s, "\x1b[") {
			i := strings.IndexFunc(s[2:], func(r rune) bool { return r >= 0x40 }) + 2
			switch s[i] {
			case 'K':
				p.cells = p.cells[:min(p.col, len(p.cells))]
			case 'G':
				p.col = 0
				for _, c := range s[2:i] {
					p.col = p.col*10 + int(c-'0')
				}
				p.col--
			}
			s = s[i+1:]
			continue
		}
		if s[0] == '\r' {
			p.col, s = 0, s[1:]
			continue
		}
		c, n := firstCell(s)
		for i := range c.width {
			p.put(p.col+i, "")
		}
		if c.text != " " || strings.Contains(p.style, "7") {
			p.put(p.col, p.style+c.text)
		} else {
			p.put(p.col, " ")
		}
		p.col, s = p.col+c.width, s[n:]
	}
}

func (p *styled) row() string { return strings.TrimRight(strings.Join(p.cells, "|"), "| ") }

// TestFrameInOneColumn: behind a character that fills its row the cursor stays in the
// window.
func TestFrameInOneColumn(t *testing.T) {
	if f := layout(Prompt{}, state{line: []rune("A\n"), pos: 1}, 1, 1); f.col != 0 {
		t.Errorf("the cursor is in column %d of 1", f.col)
	}
}

// TestFrameFits: no window is too small for a frame.
func TestFrameFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cols, rows := rapid.IntRange(1, 120).Draw(t, "cols"), rapid.IntRange(1, 40).Draw(t, "rows")
		line := []rune(rapid.String().Draw(t, "line"))
		p := Prompt{Text: rapid.String().Draw(t, "text"), Mark: "❯ ", Live: rapid.SliceOfN(rapid.String(), 0, 50).Draw(t, "live")}
		f := layout(p, state{line: line, pos: rapid.IntRange(0, len(line)).Draw(t, "pos")}, cols, rows)
		if len(f.rows) > rows || f.row < 0 || f.row >= len(f.rows) || f.col < 0 || f.col >= cols {
			t.Fatalf("in %d × %d the frame has %d rows, the cursor at %d, %d", cols, rows, len(f.rows), f.row, f.col)
		}
		for _, r := range f.rows {
			if w := span(rowCells(r)); w > max(cols-1, 1) {
				t.Fatalf("a row of %d columns in %d: %q", w, cols, r)
			}
			if strings.ContainsAny(strings.ReplaceAll(r, "\x1b[", ""), "\x1b\r\n\a\b\t") {
				t.Fatalf("a row holds a control: %q", r)
			}
		}
	})
}

func TestCharacters(t *testing.T) {
	for _, c := range []struct {
		name, text, drawn string
		width             int
	}{
		{"a family", "👨\u200d👩\u200d👧\u200d👦", "👨\u200d👩\u200d👧\u200d👦", 2},
		{"a flag", "🇩🇪", "🇩🇪", 2},
		{"a flag of tags", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", 2},
		{"a keycap", "1\ufe0f\u20e3", "1\ufe0f\u20e3", 2},
		{"a chosen picture", "☺\ufe0f", "☺\ufe0f", 2},
		{"a colour of skin", "👍🏽", "👍🏽", 2},
		{"an accent", "e\u0301", "e\u0301", 1},
		{"an accent alone", "\u0301", "◌\u0301", 1},
		{"Hangul in parts", "각", "각", 2},
		{"Devanagari", "नि", "नि", 2},
		{"Persian with a joiner", "می\u200cخواهم", "می\u200cخواهم", 7},
		{"an override", "a\u202eb", "a\uFFFDb", 3},
		{"zero width", "\u200b", "\uFFFD", 1},
		{"a joiner alone", "\u200d", "\uFFFD", 1},
		{"escape", "\x1b[2J", "␛[2J", 4},
		{"a C1 control", "\u009b", "\uFFFD", 1},
		{"a tab", "\t", "    ", 4},
	} {
		rows, _, col := wrapInput("", []rune(c.text), len([]rune(c.text)), 60)
		if len(rows) != 1 || rows[0] != c.drawn || col != c.width {
			t.Errorf("%s is drawn as %q, %d columns; want %q, %d", c.name, rows, col, c.drawn, c.width)
		}
	}
}

// TestRightToLeft: such text keeps its order, and cannot take the prompt along.
func TestRightToLeft(t *testing.T) {
	line := []rune("שלום עולם ומה שלומך היום")
	f := layout(Prompt{Text: "פרויקט", Mark: "❯ "}, state{line: line, pos: len(line)}, 24, 10)
	if !strings.Contains(f.rows[0], "❯ "+lrm+"ש") {
		t.Errorf("the prompt is not kept apart: %q", f.rows[0])
	}
	if got := strings.ReplaceAll(strings.Join(f.rows, ""), lrm, ""); got != "פרויקט ❯ "+string(line) {
		t.Errorf("the order is %q", got)
	}
	if f := layout(idle(), state{line: line}, 24, 10); strings.Contains(strings.Join(f.rows, ""), lrm) {
		t.Error("a mark that nobody needs")
	}
}

func TestReflowsIsKnown(t *testing.T) {
	for _, c := range []struct {
		env  string
		want bool
	}{
		{"TERM=xterm-256color", false},
		{"TERM=xterm-256color VTE_VERSION=7600", true},
		{"TERM=tmux-256color", true},
		{"TERM=screen-256color TMUX=x", true},
		{"TERM=screen-256color VTE_VERSION=7600 STY=1", false},
		{"TERM=screen KITTY_WINDOW_ID=1", false},
		{"TERM=xterm-kitty", true},
	} {
		got := reflows(func(name string) string {
			for _, kv := range strings.Fields(c.env) {
				if k, v, _ := strings.Cut(kv, "="); k == name {
					return v
				}
			}
			return ""
		})
		if got != c.want {
			t.Errorf("%s: %v", c.env, got)
		}
	}
}
