// Package ttytest is a terminal for tests: a pseudo-terminal with a model of
// its screen, on which tests wait for facts instead of sleeping.
//
// It owns the model and the golden screens. It refuses to know what runs on the
// terminal.
//
//	y := ttytest.New(t, 80, 24)
//	… start something on y.Slave …
//	y.Type("hello\r")
//	y.Has("hello")
package ttytest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/mattn/go-runewidth"
	"golang.org/x/sys/unix"
)

// Patience bounds every wait for a fact; reaching it is a failure.
const Patience = 15 * time.Second

// filler marks the second cell of a wide character: the model gives every rune
// one cell, so it is fed wide ones as two.
const filler = '\uE123'

// TTY is a pseudo-terminal. Methods may be called from any goroutine; those
// that fail the test only from the test's own.
type TTY struct {
	t      testing.TB
	fd     int      // of Master
	Master *os.File // what a person sees and types on
	Slave  *os.File // what a program runs on
	done   chan struct{}
	once   sync.Once

	mu      sync.Mutex // guards the fields below
	model   vt10x.Terminal
	changed chan struct{}
	second  bool // the terminal shows its second page
	bytes   int
	raw     []byte // the last of what was received, as it came
}

// keptRaw bounds what is kept of what was received.
const keptRaw = 1 << 20

// New opens a pseudo-terminal, which is closed when the test ends.
func New(t testing.TB, cols, rows int) *TTY {
	t.Helper()
	opened, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	// A descriptor that does not block, so that Close ends a running Read, and that
	// no program on the terminal inherits, so that Close hangs it up.
	fd, err := unix.FcntlInt(opened.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(opened.Close(), unix.SetNonblock(fd, true)); err != nil {
		t.Fatal(err)
	}
	y := &TTY{t: t, fd: fd, Master: os.NewFile(uintptr(fd), "master"), Slave: slave, done: make(chan struct{}), changed: make(chan struct{})}
	y.model = vt10x.New(vt10x.WithSize(cols, rows))
	y.setSize(cols, rows)
	go y.pump()
	t.Cleanup(y.Close)
	return y
}

// Close ends the terminal and waits for what reads it.
func (y *TTY) Close() {
	y.once.Do(func() {
		_ = y.Slave.Close()
		_ = y.Master.Close()
		<-y.done
	})
}

func (y *TTY) pump() {
	defer close(y.done)
	buf := make([]byte, 4096)
	var rest []byte
	for {
		n, err := y.Master.Read(buf)
		if err != nil {
			return
		}
		rest = append(rest, buf[:n]...)
		whole := len(rest) - max(partialRune(rest), partialControl(rest))
		y.mu.Lock()
		_, _ = y.model.Write([]byte(widen(y.pages(string(rest[:whole])))))
		y.bytes += n
		if y.raw = append(y.raw, buf[:n]...); len(y.raw) > keptRaw {
			y.raw = y.raw[len(y.raw)-keptRaw:]
		}
		close(y.changed)
		y.changed = make(chan struct{})
		y.mu.Unlock()
		rest = append([]byte(nil), rest[whole:]...)
	}
}

// partialControl counts the bytes at the end of b that begin a control sequence.
func partialControl(b []byte) int {
	i := bytes.LastIndexByte(b, 0x1b)
	if i < 0 || len(b)-i > 32 {
		return 0
	}
	if len(b)-i == 1 {
		return 1
	}
	if b[i+1] != '[' {
		return 0
	}
	for _, c := range b[i+2:] {
		if c >= 0x40 {
			return 0
		}
	}
	return len(b) - i
}

// pages leaves out what would end a second page that is not shown: the model takes
// it for the start of one. mu is held.
func (y *TTY) pages(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "\x1b[?1049")
		if i < 0 {
			break
		}
		end := i + len("\x1b[?1049") + 1
		set := s[end-1] == 'h'
		b.WriteString(s[:i])
		if set || y.second {
			b.WriteString(s[i:end])
		}
		y.second, s = set, s[end:]
	}
	b.WriteString(s)
	return b.String()
}

// partialRune counts the bytes at the end of b that begin a rune.
func partialRune(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		c := b[len(b)-n]
		switch {
		case c < 0x80:
			return 0
		case c >= 0xf0 && n < 4, c >= 0xe0 && n < 3, c >= 0xc0 && n < 2:
			return n
		case c >= 0xc0:
			return 0
		}
	}
	return 0
}

func widen(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch w := runewidth.RuneWidth(r); {
		case r < 0x20 || w == 1:
			b.WriteRune(r)
		case w == 2:
			b.WriteRune(r)
			b.WriteRune(filler)
		}
	}
	return b.String()
}

// Written is the number of bytes that the terminal has received.
func (y *TTY) Written() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.bytes
}

// Received is how often bytes that need not show on the screen have come.
func (y *TTY) Received(bytes string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return strings.Count(string(y.raw), bytes)
}

// Screen returns the rows with the cursor as ▏, without blank rows at the end.
func (y *TTY) Screen() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	cols, rows := y.model.Size()
	y.model.Lock()
	defer y.model.Unlock()
	cursor := y.model.Cursor()
	lines := make([]string, 0, rows)
	for r := range rows {
		var b strings.Builder
		for c := range cols {
			if r == cursor.Y && c == cursor.X {
				b.WriteRune('▏')
			}
			ch := y.model.Cell(c, r).Char
			if ch == 0 {
				ch = ' '
			}
			if ch != filler {
				b.WriteRune(ch)
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// Until waits for a fact about the screen and returns the screen.
func (y *TTY) Until(what string, ok func(screen string) bool) string {
	y.t.Helper()
	deadline := time.After(Patience)
	for {
		y.mu.Lock()
		changed := y.changed
		y.mu.Unlock()
		s := y.Screen()
		if ok(s) {
			return s
		}
		select {
		case <-changed:
		case <-deadline:
			y.t.Fatalf("never saw %s; the screen is\n%s", what, s)
		}
	}
}

// Has waits until the screen contains text.
func (y *TTY) Has(text string) string {
	y.t.Helper()
	return y.Until(fmt.Sprintf("%q", text), func(s string) bool { return strings.Contains(s, text) })
}

// Lacks waits until the screen does not contain text.
func (y *TTY) Lacks(text string) string {
	y.t.Helper()
	return y.Until(fmt.Sprintf("the end of %q", text), func(s string) bool { return !strings.Contains(s, text) })
}

// Type sends keys.
func (y *TTY) Type(keys string) {
	y.t.Helper()
	if _, err := io.WriteString(y.Master, keys); err != nil {
		y.t.Fatal(err)
	}
}

// Resize changes the size; the program is told as the kernel tells it, when the
// terminal is its own.
func (y *TTY) Resize(cols, rows int) {
	y.t.Helper()
	y.mu.Lock()
	y.model.Resize(cols, rows)
	y.mu.Unlock()
	y.setSize(cols, rows)
}

// Foreground is the process group that the terminal belongs to now.
func (y *TTY) Foreground() int {
	y.t.Helper()
	group, err := unix.IoctlGetInt(y.fd, unix.TIOCGPGRP)
	if err != nil {
		y.t.Fatal(err)
	}
	return group
}

func (y *TTY) setSize(cols, rows int) {
	y.t.Helper()
	if err := unix.IoctlSetWinsize(y.fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)}); err != nil {
		y.t.Fatal(err)
	}
}

// Golden compares a screen or another text with the file of that name in
// testdata; with update it writes it.
func Golden(t testing.TB, update bool, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
}
