package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// goneTick is how often a client that has said its last word, but not closed,
// is looked after.
const goneTick = 100 * time.Millisecond

// progress is how much of a long line must come within the idle time.
const progress = 256 << 10

// conn is one client. Three goroutines serve it: one reads lines, so that its
// end is noticed at any time, one writes, one answers.
type conn struct {
	s    *Server
	c    *net.UnixConn
	peer Peer
	out  *outbox

	lines chan []byte   // whole requests; closed when no more come
	over  chan struct{} // closed when nobody takes lines any more
	tasks sync.WaitGroup

	busy  atomic.Bool  // a request is under way
	spoke atomic.Bool  // there was one
	since atomic.Int64 // since when it is as busy says, in Unix nanoseconds
}

// idle says that a client has been silent for too long while others wait.
func (c *conn) idle() bool {
	limit := patience
	if !c.spoke.Load() {
		limit = shortPatience
	}
	at := c.since.Load()
	return !c.busy.Load() && at > 0 && time.Since(time.Unix(0, at)) > limit
}

// serve answers a client until it leaves, errs, or ctx ends.
func (c *conn) serve(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.out = newOutbox(c.c, c.s.o.Idle, func(err error) { cancel(fmt.Errorf("%w: %w", ErrGone, err)) })
	c.lines, c.over = make(chan []byte), make(chan struct{})
	c.tasks.Go(c.out.run)
	unhook := context.AfterFunc(ctx, func() { c.out.hasten(hurry) })
	if f := c.s.admit(c.peer); f != nil {
		c.fault(f)
	} else {
		c.pause(false)
		c.tasks.Go(func() { c.read(cancel) })
		c.answer(ctx)
	}
	c.out.end()
	unhook()
	close(c.over)
	_ = c.c.Close() // everything that can be written is
	c.tasks.Wait()
}

// answer takes one request after the other.
func (c *conn) answer(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case line, more := <-c.lines:
			if !more {
				return
			}
			c.pause(true)
			if !c.request(ctx, line) {
				return
			}
			c.pause(false)
		}
	}
}

// pause stops the clock that drops a silent client while a request is under
// way, and starts it.
func (c *conn) pause(busy bool) {
	c.busy.Store(busy)
	c.since.Store(time.Now().UnixNano())
	deadline := time.Time{}
	if busy {
		c.spoke.Store(true)
	} else {
		deadline = time.Now().Add(c.s.o.Idle)
	}
	_ = c.c.SetReadDeadline(deadline) // a closed connection is noticed by its reader
}

// request answers one line; false means that the connection is done.
func (c *conn) request(ctx context.Context, line []byte) bool {
	r, f := decode(line)
	if f != nil {
		c.fault(f)
		return false
	}
	if r.stays() {
		select {
		case c.s.staying <- struct{}{}:
			defer func() { <-c.s.staying }()
		default:
			c.fault(&Fault{Code: codeBusy, Message: "too many clients watch this Ralph", Hint: "end one of the others (ralph attach), or try again"})
			return true
		}
	}
	var over atomic.Bool
	final, err := c.handle(ctx, r, func(data any) error {
		if over.Load() {
			return errors.New("the request is answered already")
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return c.send(Reply{}, data)
	})
	over.Store(true)
	if err == nil {
		if err = c.send(Reply{Final: true}, final); err == nil {
			return true
		}
	}
	c.fault(faultOf(ctx, err))
	return true
}

// handle calls the handler; its panic is its error.
func (c *conn) handle(ctx context.Context, r Request, reply func(any) error) (final any, err error) {
	defer func() {
		if p := recover(); p != nil {
			final, err = nil, fmt.Errorf("%s: internal error: %v", r.Op, p)
		}
	}()
	return c.s.o.Handler.Serve(ctx, c.peer, r, reply)
}

// faultOf is an error as the client gets it.
func faultOf(ctx context.Context, err error) *Fault {
	var f *Fault
	switch {
	case errors.As(err, &f) && f != nil:
		return f
	case errors.Is(context.Cause(ctx), ErrClosing):
		return &Fault{Code: codeClosing, Message: ErrClosing.Error()}
	case context.Cause(ctx) != nil:
		return &Fault{Code: codeGone, Message: context.Cause(ctx).Error()}
	}
	return &Fault{Code: codeFailed, Message: err.Error()}
}

func (c *conn) fault(f *Fault) {
	_ = c.send(Reply{Fault: f, Final: true}, nil) // who does not read it has left
}

// send puts one line into the outbox.
func (c *conn) send(r Reply, data any) error {
	var err error
	if data != nil {
		if r.Data, err = json.Marshal(data); err != nil {
			return fmt.Errorf("encode the answer: %w", err)
		}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return c.out.put(append(line, '\n'))
}

// read takes lines from the client and, when it leaves, ends what is done for
// it. It never reads more than one request ahead.
func (c *conn) read(cancel context.CancelCauseFunc) {
	err := c.readLines(bufio.NewReaderSize(c.c, 32<<10))
	close(c.lines)
	switch {
	case errors.Is(err, io.EOF):
		c.lookAfter(cancel)
	case err != nil:
		cancel(fmt.Errorf("%w: %w", ErrGone, err))
	}
}

// readLines hands on requests until there are no more; nil means that nobody
// takes them any more, or that the last one was too long.
func (c *conn) readLines(in *bufio.Reader) error {
	for {
		line, err := c.line(in)
		if err != nil && !errors.Is(err, errTooLong) {
			return err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			select {
			case c.lines <- line:
			case <-c.over:
				return nil
			}
		}
		if err != nil {
			return nil
		}
	}
}

// errTooLong ends the reading of a line; what was read of it is one byte over
// the bound.
var errTooLong = errors.New("the request is too long")

// line reads one line, without its end; blank ones are none.
func (c *conn) line(in *bufio.Reader) ([]byte, error) {
	var line []byte
	timed := 0 // how much of it the deadline knows of
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLineBytes+1:
			return line[:maxLineBytes+1], errTooLong
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, os.ErrDeadlineExceeded) && c.busy.Load():
			// It expired before a request stopped the clock.
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line)-timed >= progress && !c.busy.Load():
			timed = len(line)
			if err := c.c.SetReadDeadline(time.Now().Add(c.s.o.Idle)); err != nil {
				return nil, err
			}
		}
	}
}

// lookAfter watches a client that will ask for nothing more. One that closed
// its end is gone; one that only closed its writing half, as nc and socat do,
// gets its answer.
func (c *conn) lookAfter(cancel context.CancelCauseFunc) {
	t := time.NewTicker(goneTick)
	defer t.Stop()
	for {
		if c.gone() {
			cancel(ErrGone)
			return
		}
		select {
		case <-c.over:
			return
		case <-t.C:
		}
	}
}

// gone asks the kernel: a write of nothing fails when nobody can read it.
func (c *conn) gone() bool {
	raw, err := c.c.SyscallConn()
	if err != nil {
		return true
	}
	cerr := raw.Control(func(fd uintptr) { _, err = syscall.Write(int(fd), nil) })
	return cerr != nil || err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
}
