package line

import (
	"slices"
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
// change it: the cells that differ and nothing else, so that there is nothing to
// flicker. It writes nothing itself, and a frame is written in one piece. It does
// not ask for synchronized output (mode 2026): a piece this small is drawn at once
// anyway, and a terminal that loses the end of such a bracket stands still. The
// zero screen is an empty one with the cursor at the start of a row.
type screen struct {
	shown frame
	// reflows says that the terminal rewraps its rows when it gets narrower.
	reflows bool
	simple  bool // see pen
	cols    int  // of the terminal
}

// lrm keeps the letters of a prompt and those of a line apart where a terminal
// reorders what is written from right to left: the prompt stays at the left.
const lrm = "\u200e"

// layout builds the frame for a prompt and a line in a terminal of cols × rows:
// never more rows than that. The order of what is written is the order in which it
// was typed; a terminal may draw a row from right to left, rows stay apart.
func layout(p Prompt, s state, cols, rows int) frame {
	limit := max(cols-1, 1)
	text := strings.TrimRight(cut(p.Text, max(limit/2, 1)), " ")
	if p.Text != "" {
		text += " "
	}
	text = cut(text+p.Mark, limit-1)
	input, row, col := wrapInput(text, s.line, s.pos, limit)
	if rightToLeft(text) && rightToLeft(string(s.line)) {
		input[0] = text + lrm + input[0][len(text):]
	}
	found := s.below(limit, rows)
	found = found[:min(len(found), max(rows-1, 0))]
	room := max(rows-1-len(found), 1)
	input, first := window(input, row, max(room/2, min(room, len(input))))
	row -= first
	live := p.Live
	if spare := max(room-len(input), 0); len(live) > spare {
		live = live[len(live)-spare:]
	}
	f := frame{row: row + len(live), col: min(col, max(cols-1, 0))} // of one column too
	for _, l := range live {
		f.rows = append(f.rows, cut(l, limit))
	}
	f.rows = append(f.rows, input...)
	f.rows = append(f.rows, found...)
	return f
}

// visible is text in which everything shows and nothing moves the cursor.
func visible(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		c, n := firstCell(text)
		b.WriteString(c.text)
		text = text[n:]
	}
	return b.String()
}

// paint returns the bytes that turn what is shown into f, nothing when it is
// there already.
func (s *screen) paint(f frame) string {
	if equal(s.shown, f) {
		return ""
	}
	p := pen{row: s.shown.row, col: s.shown.col, rows: max(len(s.shown.rows), 1), anew: s.reflows, simple: s.simple}
	for i, r := range f.rows {
		if i >= len(s.shown.rows) {
			p.move(i, 0)
			p.b.WriteString("\x1b[K")
			p.change(i, nil, rowCells(r))
		} else if s.shown.rows[i] != r {
			p.change(i, rowCells(s.shown.rows[i]), rowCells(r))
		}
	}
	if len(s.shown.rows) > len(f.rows) {
		p.move(len(f.rows), 0)
		p.b.WriteString("\x1b[J")
	}
	p.move(f.row, f.col)
	s.shown = f
	return p.b.String()
}

// printAbove returns the bytes that print whole lines where the frame begins and
// put f below them.
func (s *screen) printAbove(text string, f frame) string {
	text = strings.ReplaceAll(text, "\n", "\r\n")
	if over, ok := s.overwrite(text, f); ok {
		return over + s.paint(f)
	}
	return s.erase() + text + s.paint(f)
}

// overwrite prints lines over the rows of the frame, each row emptied just before
// it is written, so that a terminal never shows a hole. ok is false where the
// frame has to be taken away first: a line wraps, or what comes is shorter than
// what was.
func (s *screen) overwrite(text string, f frame) (out string, ok bool) {
	old := len(s.shown.rows)
	lines := strings.SplitAfterN(text, "\r\n", old+1)
	n := len(lines) - 1
	if old == 0 || n+len(f.rows) < old {
		return "", false
	}
	var b strings.Builder
	b.WriteString(up(s.shown.row))
	for i, l := range lines {
		if i < n && i < old {
			if len(l) >= s.cols && width(strings.TrimSuffix(l, "\r\n")) >= s.cols {
				return "", false
			}
			b.WriteString("\x1b[K")
			if s.reflows { // in a window that just became narrower it wraps over the next row
				l = strings.TrimSuffix(l, "\r\n") + "\x1b[K\r\n"
			}
		}
		b.WriteString(l)
	}
	s.shown = frame{}
	return b.String(), true
}

// erase returns the bytes that take the frame off the screen; the cursor is
// then where its first row began.
func (s *screen) erase() string {
	if len(s.shown.rows) == 0 {
		return ""
	}
	out := up(s.shown.row) + clearBelow
	s.shown = frame{}
	return out
}

// clearBelow empties the row of the cursor, which is at its start, and all below.
// It does not begin at the first cell: when that is the first one of the window,
// tmux takes it for the end of a screenful and keeps a copy in its history.
const clearBelow = "\x1b[K\x1b[C\x1b[J\r"

func up(n int) string {
	if n <= 0 {
		return "\r"
	}
	return "\r\x1b[" + strconv.Itoa(n) + "A"
}

func equal(a, b frame) bool {
	return a.row == b.row && a.col == b.col && slices.Equal(a.rows, b.rows)
}

// reflows guesses from the environment whether the terminal rewraps rows when
// it gets narrower. A wrong yes would erase printed text, so unknown ones count
// as no.
func reflows(getenv func(string) string) bool {
	kind := getenv("TERM")
	if inScreen(getenv) {
		return false // whatever it runs in
	}
	for _, name := range []string{"tmux", "xterm-kitty", "alacritty", "foot", "wezterm", "xterm-ghostty"} {
		if strings.HasPrefix(kind, name) {
			return true
		}
	}
	switch getenv("TERM_PROGRAM") {
	case "iTerm.app", "WezTerm", "vscode", "ghostty", "tmux":
		return true
	}
	for _, name := range []string{"TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE", "KONSOLE_VERSION", "ITERM_SESSION_ID", "WT_SESSION"} {
		if getenv(name) != "" {
			return true
		}
	}
	return false
}
