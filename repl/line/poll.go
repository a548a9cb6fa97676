package line

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// errStopped says that a source was told to stop.
var errStopped = errors.New("input stopped")

// source reads a file descriptor that blocks, without leaving a goroutine in
// the read when it is told to stop or to keep its hands off. One goroutine reads;
// stop, hold and release may be called from any other.
type source struct {
	fd     int
	wakeR  *os.File
	wakeW  *os.File
	wakeFD int
	// busy is set from before a read until what was read is dealt with.
	busy    atomic.Bool
	parked  chan struct{} // the reader says that it keeps its hands off
	free    chan struct{} // and is told to go on
	stopped chan struct{}
}

func newSource(f *os.File) (*source, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &source{
		fd: int(f.Fd()), wakeR: r, wakeW: w, wakeFD: int(r.Fd()),
		parked: make(chan struct{}), free: make(chan struct{}), stopped: make(chan struct{}),
	}, nil
}

// read waits for input up to timeout, forever when it is negative. n is 0 with
// no error when the time is up.
func (s *source) read(p []byte, timeout time.Duration) (n int, err error) {
	ms := -1
	if timeout >= 0 {
		ms = int(timeout.Milliseconds())
	}
	for {
		fds := []unix.PollFd{
			{Fd: int32(s.fd), Events: unix.POLLIN},
			{Fd: int32(s.wakeFD), Events: unix.POLLIN},
		}
		ready, err := unix.Poll(fds, ms)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case fds[1].Revents != 0:
			if !s.park() {
				return 0, errStopped
			}
			continue
		case ready == 0:
			return 0, nil
		}
		s.busy.Store(true)
		n, err := unix.Read(s.fd, p)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// done says that what was read is dealt with.
func (s *source) done() { s.busy.Store(false) }

// settle waits until nothing that was typed so far is still to be dealt with, for
// a moment at most.
func (s *source) settle() {
	for range settleTries {
		// In this order: what is no longer in the kernel makes the reader busy.
		if pending(s.fd) == 0 && !s.busy.Load() {
			return
		}
		time.Sleep(settleStep)
	}
}

// settle waits so long at most.
const (
	settleStep  = 200 * time.Microsecond
	settleTries = 500
)

// park keeps the reader from reading until release; it returns false when the
// source was stopped.
func (s *source) park() bool {
	var call [1]byte
	_, _ = s.wakeR.Read(call[:]) // one is there, or the end
	select {
	case <-s.stopped:
		return false
	case s.parked <- struct{}{}:
	}
	select {
	case <-s.stopped:
		return false
	case <-s.free:
		return true
	}
}

// hold returns when the reader has its hands off the input, or has ended, which
// closes ended. What is typed from then on is left to others until release.
func (s *source) hold(ended <-chan struct{}) {
	if _, err := s.wakeW.Write([]byte{0}); err != nil {
		return // stopped
	}
	select {
	case <-s.parked:
	case <-s.stopped:
	case <-ended:
	}
}

// release ends a hold.
func (s *source) release(ended <-chan struct{}) {
	select {
	case s.free <- struct{}{}:
	case <-s.stopped:
	case <-ended:
	}
}

// stop makes the running and all later reads return errStopped. It is called
// once.
func (s *source) stop() {
	close(s.stopped)
	_ = s.wakeW.Close()
}

// close frees the source; no read may be running.
func (s *source) close() {
	_ = s.wakeW.Close()
	_ = s.wakeR.Close()
}
