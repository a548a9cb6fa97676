package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/sys/unix"
)

const (
	ttyCols = 100
	ttyRows = 30
)

// tty is a pseudo-terminal with a model of its screen. What is waited for on it
// gets its time when the bytes that brought it were read.
type tty struct {
	master, slave *os.File
	done          chan struct{}

	mu    sync.Mutex // guards the fields below
	model vt10x.Terminal
	waits []*sight
	bytes int // that were written to it
}

// sight is something that the screen should show.
type sight struct {
	ok func(*tty) bool // called with mu held
	at chan time.Time  // has room for one
}

func openTTY() (*tty, error) {
	opened, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	// A descriptor that does not block, so that close ends a running Read.
	fd, err := unix.Dup(int(opened.Fd()))
	if err != nil {
		return nil, errors.Join(err, opened.Close(), slave.Close())
	}
	unix.CloseOnExec(fd)
	err = errors.Join(opened.Close(), unix.SetNonblock(fd, true),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: ttyCols, Row: ttyRows}))
	t := &tty{master: os.NewFile(uintptr(fd), "master"), slave: slave, done: make(chan struct{}), model: vt10x.New(vt10x.WithSize(ttyCols, ttyRows))}
	if err != nil {
		return nil, errors.Join(err, t.master.Close(), slave.Close())
	}
	go t.pump()
	return t, nil
}

func (t *tty) close() {
	_ = t.slave.Close()
	_ = t.master.Close()
	<-t.done
}

func (t *tty) pump() {
	defer close(t.done)
	buf := make([]byte, 16<<10)
	var rest []byte
	for {
		n, err := t.master.Read(buf)
		if err != nil {
			return
		}
		now := time.Now()
		rest = append(rest, buf[:n]...)
		whole := len(rest) - cutRune(rest)
		t.mu.Lock()
		t.bytes += n
		_, _ = t.model.Write(rest[:whole])
		open := t.waits[:0]
		for _, s := range t.waits {
			if s.ok(t) {
				s.at <- now
			} else {
				open = append(open, s)
			}
		}
		t.waits = open
		t.mu.Unlock()
		rest = append([]byte(nil), rest[whole:]...)
	}
}

// cutRune counts the bytes at the end of b that begin a rune and do not end it.
func cutRune(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		switch c := b[len(b)-n]; {
		case c < 0x80:
			return 0
		case c >= 0xc0:
			if c >= 0xf0 && n < 4 || c >= 0xe0 && n < 3 || n < 2 {
				return n
			}
			return 0
		}
	}
	return 0
}

// wrote is how many bytes were written to the terminal so far.
func (t *tty) wrote() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

// expect begins to look for something; the time when it was seen arrives on the
// channel.
func (t *tty) expect(ok func(*tty) bool) *sight {
	s := &sight{ok: ok, at: make(chan time.Time, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if ok(t) {
		s.at <- time.Now()
		return s
	}
	t.waits = append(t.waits, s)
	return s
}

// row is a row of the screen; the caller holds mu.
func (t *tty) row(y int) string {
	var b strings.Builder
	for x := range ttyCols {
		c := t.model.Cell(x, y).Char
		if c == 0 {
			c = ' '
		}
		b.WriteRune(c)
	}
	return strings.TrimRight(b.String(), " ")
}

// prompt is the row of the cursor, in two parts: the state before the mark and
// the typed text behind it; ok is false when there is no mark. The caller holds
// mu.
func (t *tty) prompt() (state, typed string, ok bool) {
	return strings.Cut(t.row(t.model.Cursor().Y), "❯")
}

// screen is all that is shown, for messages.
func (t *tty) screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := make([]string, ttyRows)
	for y := range ttyRows {
		rows[y] = t.row(y)
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

func (t *tty) typeKeys(keys string) error {
	_, err := io.WriteString(t.master, keys)
	return err
}

// spinning says that a prompt's state shows work that goes on.
func spinning(state string) bool { return strings.ContainsAny(state, "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") }

// atWork is a prompt in which something runs.
func atWork(t *tty) bool {
	state, _, ok := t.prompt()
	return ok && spinning(state)
}

// atRest is a prompt in which nothing runs, with that text behind it.
func atRest(text string) func(*tty) bool {
	return func(t *tty) bool {
		state, typed, ok := t.prompt()
		return ok && !spinning(state) && strings.TrimSpace(typed) == text
	}
}

// stopTold is a prompt that has taken the text and no longer shows that the work
// runs: it says that it is being stopped, or that nothing runs.
func stopTold(text string) func(*tty) bool {
	return func(t *tty) bool {
		state, typed, ok := t.prompt()
		return ok && strings.TrimSpace(typed) == text && (!spinning(state) || strings.Contains(state, "stopping"))
	}
}

// echoed is a prompt that has taken the text, whatever it says.
func echoed(text string) func(*tty) bool {
	return func(t *tty) bool {
		_, typed, ok := t.prompt()
		return ok && strings.TrimSpace(typed) == text
	}
}
