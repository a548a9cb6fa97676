//go:build linux

package exec

import (
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"ralph/workers/exec/sandbox"
)

// TestServe: a service of this process is reached in the command's own network, by that
// command, and nothing else is; it ends with the command.
func TestServe(t *testing.T) {
	r := newRunner(t)
	if !r.Method().Survives {
		t.Skip("needs namespaces")
	}
	ended := make(chan error, 1)
	serve := func(l net.Listener) {
		for {
			conn, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			_, _ = io.WriteString(conn, "served\n")
			_ = conn.Close()
		}
	}
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.Close() }()
	port := host.Addr().(*net.TCPAddr).Port
	script := strings.NewReplacer("ADDR", strings.Replace(sandbox.ServiceAddr, ":", "/", 1), "PORT", strconv.Itoa(port)).Replace(
		`for i in 1 2 3; do head -1 < /dev/tcp/ADDR; done; (: < /dev/tcp/127.0.0.1/PORT) 2>/dev/null && echo the host; ls /proc/$$/fd | wc -l`)
	for range 2 { // the container is used again
		res, err := r.Run(t.Context(), Spec{Argv: []string{"bash", "-c", script}, Dir: t.TempDir(), Confine: &sandbox.Policy{Temp: t.TempDir()}, Serve: serve})
		if err != nil || !strings.HasPrefix(res.Stdout.String(), "served\nserved\nserved\n") || strings.Contains(res.Stdout.String(), "the host") {
			t.Errorf("%q, %v", res.Stdout.String(), err)
		}
		select {
		case err := <-ended:
			if !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it is served after the command")
		}
	}
	if conn, err := net.DialTimeout("tcp", sandbox.ServiceAddr, time.Second); err == nil {
		_ = conn.Close()
		t.Error("it listens in the host's network")
	}
	// A command that has none without.
	res, err := r.Run(t.Context(), Spec{Argv: []string{"bash", "-c", script}, Dir: t.TempDir(), Confine: &sandbox.Policy{Temp: t.TempDir()}})
	if err != nil || strings.Contains(res.Stdout.String(), "served") {
		t.Errorf("%q, %v", res.Stdout.String(), err)
	}
	for name, p := range map[string]*sandbox.Policy{"not confined": nil, "the host's network": {Temp: t.TempDir(), Network: true}} {
		if _, err := r.Run(t.Context(), Spec{Argv: []string{"true"}, Confine: p, Serve: serve}); err == nil {
			t.Errorf("%s: a service was promised that cannot be reached", name)
		}
	}
}
