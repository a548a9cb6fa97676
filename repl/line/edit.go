package line

import (
	"context"
	"strings"
	"sync"
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
		t.suspend()
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
	t.emit(Event{Kind: EventLine, Text: text})
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

// Keys delivers the keys of a loan of the terminal.
type Keys interface {
	// Next returns the bytes of the next key, nil when none waits. It never
	// blocks. Ctrl-C is the byte 3.
	Next() []byte
}

// modal is a loan of the terminal.
type modal struct {
	ready   chan struct{}
	entered bool // used by the painting goroutine only
	cancel  context.CancelCauseFunc

	mu    sync.Mutex // guards queue
	queue [][]byte
}

// enterModal shows what was printed before the loan, takes the frame off the
// screen and lets the borrower begin.
func (t *Term) enterModal(m *modal, text string) {
	if m.entered {
		return
	}
	m.entered = true
	t.write(t.loop.screen.erase() + strings.ReplaceAll(text, "\n", "\r\n"))
	close(m.ready)
}

// Next returns the bytes of the next key.
func (m *modal) Next() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		return nil
	}
	b := m.queue[0]
	m.queue = m.queue[1:]
	return b
}

func (m *modal) put(k key) {
	b := terminalBytes(k)
	if b == "" {
		return
	}
	m.mu.Lock()
	m.queue = append(m.queue, []byte(b))
	m.mu.Unlock()
}

// terminalBytes is what a plain VT terminal sends for a key.
func terminalBytes(k key) string {
	switch k.code {
	case keyRune, keyControl:
		return string(k.r)
	case keyEnter, keyNewline:
		return "\r"
	case keyTab:
		return "\t"
	case keyBackTab:
		return "\x1b[Z"
	case keyBackspace:
		return "\x7f"
	case keyDelete:
		return "\x1b[3~"
	case keyUp:
		return "\x1b[A"
	case keyDown:
		return "\x1b[B"
	case keyRight, keyWordRight:
		return "\x1b[C"
	case keyLeft, keyWordLeft:
		return "\x1b[D"
	case keyHome:
		return "\x01"
	case keyEnd:
		return "\x05"
	case keyEscape:
		return "\x1b"
	}
	return ""
}
