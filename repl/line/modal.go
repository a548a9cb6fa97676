package line

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
)

// Modal lends the terminal to f, on the caller's goroutine: keys arrive as the
// bytes a terminal sends for them, output of others waits, and the prompt comes
// back when f returns. Only one loan runs at a time; ctx ending cancels it.
func (t *Term) Modal(ctx context.Context, f func(ctx context.Context, keys Keys, out io.Writer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := &modal{ready: make(chan struct{}), cancel: cancel}
	t.mu.Lock()
	if t.modal != nil {
		t.mu.Unlock()
		return errors.New("the terminal is lent already")
	}
	t.modal = m
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.modal, t.urgent = nil, true
		t.mu.Unlock()
		t.signal()
	}()
	t.signal()
	select {
	case <-m.ready:
	case <-t.served:
		return os.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return f(ctx, m, t.o.Out)
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
