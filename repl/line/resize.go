package line

import (
	"strings"
	"time"
)

const (
	// A window rests when its size stayed the same for so long. tmux changes its own
	// screen at once, but tells of it at most each 250 ms: only then is a size sure.
	restsAfter, restsAfterTmux = 40 * time.Millisecond, 270 * time.Millisecond
	// unrest is how long nothing is painted in a window that does not rest. Then it
	// is done when the next change is told of: the size is right at that moment.
	unrest = time.Second
)

// storm is a window that is being resized. Nothing is painted until it rests: the
// terminal itself moves what is there, and what is drawn for a size that is over
// cannot be taken off the screen as a whole. The painting goroutine uses it.
type storm struct {
	began, last time.Time // zero when the window rests
	rests       time.Duration
	timer       *time.Timer
	cols, rows  int // of the window, when it is not at rest
}

// restsIn is how long the window has to stay as it is.
func restsIn(getenv func(string) string) time.Duration {
	kind := getenv("TERM")
	if getenv("TMUX") != "" || getenv("STY") == "" && (strings.HasPrefix(kind, "tmux") || strings.HasPrefix(kind, "screen")) {
		return restsAfterTmux
	}
	return restsAfter
}

// held reports whether the window is being resized. When it rests again the frame
// is drawn anew.
func (t *Term) held() bool {
	l := &t.loop
	s := &l.storm
	cols, rows := Size(t.o.Out)
	now, changed := time.Now(), false
	if s.began.IsZero() {
		if cols == l.cols && rows == l.rows {
			return false
		}
		t.mu.Lock()
		lent := t.modal != nil && t.modal.entered
		t.mu.Unlock()
		if lent { // whoever has the terminal draws
			t.sized(cols, rows)
			return false
		}
		s.began, changed = now, true
	}
	if changed || cols != s.cols || rows != s.rows {
		s.cols, s.rows, s.last, changed = cols, rows, now, true
	}
	wait := s.last.Add(s.rests).Sub(now)
	if wait > 0 && !(changed && now.Sub(s.began) > unrest) {
		s.timer.Reset(wait)
		return true
	}
	t.write(t.off() + l.screen.paint(t.layout()))
	l.painted = time.Now()
	return false
}

// off returns the bytes that take the frame off the screen, whatever became of
// the window.
func (t *Term) off() string {
	l := &t.loop
	cols, rows := Size(t.o.Out)
	if l.storm.began.IsZero() && cols == l.cols && rows == l.rows {
		return l.screen.erase()
	}
	l.storm.began = time.Time{}
	t.sized(cols, rows)
	return l.screen.resize(cols)
}

// sized takes over the size of the window and tells of it.
func (t *Term) sized(cols, rows int) {
	l := &t.loop
	if cols == l.cols && rows == l.rows {
		return
	}
	l.cols, l.rows, l.screen.cols = cols, rows, cols
	t.emit(Event{Kind: EventResize, Cols: cols, Rows: rows})
}

// resize returns the bytes that take the old frame away after the terminal's
// width changed to cols. In doubt it goes up too little: a row of an old frame may
// then stay, but nothing that was printed is erased.
func (s *screen) resize(cols int) string {
	s.cols = cols
	if len(s.shown.rows) == 0 {
		return ""
	}
	above := s.shown.row
	if s.reflows && cols > 0 {
		above = max(s.shown.col-1, 0) / cols
		for _, r := range s.shown.rows[:s.shown.row] {
			above += wrapped(r, cols)
		}
	}
	s.shown = frame{}
	return up(above) + clearBelow
}

// wrapped is how many rows of a terminal that rewraps one row takes: a wide
// character is not cut in two.
func wrapped(row string, cols int) int {
	n, used := 1, 0
	for _, c := range rowCells(row) {
		if used+c.width > cols && used > 0 {
			n, used = n+1, 0
		}
		used += c.width
	}
	return n
}
