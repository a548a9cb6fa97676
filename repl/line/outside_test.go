package line

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ralph/repl/ttytest"
)

// outsider runs a shell script on the terminal that is lent to it.
func outsider(script string) func(context.Context, *os.File) error {
	return func(ctx context.Context, tty *os.File) error {
		cmd := exec.CommandContext(ctx, "sh", "-c", script)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
		return cmd.Run()
	}
}

// lend starts a loan and waits until what it runs has written "ready".
func lend(y *tty, ctx context.Context, script string) chan error {
	y.t.Helper()
	done := make(chan error, 1)
	go func() { done <- y.reader.(*Term).Outside(ctx, outsider(script)) }()
	y.Has("ready")
	return done
}

func TestOutside(t *testing.T) {
	// After a failure all that was printed has gone up from a new row at the bottom.
	const kept = "printed before\nready\nfor the editor\n"
	const prompt = "live\nralph ❯ half a line▏\n"
	for _, c := range []struct {
		name, leaves, screen string
		fails                bool
	}{
		{"a program that tidies up", ``, kept + prompt, false},
		{"one with a page of its own", `printf '\033[?1049h\033[2J\033[5;5Hdrawn'; printf '\033[?1049l'`, kept + prompt, false},
		{"one that ends in the middle of a row", `printf 'no newline'`, kept + "no newline\n" + prompt, false},
		{"one that ends at the end of a row", `printf '%060d' 0`, kept + strings.Repeat("0", 60) + "\n" + prompt, false},
		{"one that says why it fails", `echo no such file; exit 3`, "for the editor\nno such file\n" + strings.Repeat("\n", 8) + prompt, true},
		{"one that is killed", `stty raw -echo; printf '\033[?1049h\033[H\033[2J\033[3;7r\033[?25l\033[?7l\033[?1000h\033[31m\033[?2004l'; kill -9 $$`, "for the editor\n" + strings.Repeat("\n", 9) + prompt, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := openTTY(t, 60, 12)
			y.reader.Print("printed before")
			y.reader.Show(Prompt{Text: "ralph", Mark: "❯ ", Live: []string{"live"}})
			y.Type("half a line")
			y.Has("half a line▏")
			// read gets a line only from a terminal that is not raw.
			done := lend(y, t.Context(), `stty -a | tr ';' ' ' | grep -q ' icanon' && echo ready; read x; test "$x" = "for the editor" || exit 9; `+c.leaves)
			y.Type("for the editor\r")
			if err := <-done; (err != nil) != c.fails {
				t.Fatal(err)
			}
			if s := y.Has("half a line▏"); s != c.screen {
				t.Errorf("the screen is\n%s\nwant\n%s", s, c.screen)
			}
			y.reader.Print("printed after")
			y.Has("printed after")
			y.Type(" goes on\r")
			y.line("half a line goes on")
			if n := y.Received("\x1b[?1000l"); n != 1 {
				t.Errorf("reports of the mouse were ended %d times", n)
			}
		})
	}
}

// TestOutsideKeepsOutputWaiting: nothing is printed into the other program's page.
func TestOutsideKeepsOutputWaiting(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(idle())
	y.Has("❯ ▏")
	done := lend(y, t.Context(), `echo ready; read x; echo got; read x`)
	y.reader.Print("this waits")
	y.Type("one\r")
	if s := y.Has("got"); strings.Contains(s, "this waits") {
		t.Errorf("printed into another program:\n%s", s)
	}
	y.Type("two\r")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	y.Has("this waits\nralph ❯ ▏")
}

// TestOutsideEndsWithItsContext, and so does a second loan at the same time.
func TestOutsideEndsWithItsContext(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(idle())
	y.Has("❯ ▏")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := lend(y, ctx, `echo ready; exec sleep 60`)
	if err := y.reader.(*Term).Outside(t.Context(), outsider("true")); err == nil {
		t.Error("lent twice")
	}
	cancel(errors.New("stopped"))
	if err := <-done; err == nil {
		t.Error("no error")
	}
	y.Has("ralph ❯ ▏")
	y.Type("on\r")
	y.line("on")
}

// TestResizeWhileOutside: the prompt comes back for the new size.
func TestResizeWhileOutside(t *testing.T) {
	y := openTTY(t, 80, 12)
	y.reader.Show(Prompt{Text: "ralph", Mark: "❯ ", Live: []string{strings.Repeat("live ", 15)}})
	y.Type(strings.Repeat("0123456789", 5))
	y.Has("9▏")
	done := lend(y, t.Context(), `echo ready; read x`)
	y.resize(40, 12)
	y.Type("\r")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	y.Until("the prompt in 40 columns", func(s string) bool {
		return strings.Contains(s, "ralph ❯ 0123456789012345678901234567890\n1234567890123456789▏")
	})
}

func TestCloseWhileOutside(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(idle())
	y.Has("❯ ▏")
	done := lend(y, t.Context(), `echo ready; exec sleep 60`)
	y.reader.Print("printed while it was lent")
	if err := y.reader.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(ttytest.Patience):
		t.Fatal("the loan goes on")
	}
	y.Has("printed while it was lent")
	y.reader = closed{}
}

func TestPlainOutside(t *testing.T) {
	y := &tty{TTY: ttytest.New(t, 60, 10), t: t}
	r, err := Open(Options{In: y.Slave, Out: y.Slave, Getenv: xterm, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	y.reader = r
	defer r.Close()
	r.Show(Prompt{Mark: "> "})
	y.Has("> ▏")
	saved, err := unix.IoctlGetTermios(int(y.Slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- r.(*Plain).Outside(t.Context(), outsider(`echo ready; read x; echo "got $x"; stty raw`))
	}()
	y.Has("ready")
	r.Print("this waits")
	y.Type("a line\r")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	y.Has("got a line\nthis waits\n> ▏")
	if now, err := unix.IoctlGetTermios(int(y.Slave.Fd()), unix.TCGETS); err != nil || fmt.Sprint(*now) != fmt.Sprint(*saved) {
		t.Error("the modes are not as they were")
	}
	y.Type("mine\r")
	y.line("mine")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer w.Close()
	piped, err := Open(Options{In: in})
	if err != nil {
		t.Fatal(err)
	}
	defer piped.Close()
	if err := piped.(*Plain).Outside(t.Context(), outsider("true")); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("without a terminal: %v", err)
	}
}

// TestPlainPromptIsNotRepeated: a screen reader says the prompt once below what was
// printed, not once a line.
func TestPlainPromptIsNotRepeated(t *testing.T) {
	y := &tty{TTY: ttytest.New(t, 60, 30), t: t}
	r, err := Open(Options{In: y.Slave, Out: y.Slave, Getenv: xterm, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	y.reader = r
	r.Show(Prompt{Mark: "> "})
	y.Has("> ▏")
	var want strings.Builder
	for i := range 20 {
		r.Print(fmt.Sprintf("line %d", i))
		r.Show(Prompt{Mark: "> ", Text: fmt.Sprint(i)})
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if s := y.Has("line 19\n> ▏"); s != ">\n"+want.String()+"> ▏\n" {
		t.Errorf("the screen is\n%s", s)
	}
	r.Show(Prompt{Mark: "? ", Ask: 1, Above: "a question"})
	y.Has("a question\n? ▏")
	y.Type("yes\r")
	y.line("yes")
	if n := y.Received("\x1b"); n > 0 {
		t.Errorf("%d control sequences", n)
	}
}
