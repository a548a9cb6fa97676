// Package interrupts is where the human's word enters a running Ralph: the
// queue of what was said, in five classes, and what a stop is.
//
// It owns the order of messages, their numbers and their one final state, the
// contexts that a stop or an urgent message ends, and the meaning of a signal.
// It refuses everything else: it knows no model, no file and no terminal, and
// uses only the standard library. What makes a message durable is a function
// that the owner of a [Queue] gives it.
//
//	q := interrupts.NewQueue(interrupts.Options{Keep: log.Keep, Notify: show})
//	defer q.Close(ctx)
//	g := q.Guard(ctx, "") // before Take: a stop that comes between ends it
//	defer g.Release()
//	for _, m := range q.Take(func(m interrupts.Message) bool { return m.Class == interrupts.ClassSteer }) {
//		if q.Settle(m.ID(), interrupts.Delivered) == nil { // else a stop was faster: it has gone back
//			work(g.Context(), m.Text) // context.Cause is a *Stop after q.Push(Message{Class: ClassStop})
//		}
//	}
package interrupts

import (
	"errors"
	"fmt"
	"syscall"
)

// Stop is the cause of a context that a human ended. It is an error so that it
// travels as a context's cause; errors.As finds it again.
type Stop struct {
	// Signal is the signal that asked for the stop, 0 for a command such as
	// /stop.
	Signal syscall.Signal
	// Text is what the human said with it.
	Text string
}

// Error names the stop.
func (s *Stop) Error() string {
	switch {
	case s.Signal != 0:
		return "interrupted by " + signalName(s.Signal)
	case s.Text != "":
		return "stopped by the user: " + s.Text
	}
	return "stopped by the user"
}

// AsStop finds the stop in an error's chain.
func AsStop(err error) (*Stop, bool) {
	var s *Stop
	ok := errors.As(err, &s)
	return s, ok
}

func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGPIPE:
		return "SIGPIPE"
	}
	return fmt.Sprintf("signal %d", int(s))
}

// Preempt is the cause of a step's context that an urgent message ended; see
// [Queue.Step].
type Preempt struct {
	// Message is the urgent message. It waits in the queue for Take.
	Message Message
}

// Error names the message.
func (p *Preempt) Error() string { return "pre-empted by " + p.Message.ID() }

// AsPreempt finds the pre-emption in an error's chain.
func AsPreempt(err error) (*Preempt, bool) {
	var p *Preempt
	ok := errors.As(err, &p)
	return p, ok
}
