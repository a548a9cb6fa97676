//go:build linux

package supervise

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Init()
	goleak.VerifyTestMain(m)
}

func newSupervisor(t testing.TB, o Options) *Supervisor {
	t.Helper()
	s := New(o)
	t.Cleanup(s.Close)
	return s
}

// shell describes a shell command without input and output.
func shell(t testing.TB, script string) Command {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = null.Close() })
	fd := null.Fd()
	return Command{Tag: NewTag(), Path: "/bin/bash", Argv: []string{"bash", "-c", script}, Env: os.Environ(), Dir: t.TempDir(), Files: [3]uintptr{fd, fd, fd}}
}

func started(t testing.TB, s *Supervisor, c Command) Group {
	t.Helper()
	g, err := s.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// finish kills a group and proves its end.
func finish(t testing.TB, g Group) {
	t.Helper()
	g.Signal(syscall.SIGKILL)
	<-g.Exited()
	_, _, dead := g.Reap()
	if _, left := g.Sweep(dead); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// marker returns an argument for sleep that no other test uses, about 2000 s.
func marker() string { return fmt.Sprintf("2000.%d", time.Now().UnixNano()) }

// marked puts a marker in place of each word M.
func marked(script, mark string) string {
	return regexp.MustCompile(`\bM\b`).ReplaceAllLiteralString(script, mark)
}

// commandsWith returns the processes with a marker on their command line, by a look at
// the process table that shares no code with the package.
func commandsWith(t testing.TB, mark string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		b, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && bytes.Contains(b, []byte(mark)) {
			found = append(found, e.Name()+": "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so after 10 s: %s", what)
		}
	}
}
