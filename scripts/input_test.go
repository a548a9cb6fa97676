package scripts

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ralph/interrupts"
)

func TestStdin(t *testing.T) {
	b := newBench(t)
	file := b.file("in.txt", "from a file\n")
	open := func(path string) *os.File {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	piped := func(text string) *os.File {
		r, w := pipe(t)
		go func() { // ends with the write: pipes are closed when the test ends
			_, _ = io.WriteString(w, text)
			w.Close()
		}()
		return r
	}
	for _, c := range []struct {
		name  string
		stdin io.Reader
		args  []string
		task  string
		along string
	}{
		{"none", nil, []string{"x"}, "x", ""},
		{"/dev/null", open("/dev/null"), []string{"x"}, "x", ""},
		{"directory", open(b.dir), []string{"x"}, "x", ""},
		{"file", open(file), []string{"x"}, "x", "from a file\n"},
		{"pipe", piped("from a pipe"), []string{"x"}, "x", "from a pipe"},
		{"empty pipe", piped(""), []string{"x"}, "x", ""},
		{"task", piped("\uFEFFdo it\nnow\r\n"), []string{"-"}, "do it\nnow", ""},
		{"task after dashes", piped("do it"), []string{"--", "-"}, "do it", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.stdin = c.stdin
			if code := b.run(c.args...); code != 0 {
				t.Fatalf("exit %d: %s", code, b.err.String())
			}
			if j := b.fake.jobs[0]; j.Task != c.task || j.Context != c.along {
				t.Errorf("task %q, context %q", j.Task, j.Context)
			}
		})
	}
}

// endless is a reader that counts what is taken from it.
type endless struct {
	text string
	n    int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.text)
	}
	e.n += n
	return n, nil
}

func TestStdinBounds(t *testing.T) {
	b := newBench(t)
	e := &endless{text: "line\n"}
	b.stdin = e
	if code := b.run("x"); code != 2 {
		t.Errorf("endless: exit %d", code)
	}
	b.wantErr("longer than the limit of 10 MiB", "--files")
	if e.n > maxStdinBytes+1<<20 {
		t.Errorf("read %d bytes", e.n)
	}
	e = &endless{text: "\x7fELF\x00\x00"}
	b.stdin = e
	if code := b.run("x"); code != 2 || e.n > 1<<20 {
		t.Errorf("binary: exit %d after %d bytes", code, e.n)
	}
	b.wantErr("binary")
	b.stdin = strings.NewReader("latin1: \xe4")
	if code := b.run("x"); code != 2 {
		t.Errorf("latin1: exit %d", code)
	}
	b.wantErr("not valid UTF-8")
	b.stdin = strings.NewReader(" \n")
	if code := b.run("-"); code != 2 {
		t.Errorf("blank task: exit %d", code)
	}
	b.wantErr("standard input holds no task")
	b.stdin = nil
	if code := b.run(strings.Repeat("long ", 1<<20)); code != 2 {
		t.Errorf("5 MiB task: exit %d", code)
	}
	b.wantErr("the limit is 4194304")
	if code := b.run(strings.Repeat("long", 1<<18)); code != 0 {
		t.Errorf("1 MiB task: exit %d", code)
	}
}

func TestInterruptWhileReading(t *testing.T) {
	r, _ := pipe(t)
	b := newBench(t)
	b.stdin = r
	ctx, cancel := context.WithCancelCause(t.Context())
	began := make(chan time.Time, 1)
	time.AfterFunc(30*time.Millisecond, func() {
		began <- time.Now()
		cancel(&interrupts.Stop{Signal: syscall.SIGINT})
	})
	if code := b.runCtx(ctx, "--json", "-"); code != 130 {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	if late := time.Since(<-began); late > 10*time.Second {
		t.Errorf("the document came %v after the signal", late)
	}
	checkResult(t, b.out.String())
}

// A pipe that a caller hands down and never writes to is given up; a silent
// neighbour in a pipeline is waited for.
func TestSilentStdin(t *testing.T) {
	t.Parallel()
	r, _ := pipe(t) // both ends are held by this process: no neighbour
	b := newBench(t)
	b.stdin = r
	if code := b.run("x"); code != 0 || b.fake.jobs[0].Context != "" {
		t.Errorf("exit %d, jobs %+v", code, b.fake.jobs)
	}
	b.wantErr("< /dev/null goes on without it", "ralph: warning: standard input is open and silent")
	r2, w2 := pipe(t)
	if writerInPipeline(int(r2.Fd())) {
		t.Error("this process counts as its own neighbour")
	}
	cmd := exec.Command("sleep", "60")
	cmd.Stdout = w2
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := os.Stat("/proc/self/fd"); err == nil && !writerInPipeline(int(r2.Fd())) {
		t.Error("the neighbour that holds the other end was not found")
	}
}

func TestSocketStdin(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Skip("no socket pairs here: ", err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
	defer near.Close()
	if _, err := far.WriteString("by socket"); err != nil {
		t.Fatal(err)
	}
	far.Close()
	b := newBench(t)
	b.stdin = near
	if code := b.run("x"); code != 0 || b.fake.jobs[0].Context != "by socket" {
		t.Errorf("exit %d, jobs %+v", code, b.fake.jobs)
	}
}

func TestSchemaFlag(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"object"}`: "",
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`: "",
		"{\n  \"type\": }": "line 2, column 11",
		`[1]`:              "not a JSON object",
		``:                 "line 1",
		`{"type":"strng"}`: `/type: "strng"`,
		`{"properties":{"a":{"type":["string","nil"]}}}`: `/properties/a/type: "nil"`,
		`{"pattern":"("}`:                                       "pattern",
		`{"$ref":"#/$defs/x"}`:                                  "$defs",
		`{"$ref":"http://example.com/s"}`:                       "example.com",
		`{"$schema":"http://json-schema.org/draft-03/schema#"}`: "draft-03",
	} {
		b := newBench(t)
		b.file("s.json", text)
		code := b.run("--schema", "s.json", "x")
		if want == "" {
			if code != 0 {
				t.Errorf("%s: exit %d: %s", text, code, b.err.String())
			}
			continue
		}
		if code != 2 {
			t.Errorf("%s: exit %d", text, code)
		}
		b.wantErr(`schema "`, "s.json", want)
	}
}

func TestGather(t *testing.T) {
	b := newBench(t)
	b.file("a/one.go", "1")
	b.file("a/b/two.go", "2")
	b.file("a/b/three.txt", "3")
	b.file("a/pic.go", "\x00\x01")
	b.file(".git/config.go", "no")
	b.file(".ralph/x.go", "no")
	outside := filepath.Join(t.TempDir(), "secret.go")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(b.dir, "a/link.go")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(b.dir, "a/fifo.go"), 0o600); err != nil {
		t.Fatal(err)
	}
	var warnings []string
	files, err := gather(b.dir, filepath.Join(b.dir, "a"), []string{"**/*.go", "b/three.txt", "../a/one.go"}, func(s string) { warnings = append(warnings, s) })
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path+"="+f.Text)
	}
	if got := strings.Join(names, " "); got != "a/b/two.go=2 a/one.go=1 a/b/three.txt=3" {
		t.Errorf("files: %s", got)
	}
	if all := strings.Join(warnings, "\n"); !strings.Contains(all, "a/pic.go: not a text file") || !strings.Contains(all, "a/link.go") ||
		!strings.Contains(all, "a/fifo.go: not a regular file") || strings.Contains(all, "secret\"") {
		t.Errorf("warnings: %s", all)
	}
	files, err = gather(b.dir, b.dir, []string{"**/*.go"}, func(string) {})
	if err != nil || len(files) != 2 {
		t.Errorf("from the root: %v, %v", files, err)
	}
	for pattern, want := range map[string]string{
		"a/pic.go": "not a text file", "a/link.go": "a/link.go", "/etc/passwd": "outside the project", "../../*": "outside the project",
		"a/[": "not a valid glob", "nope": "matches no file: there is none", "a": "it is a directory",
		"*.nope": "matches no file",
	} {
		_, err := gather(b.dir, b.dir, []string{pattern}, func(string) {})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", pattern, err, want)
		}
	}
	b.file("big1", strings.Repeat("x", maxFilesBytes-1))
	b.file("big2", "xx")
	if _, err := gather(b.dir, b.dir, []string{"big*"}, func(string) {}); err == nil || !strings.Contains(err.Error(), "4 MiB together") {
		t.Errorf("too big: %v", err)
	}
}

func TestSchemasSpeakPlainly(t *testing.T) {
	for text, want := range map[string]string{
		"\uFEFF{}":                        "",
		`{"required":"a"}`:                "required: a string cannot stand here",
		`{"minimum":"x"}`:                 "minimum: a string cannot stand here",
		`{"pattern":"["}`:                 "pattern: error parsing regexp",
		`{"properties":{"a":{"$ref":3}}}`: "$ref: a number cannot stand here",
	} {
		b := newBench(t)
		b.file("s.json", text)
		code := b.run("--schema", "s.json", "x")
		if want == "" {
			if code != 0 {
				t.Errorf("%q: exit %d: %s", text, code, b.err.String())
			}
			continue
		}
		if code != 2 {
			t.Errorf("%q: exit %d", text, code)
		}
		b.wantErr(want)
		for _, noise := range []string{"schemaWithoutMethods", "anonymous", "Go struct", "json:"} {
			if strings.Contains(b.err.String(), noise) {
				t.Errorf("%q: %s", text, b.err.String())
			}
		}
	}
}

func TestUnreadableInput(t *testing.T) {
	b := newBench(t)
	f, err := os.Open(b.dir) // a directory can be opened, and not read
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b.stdin = f
	if code := b.run("-"); code != 2 {
		t.Errorf("exit %d", code)
	}
	b.wantErr("ralph: error: read standard input: is a directory\n", "ralph: hint: ")
	if strings.Contains(b.err.String(), "/dev/stdin") {
		t.Errorf("noise: %s", b.err.String())
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine("\n\n  first \x1b line  \nsecond", 9); got != "first ␛ …" {
		t.Errorf("oneLine: %q", got)
	}
}

func TestSocketIsNoTerminal(t *testing.T) {
	a, c := net.Pipe()
	defer a.Close()
	defer c.Close()
	if isTerminal(a) || isTerminal(&bytes.Buffer{}) || isTerminal(nil) {
		t.Error("not every stream is a terminal")
	}
}
