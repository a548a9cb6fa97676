package line

import (
	"context"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const (
	// tidy ends what a program may have left without moving the cursor: colours,
	// another character set, keys and a keypad of its own, no wrapping, reports of
	// the mouse and of the focus, a hidden cursor.
	tidy = "\x1b[0m\x0f\x1b(B\x1b[?1l\x1b>\x1b[?7h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?25h"
	// rescue follows a program that failed, perhaps by being killed: its scrolling
	// region ends, which moves the cursor, and the first page comes back with the
	// cursor that the program had saved, if it had. Wherever that is, everything
	// that was printed stands above a new row at the bottom.
	rescue = "\x1b[r\x1b[?1049l\x1b[999B\r\n"
)

// Outside gives the terminal to f, on the caller's goroutine, as it was before
// Open: f may run another program on tty. No key is read and nothing is printed
// meanwhile; what others print waits. When f returns the terminal is taken again,
// whatever f left of its modes, and the prompt stands there as before, with what
// was printed above it. ctx ending, Close and the end of the terminal cancel the
// context of f. The error is that of f, or says why f was not called. Only one loan
// of the terminal runs at a time.
func (t *Term) Outside(ctx context.Context, f func(ctx context.Context, tty *os.File) error) error {
	return t.lend(ctx, true, func(ctx context.Context, m *modal) error {
		err := f(ctx, bothWays(t.o.In, t.o.Out))
		m.failed = err != nil
		return err
	})
}

// bothWays is the one of two files on the terminal that a program can read from
// and write to.
func bothWays(in, out *os.File) *os.File {
	for _, f := range []*os.File{in, out} {
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err == nil && flags&unix.O_ACCMODE == unix.O_RDWR {
			return f
		}
	}
	return in
}

// giveAway hands the terminal to another program.
func (t *Term) giveAway() {
	t.in.hold(t.read)
	t.write(pasteOff)
	_ = term.Restore(t.fd, t.saved)
}

// takeAgain takes the terminal from another program.
func (t *Term) takeAgain(m *modal) {
	l := &t.loop
	_, _ = term.MakeRaw(t.fd) // a terminal that is gone is noticed by the reader
	l.cols, l.rows = Size(t.o.Out)
	l.screen.cols = l.cols
	modes := tidy
	if m.failed {
		modes = rescue + tidy
	}
	t.write(modes + freshRow(l.cols) + pasteOn)
	t.in.release(t.read)
}

// freshRow returns the bytes after which the cursor is at the start of a row with
// nothing in it: blanks as many as there are columns wrap into the next row unless
// the cursor was at the start of one.
func freshRow(cols int) string {
	return strings.Repeat(" ", cols) + "\r\x1b[K"
}

// Outside gives the terminal to f as Term.Outside does. Without a terminal f is not
// called and the error is os.ErrInvalid.
func (p *Plain) Outside(ctx context.Context, f func(ctx context.Context, tty *os.File) error) error {
	if !p.tty {
		return os.ErrInvalid
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-p.quit:
			cancel(os.ErrClosed)
		case <-stop:
		}
	}()
	defer func() { close(stop); <-watched }()
	p.mu.Lock()
	if p.lent {
		p.mu.Unlock()
		return ErrLent
	}
	if p.asked != "" {
		p.write("\n")
		p.asked = ""
	}
	p.lent = true
	p.mu.Unlock()
	defer p.takeBack()
	p.in.hold(p.done)
	defer p.in.release(p.done)
	saved, err := term.GetState(p.in.fd)
	if err == nil {
		defer func() { _ = term.Restore(p.in.fd, saved) }()
	}
	return f(ctx, bothWays(p.o.In, p.o.Out))
}

// takeBack ends a loan: what waited is written, and the prompt.
func (p *Plain) takeBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lent = false
	p.write(p.waiting.take())
	p.asked = ""
	p.ask()
}
