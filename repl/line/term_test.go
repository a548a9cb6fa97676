package line

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ralph/repl/ttytest"
)

// update rewrites the golden files (make update).
var update = os.Getenv("RALPH_TEST_UPDATE") != ""

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tty is a reader on a terminal.
type tty struct {
	*ttytest.TTY
	t          *testing.T
	reader     LineReader
	interrupts chan struct{}
	busy       atomic.Bool
}

func openTTY(t *testing.T, cols, rows int, history ...string) *tty {
	t.Helper()
	y := &tty{TTY: ttytest.New(t, cols, rows), t: t, interrupts: make(chan struct{}, 8)}
	var err error
	y.reader, err = Open(Options{In: y.Slave, Out: y.Slave, Getenv: xterm, History: history, OnInterrupt: func() bool {
		busy := y.busy.Load()
		if busy {
			y.interrupts <- struct{}{}
		}
		return busy
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.reader.Close(); err != nil {
			t.Error(err)
		}
	})
	return y
}

func xterm(name string) string {
	if name == "TERM" {
		return "xterm-256color"
	}
	return ""
}

func (y *tty) resize(cols, rows int) {
	y.t.Helper()
	y.Resize(cols, rows)
	_ = unix.Kill(os.Getpid(), unix.SIGWINCH)
	if e := y.event(); e.Kind != EventResize || e.Cols != cols {
		y.t.Fatalf("after the resize came %+v", e)
	}
}

func (y *tty) event() Event {
	y.t.Helper()
	select {
	case e, ok := <-y.reader.Events():
		if !ok {
			y.t.Fatal("the events ended")
		}
		return e
	case <-time.After(ttytest.Patience):
		y.t.Fatalf("no event; the screen is\n%s", y.Screen())
	}
	return Event{}
}

func (y *tty) line(want string) {
	y.t.Helper()
	if e := y.event(); e.Kind != EventLine || e.Text != want {
		y.t.Fatalf("got %+v, want the line %q", e, want)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	ttytest.Golden(t, update, name+".screen", got)
}

func idle() Prompt { return Prompt{Text: "ralph", Mark: "❯ "} }

func TestTypingWhileOutputStreams(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(Prompt{Text: "ralph ⠋", Mark: "❯ ", Live: []string{"half a sen"}})
	y.Has("ralph ⠋ ❯")
	var want strings.Builder
	for i := range 30 {
		r := rune('a' + i%26)
		want.WriteRune(r)
		y.Type(string(r))
		y.reader.Print(fmt.Sprintf("output line %d", i), "half a sen")
	}
	y.Until("all of both", func(s string) bool {
		return strings.Contains(s, "❯ "+want.String()+"▏") && strings.Contains(s, "output line 29")
	})
	golden(t, "stream", y.Screen())
	y.Type("\r")
	y.line(want.String())
	y.reader.Show(idle())
	golden(t, "stream-submitted", y.Until("the idle prompt", func(s string) bool { return strings.Contains(s, "ralph ❯ ▏") }))
}

// TestPrintedTextLeavesTheLiveRows: what was printed does not stand below itself
// until the next Show.
func TestPrintedTextLeavesTheLiveRows(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(Prompt{Text: "ralph", Mark: "❯ ", Live: []string{"half a sen"}})
	y.Has("half a sen\nralph ❯ ▏")
	y.reader.Print("Half a sentence is whole.", "and the", "next")
	y.Has("Half a sentence is whole.\nand the\nnext\nralph ❯ ▏")
	y.reader.Print("More.")
	y.Has("Half a sentence is whole.\nMore.\nralph ❯ ▏")
}

func TestKeysEditTheLine(t *testing.T) {
	for _, c := range []struct{ name, keys, want string }{
		{"home and end of tmux", "bc\x1b[1~a\x1b[4~d\r", "abcd"},
		{"home and end of xterm", "bc\x1b[Ha\x1b[Fd\r", "abcd"},
		{"home and end of SS3", "bc\x1bOHa\x1bOFd\r", "abcd"},
		{"arrows", "ac\x1b[Db\x1b[C!\r", "abc!"},
		{"delete", "xabc\x01\x1b[3~\r", "abc"},
		{"delete at the end", "abc\x1b[3~\r", "abc"},
		{"ctrl-d in a line", "xabc\x01\x04\r", "abc"},
		{"word left", "one two\x1b[1;5Dx\r", "one xtwo"},
		{"alt-b", "one two\x1bbx\r", "one xtwo"},
		{"kill and yank", "one\x15two \x19\r", "two one"},
		{"transpose", "acb\x1b[D\x14\r", "abc"},
		{"transpose one", "a\x14\x02\x14b\r", "ba"},
		{"continuation", "one\\\rtwo\r", "one\ntwo"},
		{"escaped backslash", "one\\\\\r", "one\\\\"},
		{"alt-enter", "one\x1b\rtwo\r", "one\ntwo"},
		{"up inside a text", "one\x1b\rtwo\x1b[AX\r", "oneX\ntwo"},
		{"history", "\x1b[A\x1b[A\r", "first"},
		{"search", "\x12fir\r", "first"},
		{"search left with escape sequence", "\x12fir\x1b[C!\r", "f!irst"},
		{"wide characters", "世界\x1b[D\x7f!\r", "!界"},
		{"short paste", "<\x1b[200~a\r\nb\x1b[201~>\r", "<a\nb>"},
		{"tab is nothing", "a\tb\r", "ab"},
		{"unknown sequences", "a\x1b[99;3zb\x1b]11;rgb:0/0/0\x07c\r", "abc"},
		{"nonsense bytes", "a\xff\xc2\x9bb\r", "ab"},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := openTTY(t, 60, 10, "first", "second")
			y.reader.Show(idle())
			y.Type(c.keys)
			y.line(c.want)
		})
	}
}

func TestLoneEscapeIsAKey(t *testing.T) {
	y := openTTY(t, 60, 10, "first")
	y.reader.Show(idle())
	y.Type("\x12fi")
	golden(t, "search", y.Has("search: fi"))
	y.Type("\x1b")
	y.Until("the end of the search", func(s string) bool { return !strings.Contains(s, "search") })
	y.Type("b\r")
	y.line("b")
}

func TestLineFeed(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(idle())
	y.Type("sent by a program\n")
	y.line("sent by a program")
	y.Type("by hand")
	y.Has("by hand")
	y.Type("\n")
	y.Until("a second row", func(s string) bool { return strings.Contains(s, "\n▏") })
	y.Type("more\r")
	y.line("by hand\nmore")
}

func TestPasteFolds(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(idle())
	var text strings.Builder
	for i := range 120 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	pasted := strings.TrimSuffix(text.String(), "\n")
	y.Type("see \x1b[200~" + pasted + "\x1b[201~ end")
	golden(t, "paste", y.Has("[pasted 120 lines, 969 bytes] end"))
	y.Type("\r")
	y.line("see " + pasted + " end")

	y.Type("a \x1b[200~" + pasted + "\x1b[201~")
	y.Has("[pasted 120 lines, 969 bytes]▏")
	y.Type("\x7f")
	y.Until("the paste gone", func(s string) bool { return strings.Contains(s, "a ▏") })
	y.Type("\r")
	y.line("a ")
}

func TestControlCAndD(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(idle())
	y.Type("half a line")
	y.Has("half a line")
	y.busy.Store(true)
	y.Type("\x03")
	select {
	case <-y.interrupts:
	case <-time.After(ttytest.Patience):
		t.Fatal("no interrupt")
	}
	if e := y.event(); e.Kind != EventStopped {
		t.Fatalf("got %+v", e)
	}
	y.Type("!")
	y.Has("half a line!▏")
	y.busy.Store(false)
	y.Type("\x03")
	if e := y.event(); e.Kind != EventInterrupt || e.Text != "half a line!" {
		t.Fatalf("got %+v", e)
	}
	golden(t, "cleared", y.Until("an empty line", func(s string) bool { return strings.Contains(s, "❯ ▏") && !strings.Contains(s, "half") }))
	y.Type("\x04")
	if e := y.event(); e.Kind != EventEOF {
		t.Fatalf("got %+v", e)
	}
}

func TestResize(t *testing.T) {
	y := openTTY(t, 80, 12)
	long := strings.Repeat("0123456789", 9)
	y.reader.Print("printed before")
	tail := "the tail of a block that is longer than forty columns"
	y.reader.Show(Prompt{Text: "ralph", Mark: "❯ ", Live: []string{tail}})
	y.Type(long)
	y.Has("789▏")
	for _, cols := range []int{40, 200} {
		y.resize(cols, 12)
		y.reader.Print(fmt.Sprintf("printed at %d", cols), tail)
		y.Has(fmt.Sprintf("printed at %d", cols))
		golden(t, fmt.Sprintf("resize-%d", cols), y.Until("one prompt", func(s string) bool { return strings.Count(s, "❯") == 1 }))
	}
	y.Type("\r")
	y.line(long)
}

func TestWideCharacters(t *testing.T) {
	y := openTTY(t, 24, 10)
	y.reader.Show(idle())
	y.reader.Print("日本語の出力 🚀")
	y.Type("日本語のテキスト🚀e\u0301x")
	y.Has("x▏")
	y.Type("\x1b[D\x1b[D\x1b[D")
	golden(t, "wide", y.Until("the cursor before the rocket", func(s string) bool { return strings.Contains(s, "▏🚀") }))
	y.Type("字\r")
	y.line("日本語のテキスト字🚀e\u0301x")
}

func TestTallInputShowsTheRowOfTheCursor(t *testing.T) {
	y := openTTY(t, 40, 8)
	y.reader.Show(idle())
	for i := range 12 {
		y.Type(fmt.Sprintf("row %d\x1b\r", i))
	}
	golden(t, "tall", y.Has("row 11\n▏"))
	y.Type("\x01" + strings.Repeat("\x1b[A", 12))
	y.Until("the first row", func(s string) bool { return strings.Contains(s, "ralph ❯ ") })
	y.reader.Print("above")
	y.Has("above")
}

func TestEdit(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(idle())
	y.Type("half")
	y.Has("half▏")
	old := ""
	y.reader.Edit(func(line string, _ func(string) string) string { old = line; return "" })
	y.Has("❯ ▏")
	y.Type("answer\r")
	y.line("answer")
	if old != "half" {
		t.Fatalf("the old text is %q", old)
	}
	y.reader.Edit(func(string, func(string) string) string { return "half" })
	y.Has("half▏")
	y.Type("!\x1b[D\x1b[D")
	y.Has("hal▏f!")
	// What is put before the line leaves the cursor where it is, and only that is
	// folded.
	long := strings.Repeat("a returned line\n", 20)
	y.reader.Edit(func(line string, fold func(string) string) string { return fold(long) + " " + line })
	y.Has("[pasted 20 lines, 320 bytes] hal▏f!")
	y.Type("\r")
	y.line(long + " half!")
}

func TestModalLendsTheTerminal(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(idle())
	y.Has("❯ ▏")
	got := make(chan string, 1)
	done := make(chan error, 1)
	go func() {
		done <- y.reader.(*Term).Modal(t.Context(), func(ctx context.Context, keys Keys, out io.Writer) error {
			fmt.Fprint(out, "modal here")
			for {
				if b := keys.Next(); b != nil {
					got <- string(b)
					return nil
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				time.Sleep(time.Millisecond)
			}
		})
	}()
	y.Has("modal here")
	y.reader.Print("output waits")
	y.Type("\x1bOA")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if k := <-got; k != "\x1b[A" {
		t.Fatalf("the key was %q", k)
	}
	y.Has("output waits")
	y.Type("x\r")
	y.line("x")
}

func TestShowIsThrottled(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(idle())
	y.Has("❯ ▏")
	before := y.Written()
	begin := time.Now()
	for i := range 20000 {
		y.reader.Show(Prompt{Text: fmt.Sprintf("ralph %d", i), Mark: "❯ "})
	}
	y.Has("ralph 19999 ❯")
	paints := int(time.Since(begin)/paintEvery) + 2
	if most := paints * 64; y.Written()-before > most {
		t.Errorf("20,000 changes in %v wrote %d bytes, want at most %d", time.Since(begin), y.Written()-before, most)
	}
}

func TestVanishedTerminal(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.Master.Close()
	if e := y.event(); e.Kind != EventGone || e.Err == nil {
		t.Fatalf("got %+v", e)
	}
	for e := range y.reader.Events() {
		t.Fatalf("another event: %+v", e)
	}
	_ = y.reader.Close() // a terminal that is gone cannot be restored
	y.reader = closed{}
}

// closed is a reader that was closed already.
type closed struct{ LineReader }

func (closed) Close() error { return nil }

func TestModesAreRestored(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	go io.Copy(io.Discard, master) // ends when master is closed
	fd := int(slave.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(Options{In: slave, Out: slave, Getenv: func(string) string { return "xterm" }})
	if err != nil {
		t.Fatal(err)
	}
	during, _ := unix.IoctlGetTermios(fd, unix.TCGETS)
	if during.Lflag&unix.ICANON != 0 {
		t.Error("not raw")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	after, _ := unix.IoctlGetTermios(fd, unix.TCGETS)
	if *after != *before {
		t.Errorf("modes are %+v, were %+v", after, before)
	}
}
