package exec

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
	"ralph/workers/exec/exectest"
)

func sh(script string) []string { return []string{"sh", "-c", script} }

func TestRun(t *testing.T) {
	dir := t.TempDir()
	tests := map[string]struct {
		spec   Spec
		code   int
		signal string
		stdout string
		stderr string
	}{
		"exit":      {spec: Spec{Argv: sh("exit 3")}, code: 3},
		"signal":    {spec: Spec{Argv: sh("kill -KILL $$")}, code: 137, signal: "SIGKILL"},
		"both":      {spec: Spec{Argv: sh("echo out; echo err >&2; echo again")}, stdout: "out\nerr\nagain\n"},
		"split":     {spec: Spec{Argv: sh("echo out; echo err >&2"), Split: true}, stdout: "out\n", stderr: "err\n"},
		"no stdin":  {spec: Spec{Argv: []string{"cat"}}},
		"stdin":     {spec: Spec{Argv: []string{"cat"}, Stdin: strings.NewReader("in")}, stdout: "in"},
		"unread":    {spec: Spec{Argv: []string{"true"}, Stdin: strings.NewReader(strings.Repeat("x", 1<<20))}},
		"directory": {spec: Spec{Argv: []string{"pwd"}, Dir: dir}, stdout: dir + "\n"},
		"env":       {spec: Spec{Argv: sh("echo $A-$HOME"), Env: []string{"PATH=" + os.Getenv("PATH"), "A=1", "A=2"}}, stdout: "2-\n"},
		"session":   {spec: Spec{Argv: sh(`[ "$(ps -o sid= -p $$ | tr -d ' ')" = $$ ] && echo own`)}, stdout: "own\n"},
	}
	r := newRunner(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res, err := r.Run(t.Context(), tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			if res.ExitCode != tt.code || res.Signal != tt.signal || res.Stdout.String() != tt.stdout || res.Stderr.String() != tt.stderr {
				t.Errorf("got %+v\n%q\n%q", res, res.Stdout.String(), res.Stderr.String())
			}
			if res.Duration <= 0 || res.TimedOut || len(res.Killed) > 0 {
				t.Errorf("got %+v", res)
			}
		})
	}
}

func TestCannotStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, perm fs.FileMode) string {
		p := filepath.Join(dir, name)
		if err := exectest.WriteProgram(p, []byte(text), perm); err != nil {
			t.Fatal(err)
		}
		return p
	}
	write("plain", "#!/bin/sh\n", 0o644)
	write("relative", "#!/bin/sh\n", 0o755)
	tests := map[string]struct {
		spec Spec
		is   error
		hint string
	}{
		"nothing":        {Spec{}, errNoProgram, "give"},
		"not found":      {Spec{Argv: []string{"no-such-program-here"}}, errNotInPath, "installed"},
		"no PATH":        {Spec{Argv: []string{"sh"}, Env: []string{"A=1"}}, errNotInPath, "PATH"},
		"relative PATH":  {Spec{Argv: []string{"relative"}, Dir: dir, Env: []string{"PATH=.:"}}, errNotInPath, "PATH"},
		"no such path":   {Spec{Argv: []string{"/no/such/program"}}, fs.ErrNotExist, "path"},
		"not executable": {Spec{Argv: []string{"./plain"}, Dir: dir}, errNotExecutable, "chmod"},
		"in PATH but":    {Spec{Argv: []string{"plain"}, Env: []string{"PATH=" + dir}}, errNotExecutable, "chmod"},
		"directory":      {Spec{Argv: []string{dir}}, errIsDir, "not a directory"},
		"no directory":   {Spec{Argv: []string{"true"}, Dir: filepath.Join(dir, "x")}, fs.ErrNotExist, "directory"},
		"file as dir":    {Spec{Argv: []string{"true"}, Dir: filepath.Join(dir, "plain")}, errNotDir, "directory"},
		"no interpreter": {Spec{Argv: []string{write("interp", "#!/no/such/thing\n", 0o755)}}, fs.ErrNotExist, "interpreter"},
		"no #! line":     {Spec{Argv: []string{write("text", "hello\n", 0o755)}}, nil, "#!"},
		"too long":       {Spec{Argv: []string{"true", strings.Repeat("x", 4<<20)}}, nil, "too long"},
	}
	r := newRunner(t)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := r.Run(t.Context(), tt.spec)
			var pe *Error
			if !errors.As(err, &pe) || pe.Op == "" || tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(pe.Hint, tt.hint) {
				t.Fatalf("got %v (hint %q)", err, pe.Hint)
			}
			if _, err := r.Start(t.Context(), tt.spec); !errors.As(err, &pe) {
				t.Errorf("start: %v", err)
			}
		})
	}
	if len(r.Jobs()) != 0 {
		t.Error("a job that did not start is listed")
	}
	res, err := r.Run(t.Context(), Spec{Argv: []string{"./relative"}, Dir: dir})
	if err != nil || res.ExitCode != 0 {
		t.Errorf("relative to the directory: %+v %v", res, err)
	}
}

func TestCancel(t *testing.T) {
	r := newRunner(t)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	start := time.Now()
	heard := func([]byte) { start = time.Now(); cancel(gone) }
	res, err := r.Run(ctx, Spec{Argv: sh("trap '' INT TERM; echo so far; while :; do sleep 1; done"), OnOutput: heard})
	if !errors.Is(err, gone) || res.Stdout.String() != "so far\n" || res.Signal != "SIGKILL" || res.TimedOut {
		t.Errorf("%+v %v", res, err)
	}
	if took := time.Since(start); took < 50*time.Millisecond || took > 5*time.Second {
		t.Errorf("a deaf command took %v", took)
	}
	if _, err := r.Run(ctx, Spec{Argv: []string{"true"}}); !errors.Is(err, gone) {
		t.Errorf("an ended context: %v", err)
	}
	if _, err := r.Start(ctx, Spec{Argv: []string{"true"}}); !errors.Is(err, gone) {
		t.Errorf("an ended context: %v", err)
	}
}

func TestTimeoutLadder(t *testing.T) {
	r := newRunner(t)
	run := func(script string) (Result, time.Duration) {
		t.Helper()
		start := time.Now()
		res, err := r.Run(t.Context(), Spec{Argv: sh(script), Timeout: 100 * time.Millisecond})
		if err != nil || !res.TimedOut {
			t.Errorf("%+v %v", res, err)
		}
		return res, time.Since(start)
	}
	if res, took := run("trap 'echo int; exit 4' INT; while :; do sleep 0.01; done"); res.ExitCode != 4 || res.Stdout.String() != "int\n" || took > 10*time.Second {
		t.Errorf("INT: %+v %v", res, took)
	}
	res, took := run("trap '' INT; trap 'echo term; exit 5' TERM; while :; do sleep 0.01; done")
	if res.ExitCode != 5 || !strings.HasSuffix(res.Stdout.String(), "term\n") || took < 600*time.Millisecond {
		t.Errorf("TERM: %+v %v", res, took)
	}
	// A hard stop cuts the ladder short.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	res, err := r.Run(ctx, Spec{Argv: sh("trap '' INT TERM; while :; do sleep 0.01; done"), Timeout: 50 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) || res.Signal != "SIGKILL" || time.Since(start) > 10*time.Second {
		t.Errorf("hard stop: %+v %v after %v", res, err, time.Since(start))
	}
}

func TestOnOutput(t *testing.T) {
	var got []byte
	calls := 0
	res, err := newRunner(t).Run(t.Context(), Spec{
		Argv: sh("echo a; sleep 0.05; echo b >&2; sleep 0.05; echo c"), Split: true,
		OnOutput: func(p []byte) { got = append(got, p...); calls++ },
	})
	if err != nil || string(got) != "a\nb\nc\n" || calls != 3 || res.Stdout.String() != "a\nc\n" || res.Stderr.String() != "b\n" {
		t.Errorf("%q in %d calls, %+v %v", got, calls, res, err)
	}
}

// A reader that never comes back does not keep Run.
func TestBlockedStdin(t *testing.T) {
	pr, pw := io.Pipe()
	start := time.Now()
	if _, err := newRunner(t).Run(t.Context(), Spec{Argv: []string{"true"}, Stdin: pr}); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	if err := pw.Close(); err != nil {
		t.Error(err)
	}
}

func TestOutputIsBounded(t *testing.T) {
	dir := t.TempDir()
	r := newRunner(t)
	run := func(s Spec) Result {
		t.Helper()
		res, err := r.Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := run(Spec{Argv: sh("seq 1 100000"), MaxBytes: 21})
	if string(res.Stdout.Head) != "1\n2\n3\n4\n5\n6" || string(res.Stdout.Tail) != "99\n100000\n" || res.Stdout.Bytes != 588895 || !res.Stdout.Truncated() {
		t.Errorf("%q %q %d", res.Stdout.Head, res.Stdout.Tail, res.Stdout.Bytes)
	}
	if s := res.Stdout.String(); !strings.Contains(s, "[588874 bytes left out]\n") {
		t.Errorf("notice: %q", s)
	}
	// The file is made only when it is needed, with its directory.
	file := filepath.Join(dir, "new", "out")
	res = run(Spec{Argv: sh("echo short"), OutputFile: file})
	if _, err := os.Stat(filepath.Dir(file)); err == nil || res.Stdout.File != "" {
		t.Errorf("made without need: %+v", res)
	}
	res = run(Spec{Argv: sh("seq 1 50; seq 51 100000 >&2"), MaxBytes: 20, OutputFile: file, Split: true})
	b, err := os.ReadFile(file)
	if err != nil || len(b) != 588895 || !strings.HasSuffix(string(b), "\n100000\n") || res.Stdout.File != file || res.OutputErr != nil {
		t.Errorf("%d bytes, %v, %+v", len(b), err, res)
	}
	if !strings.Contains(res.Stderr.String(), "all of it is in "+file) {
		t.Errorf("notice: %q", res.Stderr.String())
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode: %v %v", info, err)
	}
	res = run(Spec{Argv: sh("seq 1 100"), MaxBytes: 20, OutputFile: file})
	if !errors.Is(res.OutputErr, fs.ErrExist) || res.Stdout.File != "" || res.Stdout.Bytes != 292 {
		t.Errorf("existing file: %+v", res)
	}
	small := filepath.Join(dir, "small")
	run(Spec{Argv: sh("seq 1 100000"), MaxBytes: 20, OutputFile: small, MaxFileBytes: 1000})
	if info, err := os.Stat(small); err != nil || info.Size() != 1000 {
		t.Errorf("bound of the file: %v %v", info, err)
	}
}

func TestGigabyteInConstantMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("a gigabyte")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := newRunner(t).Run(t.Context(), Spec{Argv: []string{"head", "-c", "1073741824", "/dev/zero"}, OutputFile: filepath.Join(t.TempDir(), "out"), MaxFileBytes: 1 << 20})
	runtime.ReadMemStats(&after)
	if err != nil || res.Stdout.Bytes != 1<<30 {
		t.Errorf("%d bytes, %v", res.Stdout.Bytes, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
		t.Errorf("allocated %d bytes", used)
	}
}

func TestRingKeepsBothEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := ring{headMax: rapid.IntRange(0, 9).Draw(t, "head"), tailMax: rapid.IntRange(0, 9).Draw(t, "tail")}
		var all []byte
		for _, p := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 12)).Draw(t, "writes") {
			g.add(p)
			all = append(all, p...)
		}
		c := g.capture()
		head := all[:min(len(all), g.headMax)]
		rest := all[len(head):]
		tail := rest[max(0, len(rest)-g.tailMax):]
		if string(c.Head) != string(head) || string(c.Tail) != string(tail) || c.Bytes != int64(len(all)) || c.Truncated() != (len(rest) > len(tail)) {
			t.Fatalf("all %q: %q %q %d", all, c.Head, c.Tail, c.Bytes)
		}
	})
}

func TestEnviron(t *testing.T) {
	got := Environ([]string{
		"PATH=/bin", "OPENAI_API_KEY=1", "github_token=1", "MySecret=1", "DB_PASSWORD=1", "AWS_CREDENTIALS=1", "SSH_KEYFILE=1", "PGPASSWD=1", "GPG_PASSPHRASE=1",
		"LD_PRELOAD=x", "LD_LIBRARY_PATH=/l", "DYLD_INSERT_LIBRARIES=x", "GIT_DIR=/x", "A=1", "EMPTY=", "A=2", "=x", "bad", "TAG=a=b",
	})
	if want := []string{"PATH=/bin", "LD_LIBRARY_PATH=/l", "EMPTY=", "A=2", "TAG=a=b"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got == nil || Environ(nil) == nil {
		t.Error("nil means the default environment")
	}
}

// What is not named like the usual secrets, and what would change how a shell
// reads an approved command.
func TestEnvironHostile(t *testing.T) {
	got := Environ([]string{
		"BASH_ENV=/x", "ENV=/x", "PROMPT_COMMAND=x", "SHELLOPTS=xtrace", "BASH_FUNC_ls%%=() { x; }", "PS4=$(x)",
		"MYSQL_PWD=1", "VAULT_PASS=1", "NPM_AUTH=1", "DOCKER_AUTH_CONFIG=1", "JWT=1", "GH_PAT=1", "SENTRY_DSN=1", "SLACK_WEBHOOK=1", "SESSION_COOKIE=1",
		"DATABASE_URL=postgres://u:secret@h/db", "AMQP=amqp://u:p@h",
		"PWD=/w", "OLDPWD=/v", "SSH_AUTH_SOCK=/s", "PATH=/bin", "AUTHOR=me", "PATIENCE=1", "HTTPS_PROXY=http://u:p@h:1", "REPO=https://u@h/x:y@z", "HOMEPAGE=https://h/",
	})
	want := []string{"PWD=/w", "OLDPWD=/v", "SSH_AUTH_SOCK=/s", "PATH=/bin", "AUTHOR=me", "PATIENCE=1", "HTTPS_PROXY=http://u:p@h:1", "REPO=https://u@h/x:y@z", "HOMEPAGE=https://h/"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// The file for long output holds no secret, wherever the pieces of the output
// end, and says when it is not whole.
func TestOutputFileIsRedacted(t *testing.T) {
	redact := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("SECRET-4711"), []byte("[redacted]")) }
	for i, script := range []string{
		"seq 1000; printf SECR; sleep 0.1; printf ET-47; sleep 0.1; echo 11; seq 1000; printf SECRET-4711",
		"head -c 300000 /dev/zero; printf '\nSECRET-4711\n'; head -c 300000 /dev/zero",
		"for i in 1 2 3 4 5 6 7 8 9; do seq 300; echo $i SECRET-4711 >&2; done",
	} {
		file := filepath.Join(t.TempDir(), "out")
		res, err := newRunner(t).Run(t.Context(), Spec{Argv: sh(script), MaxBytes: 20, OutputFile: file, Redact: redact})
		if err != nil || res.OutputErr != nil || res.Stdout.FileCut {
			t.Fatalf("%+v %v", res, err)
		}
		b, err := os.ReadFile(file)
		n := bytes.Count(b, []byte("[redacted]"))
		if err != nil || bytes.Contains(b, []byte("SECRET")) || n == 0 || int64(len(b)) != res.Stdout.Bytes-int64(n) {
			t.Errorf("script %d: %d bytes of %d, %d redacted, %v", i, len(b), res.Stdout.Bytes, n, err)
		}
		res, err = newRunner(t).Run(t.Context(), Spec{Argv: sh(script), MaxBytes: 20, OutputFile: file + "2", MaxFileBytes: 100, Redact: redact})
		if err != nil || !res.Stdout.FileCut || !strings.Contains(res.Stdout.String(), "the beginning of it is in") {
			t.Errorf("script %d, cut: %+v %v", i, res.Stdout.FileCut, err)
		}
	}
}

func TestDefaultEnvironment(t *testing.T) {
	t.Setenv("PROC_TEST_TOKEN", "1")
	t.Setenv("PROC_TEST_PLAIN", "1")
	res, err := newRunner(t).Run(t.Context(), Spec{Argv: sh("echo $PROC_TEST_TOKEN-$PROC_TEST_PLAIN")})
	if err != nil || res.Stdout.String() != "-1\n" {
		t.Errorf("%q %v", res.Stdout.String(), err)
	}
}

func TestJob(t *testing.T) {
	r := newRunner(t)
	ctx, cancel := context.WithCancel(t.Context())
	mark := marker()
	first, err := r.Start(ctx, Spec{Argv: sh("echo started; (setsid sleep " + mark + " &); sleep " + mark)})
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.Start(ctx, Spec{Argv: sh("exit 4")})
	if err != nil {
		t.Fatal(err)
	}
	cancel() // bounds only the start
	if first.ID() == second.ID() || !strings.HasPrefix(first.Command(), "sh -c echo") || first.Started().IsZero() {
		t.Errorf("%q %q %v", first.ID(), first.Command(), first.Started())
	}
	if got := r.Jobs(); len(got) != 2 || got[0] != first || got[1] != second {
		t.Errorf("jobs: %v", got)
	}
	<-second.Done()
	if res, ok := second.Result(); !ok || res.ExitCode != 4 {
		t.Errorf("second: %+v %v", res, ok)
	}
	for deadline := time.Now().Add(5 * time.Second); first.Output().String() != "started\n"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("output: %q", first.Output().String())
		}
	}
	if _, ok := first.Result(); ok {
		t.Error("the first has not ended")
	}
	for range 2 {
		if err := first.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if res, ok := first.Result(); !ok || res.Signal == "" || res.Stdout.String() != "started\n" {
		t.Errorf("first: %+v %v", res, ok)
	}
	noneAlive(t, mark)
	if err := second.Stop(t.Context()); err != nil {
		t.Errorf("stop of an ended job: %v", err)
	}
}

func TestClose(t *testing.T) {
	r := New(testOptions())
	mark := marker()
	var wg sync.WaitGroup
	started := make(chan struct{}, 2)
	for range 2 {
		if _, err := r.Start(t.Context(), Spec{Argv: sh("trap '' INT TERM; sleep " + mark + "; sleep " + mark)}); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			_, err := r.Run(t.Context(), Spec{Argv: sh("echo; sleep " + mark), OnOutput: func([]byte) { started <- struct{}{} }})
			if !errors.Is(err, ErrClosed) {
				t.Errorf("run: %v", err)
			}
		})
	}
	<-started
	<-started
	for range 2 {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	noneAlive(t, mark)
	if _, err := r.Run(t.Context(), Spec{Argv: []string{"true"}}); !errors.Is(err, ErrClosed) {
		t.Errorf("run after close: %v", err)
	}
	if _, err := r.Start(t.Context(), Spec{Argv: []string{"true"}}); !errors.Is(err, ErrClosed) {
		t.Errorf("start after close: %v", err)
	}
	if err := New(Options{}).Close(t.Context()); err != nil {
		t.Errorf("close of an unused one: %v", err)
	}
}
