package repl

import (
	"strings"
	"time"

	"ralph/repl/render"
)

const (
	// longWork is how long work runs before its end, or a question, is told to
	// somebody who may be looking elsewhere.
	longWork = 30 * time.Second
	// noticeRunes bounds the text of a notification.
	noticeRunes = 120
)

// The values of the setting notify; "" is auto.
const (
	notifyOff  = "off"
	notifyBell = "bell"
)

// ringer is a terminal that can call somebody.
type ringer interface{ Ring(bytes string) }

// notice is what makes a terminal tell its user something: its own notification
// where it is known to have them, else the bell. A multiplexer keeps what it does
// not know, and has a mark for the bell.
func notice(setting string, getenv func(string) string, text string) string {
	const bell, esc, end = "\a", "\x1b]", "\x1b\\"
	if setting == notifyOff {
		return ""
	}
	if setting == notifyBell || getenv("TMUX") != "" || getenv("STY") != "" {
		return bell
	}
	// Nothing in it may end the sequence or part its fields.
	text = strings.ReplaceAll(render.SafeLine(text), ";", ",")
	if r := []rune(text); len(r) > noticeRunes {
		text = string(r[:noticeRunes-1]) + "…"
	}
	kind := getenv("TERM")
	switch program := getenv("TERM_PROGRAM"); {
	case program == "iTerm.app", program == "WezTerm", program == "ghostty", getenv("KITTY_WINDOW_ID") != "", strings.HasPrefix(kind, "xterm-kitty"):
		return esc + "9;Ralph: " + text + end
	case getenv("VTE_VERSION") != "", strings.HasPrefix(kind, "foot"), strings.HasPrefix(kind, "rxvt"):
		return esc + "777;notify;Ralph;" + text + end
	}
	return bell
}

// call tells somebody who may be looking elsewhere, when the work that it is about
// has run for long and they said nothing since.
func (s *Shell) call(since time.Time, text string) {
	if s.lastWord.After(since) {
		since = s.lastWord
	}
	long := s.o.notifyAfter
	if long == 0 {
		long = longWork
	}
	if since.IsZero() || time.Since(since) < long || s.gone || s.leaving {
		return
	}
	if r, ok := s.reader.(ringer); ok {
		r.Ring(notice(s.o.Notify, s.o.Getenv, text))
	}
}
