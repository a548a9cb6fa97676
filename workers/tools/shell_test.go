package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestShell(t *testing.T) {
	t.Setenv("MY_API_KEY", "hidden")
	t.Setenv("PLAIN_WORD", "seen")
	b := newBench(t)
	b.put("sub/f", "x")
	for _, c := range []struct {
		name       string
		args       []any
		head, text string
		exit       int
	}{
		{"output", []any{"command", "echo out; echo err >&2"}, "exit 0 after", "out\nerr\n", 0},
		{"no output", []any{"command", "true"}, ", no output", "", 0},
		{"exit", []any{"command", "echo x; exit 3"}, "exit 3 after", "x\n", 3},
		{"bash", []any{"command", "[[ a == a ]] && echo ${BASH_VERSION:+bash}"}, "exit 0", "bash\n", 0},
		{"dir", []any{"command", "pwd"}, "exit 0", b.root + "\n", 0},
		{"workdir", []any{"command", "pwd", "workdir", "sub"}, "exit 0", b.root + "/sub\n", 0},
		{"cwd alias", []any{"command", "pwd", "cwd", b.root + "/sub"}, "exit 0", b.root + "/sub\n", 0},
		{"no secrets", []any{"command", "echo $MY_API_KEY$PLAIN_WORD"}, "exit 0", "seen\n", 0},
		{"environment", []any{"command", "echo $TERM $PAGER $GIT_PAGER $GIT_EDITOR $GIT_TERMINAL_PROMPT $NO_COLOR"}, "exit 0", "dumb cat cat true 0 1\n", 0},
		{"no input", []any{"command", "cat; echo end"}, "exit 0", "end\n", 0},
		{"signal", []any{"command", "kill -KILL $$"}, "killed by SIGKILL", "", 137},
		{"not found", []any{"command", "no-such-program-here 2>/dev/null"}, "exit 127", "", 127},
		{"not utf-8", []any{"command", `printf 'caf\xe9\n'`}, "exit 0", "caf\\xe9\n", 0},
		{"no text", []any{"command", `head -c 16000 /dev/zero | tr '\0' '\377'`}, "not text", strings.Repeat(`\xff`, 4096), 0},
		{"left behind", []any{"command", "sleep 300 & echo started"}, "left running by it ended", "started\n", 0},
	} {
		r := b.run("shell", c.args...)
		if !strings.Contains(r.Head, c.head) || r.Text != c.text {
			t.Errorf("%s: %q %q", c.name, r.Head, r.Text)
		}
		if r.Failed != (c.exit != 0) || r.Command == nil || r.Command.ExitCode != c.exit || r.Command.Duration <= 0 || r.Command.Command != c.args[1] {
			t.Errorf("%s: %+v %+v", c.name, r, r.Command)
		}
		if r.Brief != fmt.Sprintf("exit %d", c.exit) {
			t.Errorf("%s: brief %q", c.name, r.Brief)
		}
	}
}

func TestShellRefuses(t *testing.T) {
	b := newBench(t)
	b.put("file", "")
	for _, c := range []struct {
		args []any
		want string
	}{
		{nil, "the command is empty"},
		{[]any{"command", " \n\t"}, "the command is empty"},
		{[]any{"command", "echo a\x00b"}, "NUL byte"},
		{[]any{"command", "pwd", "workdir", "/"}, "outside"},
		{[]any{"command", "pwd", "workdir", "../"}, "outside"},
		{[]any{"command", "pwd", "workdir", "none"}, "does not exist"},
		{[]any{"command", "pwd", "workdir", "file"}, "it is a file"},
		{[]any{"command", "pwd", "timeout_seconds", 4000}, "at most 3600"},
		{[]any{"action", "output"}, "no background job"},
		{[]any{"action", "stop", "job", "job-9"}, "no background job"},
	} {
		if r, err := b.try("shell", c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %+v %v", c.args, r, err)
		}
	}
	if _, err := os.Stat(b.path(".ralph")); err == nil {
		t.Error("an output directory was made for nothing")
	}
}

func TestShellTimesOut(t *testing.T) {
	b := newBench(t, func(e *Env) { e.CommandTimeout = 200 * time.Millisecond })
	began := time.Now()
	r := b.run("shell", "command", "echo begun; sleep 60")
	if !strings.Contains(r.Head, "timed out") || r.Text != "begun\n" || !r.Failed || !r.Command.TimedOut || r.Brief != "timed out" {
		t.Errorf("%+v", r)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	r = b.run("shell", "command", "sleep 0.4; echo done", "timeout_seconds", 30)
	if r.Text != "done\n" {
		t.Errorf("%+v", r)
	}
}

func TestShellStopsWithItsContext(t *testing.T) {
	b := newBench(t)
	why := errors.New("stopped by the user")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for t.Context().Err() == nil {
			if _, err := os.Stat(filepath.Join(b.root, "runs")); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		cancel(why)
	}()
	r, err := b.tryCtx(ctx, "shell", "command", "echo begun; touch runs; sleep 1000")
	if err != nil || !r.Failed || r.Text != "begun\n" || !strings.Contains(r.Head, why.Error()) || r.Command == nil {
		t.Errorf("%+v %v", r, err)
	}
}

func TestShellKeepsLongOutput(t *testing.T) {
	b := newBench(t, func(e *Env) { e.MaxOutputBytes = 1000 })
	for n := 1; n <= 2; n++ {
		r := b.run("shell", "command", "seq 100000 200000")
		label := fmt.Sprintf(".ralph/out/%d-shell.txt", n)
		if !strings.Contains(r.Head, "of 700007 bytes; all of it: "+label) || len(r.Text) > 1000 {
			t.Errorf("%q %d", r.Head, len(r.Text))
		}
		lines := strings.Split(strings.TrimSuffix(r.Text, "\n"), "\n")
		for _, l := range lines {
			if len(l) != 6 {
				t.Errorf("half a line or a notice: %q", l)
			}
		}
		if lines[0] != "100000" || lines[len(lines)-1] != "200000" {
			t.Errorf("%q to %q", lines[0], lines[len(lines)-1])
		}
		var first, last int
		at := strings.Index(r.Head, "the first ")
		if _, err := fmt.Sscanf(r.Head[at:], "the first %d lines, then the last %d,", &first, &last); err != nil || first+last != len(lines) {
			t.Errorf("%q: %d lines: %v", r.Head, len(lines), err)
		}
		if lines[first] == fmt.Sprint(100000+first) || lines[first-1] != fmt.Sprint(100000+first-1) {
			t.Errorf("the gap is not after line %d", first)
		}
		if got := b.get(label); len(got) != 700007 {
			t.Errorf("%d bytes in the file", len(got))
		}
		if r := b.run("read", "path", label, "offset", 5000, "limit", 1); r.Text != "5000\t104999\n" {
			t.Errorf("%+v", r)
		}
	}
}

func TestShellRefusesALinkedOutputDirectory(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, b.path(".ralph")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.try("shell", "command", "seq 100000"); err == nil || !strings.Contains(err.Error(), "symlink leads elsewhere") {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("%v", left)
	}
}

func TestShellJobs(t *testing.T) {
	b := newBench(t)
	r := b.run("shell", "command", "echo up; exec sleep 300", "background", true)
	if r.Brief != "job-1" || r.Command != nil || r.Failed {
		t.Fatalf("%+v", r)
	}
	if r := b.run("shell", "action", "output"); r.Text != "up\n" || r.Brief != "running" || !strings.Contains(r.Head, "job-1 is running") {
		t.Errorf("%+v", r)
	}
	// One that ends at once is told at once.
	r = b.run("shell", "command", "echo wrong; exit 4", "background", true)
	if !strings.HasPrefix(r.Head, "job-2 ended: exit 4") || r.Text != "wrong\n" || !r.Failed || r.Command == nil {
		t.Errorf("%+v", r)
	}
	r = b.run("shell", "action", "list")
	if r.Head != "2 jobs, 1 running" || r.Text != "job-1\trunning\techo up; exec sleep 300\njob-2\texit 4\techo wrong; exit 4\n" {
		t.Errorf("%+v", r)
	}
	if _, err := b.try("shell", "action", "output", "job", "job-7"); err == nil || !strings.Contains(err.Error(), "there are: job-1, job-2") {
		t.Errorf("%v", err)
	}
	if r := b.run("shell", "action", "output", "job", "job-2"); r.Command != nil {
		t.Error("counted twice")
	}
	began := time.Now()
	r = b.run("shell", "action", "stop", "job", "job-1")
	if r.Failed || !strings.HasPrefix(r.Head, "job-1 ended") || r.Text != "up\n" || r.Command == nil {
		t.Errorf("%+v", r)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	// The jobs of another agent with the same runner are its own.
	b.all = All(b.env)
	if r := b.run("shell", "action", "list"); r.Head != "0 jobs, 0 running" {
		t.Error(r.Head)
	}
}
