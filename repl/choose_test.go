package repl

import (
	"context"
	"errors"
	"io"
	"syscall"
	"testing"

	"ralph/repl/line"
	"ralph/repl/pick"
	"ralph/repl/render"
)

// A choice beside the work asks, whatever a completion does with the menu meanwhile.
func TestListBesideACompletion(t *testing.T) {
	t.Parallel()
	out := &scripted{s: &Shell{o: Options{Script: &Script{Out: io.Discard}}}}
	s := &Shell{ink: newInk(out, render.New(render.Options{Width: 80})), reader: out}
	s.picker = s.newPicker(false)
	lent, back := make(chan struct{}), make(chan struct{})
	s.picker.Size = func() (int, int) { return 80, 24 }
	s.picker.Lend = func(context.Context, func(context.Context, line.Keys, io.Writer) error) error {
		close(lent)
		<-back
		return nil
	}
	completed := make(chan struct{})
	go func() {
		defer close(completed)
		_, _ = s.pickOne(t.Context(), "file", "", []pick.Item{{Value: "a"}}, true)
	}()
	<-lent
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	if _, err := s.listOne(ctx, "task", []pick.Item{{Value: "T-1"}}); !errors.Is(err, over) {
		t.Errorf("nothing was asked: %v", err)
	}
	close(back)
	<-completed
}

// Where the loop hangs and nothing runs that could be stopped, the third interrupt
// leaves; one that the loop noticed does not count.
func TestThirdUnheardInterruptLeaves(t *testing.T) {
	t.Parallel()
	s := &Shell{wake: make(chan struct{}, 1), force: make(chan int, 1)}
	e := &ears{s: s}
	for n := 1; n <= 3; n++ {
		if code := s.mustLeave(); code != 0 {
			t.Fatalf("left with %d after %d", code, n-1)
		}
		e.heard(syscall.SIGINT)
	}
	if code := s.mustLeave(); code != 130 {
		t.Errorf("left with %d", code)
	}
	select {
	case <-s.force:
	default:
		t.Error("Run is not told")
	}
}
