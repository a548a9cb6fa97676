package repl

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOwnLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"!ls": "ls", "  ! ls -l ": "ls -l", "!": "", "!a\nb": "a\nb"} {
		if got, ok := ownLine(line); !ok || got != want {
			t.Errorf("%q is %q, %t", line, got, ok)
		}
	}
	for _, line := range []string{"", "hello!", "/run", "a !b"} {
		if _, ok := ownLine(line); ok {
			t.Errorf("%q is taken for a command", line)
		}
	}
}

// What is shown of an output does not depend on how it was cut, is its beginning
// and its end, and says how much is missing.
func TestTapIsIndependentOfTheCuts(t *testing.T) {
	t.Parallel()
	var long bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&long, "line %d\n", i)
	}
	for name, text := range map[string]string{
		"long": long.String(), "progress": "a\n10%\r20%\r100%\ndone\r\n\x1b[31mred\x1b[0m\ta\tb\n", "no end": "a\nb", "empty": "", "blank": "\n\n",
		"wide": strings.Repeat("x", 3*rowBytes) + "\nnext\n", "binary": "\x00\xff\x1b]0;title\x07\n日本\t語\n", "bytes": strings.Repeat(strings.Repeat("y", 1000)+"\n", 300),
	} {
		whole := tapped([]byte(text), len(text)+1)
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 7))
			if got := tapped([]byte(text), 1+r.IntN(50)); got != whole {
				t.Fatalf("%s cut in pieces is\n%.300q\nwant\n%.300q", name, got, whole)
			}
		}
		if n := strings.Count(whole, "\n"); n > headRows+tailRows+1 {
			t.Errorf("%s: %d rows are shown", name, n)
		}
		if strings.ContainsAny(whole, "\x1b\x00\r") {
			t.Errorf("%s: control characters in %.300q", name, whole)
		}
	}
	if got := tapped(long.Bytes(), 4096); !strings.Contains(got, "line 199\n  … 760 lines left out …\n  line 960\n") || !strings.HasSuffix(got, "line 999\n") {
		t.Errorf("a long output is\n%s", got)
	}
	if got, want := tapped([]byte("a\n10%\r20%\r100%\ndone\r\n\x1b[31mred\x1b[0m\ta\tb\n"), 100), "  a\n  100%\n  done\n  red     a       b\n"; got != want {
		t.Errorf("progress is %q, want %q", got, want)
	}
}

func tapped(text []byte, size int) string {
	var b strings.Builder
	t := &tap{print: func(rows []string) { b.WriteString(printed(rows)) }}
	for len(text) > 0 {
		n := min(size, len(text))
		t.write(text[:n])
		text = text[n:]
	}
	t.close()
	t.write([]byte("too late\n"))
	return b.String()
}

func FuzzTap(f *testing.F) {
	for _, s := range []string{"", "a\nb", "a\rb\r\n", "\x1b[31m\t\xff\n\r\r\n"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		size = 1 + max(size%64, 0)
		if got, want := tapped(text, size), tapped(text, len(text)+1); got != want {
			t.Fatalf("%q in pieces of %d is %q, want %q", text, size, got, want)
		}
	})
}

func TestOwnCommand(t *testing.T) {
	h := &ownHands{}
	c := open(t, echo, withHands(h))
	c.idle()
	c.Type("!echo one; printf 'a\\tb\\n\\033[31mred\\033[0m\\n' >&2; exit 3\r")
	s := c.Has("exit 3, ")
	for _, want := range []string{"❯ !echo one", "\n  one\n", "\n  a       b\n", "\n  red\n", "! echo one; printf"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q is missing in\n%s", want, s)
		}
	}
	c.idle()
	c.Type("\x0c!true\r")
	golden(t, "own", c.Until("the end", func(s string) bool {
		return strings.Contains(s, "true: exit 0, ") && strings.Contains(s, "ralph ❯ ▏")
	}))
	if len(c.f.said()) != 0 {
		t.Errorf("the model was told to do %v", c.f.said())
	}
	// It is in the history.
	c.Type("\x1b[A\x1b[A")
	c.Has("❯ !echo one")
	c.bye(t)
}

// What a command prints is seen while it runs, and Ctrl-C ends it alone: the line
// that is typed stays, and what waited for its end comes back.
func TestOwnCommandIsStopped(t *testing.T) {
	h := &ownHands{}
	c := open(t, echo, withHands(h))
	c.idle()
	c.Type("!echo begun; printf 'half a row'; sleep 100\r")
	c.Has("\n  begun\n")
	c.Has("! echo begun; printf 'half a row'; sleep 100 · half a row")
	c.Type("and then this\r")
	c.Has("it waits until !echo begun")
	c.Type("half")
	c.Has("❯ half▏")
	c.Type("\x03")
	c.Has(": stopped")
	c.Has("❯ and then this\nhalf▏")
	if len(c.f.said()) != 0 || c.f.stopped() != 0 {
		t.Errorf("said %v, %d stops", c.f.said(), c.f.stopped())
	}
	c.Type("\x03")
	c.idle()
	c.bye(t)
}

// A line that was typed while a command ran is said when it has ended.
func TestLineAfterOwnCommand(t *testing.T) {
	h := &ownHands{}
	c := open(t, echo, withHands(h))
	c.idle()
	fifo := filepath.Join(t.TempDir(), "go")
	c.Type("!until [ -e " + fifo + " ]; do sleep 0.01; done\r")
	c.Has("ralph ⠋ !")
	c.Type("what was that?\r")
	c.Has("(1 waiting)")
	touch(t, fifo)
	c.Has("You said **what was that?**.")
	c.bye(t)
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// While Ralph works a command runs beside it, and may outlast it; a stop stops both.
func TestOwnCommandWhileBusy(t *testing.T) {
	h := &ownHands{}
	release := make(chan struct{})
	c := open(t, listen(release), withHands(h))
	c.idle()
	c.Type("work\r")
	c.Has("on work")
	c.Type("!echo beside\r")
	c.Has("\n  beside\n")
	c.Has("echo beside: exit 0")
	c.Type("!echo slow; sleep 100\r")
	c.Has("\n  slow\n")
	c.Type("more\r")
	c.Has("m-1 queued: more") // it goes to the work, not behind the command
	release <- struct{}{}
	c.Has("and on more")
	close(release)
	c.Until("the end of the turn", func(s string) bool {
		_, after, ok := strings.Cut(s, "and on more")
		return ok && strings.Contains(after, " ms\n")
	})
	c.Has("! echo slow; sleep 100") // it outlasts the turn
	c.Type("\x03")
	c.Has("echo slow; sleep 100: stopped")
	c.idle()
	if c.f.stopped() != 0 {
		t.Error("the coordinator was stopped though only the command ran")
	}
	c.bye(t)
}

func TestStopEndsWorkAndOwnCommands(t *testing.T) {
	h := &ownHands{}
	c := open(t, hang, withHands(h))
	c.idle()
	c.Type("work\r")
	c.Has("thinking about it")
	c.Type("!echo slow; sleep 100\r")
	c.Has("\n  slow\n")
	c.Type("\x03")
	c.Has("sleep 100: stopped")
	c.Has("ralph talk ❯ ▏")
	// In conversation mode it works all the same: it is the user's.
	c.Type("\x0c!echo mine\r")
	c.Has("\n  mine\n")
	c.Has("exit 0, ")
	c.Has("ralph talk ❯ ▏")
	c.Type("\x04")
	c.left(0)
}

// Leaving ends what runs beside everything.
func TestLeavingEndsOwnCommands(t *testing.T) {
	h := &ownHands{}
	c := open(t, hang, withHands(h))
	c.idle()
	c.Type("work\r")
	c.Has("thinking about it")
	c.Type("!echo slow; sleep 100\r")
	c.Has("\n  slow\n")
	begun := time.Now()
	c.Type("/exit\r")
	c.left(0)
	if d := time.Since(begun); d > leaveWait {
		t.Errorf("leaving took %v", d)
	}
}

// A command may be looked at while a question is open, which stays open.
func TestOwnCommandBeforeAnAnswer(t *testing.T) {
	h := &ownHands{}
	c := open(t, asking, withHands(h))
	c.idle()
	c.Type("go\r")
	c.Has("answer [no] ?")
	c.Type("!echo look\r")
	c.Has("\n  look\n")
	c.Has("answer [no] ? ▏")
	c.Type("yes\r")
	c.Has("it said yes")
	c.idle()
	c.bye(t)
}

// Lines of a pipe wait for the command before them.
func TestOwnCommandInAPipe(t *testing.T) {
	h := &ownHands{}
	out := piped(t, echo, "!sleep 0.05; echo first\nthen this\n!echo last\n", withHands(h))
	at := 0
	for _, want := range []string{"\n> !sleep 0.05; echo first\n  first\n", "You said **then this**.", "\n> !echo last\n  last\n"} {
		i := strings.Index(out[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or out of order in\n%s", want, out)
		}
		at += i
	}
}

// piped gives lines to a chat without a terminal and returns what it prints.
func piped(t *testing.T, turn turnFunc, lines string, change ...func(*Options)) string {
	t.Helper()
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	go func() { // ends with the pipe
		defer w.Close()
		_, _ = io.WriteString(w, lines)
	}()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	f := &fake{turn: turn, model: "m"}
	o := Options{In: in, Out: out, Getenv: func(string) string { return "" }, Open: opens(f)}
	for _, c := range change {
		c(&o)
	}
	if code, err := Run(t.Context(), o); code != 0 || err != nil {
		t.Fatalf("left with %d, %v", code, err)
	}
	data, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A server that never ends does not keep the user from talking: what is urgent
// begins at once beside it, and Ctrl-C ends it still.
func TestNowBesideOwnCommand(t *testing.T) {
	h := &ownHands{}
	c := open(t, echo, withHands(h))
	c.idle()
	c.Type("!echo serving; sleep 100\r")
	c.Has("\n  serving\n")
	c.Type("wait for it\r")
	c.Has("/now TEXT does not wait for it")
	if len(c.f.said()) != 0 {
		t.Fatalf("said %v", c.f.said())
	}
	c.Type("/now are you there?\r")
	c.Has("You said **are you there?**.")
	c.Has("You said **wait for it**.") // it goes with the work, and waits no longer
	c.Has("! echo serving; sleep 100")
	c.Type("/undo\r") // nothing waits for a command that runs beside
	c.Has("taken back: main.go")
	c.Type("\x03")
	c.Has("sleep 100: stopped")
	c.idle()
	if c.f.stopped() != 0 {
		t.Error("the coordinator was stopped though only the command ran")
	}
	c.bye(t)
}

// What would wait for keys for ever is not begun, and what has no effect says so.
func TestCommandsThatWouldDisappoint(t *testing.T) {
	for command, want := range map[string]bool{"vim main.go": true, "/usr/bin/nano": true, "emacs -nw a": true, "vim --version": false, "ls vim": false, "echo x | vim -": false,
		"": false, "vimtutor-x": false, "vi a; ls": false} {
		if got := fullScreen(command); got != want {
			t.Errorf("%q is an editor: %t", command, got)
		}
	}
	h := &ownHands{}
	c := open(t, echo, withHands(h))
	c.idle()
	c.Type("!vim main.go\r")
	c.Has("vim needs the terminal")
	c.Has("/edit FILE opens your editor")
	c.idle()
	c.Type("\x0c!cd /\r")
	c.Has("nothing has moved")
	c.Type("\x0c!cd / && pwd\r")
	c.Has("\n  /\n")
	c.Has("cd / && pwd: exit 0")
	c.bye(t)
}
