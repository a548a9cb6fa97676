package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// maxReplyBytes bounds one line of an answer.
const maxReplyBytes = 256 << 20

// freshTime is how long a connection may have been silent and still be used for
// another request: less than any server's patience.
const freshTime = 500 * time.Millisecond

// dialRest is how long to wait when more clients connect at once than the
// system queues.
const dialRest = 5 * time.Millisecond

// Client speaks to a running Ralph. It is safe for concurrent use: requests go
// one after the other. Whoever opens it closes it.
type Client struct {
	dir, runtime string
	turn         chan struct{} // held by the request under way
	quit         chan struct{} // closed by Close
	once         sync.Once     // closes it

	// These belong to who holds turn.
	conn *net.UnixConn // nil: dial anew
	in   *bufio.Reader
	used time.Time
}

// Dial connects to the Ralph that listens in dir, a project's `.ralph`; runtime
// is as in Options. It gives ErrNobody when there is none, and ErrForeign when
// what is there is not this user's.
func Dial(ctx context.Context, dir, runtime string) (*Client, error) {
	c := &Client{dir: dir, runtime: runtime, turn: make(chan struct{}, 1), quit: make(chan struct{})}
	if err := c.dial(ctx); err != nil {
		return nil, fmt.Errorf("connect to the Ralph in %q: %w", dir, err)
	}
	return c, nil
}

// find returns the socket of dir.
func find(dir, runtime string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	nobody := func(err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return ErrNobody
		}
		return err
	}
	path := filepath.Join(dir, socketName)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(path) > maxPathBytes:
		if path, err = shortPath(dir, runtime); err != nil {
			return "", ErrNobody
		}
	case err != nil:
		return "", nobody(err)
	case info.Mode().IsRegular():
		if path, err = readPointer(path, dir); err != nil {
			return "", nobody(err)
		}
	}
	if path != filepath.Join(dir, socketName) {
		if err := privateDir(filepath.Dir(path)); err != nil {
			return "", nobody(err)
		}
	}
	if info, err = os.Lstat(path); err != nil {
		return "", nobody(err)
	}
	if info.Mode()&fs.ModeSocket == 0 || !mine(info) {
		return "", fmt.Errorf("%q %w", path, ErrForeign)
	}
	return path, nil
}

// privateDir makes sure that nobody else could have put a socket there.
func privateDir(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil && (!info.IsDir() || !mine(info) || info.Mode().Perm()&0o077 != 0) {
		err = fmt.Errorf("%q %w", dir, ErrForeign)
	}
	return err
}

func (c *Client) dial(ctx context.Context) error {
	path, err := find(c.dir, c.runtime)
	if err != nil {
		return err
	}
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		switch {
		case err == nil:
			return c.adopt(conn, path)
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
			return ErrNobody
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, syscall.EAGAIN):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(dialRest):
		}
	}
}

// adopt takes a connection once the other end has proven to be this user's.
func (c *Client) adopt(conn net.Conn, path string) error {
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.Join(fmt.Errorf("%q %w", path, ErrForeign), conn.Close())
	}
	if p := peerOf(uc); p.Known && p.UID != os.Geteuid() {
		return errors.Join(fmt.Errorf("%q %w: user %d listens there", path, ErrForeign, p.UID), uc.Close())
	}
	c.conn, c.in, c.used = uc, bufio.NewReaderSize(uc, 32<<10), time.Now()
	return nil
}

// Do sends one request and returns its final answer. Each other part of the
// answer is passed to each, which may be nil, in order; the bytes are the
// callee's to keep, and an error of it ends the request and is returned. An err
// that is a *Fault came from the other end. When ctx ends the connection is
// closed, which cancels the request there.
func (c *Client) Do(ctx context.Context, r Request, each func(json.RawMessage) error) (final json.RawMessage, err error) {
	if r.V == 0 {
		r.V = version
	}
	line, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("%s: encode the request: %w", r.Op, err)
	}
	if len(line) > maxLineBytes {
		return nil, &Fault{Code: codeBad, Message: fmt.Sprintf("the request is longer than %d MiB", maxLineBytes>>20), Hint: "put the text into a file and name the file"}
	}
	select {
	case c.turn <- struct{}{}:
	case <-c.quit:
		return nil, fmt.Errorf("%s: %w", r.Op, net.ErrClosed)
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", r.Op, context.Cause(ctx))
	}
	defer func() { <-c.turn }()
	final, err = c.ask(ctx, append(line, '\n'), each)
	var f *Fault
	switch {
	case err == nil || errors.As(err, &f):
		return final, err
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", r.Op, context.Cause(ctx))
	}
	return nil, fmt.Errorf("%s: %w", r.Op, err)
}

// ask does it; the turn is held.
func (c *Client) ask(ctx context.Context, line []byte, each func(json.RawMessage) error) (final json.RawMessage, err error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	conn := c.conn
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ctx.Done():
		case <-c.quit:
		case <-over:
			return
		}
		_ = conn.Close() // which ends the reading and the writing
	}()
	final, err = c.exchange(line, each)
	close(over)
	<-watched
	// Whoever was refused or cut off is not listened to any more.
	if err != nil || ctx.Err() != nil {
		_ = conn.Close()
		c.conn = nil
	}
	c.used = time.Now()
	return final, err
}

// ready sees to it that there is a connection which the server has not given
// up.
func (c *Client) ready(ctx context.Context) error {
	select {
	case <-c.quit:
		return net.ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if c.conn != nil && time.Since(c.used) > freshTime {
		_ = c.conn.Close()
		c.conn = nil
	}
	if c.conn == nil {
		return c.dial(ctx)
	}
	return nil
}

// exchange sends a line and reads what comes back.
func (c *Client) exchange(line []byte, each func(json.RawMessage) error) (final json.RawMessage, err error) {
	_, werr := c.conn.Write(line)
	for {
		r, err := c.reply()
		switch {
		case err != nil:
			return nil, errors.Join(werr, err)
		case r.Fault != nil:
			return nil, r.Fault // also of a server that did not read all of the request
		case r.Final:
			return r.Data, werr
		case each == nil:
		default:
			if err := each(r.Data); err != nil {
				return nil, err
			}
		}
	}
}

// errCut is why an answer without its end is none.
var errCut = errors.New("the Ralph there ended the connection before it had answered")

func (c *Client) reply() (Reply, error) {
	var line []byte
	for {
		part, err := c.in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		switch {
		case len(line) > maxReplyBytes:
			return Reply{}, fmt.Errorf("an answer of more than %d MiB", maxReplyBytes>>20)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
			return Reply{}, errCut
		default:
			return Reply{}, err
		}
	}
	var r Reply
	if err := json.Unmarshal(bytes.TrimSpace(line), &r); err != nil {
		return Reply{}, fmt.Errorf("an answer that cannot be read: %w", err)
	}
	return r, nil
}

// Close closes the connection; a request under way ends with an error. A second
// Close does nothing.
func (c *Client) Close() error {
	c.once.Do(func() { close(c.quit) })
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}
