package line

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestNothingIsPaintedInAStorm: while the window changes nothing is written; what
// was printed and typed meanwhile comes when it rests, once.
func TestNothingIsPaintedInAStorm(t *testing.T) {
	y := openTTY(t, 60, 20)
	_ = y.reader.Close()
	<-y.reader.(*Term).served
	r, err := Open(Options{In: y.Slave, Out: y.Slave, Getenv: func(name string) string {
		return map[string]string{"TERM": "screen-256color", "TMUX": "/tmp/t,1,0"}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	y.reader = r
	term := r.(*Term)
	r.Show(idle())
	y.Has("ralph ❯ ▏")
	if term.loop.storm.rests != restsAfterTmux {
		t.Errorf("in tmux a window rests after %v", term.loop.storm.rests)
	}
	before, began := y.Written(), time.Now()
	for cols := 59; cols > 50; cols-- {
		y.resize(cols, 20)
		r.Print("printed in the storm")
	}
	y.Type("typed")
	time.Sleep(restsAfterTmux / 4)
	if written := y.Written() - before; written > 0 && time.Since(began) < restsAfterTmux {
		t.Errorf("%d bytes were written while the window changed", written)
	}
	s := y.Has("ralph ❯ typed▏")
	if n := strings.Count(s, "printed in the storm"); n != 9 {
		t.Errorf("%d lines were printed, want 9:\n%s", n, s)
	}
	if n := strings.Count(s, "❯"); n != 1 {
		t.Errorf("%d prompts:\n%s", n, s)
	}
}

// TestHurry: an output that takes nothing is left alone when it is told to be quick.
func TestHurry(t *testing.T) {
	in, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer typed.Close()
	read, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	r, err := Open(Options{In: in, Out: out, OnGone: func(err error) { t.Errorf("gone: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Print(strings.Repeat("much\n", 1<<18))
		r.Print("never")
	}()
	select {
	case <-done:
		t.Fatal("a pipe that nobody reads took a megabyte")
	case <-time.After(2 * untakenLook):
	}
	r.(*Plain).Hurry(time.Millisecond)
	<-done
}
