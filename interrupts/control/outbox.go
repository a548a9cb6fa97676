package control

import (
	"errors"
	"net"
	"sync"
	"time"
)

// maxPendingBytes bounds what waits for a client that does not read; a single
// line may be longer.
const maxPendingBytes = 8 << 20

// writeChunk is how much must get away within the idle time.
const writeChunk = 64 << 10

var errSlow = errors.New("the client does not read")

// outbox writes lines to a client, in order, without ever keeping waiting who
// sends them.
type outbox struct {
	conn *net.UnixConn
	idle time.Duration
	wake chan struct{} // capacity 1
	done chan struct{} // closed when run has ended

	mu     sync.Mutex
	lines  [][]byte
	bytes  int
	ended  bool  // nothing more comes
	err    error // why nothing more goes out
	hurry  time.Duration
	onFail func(error)
}

func newOutbox(c *net.UnixConn, idle time.Duration, onFail func(error)) *outbox {
	return &outbox{conn: c, idle: idle, wake: make(chan struct{}, 1), done: make(chan struct{}), onFail: onFail}
}

// put queues one line. A client for which too much waits is cut off.
func (o *outbox) put(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil:
		return o.err
	case o.ended:
		return net.ErrClosed
	case o.bytes > 0 && o.bytes+len(line) > maxPendingBytes:
		o.fail(errSlow)
		return errSlow
	}
	o.lines, o.bytes = append(o.lines, line), o.bytes+len(line)
	o.signal()
	return nil
}

// fail ends it; mu is held.
func (o *outbox) fail(err error) {
	if o.err != nil {
		return
	}
	o.err, o.lines, o.bytes = err, nil, 0
	_ = o.conn.Close() // also ends a write under way
	o.onFail(err)
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run writes until end was called and everything is written, or a write fails.
func (o *outbox) run() {
	defer close(o.done)
	for {
		line, over := o.next()
		if over {
			return
		}
		if line == nil {
			<-o.wake
			continue
		}
		if err := o.write(line); err != nil {
			o.mu.Lock()
			o.fail(err)
			o.mu.Unlock()
			return
		}
		o.mu.Lock()
		o.bytes -= len(line)
		o.mu.Unlock()
	}
}

func (o *outbox) next() (line []byte, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || len(o.lines) == 0 {
		return nil, o.ended || o.err != nil
	}
	line = o.lines[0]
	o.lines = o.lines[1:]
	return line, false
}

func (o *outbox) write(line []byte) error {
	for len(line) > 0 {
		n := min(len(line), writeChunk)
		o.mu.Lock()
		deadline := time.Now().Add(o.idle)
		if o.hurry > 0 && o.hurry < o.idle { // also for a word that comes long after it was asked for
			deadline = time.Now().Add(o.hurry)
		}
		err := o.conn.SetWriteDeadline(deadline)
		o.mu.Unlock()
		if err != nil {
			return err
		}
		if _, err := o.conn.Write(line[:n]); err != nil {
			return err
		}
		line = line[n:]
	}
	return nil
}

// hasten bounds how long each write of what is left may take.
func (o *outbox) hasten(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hurry = d
	_ = o.conn.SetWriteDeadline(time.Now().Add(d)) // of a closed connection there is nothing left to write
}

// end waits until what was put is written, or cannot be.
func (o *outbox) end() {
	o.mu.Lock()
	o.ended = true
	o.signal()
	o.mu.Unlock()
	<-o.done
}
