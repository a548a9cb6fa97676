package line

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// ErrLent says that somebody else has the terminal.
var ErrLent = errors.New("the terminal is lent already")

// Modal lends the terminal to f, on the caller's goroutine: keys arrive as the
// bytes a terminal sends for them, output of others waits, and the prompt comes
// back when f returns. Only one loan runs at a time; ctx ending, Close and the end
// of the terminal cancel the context of f.
func (t *Term) Modal(ctx context.Context, f func(ctx context.Context, keys Keys, out io.Writer) error) error {
	return t.lend(ctx, false, func(ctx context.Context, m *modal) error { return f(ctx, m, t.o.Out) })
}

// lend has f use the terminal while the painting goroutine keeps off it.
func (t *Term) lend(ctx context.Context, outside bool, f func(context.Context, *modal) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := &modal{outside: outside, ready: make(chan struct{}), ended: make(chan struct{}), taken: make(chan struct{}), cancel: cancel}
	t.mu.Lock()
	if t.modal != nil {
		t.mu.Unlock()
		return ErrLent
	}
	t.modal = m
	t.mu.Unlock()
	defer func() {
		close(m.ended)
		t.signal()
		select {
		case <-m.taken:
		case <-t.quit:
		case <-t.served:
		}
	}()
	t.signal()
	select {
	case <-m.ready:
	case <-t.served:
		return os.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return f(ctx, m)
}

// Keys delivers the keys of a loan of the terminal.
type Keys interface {
	// Next returns the bytes of the next key, nil when none waits. It never
	// blocks. Ctrl-C is the byte 3. A paste comes as one key, without controls.
	// Ctrl-L, the byte 12, asks for everything to be painted anew, below the cursor:
	// it also comes after the program was stopped and let go on.
	Next() []byte
	// Reflows says whether the terminal rewraps its rows when it becomes narrower.
	Reflows() bool
	// Rests says how long the window has to keep a new size before anything is painted
	// for it; what is painted before may be torn.
	Rests() time.Duration
}

// modal is a loan of the terminal.
type modal struct {
	outside bool          // to another program, with the terminal's own modes
	ready   chan struct{} // closed when the borrower may begin
	ended   chan struct{} // closed when the borrower is done
	taken   chan struct{} // closed when the terminal is taken back
	entered bool          // used by the painting goroutine only
	reflows bool          // set before ready is closed
	rests   time.Duration // the same
	failed  bool          // set before ended is closed
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
	t.write(t.off() + strings.ReplaceAll(text, "\n", "\r\n"))
	m.reflows, m.rests = t.loop.screen.reflows, t.loop.storm.rests
	if m.outside {
		t.giveAway()
	}
	close(m.ready)
}

// takeBack ends a loan whose borrower is done; without one it does nothing.
func (t *Term) takeBack() {
	t.mu.Lock()
	m := t.modal
	t.mu.Unlock()
	if m == nil {
		return
	}
	select {
	case <-m.ended:
	default:
		return
	}
	if m.outside && m.entered {
		t.takeAgain(m)
	}
	t.mu.Lock()
	t.modal, t.urgent = nil, true
	t.mu.Unlock()
	close(m.taken)
}

// endLoan cancels a loan and waits for its borrower, for a moment.
func (t *Term) endLoan(cause error) {
	t.mu.Lock()
	m := t.modal
	t.mu.Unlock()
	if m == nil {
		return
	}
	m.cancel(cause)
	late := time.NewTimer(loanWait)
	defer late.Stop()
	select {
	case <-m.ended:
	case <-late.C:
	}
}

// loanWait is how long a borrower may take to notice that the loan is over.
const loanWait = closeWait / 2

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

// Reflows says whether the terminal rewraps its rows.
func (m *modal) Reflows() bool { return m.reflows }

// Rests says how long the window has to keep a new size.
func (m *modal) Rests() time.Duration { return m.rests }

// lentKey hands a key to the borrower. Ctrl-Z stops the program as it does
// without a loan.
func (t *Term) lentKey(m *modal, k key) {
	if k.code == keyControl && k.r == 26 {
		_ = unix.Kill(0, unix.SIGTSTP)
		return
	}
	m.put(k)
}

func (m *modal) put(k key) {
	b := terminalBytes(k)
	if k.code == keyPaste {
		b = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, k.text[:min(len(k.text), maxPasted)])
		b = strings.TrimSpace(strings.ToValidUTF8(b, ""))
	}
	if b == "" {
		return
	}
	m.mu.Lock()
	m.queue = append(m.queue, []byte(b))
	m.mu.Unlock()
}

// maxPasted bounds a paste for a borrower, who asks for names.
const maxPasted = 1024

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
