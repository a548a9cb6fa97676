package line

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestTooMuchOutputLosesItsMiddle: what a terminal does not take is bounded, whole
// lines, with a note where some are missing.
func TestTooMuchOutputLosesItsMiddle(t *testing.T) {
	const limit = 1 << 20
	var b backlog
	n := 0
	for ; n < 100_000; n++ {
		b.add(fmt.Sprintf("line %d of what was printed\n", n), limit)
		if len(b.b) > limit+limit/4 {
			t.Fatalf("%d bytes wait", len(b.b))
		}
	}
	lines := strings.Split(strings.TrimSuffix(b.take(), "\n"), "\n")
	if lines[0] != "line 0 of what was printed" || lines[len(lines)-1] != fmt.Sprintf("line %d of what was printed", n-1) {
		t.Errorf("from %q to %q", lines[0], lines[len(lines)-1])
	}
	next, notes := 0, 0
	for _, l := range lines {
		var i int
		if strings.Contains(l, "left out") {
			notes++
			continue
		}
		if _, err := fmt.Sscanf(l, "line %d of what was printed", &i); err != nil || i < next || i > next && notes == 0 {
			t.Fatalf("%q after line %d", l, next-1)
		}
		next = i + 1
	}
	if notes != 1 {
		t.Errorf("%d notes", notes)
	}
	if again := b.take(); again != "" {
		t.Errorf("%d bytes were left", len(again))
	}
}

// TestKeysComeBetweenOutput: ten megabytes do not keep a key from being seen, and
// all of them come.
func TestKeysComeBetweenOutput(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	defer master.Close()
	r, err := Open(Options{In: slave, Out: slave, Getenv: xterm})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	n := 0
	for ; text.Len() < 10<<20; n++ {
		fmt.Fprintf(&text, "line %d %s\n", n, strings.Repeat("x", 60))
	}
	const keys = "QRSTUVWXYZ" // none of which ends a control sequence
	r.Show(idle())
	r.Print(text.String())
	var longest time.Duration
	lines, typed, seen := 0, 0, 0
	var pressed time.Time
	atKey := make([]int, 0, len(keys)) // how much had come when a key was seen
	buf := make([]byte, 32<<10)
	for lines < n || seen < len(keys) {
		got, err := master.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(buf[:got], []byte("\n"))
		if typed > seen && bytes.IndexByte(buf[:got], keys[typed-1]) >= 0 {
			longest = max(longest, time.Since(pressed))
			seen, atKey = typed, append(atKey, lines)
		}
		if seen == typed && typed < len(keys) && lines > 0 {
			pressed = time.Now()
			if _, err := master.Write([]byte{keys[typed]}); err != nil {
				t.Fatal(err)
			}
			typed++
		}
	}
	t.Logf("the slowest key took %v", longest)
	if lines != n {
		t.Errorf("of %d lines came %d", n, lines)
	}
	if atKey[len(keys)-1] > n/2 {
		t.Errorf("of %d lines had come %d when the keys were seen", n, atKey)
	}
	go io.Copy(io.Discard, master) // ends when master is closed
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestQuestionWaitsForItsText: a prompt is not seen before what was printed above
// it, in however many pieces.
func TestQuestionWaitsForItsText(t *testing.T) {
	y := openTTY(t, 80, 10)
	y.reader.Show(idle())
	y.Has("❯ ▏")
	y.reader.Print(strings.Repeat("some text\n", 50_000) + "the question")
	y.reader.Show(Prompt{Text: "answer", Mark: "? ", Ask: 1, Now: true})
	y.Until("the question above its prompt", func(s string) bool {
		if strings.Contains(s, "answer ?") && !strings.Contains(s, "the question\nanswer ? ▏") {
			t.Fatalf("the prompt came first:\n%s", s)
		}
		return strings.Contains(s, "answer ?")
	})
}

// TestCloseWithATerminalThatTakesNothing: nobody reads the other side.
func TestCloseWithATerminalThatTakesNothing(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	r, err := Open(Options{In: slave, Out: slave, Getenv: xterm})
	if err != nil {
		t.Fatal(err)
	}
	r.Print(strings.Repeat("nobody reads this\n", 100_000))
	began := time.Now()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > closeWait+ttyPatience {
		t.Errorf("Close took %v", d)
	}
	master.Close() // ends the write that is going on
	<-r.(*Term).served
}

// ttyPatience is how late a busy machine may be.
const ttyPatience = 10 * time.Second

// TestStalledTerminalKeepsLess: while a write hangs, less is kept.
func TestStalledTerminalKeepsLess(t *testing.T) {
	var term Term
	term.writing.Store(time.Now().Add(-2 * stalled).UnixNano())
	line := strings.Repeat("x", 1023) + "\n"
	for range 24 << 10 {
		term.queue(line)
	}
	if n := len(term.printed.b); n > keptOutput+keptOutput/4 {
		t.Errorf("%d bytes wait", n)
	}
	var fast Term
	for range 24 << 10 {
		fast.queue(line)
	}
	if n := len(fast.printed.b); n != 24<<20 {
		t.Errorf("of 24 MiB for a terminal that takes it, %d bytes wait", n)
	}
}

// TestCloseEndsALoan: a borrower is told, and what was printed meanwhile is shown.
func TestCloseEndsALoan(t *testing.T) {
	y := openTTY(t, 60, 10)
	y.reader.Show(idle())
	y.Has("❯ ▏")
	began, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- y.reader.(*Term).Modal(t.Context(), func(ctx context.Context, _ Keys, _ io.Writer) error {
			close(began)
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	<-began
	y.reader.Print("printed while it was lent")
	if err := y.reader.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("the loan ended with %v", err)
	}
	y.Has("printed while it was lent")
}

// TestPiecesAreSmall: what a terminal takes at once, 4095 bytes on Linux, holds a
// piece with the prompt below it, which is never gone between two of them.
func TestPiecesAreSmall(t *testing.T) {
	p := printing{text: strings.Repeat(strings.Repeat("x", 99)+"\n", 5000)}
	for p.text != "" {
		piece := p.piece()
		if len(piece) > 3<<10 {
			t.Fatalf("a piece of %d bytes", len(piece))
		}
		p.text = p.text[len(piece):]
		p.took(len(piece), 0)
	}
}
