package external

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/exec/exectest"
	"ralph/workers/exec/supervise"
)

// args is a script that writes each of its arguments and its standard input into
// files, and promises.
const args = `printf '%s\n' "$#" > count; for a; do printf '<%s>' "$a"; done > args; cat > stdin; readlink /proc/self/fd/0 > fd0; echo '` + promise + `'`

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestArguments(t *testing.T) {
	long := strings.Repeat("0123456789abcde\n", 20000) + "end"
	for _, tc := range []struct {
		name, prompt, model string
		argv                []string // without the program
		input, long         string
		args, stdin         string
		err                 error
	}{
		{"braces stay", "use {dir} and {model}", "m", []string{"-m", "{model}", "{prompt}"}, inputArg, "", "<-m><m><use {dir} and {model}>", "", nil},
		{"no model, no flag", "p", "", []string{"-x", "-m", "{model}", "{prompt}"}, inputArg, "", "<-x><p>", "", nil},
		{"appended", "p", "", []string{"run"}, inputArg, "", "<run><p>", "", nil},
		{"no flag", "--help", "", []string{"{prompt}"}, inputArg, "", "<\n--help>", "", nil},
		{"nothing for the shell", `$(touch x) "; touch y; ' \`, "", []string{"{prompt}"}, inputArg, "", `<$(touch x) "; touch y; ' \>`, "", nil},
		{"NUL", "a\x00b", "", []string{"{prompt}"}, inputArg, "", "<a\uFFFDb>", "", nil},
		{"inside", "p", "m1", []string{"--model={model}", "--ask={prompt}"}, inputArg, "", "<--model=m1><--ask=p>", "", nil},
		{"stdin", "line\nline", "", []string{"-"}, inputStdin, "", "<->", "line\nline", nil},
		{"long as stdin", long, "", []string{"exec", "{prompt}"}, inputArg, "-", "<exec><->", long, nil},
		{"long without an argument", long, "", []string{"-p", "{prompt}", "-v"}, inputArg, longNone, "<-p><-v>", long, nil},
		{"too long", long, "", []string{"{prompt}"}, inputArg, "", "", "", ErrPrompt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := standIn(t, formatText, args)
			a.Argv = append(a.Argv[:1:1], tc.argv...)
			a.Input, a.Long = tc.input, tc.long
			var dir string
			res, _ := play(t, a, func(q *Request) { q.Prompt, q.Model, dir = tc.prompt, tc.model, q.Dir })
			if tc.err != nil {
				if !errors.Is(res.Err, tc.err) || res.Started {
					t.Errorf("%+v", res)
				}
				return
			}
			if !res.Declared {
				t.Fatalf("%+v", res)
			}
			if got := readFile(t, dir, "args"); got != tc.args {
				t.Errorf("arguments %q, want %q", text.Clip(got, 300), tc.args)
			}
			if got := readFile(t, dir, "stdin"); got != tc.stdin {
				t.Errorf("%d bytes of standard input, want %d", len(got), len(tc.stdin))
			}
			if fd := readFile(t, dir, "fd0"); tc.stdin == "" && fd != "/dev/null\n" {
				t.Errorf("standard input is %q", fd)
			}
			if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "ralph-agent-*")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	a := standIn(t, formatText, "env > env.txt; echo x > /dev/stderr")
	a.Env = []string{"WANTED_KEY", "PRE_*", "FIXED=1", "RALPH_API_KEY", "EMPTY_KEY"}
	dir := t.TempDir()
	inTree := filepath.Join(dir, "bin")
	res, _ := play(t, a, func(q *Request) {
		q.Dir = dir
		q.Environ = []string{
			"PATH=" + inTree + ":.:/usr/bin:/bin", "HOME=/home/u", "WANTED_KEY=w", "PRE_A=a", "PRE_B=b", "OTHER_TOKEN=o", "RALPH_API_KEY=r", "EMPTY_KEY=",
			"LD_PRELOAD=/evil.so", "GIT_DIR=/x", "BEADS_NO_DAEMON=0", "BASH_ENV=/evil",
		}
		q.Env = []string{"ADDED=1", "PRE_B=mine"}
	})
	if !res.Clean || res.Stderr != "x\n" {
		t.Fatalf("%+v", res)
	}
	env := strings.Split(strings.TrimSpace(readFile(t, dir, "env.txt")), "\n")
	for _, want := range []string{"WANTED_KEY=w", "PRE_A=a", "PRE_B=mine", "FIXED=1", "ADDED=1", "BEADS_NO_DAEMON=1", "PATH=/usr/bin:/bin", "HOME=/home/u"} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %v", want, env)
		}
	}
	for _, kv := range env {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "OTHER_TOKEN", "RALPH_API_KEY", "EMPTY_KEY", "LD_PRELOAD", "GIT_DIR", "BASH_ENV":
			t.Errorf("it has %s", kv)
		}
	}
}

// A sandbox completes the environment itself, and its files are elsewhere.
func TestHeld(t *testing.T) {
	runner := newRunner(t)
	a := standIn(t, formatText, args)
	a.Argv = append(a.Argv[:1:1], "-o", "{last}", "{prompt}")
	a.Env = []string{"WANTED_KEY"}
	var spec exec.Spec
	change := func(q *Request) {
		q.Held = true
		q.Environ = []string{"PATH=/usr/bin:/bin", "WANTED_KEY=w", "HOME=/home/u"}
		q.Start = func(ctx context.Context, s exec.Spec) (exec.Result, error) {
			spec = s
			s.Env = append(slices.Clone(s.Env), "PATH=/usr/bin:/bin")
			return runner.Run(ctx, s)
		}
	}
	res, _ := play(t, a, change)
	slices.Sort(spec.Env)
	if !res.Declared || !slices.Equal(spec.Env, []string{"BEADS_NO_DAEMON=1", "NO_COLOR=1", "WANTED_KEY=w"}) {
		t.Errorf("%v %v", res.Err, spec.Env)
	}
	if got := readFile(t, spec.Dir, "args"); strings.Contains(got, "-o") {
		t.Errorf("arguments %s", got)
	}
	a.Input, a.Argv = inputStdin, a.Argv[:1]
	if res, _ := play(t, a, change); res.Err == nil || res.Started {
		t.Errorf("a prompt by a file that it cannot see: %+v", res)
	}
	res, _ = play(t, a, func(q *Request) { change(q); q.Temp = t.TempDir() })
	if !res.Declared {
		t.Errorf("%+v", res)
	}
}

// The file with the last message is used where the stream has none, unless it is
// something else by then.
func TestLastMessage(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		declared     bool
	}{
		{"file", `printf 'ok\n%s' '` + promise + `' > "$1"`, true},
		{"link", `echo '` + promise + `' > other; ln -s "$PWD/other" "$1"`, false},
		{"FIFO", `mkfifo "$1"`, false},
		{"none", `:`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := standIn(t, formatCodex, tc.script+"\n"+script(`{"type":"turn.completed","usage":{}}`))
			a.Argv = append(a.Argv[:1:1], "{last}")
			if res, _ := play(t, a, nil); !res.Clean || res.Declared != tc.declared {
				t.Errorf("%+v", res)
			}
		})
	}
}

func TestProgramsOfTheTreeAreNotRun(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "node_modules", ".bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "node_modules", ".bin")
	if err := exectest.WriteProgram(filepath.Join(bin, "codex"), []byte("#!/bin/sh\ntouch ran\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(bin, link); err != nil {
		t.Fatal(err)
	}
	a, err := Find(Builtin(), "codex")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{bin, link, "node_modules/.bin", "."} {
		res, _ := play(t, a, func(q *Request) { q.Dir, q.Environ = dir, []string{"PATH=" + path} })
		if !errors.Is(res.Err, ErrMissing) || res.Kind != KindDependency || res.Started || !strings.Contains(res.Hint, "npm install -g @openai/codex") {
			t.Errorf("PATH=%s: %+v", path, res)
		}
	}
	// From elsewhere the same program would run.
	if res, _ := play(t, a, func(q *Request) { q.Environ = []string{"PATH=" + bin + ":/usr/bin:/bin"} }); errors.Is(res.Err, ErrMissing) {
		t.Errorf("%+v", res)
	}
}

func TestMissingInterpreter(t *testing.T) {
	a := standIn(t, formatCodex, "")
	if err := exectest.WriteProgram(a.Argv[0], []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if res, _ := play(t, a, nil); !errors.Is(res.Err, ErrMissing) || res.Kind != KindDependency {
		t.Errorf("%+v", res)
	}
}

// What hangs is ended with all that it started, by the clock or by its silence.
func TestHanging(t *testing.T) {
	for _, tc := range []struct {
		name, format, script string
		timeout, idle, hope  time.Duration
		err                  error
		quota                bool
	}{
		{"silent", formatCodex, "setsid sleep 300 & trap '' TERM INT; while :; do sleep 1; done", time.Minute, 300 * time.Millisecond, 0, ErrIdle, false},
		{"talks on", formatText, "while :; do echo x; sleep 0.05; done", 600 * time.Millisecond, time.Minute, 0, ErrTimeout, false},
		{"errors are no silence", formatText, "for i in {1..20}; do echo x >&2; sleep 0.05; done; echo '" + promise + "'", time.Minute, 600 * time.Millisecond, 0, nil, false},
		{"waits for its quota in the stream", formatClaude, `for i in {1..200}; do echo '{"type":"system","subtype":"api_retry","attempt":1,"error_status":429,"error":"rate_limit"}'; sleep 0.05; done`, time.Minute, 20 * time.Second, 400 * time.Millisecond, ErrQuota, true},
		{"waits for its quota on the errors", formatGemini, `for i in {1..200}; do echo 'Attempt 1 failed with status 429. Retrying' >&2; sleep 0.05; done`, time.Minute, 20 * time.Second, 400 * time.Millisecond, ErrQuota, true},
		{"overcomes its limit", formatText, `echo 'status 429, rate limit' >&2; sleep 0.2; echo ok; sleep 1; echo '` + promise + "'", time.Minute, 20 * time.Second, 700 * time.Millisecond, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, _ := play(t, standIn(t, tc.format, tc.script), func(q *Request) { q.Timeout, q.Idle, q.patience = tc.timeout, tc.idle, tc.hope })
			if !errors.Is(res.Err, tc.err) || (tc.err == nil) != res.Declared || res.Quota != tc.quota || res.Interrupted || res.Took > 8*time.Second {
				t.Errorf("%+v", res)
			}
			if left := supervise.Leaks(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestStop(t *testing.T) {
	a := standIn(t, formatCodex, "setsid sleep 300 & trap '' TERM INT; touch begun\n"+script(`{"type":"item.started","item":{"id":"1","type":"command_execution","command":"sleep"}}`)+"while :; do sleep 1; done")
	reason := errors.New("the human said stop")
	for _, how := range []string{"context", "halt"} {
		runner := newRunner(t)
		dir := t.TempDir()
		ctx, stop := context.WithCancelCause(t.Context())
		var events []agent.Event
		done := make(chan Result, 1)
		go func() {
			done <- Run(ctx, Request{Adapter: a, Prompt: "p", Dir: dir, Environ: os.Environ(), Start: runner.Run, Events: func(e agent.Event) { events = append(events, e) }})
		}()
		for begun := false; !begun; time.Sleep(5 * time.Millisecond) {
			_, err := os.Stat(filepath.Join(dir, "begun"))
			begun = err == nil
		}
		at := time.Now()
		if how == "context" {
			stop(reason)
		} else {
			runner.Stop()
		}
		res := <-done
		stop(nil)
		if took := time.Since(at); took > 20*time.Second || !res.Interrupted || res.Kind != KindNone || res.Clean {
			t.Errorf("%s: after %s: %+v", how, took, res)
		}
		if want := map[string]error{"context": reason, "halt": exec.ErrStopped}[how]; !errors.Is(res.Err, want) {
			t.Errorf("%s: %v", how, res.Err)
		}
		if left := supervise.Leaks(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		checkEvents(t, events)
	}
}

// Memory stays small whatever a program prints.
func TestMemoryIsBounded(t *testing.T) {
	const repeat = `{"type":"message_update","message":{"content":"` // a piece of pi's
	in := newIntake(formatPi, nil)
	piece := []byte(repeat + strings.Repeat("x", 100000) + "\"}}\n")
	for range 500 {
		in.write(piece)
	}
	in.write([]byte(strings.Repeat("y", 12<<20)))
	if cap(in.buf) > 2*maxLine || in.s.calls != 0 || in.lines != 500 || in.skipped != 0 {
		t.Errorf("%d bytes, %d lines, %d skipped", cap(in.buf), in.lines, in.skipped)
	}
	in.write([]byte("\n"))
	if cap(in.buf) > 1<<20 || in.skipped != 1 {
		t.Errorf("%d bytes, %d skipped", cap(in.buf), in.skipped)
	}
	// The closing event of pi repeats all that was said.
	in.write([]byte(`{"type":"agent_end","messages":["` + strings.Repeat("z", 6<<20) + "\"]}\n"))
	if !in.s.closed {
		t.Error("a long closing event was not taken")
	}
	txt := newIntake(formatText, nil)
	for i := range 40000 {
		txt.write([]byte(fmt.Sprintf("line %d %s\n", i, strings.Repeat("é", 40))))
	}
	txt.close()
	if got := txt.s.final(); len(got) > maxFinal || !strings.HasSuffix(got, "é\n") || !strings.Contains(got, "line 39999 ") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestExamine(t *testing.T) {
	const program = `case "$1" in --version) echo "tool 3.2.1-beta" >&2;; --help) echo "usage: tool -p TEXT --json";; *) %s;; esac`
	for _, tc := range []struct {
		name, says string
		argv       []string
		answers    bool
		missing    []string
		err        error
	}{
		{"well", "echo '" + promise + "'", []string{"-p", "{prompt}"}, true, nil, nil},
		{"another flag, but it works", "echo '" + promise + "'", []string{"--new", "{prompt}"}, true, []string{"--new"}, nil},
		{"another flag", "echo 'unknown option --new' >&2; exit 1", []string{"--new", "{prompt}"}, false, []string{"--new"}, ErrMismatch},
		{"not logged in", "echo 'Not logged in' >&2; exit 1", []string{"-p", "{prompt}"}, false, nil, ErrAccess},
		{"echo", `echo "$2"`, []string{"-p", "{prompt}"}, false, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := standIn(t, formatText, fmt.Sprintf(program, tc.says))
			a.Argv = append(a.Argv[:1:1], tc.argv...)
			a.Version, a.Help = []string{"--version"}, []string{"--help"}
			h := Examine(t.Context(), Request{Adapter: a, Dir: t.TempDir(), Environ: os.Environ(), Timeout: 20 * time.Second, Start: newRunner(t).Run}, true)
			if h.Path != a.Argv[0] || h.Version != "3.2.1-beta" || !h.Asked || h.Answers != tc.answers || !slices.Equal(h.Missing, tc.missing) {
				t.Errorf("%+v", h)
			}
			if (h.Err == nil) != tc.answers || tc.err != nil && !errors.Is(h.Err, tc.err) {
				t.Error(h.Err)
			}
		})
	}
	a, err := Find(Builtin(), "pi")
	if err != nil {
		t.Fatal(err)
	}
	if h := Examine(t.Context(), Request{Adapter: a, Dir: t.TempDir(), Environ: []string{"PATH=/nowhere"}, Start: newRunner(t).Run}, true); !errors.Is(h.Err, ErrMissing) || h.Path != "" || h.Asked {
		t.Errorf("%+v", h)
	}
}
