//go:build linux

package exec

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/supervise"
)

// TestMemoryOfAll has two commands use memory together: where nothing but Ralph looks at
// them the one that uses more is ended, however it is spread over processes, and the other
// goes on.
func TestMemoryOfAll(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("no python3")
	}
	r := newRunner(t)
	r.Bound(Bounds{Memory: 400 << 20})
	r.group.close()
	y := newYard(t)
	start := func(script string) *Job {
		j, err := r.Start(t.Context(), Spec{Argv: []string{"python3", "-c", script}, Dir: filepath.Join(y.base, "proj"), Env: y.env, Confine: &y.held, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	small := start("import time; x = b'x' * (20 << 20); time.sleep(3)")
	large := start("import os, time\nfor i in range(8): x = os.fork() or bytearray(b'x') * (80 << 20)\ntime.sleep(100)")
	<-large.Done()
	if res, _ := large.Result(); res.Limit != KeyMemory || res.Signal != "SIGKILL" || res.TimedOut {
		t.Errorf("%q %q %v", res.Limit, res.Signal, res.TimedOut)
	}
	<-small.Done()
	if res, _ := small.Result(); res.Limit != "" || res.ExitCode != 0 {
		t.Errorf("%q %d %s", res.Limit, res.ExitCode, res.Stdout)
	}
}

// TestMemoryOfFiles has commands use memory that no process has mapped, where nothing but
// Ralph looks at them.
func TestMemoryOfFiles(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("no python3")
	}
	for name, script := range map[string]string{
		"memfd":    "import os, time\nf = os.memfd_create('x')\nfor i in range(600): os.write(f, bytes(1 << 20))\ntime.sleep(100)",
		"/dev/shm": "import time\nf = open('/dev/shm/x', 'wb', 0)\nfor i in range(600): f.write(bytes(1 << 20))\ntime.sleep(100)",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t)
			r.Bound(Bounds{Memory: 300 << 20})
			r.group.close()
			y := newYard(t)
			res, err := r.Run(t.Context(), Spec{Argv: []string{"python3", "-c", script}, Dir: filepath.Join(y.base, "proj"), Env: y.env, Confine: &y.held, Timeout: time.Minute})
			if err != nil || res.Limit != KeyMemory || res.TimedOut {
				t.Errorf("%v %q %v %s", err, res.Limit, res.TimedOut, res.Stdout.Head)
			}
		})
	}
}

// TestSegments has a command make segments of System V's shared memory, which nobody sees
// while no process has them attached: none is larger than the system's number of them bounds.
func TestSegments(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("no python3")
	}
	const script = `import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
for size in 56, 65536, 65537, 1 << 30, 1 << 32, (1 << 32) + 1:
    print(size, libc.shmget(0, size, 0o1600) >= 0 or ctypes.get_errno())`
	y := newYard(t)
	res, err := newRunner(t).Run(t.Context(), Spec{Argv: []string{"python3", "-c", script}, Dir: filepath.Join(y.base, "proj"), Env: y.env, Confine: &y.held, Timeout: time.Minute})
	if want := "56 True\n65536 True\n65537 28\n1073741824 28\n4294967296 28\n4294967297 28\n"; err != nil || string(res.Stdout.Head) != want {
		t.Errorf("%v %s", err, res.Stdout.Head)
	}
}

// TestMemoryOfAllInAGroup has commands use memory together that no process uses by itself:
// files in memory, and pipes. The kernel ends the largest process, and the group goes with
// the Runner.
func TestMemoryOfAllInAGroup(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("no python3")
	}
	for _, method := range []string{"", supervise.MethodSession} {
		t.Run("method "+method, func(t *testing.T) {
			r := New(Options{Init: Self(), Method: method})
			defer func() { _ = r.Close(context.WithoutCancel(t.Context())) }()
			r.Bound(Bounds{Memory: 300 << 20})
			if !r.InGroup() {
				t.Skip("no control group is granted")
			}
			y := newYard(t)
			run := func(script string) Result {
				res, err := r.Run(t.Context(), Spec{Argv: []string{"python3", "-c", script}, Dir: filepath.Join(y.base, "proj"), Env: y.env, Confine: &y.held, Timeout: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			if res := run("x = bytearray(b'x') * (20 << 20)"); res.Limit != "" || res.ExitCode != 0 {
				t.Errorf("%q %d %s", res.Limit, res.ExitCode, res.Stdout.Head)
			}
			for name, script := range map[string]string{
				"data":  "x = bytearray(b'x') * (600 << 20)",
				"memfd": "import os\nf = os.memfd_create('x')\nfor i in range(600): os.write(f, bytes(1 << 20))",
				"spread": "import os, time\nfor i in range(8):\n if os.fork() == 0:\n  x = bytearray(b'x') * (80 << 20)\n  time.sleep(1)\n  os._exit(0)\n" +
					"for i in range(8): os.wait()",
			} {
				if res := run(script); res.Limit != KeyMemory {
					t.Errorf("%s: %q %d %s", name, res.Limit, res.ExitCode, res.Stdout.Head)
				}
			}
			if res := run("pass"); res.Limit != "" || res.ExitCode != 0 {
				t.Errorf("afterwards: %q %d %s", res.Limit, res.ExitCode, res.Stdout.Head)
			}
		})
	}
}

// TestOutputOfAll has commands write more than is kept of all together.
func TestOutputOfAll(t *testing.T) {
	r := newRunner(t)
	r.Bound(Bounds{Output: 3 << 20})
	dir := t.TempDir()
	var kept int64
	for i, want := range []string{"", KeyOutput, KeyOutput} {
		file := filepath.Join(dir, strings.Repeat("x", i+1))
		res, err := r.Run(t.Context(), Spec{Argv: []string{"head", "-c", "2097152", "/dev/zero"}, OutputFile: file, MaxBytes: 1024})
		if err != nil || res.Limit != want || res.Stdout.Bytes != 2<<20 || res.Stdout.FileCut != (want != "") {
			t.Errorf("%d: %v %q %d %v", i, err, res.Limit, res.Stdout.Bytes, res.Stdout.FileCut)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		kept += info.Size()
	}
	if kept != 3<<20 {
		t.Errorf("%d bytes are kept", kept)
	}
}

// TestFirstToEnd has the kernel end commands before Ralph for lack of memory.
func TestFirstToEnd(t *testing.T) {
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Skip(err)
	}
	y := newYard(t)
	res := y.run(t, newRunner(t), "cat /proc/self/oom_score_adj; echo 0 >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj", &y.held)
	out := res.Stdout.Head
	if f := bytes.Fields(out); len(f) == 0 || string(f[0]) != "1000" || string(f[len(f)-1]) != "1000" {
		t.Errorf("%q, of the test %q", out, own)
	}
}

// TestNoRoom has limits of files and processes met when a confined command is to start: the
// error names the limit, is none of a missing sandbox, and passes when there is room again.
func TestNoRoom(t *testing.T) {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	y := newYard(t)
	r := newRunner(t)
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open) + 1), Max: now.Max}, nil); err != nil {
		t.Fatal(err)
	}
	_, failed := r.Run(t.Context(), Spec{Argv: []string{"true"}, Dir: filepath.Join(y.base, "proj"), Env: y.env, Confine: &y.held})
	named := 0
	for _, l := range r.Layers() {
		if supervise.Exhausted(l.Err) {
			named++
		}
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &now, nil); err != nil {
		t.Fatal(err)
	}
	var pe *Error
	if !errors.As(failed, &pe) || !supervise.Exhausted(failed) || errors.Is(failed, errors.ErrUnsupported) || !strings.Contains(pe.Hint, "ulimit -n") {
		t.Errorf("%v, %+v", failed, pe)
	}
	if named == 0 {
		t.Errorf("no layer says it: %+v", r.Layers())
	}
	if res := y.run(t, r, "true", &y.held); res.ExitCode != 0 {
		t.Errorf("with room again: %d", res.ExitCode)
	}
}
