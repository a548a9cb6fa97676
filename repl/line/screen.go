package line

import (
	"strconv"
	"strings"
)

// frame is the part of the screen that is repainted: whole rows, each narrower
// than the terminal, and the place of the cursor in them.
type frame struct {
	rows     []string
	row, col int
}

// screen knows what stands below the printed text and makes the bytes that
// change it. It writes nothing itself. The zero screen is an empty one with the
// cursor at the start of a row.
type screen struct {
	shown frame
	// reflows says that the terminal rewraps its rows when it gets narrower.
	reflows bool
}

// layout builds the frame for a prompt and a line in a terminal of cols × rows.
func layout(p Prompt, s state, cols, rows int) frame {
	limit := max(cols-1, 1)
	text := strings.TrimRight(cut(p.Text, max(limit/2, 1)), " ")
	if p.Text != "" {
		text += " "
	}
	input, row, col := wrapInput(text+p.Mark, s.line, s.pos, limit)
	var found []string
	if s.searching {
		label := s.search
		if label == "" {
			label = "search: "
		}
		found = []string{cut(string(visible(label)), limit)}
	} else if s.hint != "" {
		found = []string{cut(visible(s.hint), limit)}
	}
	room := max(rows-1-len(found), 1)
	input, first := window(input, row, max(room/2, min(room, len(input))))
	row -= first
	live := p.Live
	if spare := max(room-len(input), 0); len(live) > spare {
		live = live[len(live)-spare:]
	}
	f := frame{row: row + len(live), col: col}
	for _, l := range live {
		f.rows = append(f.rows, cut(l, limit))
	}
	f.rows = append(f.rows, input...)
	f.rows = append(f.rows, found...)
	return f
}

func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		s, _ := glyph(r)
		b.WriteString(s)
	}
	return b.String()
}

// paint returns the bytes that turn what is shown into f, nothing when it is
// there already.
func (s *screen) paint(f frame) string {
	if equal(s.shown, f) {
		return ""
	}
	var b strings.Builder
	b.WriteString(up(s.shown.row))
	for i, r := range f.rows {
		if i > 0 {
			b.WriteString("\r\n")
		}
		if i < len(s.shown.rows) && s.shown.rows[i] == r {
			continue
		}
		b.WriteString(r)
		b.WriteString("\x1b[K")
	}
	if len(s.shown.rows) > len(f.rows) {
		b.WriteString("\r\x1b[" + strconv.Itoa(max(width(last(f.rows)), 0)+1) + "G\x1b[J")
	}
	b.WriteString(place(f))
	s.shown = f
	return b.String()
}

// printAbove returns the bytes that take the frame away, print whole lines and
// put f below them.
func (s *screen) printAbove(text string, f frame) string {
	out := s.erase()
	out += strings.ReplaceAll(text, "\n", "\r\n")
	return out + s.paint(f)
}

// erase returns the bytes that take the frame off the screen; the cursor is
// then where its first row began.
func (s *screen) erase() string {
	if len(s.shown.rows) == 0 {
		return ""
	}
	out := up(s.shown.row) + "\x1b[J"
	s.shown = frame{}
	return out
}

// resize returns the bytes that take the old frame away after the terminal's
// width changed to cols.
func (s *screen) resize(cols int) string {
	if len(s.shown.rows) == 0 {
		return ""
	}
	above := s.shown.row
	if s.reflows && cols > 0 {
		above = max(s.shown.col, 0) / cols
		for _, r := range s.shown.rows[:s.shown.row] {
			above += max(1, (width(r)+cols-1)/cols)
		}
	}
	s.shown = frame{}
	return up(above) + "\x1b[J"
}

func up(n int) string {
	if n <= 0 {
		return "\r"
	}
	return "\r\x1b[" + strconv.Itoa(n) + "A"
}

// place moves the cursor from the end of the frame's last row to its place.
func place(f frame) string {
	out := up(len(f.rows) - 1 - f.row)
	if f.col > 0 {
		out += "\x1b[" + strconv.Itoa(f.col) + "C"
	}
	return out
}

func equal(a, b frame) bool {
	if len(a.rows) != len(b.rows) || a.row != b.row || a.col != b.col {
		return false
	}
	for i := range a.rows {
		if a.rows[i] != b.rows[i] {
			return false
		}
	}
	return true
}

func last(rows []string) string {
	if len(rows) == 0 {
		return ""
	}
	return rows[len(rows)-1]
}

// reflows guesses from the environment whether the terminal rewraps rows when
// it gets narrower. A wrong yes would erase printed text, so unknown ones count
// as no.
func reflows(getenv func(string) string) bool {
	for _, name := range []string{"TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE", "KONSOLE_VERSION", "ITERM_SESSION_ID"} {
		if getenv(name) != "" {
			return true
		}
	}
	return false
}
