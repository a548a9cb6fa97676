package line

import (
	"strings"

	"golang.org/x/sys/unix"
)

// key does what one key asks for.
func (t *Term) key(k key) {
	l := &t.loop
	switch k.code {
	case keyEnter:
		t.submit()
	case keyStopped:
		t.emit(Event{Kind: EventStopped})
	case keyNewline:
		t.insert("\n")
	case keyPaste:
		t.insert(l.fold.fold(k.text))
	case keyControl:
		t.controlKey(k.r)
	case keyBackspace:
		t.backspace()
	case keyDelete:
		if l.now.pos < len(l.now.line) {
			l.now = l.engine.press("\x04")
		}
	case keyUp, keyDown:
		t.vertical(k.code)
	case keyTab:
		t.complete()
	case keyEscape:
		if l.now.searching {
			l.now = l.engine.press("\x07")
		}
	default:
		if b := engineBytes(k); b != "" {
			l.now = l.engine.press(b)
		}
	}
}

func (t *Term) controlKey(r rune) {
	l := &t.loop
	switch r {
	case 3: // Ctrl-C
		text := l.fold.unfold(l.engine.clear())
		l.now = l.engine.snapshot()
		t.emit(Event{Kind: EventInterrupt, Text: text})
	case 4: // Ctrl-D
		if len(l.now.line) == 0 && !l.now.searching {
			t.emit(Event{Kind: EventEOF})
			return
		}
		t.key(key{code: keyDelete})
	case 12: // Ctrl-L
		l.screen.shown = frame{}
		t.write("\x1b[H\x1b[2J")
	case 20: // Ctrl-T; readline puts the cursor behind the end of a single character
		t.transpose()
	case 26: // Ctrl-Z
		// As the terminal does for a program in cooked mode: to the whole group.
		_ = unix.Kill(0, unix.SIGTSTP)
	case 0, 15, 17, 22, 24, 27, 28, 29, 30, 31:
		// no meaning, and nothing that readline should see
	default:
		l.now = l.engine.press(string(r))
	}
}

// transpose swaps the two characters around the cursor.
func (t *Term) transpose() {
	l := &t.loop
	if len(l.now.line) < 2 || l.now.pos == 0 || l.now.searching {
		return
	}
	text := append([]rune(nil), l.now.line...)
	i := min(l.now.pos, len(text)-1)
	text[i-1], text[i] = text[i], text[i-1]
	l.now = l.engine.set(text, i+1)
}

// submit ends the line; one that ends in a backslash goes on instead.
func (t *Term) submit() {
	l := &t.loop
	n := len(l.now.line)
	if n > 0 && l.now.line[n-1] == '\\' && !l.now.searching && (n < 2 || l.now.line[n-2] != '\\') {
		text := append(append([]rune(nil), l.now.line[:n-1]...), '\n')
		l.now = l.engine.set(text, len(text))
		return
	}
	text := l.fold.unfold(l.engine.enter())
	l.now = l.engine.snapshot()
	t.emit(Event{Kind: EventLine, Text: text, Ask: l.typed})
}

// edit replaces the line by what change makes of it. The cursor keeps its place
// when the old line is the end of the new one.
func (t *Term) edit(change Change) {
	l := &t.loop
	old, fromEnd := string(l.now.line), 0
	text := change(old, l.fold.fold)
	if text == old {
		return
	}
	if strings.HasSuffix(text, old) {
		fromEnd = len(l.now.line) - l.now.pos
	}
	next := []rune(text)
	l.now = l.engine.set(next, len(next)-fromEnd)
}

// insert puts text at the cursor in one step.
func (t *Term) insert(text string) {
	l := &t.loop
	piece := []rune(text)
	line := make([]rune, 0, len(l.now.line)+len(piece))
	line = append(line, l.now.line[:l.now.pos]...)
	line = append(line, piece...)
	line = append(line, l.now.line[l.now.pos:]...)
	l.now = l.engine.set(line, l.now.pos+len(piece))
}

// backspace takes a folded paste away as a whole.
func (t *Term) backspace() {
	l := &t.loop
	n := l.fold.before(l.now.line, l.now.pos)
	if n == 0 || l.now.searching {
		l.now = l.engine.press("\x7f")
		return
	}
	line := append(append([]rune(nil), l.now.line[:l.now.pos-n]...), l.now.line[l.now.pos:]...)
	l.now = l.engine.set(line, l.now.pos-n)
}

// vertical moves between the lines of a multi-line text, and at its edge
// through the history.
func (t *Term) vertical(c code) {
	l := &t.loop
	text, pos := l.now.line, l.now.pos
	start := lineStart(text, pos)
	column := pos - start
	if c == keyUp && start > 0 {
		above := lineStart(text, start-1)
		l.now = l.engine.set(text, min(above+column, start-1))
		return
	}
	end := lineEnd(text, pos)
	if c == keyDown && end < len(text) {
		below := end + 1
		l.now = l.engine.set(text, min(below+column, lineEnd(text, below)))
		return
	}
	if c == keyUp {
		l.now = l.engine.press("\x10")
		return
	}
	l.now = l.engine.press("\x0e")
}

func lineStart(text []rune, pos int) int {
	for pos > 0 && text[pos-1] != '\n' {
		pos--
	}
	return pos
}

func lineEnd(text []rune, pos int) int {
	for pos < len(text) && text[pos] != '\n' {
		pos++
	}
	return pos
}

// engineBytes is what readline understands for a key, "" for a key that has no
// meaning in a line.
func engineBytes(k key) string {
	switch k.code {
	case keyRune:
		if k.r == barrierRune || k.r == setRune {
			return ""
		}
		return string(k.r)
	case keyLeft:
		return "\x02"
	case keyRight:
		return "\x06"
	case keyHome:
		return "\x01"
	case keyEnd:
		return "\x05"
	case keyWordLeft:
		return "\x1bb"
	case keyWordRight:
		return "\x1bf"
	case keyAlt:
		return altBytes(k.r)
	}
	return ""
}

func altBytes(r rune) string {
	switch r {
	case 'b', 'f', 'd', 0x7f:
		return "\x1b" + string(r)
	case 0x08:
		return "\x1b\x7f"
	}
	return ""
}
