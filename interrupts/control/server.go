package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

const (
	defaultClients = 64
	defaultIdle    = 10 * time.Second

	// hurry is how long a last word may take when the server closes.
	hurry = 250 * time.Millisecond
	// patience is how long a client that was answered may think while others
	// wait, shortPatience how long one that never said anything.
	patience      = time.Second
	shortPatience = 200 * time.Millisecond
	// crowdTick is how often a full server looks for silent clients.
	crowdTick = 100 * time.Millisecond
	// placeTick is how often the socket is looked for.
	placeTick = 3 * time.Second
	// acceptRest is how long to wait when no connection can be taken, as when too
	// many files are open.
	acceptRest = 50 * time.Millisecond
)

// Server listens for clients. It is safe for concurrent use; whoever opens it
// closes it.
type Server struct {
	o       Options
	end     context.CancelCauseFunc // ends all requests
	tasks   sync.WaitGroup
	slots   chan struct{} // one for each connection
	staying chan struct{} // one for each request that stays

	mu     sync.Mutex
	place  *place
	ln     *net.UnixListener
	conns  map[*conn]bool
	closed bool
	rest   chan struct{} // closed when all goroutines have ended; made by Close
}

// Listen begins to listen, on control.sock in o.Dir or, when that name is too
// long, on a short one below o.Runtime that control.sock then names. A socket
// that a dead server left is replaced. Where a server lives the error matches
// ErrLive, where something stands that Ralph did not make ErrForeign: that is
// left alone.
//
// A socket that is deleted while the server runs is made again within a second.
func Listen(parent context.Context, o Options) (*Server, error) {
	if o.MaxClients <= 0 {
		o.MaxClients = defaultClients
	}
	if o.Idle <= 0 {
		o.Idle = defaultIdle
	}
	p, err := locate(o.Dir, o.Runtime)
	if err != nil {
		return nil, fmt.Errorf("listen in %q: %w", o.Dir, err)
	}
	// A server lives until Close, whoever opened it.
	ctx, end := context.WithCancelCause(context.WithoutCancel(parent))
	s := &Server{o: o, end: end, place: p, conns: map[*conn]bool{},
		slots: make(chan struct{}, o.MaxClients), staying: make(chan struct{}, max(1, o.MaxClients*3/4))}
	if err := s.open(ctx); err != nil {
		end(err)
		p.drop()
		return nil, fmt.Errorf("listen in %q: %w", o.Dir, err)
	}
	s.tasks.Go(func() { s.keep(ctx) })
	return s, nil
}

// open makes the socket and begins to accept.
func (s *Server) open(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	if err := s.place.claim(); err != nil {
		return err
	}
	ln, err := s.place.listen()
	if err != nil {
		return err
	}
	if s.ln != nil {
		_ = s.ln.Close() // nobody can find it any more
	}
	s.ln = ln
	s.tasks.Go(func() { s.accept(ctx, ln) })
	return nil
}

// keep makes the socket anew when it was deleted.
func (s *Server) keep(ctx context.Context) {
	t := time.NewTicker(placeTick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		s.mu.Lock()
		there := s.place.inPlace()
		s.mu.Unlock()
		if !there {
			_ = s.open(ctx) // tried again soon; who is there may leave
		}
	}
}

// accept takes connections as long as the listener is open.
func (s *Server) accept(ctx context.Context, ln *net.UnixListener) {
	for s.room(ctx) {
		c, err := ln.AcceptUnix()
		if err == nil {
			s.welcome(ctx, c)
			continue
		}
		<-s.slots
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(acceptRest):
		}
	}
}

// room waits for a place for one more client, and sends away who holds one
// without saying anything. It is false when the server closes.
func (s *Server) room(ctx context.Context) bool {
	select {
	case s.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	default:
	}
	t := time.NewTicker(crowdTick)
	defer t.Stop()
	for {
		select {
		case s.slots <- struct{}{}:
			return true
		case <-ctx.Done():
			return false
		case <-t.C:
			s.evict()
		}
	}
}

// evict drops the clients that have been silent for too long while others wait.
func (s *Server) evict() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.idle() {
			_ = c.c.Close()
		}
	}
}

// welcome serves a connection, whose slot is taken.
func (s *Server) welcome(ctx context.Context, uc *net.UnixConn) {
	c := &conn{s: s, c: uc, peer: peerOf(uc)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = uc.Close()
		<-s.slots
		return
	}
	s.conns[c] = true
	s.tasks.Go(func() {
		c.serve(ctx)
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		<-s.slots
	})
}

// admit refuses who must not speak.
func (s *Server) admit(p Peer) *Fault {
	if p.Known && p.UID != os.Geteuid() {
		return &Fault{Code: codeForbidden, Message: fmt.Sprintf("this Ralph is not one of user %d", p.UID)}
	}
	if s.o.Allow == nil {
		return nil
	}
	err := s.o.Allow(p)
	if err == nil {
		return nil
	}
	var f *Fault
	if errors.As(err, &f) && f != nil {
		return f
	}
	return &Fault{Code: codeForbidden, Message: err.Error()}
}

// Path returns the socket, absolute. It may be elsewhere than in Options.Dir.
func (s *Server) Path() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.place.socket
}

// Close ends all requests, drops all clients, removes the socket if it is still
// its own, and waits for its goroutines. When ctx ends first, because a handler
// does not return, its error says so; Close may be called again to wait on.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.end(ErrClosing)
		_ = s.ln.Close()
		s.place.remove()
		s.place.drop()
		s.rest = make(chan struct{})
		go func() {
			s.tasks.Wait()
			close(s.rest)
		}()
	}
	s.mu.Unlock()
	select {
	case <-s.rest:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the control socket: %w", context.Cause(ctx))
	}
}
