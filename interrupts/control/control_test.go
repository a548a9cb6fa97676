package control_test

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
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ralph/interrupts/control"
)

const (
	childEnv = "RALPH_CONTROL_CHILD"
	dirEnv   = "RALPH_CONTROL_DIR"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
	}
	goleak.VerifyTestMain(m)
}

// child is another process: a client, a server, or one who races for the
// socket. It prints one line, and a server ends with its stdin.
func child() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	dir := os.Getenv(dirEnv)
	switch os.Getenv(childEnv) {
	case "client":
		fmt.Println(raw(filepath.Join(dir, "control.sock"), `{"op":"status"}`+"\n"))
	case "dial":
		_, err := control.Dial(ctx, dir, "")
		fmt.Println(errors.Is(err, control.ErrForeign), err)
	case "server":
		_, err := control.Listen(context.Background(), control.Options{Dir: dir, Handler: echo(nil)})
		fmt.Println(errors.Is(err, control.ErrLive), err)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	os.Exit(0)
}

// raw sends text and returns all that comes back.
func raw(path, text string) string {
	c, err := net.Dial("unix", path)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	go func() { _, _ = io.WriteString(c, text) }()
	data, err := io.ReadAll(c)
	if err != nil {
		return string(data) + err.Error()
	}
	return string(data)
}

type handler func(ctx context.Context, p control.Peer, r control.Request, reply func(any) error) (any, error)

func (h handler) Serve(ctx context.Context, p control.Peer, r control.Request, reply func(any) error) (any, error) {
	return h(ctx, p, r, reply)
}

// echo answers a status with a word and a send with its text; ops of more
// handle the rest.
func echo(more map[string]handler) handler {
	return func(ctx context.Context, p control.Peer, r control.Request, reply func(any) error) (any, error) {
		if h := more[r.Op]; h != nil {
			return h(ctx, p, r, reply)
		}
		switch r.Op {
		case "status":
			return "idle", nil
		case "send":
			return r.Text, nil
		}
		return nil, &control.Fault{Code: "usage", Message: "no op " + r.Op, Hint: "try another"}
	}
}

// listen starts a server, and closes it when the test ends.
func listen(t *testing.T, o control.Options) *control.Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), ".ralph")
	}
	s, err := control.Listen(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, s) })
	return s
}

func shut(t *testing.T, s *control.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

func dial(t *testing.T, dir, runtime string) *control.Client {
	t.Helper()
	c, err := control.Dial(t.Context(), dir, runtime)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func ask(t *testing.T, c *control.Client, r control.Request) string {
	t.Helper()
	data, err := c.Do(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return s
}

// wait waits until ok.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s: not within 5 s", what)
}

func TestRequests(t *testing.T) {
	t.Parallel()
	var peer atomic.Value
	s := listen(t, control.Options{Handler: echo(map[string]handler{
		"attach": func(_ context.Context, p control.Peer, r control.Request, reply func(any) error) (any, error) {
			peer.Store(p)
			for i := range 3 {
				if err := reply(map[string]any{"i": i, "job": r.Job}); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		"panic": func(context.Context, control.Peer, control.Request, func(any) error) (any, error) { panic("boom") },
		"odd": func(context.Context, control.Peer, control.Request, func(any) error) (any, error) {
			return func() {}, nil
		},
	})})
	dir := filepath.Dir(s.Path())
	if info, err := os.Lstat(s.Path()); err != nil || info.Mode().Perm() != 0o600 || info.Mode()&fs.ModeSocket == 0 {
		t.Errorf("the socket: %v %v", info.Mode(), err)
	}
	if info, err := os.Lstat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("its directory: %v %v", info.Mode(), err)
	}
	c := dial(t, dir, "")
	var parts []string
	data, err := c.Do(t.Context(), control.Request{Op: "attach", Job: json.RawMessage(`{"x":1}`)}, func(d json.RawMessage) error {
		parts = append(parts, string(d))
		return nil
	})
	if err != nil || data != nil || strings.Join(parts, " ") != `{"i":0,"job":{"x":1}} {"i":1,"job":{"x":1}} {"i":2,"job":{"x":1}}` {
		t.Errorf("attach: %s %v %q", data, err, parts)
	}
	if p, _ := peer.Load().(control.Peer); p.Known && (p.PID != os.Getpid() || p.UID != os.Geteuid()) {
		t.Errorf("peer %+v", p)
	}
	for _, text := range []string{"", "x", "two\nlines\r\n", "\x00\x1b[31m\u202e", strings.Repeat("long ", 1<<20)} {
		if got := ask(t, c, control.Request{Op: "send", Text: text}); got != text {
			t.Errorf("%.20q came back as %.20q", text, got)
		}
	}
	var f *control.Fault
	for op, code := range map[string]string{"dance": "usage", "panic": "failed", "odd": "failed"} {
		if _, err := c.Do(t.Context(), control.Request{Op: op}, nil); !errors.As(err, &f) || f.Code != code {
			t.Errorf("%s: %v %+v", op, err, f)
		}
	}
	if _, err := c.Do(t.Context(), control.Request{Op: "send", Text: strings.Repeat("x", 20<<20)}, nil); !errors.As(err, &f) || f.Code != "bad_request" {
		t.Errorf("20 MB: %v", err)
	}
	sentinel := errors.New("enough")
	if _, err := c.Do(t.Context(), control.Request{Op: "attach"}, func(json.RawMessage) error { return sentinel }); !errors.Is(err, sentinel) {
		t.Errorf("an error of each: %v", err)
	}
	if got := ask(t, c, control.Request{Op: "status"}); got != "idle" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestBadInput: what comes instead of a request gets one fault, or nothing, and
// the next client is served.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := listen(t, control.Options{Handler: echo(nil), Idle: time.Second})
	var all sync.WaitGroup
	for what, c := range map[string]struct{ text, want string }{
		"garbage":       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", `"code":"bad_request"`},
		"binary":        {"\x00\x01\xff\xfe\n", `"code":"bad_request"`},
		"an array":      {"[1]\n", `"code":"bad_request"`},
		"no op":         {"{}\n", `"code":"bad_request"`},
		"wrong type":    {`{"op":1}` + "\n", `"code":"bad_request"`},
		"newer":         {`{"v":9,"op":"status"}` + "\n", `"code":"version"`},
		"deep":          {`{"op":"x","job":` + strings.Repeat("[", 100_000) + "\n", `"code":"bad_request"`},
		"20 MB":         {strings.Repeat("x", 20<<20) + "\n", `"code":"bad_request"`},
		"20 MB no end":  {strings.Repeat("x", 20<<20), `"code":"bad_request"`},
		"half a line":   {`{"op":"sta`, ""},
		"nothing":       {"", ""},
		"blank lines":   {"\n\n\r\n", ""},
		"twice at once": {`{"op":"status"}` + "\n" + `{"op":"status"}` + "\n", `{"data":"idle","final":true}` + "\n" + `{"data":"idle","final":true}` + "\n"},
	} {
		all.Go(func() {
			start := time.Now()
			got := raw(s.Path(), c.text)
			if !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("%s: %q", what, got)
			}
			if n := strings.Count(got, `"fault"`); n > 1 {
				t.Errorf("%s: %d faults", what, n)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("%s took %v", what, took)
			}
		})
	}
	all.Wait()
	if got := ask(t, dial(t, filepath.Dir(s.Path()), ""), control.Request{Op: "status"}); got != "idle" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestHalfClosed: nc and socat close their writing half and want the answer.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	s := listen(t, control.Options{Handler: echo(map[string]handler{
		"stop": func(ctx context.Context, _ control.Peer, _ control.Request, _ func(any) error) (any, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(300 * time.Millisecond):
				return "rested", nil
			}
		},
	})})
	c, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, `{"op":"stop"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || !strings.Contains(string(got), "rested") {
		t.Errorf("%q %v", got, err)
	}
}

// TestCancel: the end of the caller's context, a close, and the death of the
// process each end the request at the other end.
func TestCancel(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}, 8), make(chan error, 8)
	s := listen(t, control.Options{Handler: echo(map[string]handler{
		"task": func(ctx context.Context, _ control.Peer, _ control.Request, reply func(any) error) (any, error) {
			begun <- struct{}{}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, reply("too late")
		},
	})})
	dir := filepath.Dir(s.Path())
	gone := func(what string) {
		t.Helper()
		select {
		case err := <-ended:
			if !errors.Is(err, control.ErrGone) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: the request goes on", what)
		}
	}
	c := dial(t, dir, "")
	cause := errors.New("the user left")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-begun; cancel(cause) }()
	if _, err := c.Do(ctx, control.Request{Op: "task"}, nil); !errors.Is(err, cause) {
		t.Errorf("Do: %v", err)
	}
	gone("the context's end")
	if got := ask(t, c, control.Request{Op: "status"}); got != "idle" { // dials anew
		t.Errorf("afterwards: %q", got)
	}
	go func() { <-begun; _ = c.Close() }()
	if _, err := c.Do(t.Context(), control.Request{Op: "task"}, nil); err == nil {
		t.Error("closed under a request: no error")
	}
	gone("Close")
	if _, err := c.Do(t.Context(), control.Request{Op: "status"}, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}

	k, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(k, `{"op":"task"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	<-begun
	_ = k.Close() // as the kernel does for one that was killed
	gone("its death")

	h, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(h, `{"op":"task"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	<-begun
	_ = h.(*net.UnixConn).CloseWrite()
	time.Sleep(20 * time.Millisecond)
	_ = h.Close()
	gone("its death after half a close")
}

// TestSlowReader: a client that attaches and never reads is cut off; nobody
// waits for it.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	longest := make(chan time.Duration, 1)
	s := listen(t, control.Options{Handler: echo(map[string]handler{
		"attach": func(ctx context.Context, _ control.Peer, _ control.Request, reply func(any) error) (any, error) {
			var most time.Duration
			for text := strings.Repeat("e", 10_000); ; {
				start := time.Now()
				err := reply(text)
				most = max(most, time.Since(start))
				if err != nil {
					longest <- most
					return nil, err
				}
			}
		},
	})})
	c, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, `{"op":"attach"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case most := <-longest:
		if most > 5*time.Second {
			t.Errorf("a reply took %v", most)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it is not cut off")
	}
	if got := ask(t, dial(t, filepath.Dir(s.Path()), ""), control.Request{Op: "status"}); got != "idle" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestTrickle: one who reads nothing of a little is dropped too, after a while.
func TestTrickle(t *testing.T) {
	t.Parallel()
	over := make(chan error, 1)
	s := listen(t, control.Options{Idle: 100 * time.Millisecond, Handler: echo(map[string]handler{
		"attach": func(ctx context.Context, _ control.Peer, _ control.Request, reply func(any) error) (any, error) {
			if err := reply(strings.Repeat("x", 4<<20)); err != nil {
				return nil, err
			}
			<-ctx.Done()
			over <- context.Cause(ctx)
			return nil, nil
		},
	})})
	c, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, `{"op":"attach"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-over:
		if !errors.Is(err, control.ErrGone) {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it is not dropped")
	}
}

// TestManySends: 10,000 requests on one connection.
func TestManySends(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := listen(t, control.Options{Handler: echo(map[string]handler{
		"send": func(_ context.Context, _ control.Peer, r control.Request, _ func(any) error) (any, error) {
			return n.Add(1), nil
		},
	})})
	c := dial(t, filepath.Dir(s.Path()), "")
	start := time.Now()
	for i := 1; i <= 10_000; i++ {
		data, err := c.Do(t.Context(), control.Request{Op: "send", Text: "go on"}, nil)
		if err != nil || string(data) != fmt.Sprint(i) {
			t.Fatalf("%d: %s %v", i, data, err)
		}
	}
	t.Logf("10,000 sends in %v", time.Since(start).Round(time.Millisecond))
}

// TestCrowd: 1,000 clients at once, half of whom say nothing, are all served.
func TestCrowd(t *testing.T) {
	t.Parallel()
	s := listen(t, control.Options{Handler: echo(nil), Idle: 5 * time.Second})
	dir := filepath.Dir(s.Path())
	var wg sync.WaitGroup
	var served atomic.Int64
	for i := range 1000 {
		wg.Go(func() {
			if i%2 == 0 {
				if c, err := net.Dial("unix", s.Path()); err == nil {
					_, _ = io.ReadAll(c) // until it is dropped
					_ = c.Close()
				}
				return
			}
			c, err := control.Dial(t.Context(), dir, "")
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, err := c.Do(t.Context(), control.Request{Op: "status"}, nil); err != nil {
				t.Error(err)
				return
			}
			served.Add(1)
		})
	}
	wg.Wait()
	if served.Load() != 500 {
		t.Errorf("%d of 500 were served", served.Load())
	}
}

// TestFull: clients that stay do not keep out a stop, nor do silent ones.
func TestFull(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 100)
	s := listen(t, control.Options{MaxClients: 8, Handler: echo(map[string]handler{
		"attach": func(ctx context.Context, _ control.Peer, _ control.Request, _ func(any) error) (any, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})})
	open := func(text string) net.Conn {
		c, err := net.Dial("unix", s.Path())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for range 6 {
		open(`{"op":"attach"}` + "\n")
		<-begun
	}
	line, err := bufio.NewReader(open(`{"op":"attach"}` + "\n")).ReadString('\n')
	if err != nil || !strings.Contains(line, `"busy"`) {
		t.Errorf("the seventh: %q %v", line, err)
	}
	for range 20 {
		open("")
	}
	start := time.Now()
	if got := ask(t, dial(t, filepath.Dir(s.Path()), ""), control.Request{Op: "status"}); got != "idle" {
		t.Errorf("status: %q", got)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestCloseUnderWay: requests end with a last word, and none is left.
func TestCloseUnderWay(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	dir := filepath.Join(t.TempDir(), ".ralph")
	s, err := control.Listen(context.Background(), control.Options{Dir: dir, Handler: echo(map[string]handler{
		"attach": func(ctx context.Context, _ control.Peer, _ control.Request, _ func(any) error) (any, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	})})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 10)
	for range 10 {
		c := dial(t, dir, "")
		go func() {
			_, err := c.Do(t.Context(), control.Request{Op: "attach"}, nil)
			errs <- err
		}()
		<-begun
	}
	idle := dial(t, dir, "")
	start := time.Now()
	shut(t, s)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
	for range 10 {
		var f *control.Fault
		if err := <-errs; !errors.As(err, &f) || f.Code != "closing" {
			t.Errorf("a request under way: %v", err)
		}
	}
	if _, err := idle.Do(t.Context(), control.Request{Op: "status"}, nil); err == nil {
		t.Error("an idle client was answered after the end")
	}
	if _, err := control.Dial(t.Context(), dir, ""); !errors.Is(err, control.ErrNobody) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := os.Lstat(s.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	shut(t, s) // once more
}

// TestDeafHandler: Close says that a handler does not return, and can be called
// again.
func TestDeafHandler(t *testing.T) {
	t.Parallel()
	begun, free := make(chan struct{}), make(chan struct{})
	dir := filepath.Join(t.TempDir(), ".ralph")
	s, err := control.Listen(context.Background(), control.Options{Dir: dir, Handler: handler(func(context.Context, control.Peer, control.Request, func(any) error) (any, error) {
		close(begun)
		<-free
		return nil, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, `{"op":"status"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	close(free)
	shut(t, s)
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	plant := map[string]func(path string) error{
		"file":     func(p string) error { return os.WriteFile(p, []byte("mine\n"), 0o600) },
		"empty":    func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"dir":      func(p string) error { return os.Mkdir(p, 0o700) },
		"link":     func(p string) error { return os.Symlink("/etc/passwd", p) },
		"dangling": func(p string) error { return os.Symlink("nowhere", p) },
		"fifo":     func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"pointer":  func(p string) error { return os.WriteFile(p, []byte("ralph-socket /run/docker.sock\n"), 0o600) },
	}
	for what, make := range plant {
		dir := filepath.Join(t.TempDir(), ".ralph")
		path := filepath.Join(dir, "control.sock")
		if err := errors.Join(os.Mkdir(dir, 0o700), make(path)); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(path)
		if s, err := control.Listen(context.Background(), control.Options{Dir: dir, Handler: echo(nil)}); !errors.Is(err, control.ErrForeign) {
			t.Errorf("%s: Listen: %v", what, err)
			if err == nil {
				shut(t, s)
			}
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s is not left alone: %v", what, err)
		}
		if _, err := control.Dial(t.Context(), dir, ""); !errors.Is(err, control.ErrForeign) {
			t.Errorf("%s: Dial: %v", what, err)
		}
	}
	// A state directory that is a link leads elsewhere.
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(root, "other"), 0o700), os.Symlink("other", filepath.Join(root, ".ralph"))); err != nil {
		t.Fatal(err)
	}
	if s, err := control.Listen(context.Background(), control.Options{Dir: filepath.Join(root, ".ralph"), Handler: echo(nil)}); !errors.Is(err, control.ErrForeign) {
		t.Errorf("a link: %v", err)
		if err == nil {
			shut(t, s)
		}
	}
	if _, err := control.Dial(t.Context(), filepath.Join(root, "absent"), ""); !errors.Is(err, control.ErrNobody) {
		t.Errorf("no directory: %v", err)
	}
}

// stale makes a socket on which nobody listens.
func stale(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStaleAndLive(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), ".ralph")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stale(t, filepath.Join(dir, "control.sock"))
	if _, err := control.Dial(t.Context(), dir, ""); !errors.Is(err, control.ErrNobody) {
		t.Errorf("a stale socket: %v", err)
	}
	s := listen(t, control.Options{Dir: dir, Handler: echo(nil)})
	if _, err := control.Listen(context.Background(), control.Options{Dir: dir, Handler: echo(nil)}); !errors.Is(err, control.ErrLive) {
		t.Errorf("a second server: %v", err)
	}
	// Also one without its lock is seen.
	if err := os.Remove(filepath.Join(dir, "control.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(context.Background(), control.Options{Dir: dir, Handler: echo(nil)}); !errors.Is(err, control.ErrLive) {
		t.Errorf("a second server without the lock: %v", err)
	}
	if got := ask(t, dial(t, dir, ""), control.Request{Op: "status"}); got != "idle" {
		t.Errorf("the first: %q", got)
	}
	// Somebody else's socket in its place is not removed at the end.
	if err := os.Remove(s.Path()); err != nil {
		t.Fatal(err)
	}
	stale(t, s.Path())
	shut(t, s)
	if _, err := os.Lstat(s.Path()); err != nil {
		t.Errorf("what was not its own: %v", err)
	}
}

// TestLongPath: a project path of 200 characters.
func TestLongPath(t *testing.T) {
	t.Parallel()
	runtime := t.TempDir()
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 100), strings.Repeat("e", 100), ".ralph")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	// What a dead server left there is replaced.
	pointer := filepath.Join(dir, "control.sock")
	for range 2 {
		s := listen(t, control.Options{Dir: dir, Runtime: runtime, Handler: echo(nil)})
		if !strings.HasPrefix(s.Path(), runtime) || len(s.Path()) > 107 {
			t.Errorf("listens on %s", s.Path())
		}
		info, err := os.Lstat(pointer)
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 {
			t.Fatalf("the pointer: %v %v", info, err)
		}
		if info, err := os.Lstat(filepath.Dir(s.Path())); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the socket's directory: %v %v", info.Mode(), err)
		}
		if _, err := control.Listen(context.Background(), control.Options{Dir: dir, Runtime: t.TempDir(), Handler: echo(nil)}); !errors.Is(err, control.ErrLive) {
			t.Errorf("a second server: %v", err)
		}
		// The client need not know the same runtime directory.
		if got := ask(t, dial(t, dir, ""), control.Request{Op: "status"}); got != "idle" {
			t.Errorf("status: %q", got)
		}
		text, err := os.ReadFile(pointer)
		if err != nil {
			t.Fatal(err)
		}
		shut(t, s)
		for _, path := range []string{pointer, s.Path()} {
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", path, err)
			}
		}
		stale(t, s.Path())
		if err := os.WriteFile(pointer, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := control.Dial(t.Context(), dir, runtime); !errors.Is(err, control.ErrNobody) {
			t.Errorf("a dead server's: %v", err)
		}
	}
	// A runtime directory that others can write to is not trusted.
	open := t.TempDir()
	if err := os.Mkdir(filepath.Join(open, fmt.Sprintf("ralph-%d", os.Geteuid())), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(open, fmt.Sprintf("ralph-%d", os.Geteuid())), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(context.Background(), control.Options{Dir: dir, Runtime: open, Handler: echo(nil)}); !errors.Is(err, control.ErrForeign) {
		t.Errorf("a runtime directory for all: %v", err)
	}
}

// TestRemoved: a state directory that is removed and one that is replaced while
// the server runs.
func TestRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), ".ralph")
	s := listen(t, control.Options{Dir: dir, Handler: echo(nil)})
	c := dial(t, dir, "")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, c, control.Request{Op: "status"}); got != "idle" {
		t.Errorf("a client from before: %q", got)
	}
	wait(t, "the socket is made anew", func() bool {
		c, err := control.Dial(t.Context(), dir, "")
		if err != nil {
			return false
		}
		_, err = c.Do(t.Context(), control.Request{Op: "status"}, nil)
		return errors.Join(err, c.Close()) == nil
	})
	if _, err := control.Listen(context.Background(), control.Options{Dir: dir, Handler: echo(nil)}); !errors.Is(err, control.ErrLive) {
		t.Errorf("a second server: %v", err)
	}
	shut(t, s)
	if _, err := os.Lstat(s.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// TestRace: of servers that begin at once exactly one wins, in one process and
// in several, also where a stale socket is in the way.
func TestRace(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		dir := filepath.Join(t.TempDir(), ".ralph")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 {
			stale(t, filepath.Join(dir, "control.sock"))
		}
		var wg sync.WaitGroup
		var won, live atomic.Int64
		var winner atomic.Pointer[control.Server]
		for range 8 {
			wg.Go(func() {
				switch s, err := control.Listen(context.Background(), control.Options{Dir: dir, Handler: echo(nil)}); {
				case err == nil:
					won.Add(1)
					winner.Store(s)
				case errors.Is(err, control.ErrLive):
					live.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || live.Load() != 7 {
			t.Fatalf("%d won, %d saw a live one", won.Load(), live.Load())
		}
		if got := ask(t, dial(t, dir, ""), control.Request{Op: "status"}); got != "idle" {
			t.Errorf("status: %q", got)
		}
		shut(t, winner.Load())
	}
}

// run runs this binary as another process, and returns its line.
func run(t *testing.T, what, dir string, cred *syscall.Credential, hold io.Reader) (string, func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+what, dirEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	cmd.Stdin, cmd.Stderr = hold, os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Skipf("another process: %v", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("%s said %q: %v", what, line, err)
	}
	return strings.TrimSpace(line), func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
}

func TestRaceOfProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".ralph")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stale(t, filepath.Join(dir, "control.sock"))
	lines := make(chan string, 4)
	var ends []func()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r, w := io.Pipe()
			line, end := run(t, "server", dir, nil, r)
			mu.Lock()
			ends = append(ends, func() { _ = w.Close(); end() })
			mu.Unlock()
			lines <- line
		})
	}
	wg.Wait()
	won := 0
	for range 4 {
		switch line := <-lines; {
		case line == "false <nil>":
			won++
		case !strings.HasPrefix(line, "true "):
			t.Errorf("one said %q", line)
		}
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
	if got := ask(t, dial(t, dir, ""), control.Request{Op: "status"}); got != "idle" {
		t.Errorf("status: %q", got)
	}
	for _, end := range ends {
		end()
	}
	// All were killed: what they left is stale.
	s := listen(t, control.Options{Dir: dir, Handler: echo(nil)})
	if got := ask(t, dial(t, dir, ""), control.Request{Op: "status"}); got != "idle" {
		t.Errorf("after a kill: %q", got)
	}
	shut(t, s)
}

// TestOtherUser: another user's client is refused by the server, even where the
// modes let it in, and another user's server by the client.
func TestOtherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	other := &syscall.Credential{Uid: 65534, Gid: 65534}
	root, err := os.MkdirTemp("", "ralph-control-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	dir := filepath.Join(root, ".ralph")
	s := listen(t, control.Options{Dir: dir, Handler: echo(nil)})
	for _, path := range []string{root, dir, s.Path()} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	line, end := run(t, "client", dir, other, nil)
	end()
	if !strings.Contains(line, `"code":"forbidden"`) || strings.Contains(line, "idle") {
		t.Errorf("another user's client got %q", line)
	}
	line, end = run(t, "dial", dir, other, nil)
	end()
	if !strings.HasPrefix(line, "true") {
		t.Errorf("another user's Dial: %s", line)
	}
	shut(t, s)
	if err := errors.Join(os.Remove(filepath.Join(dir, "control.lock")), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	line, end = run(t, "server", dir, other, r)
	defer func() { _ = w.Close(); end() }()
	if line != "false <nil>" {
		t.Fatalf("another user's server: %s", line)
	}
	if _, err := control.Dial(t.Context(), dir, ""); !errors.Is(err, control.ErrForeign) {
		t.Errorf("Dial: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "control.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Listen(context.Background(), control.Options{Dir: dir, Handler: echo(nil)}); !errors.Is(err, control.ErrForeign) {
		t.Errorf("Listen: %v", err)
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	s := listen(t, control.Options{Handler: echo(nil), Allow: func(p control.Peer) error {
		return &control.Fault{Code: "denied", Message: "not you"}
	}})
	var f *control.Fault
	if _, err := dial(t, filepath.Dir(s.Path()), "").Do(t.Context(), control.Request{Op: "status"}, nil); !errors.As(err, &f) || f.Code != "denied" {
		t.Errorf("%v", err)
	}
	bare := listen(t, control.Options{Handler: echo(nil), Allow: func(control.Peer) error { return errors.New("no") }})
	if _, err := dial(t, filepath.Dir(bare.Path()), "").Do(t.Context(), control.Request{Op: "status"}, nil); !errors.As(err, &f) || f.Code != "forbidden" {
		t.Errorf("%v", err)
	}
}

// TestBadServer: a client bears whatever answers.
func TestBadServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(dir, "control.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	answers := []string{"", "x\n", "{\"data\":1}\n", "{\"final\":tr", string(bytes.Repeat([]byte("y"), 1<<20))}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, a := range answers {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadString('\n')
			_, _ = io.WriteString(c, a)
			_ = c.Close()
		}
	}()
	for _, a := range answers {
		c, err := control.Dial(t.Context(), dir, "")
		if err != nil {
			t.Fatal(err)
		}
		if data, err := c.Do(t.Context(), control.Request{Op: "status"}, nil); err == nil {
			t.Errorf("%.20q gave %s", a, data)
		}
		_ = c.Close()
	}
	<-done
}

// A request that takes its time to end is answered all the same.
func TestTheLastWordMayComeLate(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	dir := filepath.Join(t.TempDir(), ".ralph")
	s, err := control.Listen(context.Background(), control.Options{Dir: dir, Handler: echo(map[string]handler{
		"task": func(ctx context.Context, _ control.Peer, _ control.Request, _ func(any) error) (any, error) {
			close(begun)
			<-ctx.Done()
			time.Sleep(400 * time.Millisecond) // of work that is brought to its end
			return map[string]string{"status": "interrupted"}, nil
		},
	})})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, dir, "")
	type answer struct {
		text []byte
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		text, err := c.Do(t.Context(), control.Request{Op: "task"}, nil)
		got <- answer{text, err}
	}()
	<-begun
	shut(t, s)
	if a := <-got; a.err != nil || !strings.Contains(string(a.text), "interrupted") {
		t.Errorf("%s, %v", a.text, a.err)
	}
}
