package repl

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"ralph/workers/model/modeltest"
)

// TestWholeStop is the promise, over the real coordinator and real processes: a
// long task runs; half a line is typed; Ctrl-C; the half line is there, nothing
// runs; Ralph answers from what its journal has; /go continues.
func TestWholeStop(t *testing.T) {
	t.Parallel()
	sleeping := fmt.Sprintf("sleep %d.25", 1000+os.Getpid()%9000) // of this test alone
	dir := t.TempDir()
	srv := modeltest.New(t)
	srv.Handle(func(r modeltest.Request) modeltest.Reply {
		last := r.Messages[len(r.Messages)-1]
		switch {
		case len(r.Tools) == 0:
			// What a model can answer is what it was told: the answer is made of it.
			was := regexp.MustCompile(`(?m)^It was in the middle of: (.*)$`).FindStringSubmatch(last.Content)
			if was == nil {
				return modeltest.Text("I do not know.")
			}
			return modeltest.Text("I was in the middle of `" + was[1] + "` when you stopped me.")
		case strings.HasPrefix(last.Content, "build"):
			return modeltest.Calls(modeltest.Call{Name: "shell", Args: `{"command":"trap '' INT TERM; (setsid ` + sleeping + ` &); ` + sleeping + `"}`}).Saying("I build it.")
		case strings.HasPrefix(last.Content, "Go on."):
			return modeltest.Text("The build goes on where it was.")
		}
		return modeltest.Text("what?")
	})
	runs := func() bool { return exec.Command("pgrep", "-f", "--", "^"+sleeping).Run() == nil }
	p := converse(t, srv, dir, "new", "RALPH_SANDBOX=off")
	p.Has("ralph ❯ ▏")
	p.Type("build it\r")
	p.Until("the command runs", func(string) bool { return runs() })
	p.Type("what were you do")
	screen := func(name, text string) { golden(t, "whole-stop-"+name, turning(text)) }
	p.Until("the half line under the tool", func(s string) bool { // which has a line of its own after some seconds
		return strings.Contains(s, "what were you do▏") && strings.Contains(s, "trap ''")
	})
	p.Type("\x03")
	screen("1-stopped", p.Has("ralph talk ❯ what were you do▏"))
	if runs() {
		t.Error("a command survives the stop")
	}
	p.Type("ing?\r")
	p.Has("when you stopped me.")
	screen("2-answered", p.Has("ralph talk ❯ ▏"))
	p.Type("/go\r")
	p.Has("The build goes on")
	screen("3-gone-on", p.Has("ralph ❯ ▏"))
	p.Type("\x04")
	p.exited(0)
}

// turning takes out of a screen what is not the same each time.
func turning(screen string) string {
	screen = regexp.MustCompile(`[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]`).ReplaceAllString(screen, "*")
	screen = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(screen, "127.0.0.1:N")
	screen = regexp.MustCompile(`\d{4}\.25`).ReplaceAllString(screen, "4711.25")
	screen = regexp.MustCompile(`\d+\.\d s\b`).ReplaceAllString(screen, "N ms")
	screen = regexp.MustCompile(`\d+ tok`).ReplaceAllString(screen, "N tok")
	screen = regexp.MustCompile(`\d+ killed`).ReplaceAllString(screen, "N killed")
	// On a busy machine the processes are gone after the stop has answered for their command.
	screen = regexp.MustCompile(`\(setsid sleep[^)\n]*…  outcome unknown`).ReplaceAllString(screen, "(setsid sleep 4711.25 …  stopped")
	screen = regexp.MustCompile(`· late, not used: a result came after the stop;\s+it\s+is\s+filed\s+and\s+not\s+used\n`).ReplaceAllString(screen, "")
	return regexp.MustCompile(`(?: · )?\d+ s\b`).ReplaceAllString(screen, "")
}
