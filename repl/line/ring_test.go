package line

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// What is rung reaches the terminal whole and draws nothing; a picker that has the
// terminal is not disturbed.
func TestRing(t *testing.T) {
	const call = "\x1b]9;Ralph: done\x1b\\"
	y := openTTY(t, 40, 10)
	y.reader.Show(Prompt{Text: "ralph", Mark: "❯ "})
	before := y.Has("ralph ❯ ▏")
	term := y.reader.(*Term)
	term.Ring(call)
	y.Until("the call", func(string) bool { return y.Received(call) == 1 })
	if after := y.Screen(); after != before {
		t.Errorf("the screen was\n%s\nand is\n%s", before, after)
	}
	lent, back := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- term.Modal(t.Context(), func(context.Context, Keys, io.Writer) error {
			close(lent)
			<-back
			return errors.New("left")
		})
	}()
	<-lent
	term.Ring(call)
	time.Sleep(50 * time.Millisecond) // were it sent now, it would be there
	if n := y.Received(call); n != 1 {
		t.Errorf("while a picker had the terminal it was called %d times", n-1)
	}
	close(back)
	<-ended
	y.Until("the second call", func(string) bool { return y.Received(call) == 2 })
}
