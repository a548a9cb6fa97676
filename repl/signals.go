package repl

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"ralph/interrupts"
	"ralph/repl/line"
)

// leaveHard is how long leaving after a signal may take, whatever hangs.
const leaveHard = 2*leaveWait + time.Second

// untaken is how long leaving after a signal waits for an output that takes nothing.
const untaken = time.Second

// ears hear the signals of one conversation, on a goroutine of their own, so
// that a stop does not wait for the loop.
type ears struct {
	s       *Shell
	signals chan os.Signal
	pipe    chan os.Signal
	quit    chan struct{}
	done    chan struct{}
	late    *time.Timer
	unheard atomic.Int32 // interrupts at rest that the loop has not noticed
}

func (s *Shell) hear() *ears {
	e := &ears{s: s, signals: make(chan os.Signal, 4), pipe: make(chan os.Signal, 1), quit: make(chan struct{}), done: make(chan struct{})}
	signal.Notify(e.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	// Caught, so that a write to a closed pipe is an error and not the end.
	signal.Notify(e.pipe, syscall.SIGPIPE)
	go e.run()
	return e
}

func (e *ears) run() {
	defer close(e.done)
	for {
		select {
		case sig := <-e.signals:
			num, _ := sig.(syscall.Signal) // every os.Signal here is one
			e.heard(num)
		case <-e.quit:
			return
		}
	}
}

func (e *ears) heard(num syscall.Signal) {
	s := e.s
	switch {
	case num != syscall.SIGINT:
		if e.late == nil {
			e.late = time.AfterFunc(leaveHard, func() { s.leaveAtOnce(128 + int(num)) })
			s.hurry()
		}
		s.stopWork(&interrupts.Stop{Signal: num})
		if num == syscall.SIGHUP {
			s.post(func() { s.vanish(num) })
			return
		}
		s.post(func() { s.leave(128 + int(num)) })
	case s.interrupt(false, &interrupts.Stop{Signal: num}):
		s.post(s.returnLines)
	default:
		if e.unheard.Add(1) == 3 {
			s.leaveAtOnce(128 + int(num)) // the loop waits for an output that nobody takes
		}
		s.post(func() {
			e.unheard.Store(0)
			s.onEvent(line.Event{Kind: line.EventInterrupt})
		})
	}
}

// hurry has what is left go on without an output that nobody takes.
func (s *Shell) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, plain := s.reader.(*line.Plain); plain {
		p.Hurry(untaken)
	}
}

func (e *ears) close() {
	signal.Stop(e.signals)
	signal.Stop(e.pipe)
	close(e.quit)
	<-e.done
	if e.late != nil {
		e.late.Stop()
	}
}
