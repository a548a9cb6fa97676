package terminals

import (
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"ralph/repl/ttytest"
	"ralph/workers/model/modeltest"
)

// sit starts a program on a pseudo-terminal of its own.
func sit(r *room, cols, rows int, term string, args ...string) *ttytest.TTY {
	r.t.Helper()
	y := ttytest.New(r.t, cols, rows)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = r.dir, append(r.env, "TERM="+term)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = y.Slave, y.Slave, y.Slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGHUP)
		late := time.AfterFunc(ttytest.Patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait()
	})
	return y
}

// GNU screen knows less than others; the chat looks the same in it.
func TestScreen(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("screen"); err != nil {
		t.Skip("GNU screen is not installed")
	}
	r := enter(t, modeltest.Text(answer()).Slow(time.Millisecond))
	y := sit(r, 80, 24, "xterm", "screen", "-U", "-c", "/dev/null", "-S", "t", "ralph", "chat", "--new")
	t.Cleanup(func() {
		quit := exec.Command("screen", "-S", "t", "-X", "quit")
		quit.Env = r.env
		_ = quit.Run()
	})
	y.Has("ralph ❯")
	y.Type("tell me\r")
	y.Has("A paragraph") // which stays on the screen until the end
	y.Type("half 日本 line")
	y.Has("M30")
	y.Has("ralph ❯ half 日本 line")
	r.golden("screen.screen", y.Screen)
	y.Type("\x15\x04")
	y.Lacks("half")
}

// On a dumb terminal and for a screen reader there are whole lines and nothing
// else: no escape, no carriage return but that of a line's end, nothing twice.
func TestPlainTerminals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		term string
		args []string
	}{
		"dumb":   {"dumb", nil},
		"reader": {"xterm-256color", []string{"--plain"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := enter(t, modeltest.Calls(modeltest.Call{Name: "shell", Args: `{"command":"sleep 1; echo done"}`}), modeltest.Text(answer()))
			y := sit(r, 80, 100, c.term, append([]string{"ralph", "chat", "--new", "--allow", "true"}, c.args...)...)
			y.Has("ralph>")
			y.Type("tell me\r")
			y.Has("M30")
			s := r.golden("plain-"+name+".screen", y.Screen)
			if wrong := onceEach(s); len(wrong) > 0 {
				t.Errorf("torn or lost: %s\n%s", strings.Join(wrong, ", "), s)
			}
			if n := y.Received("\x1b"); n > 0 {
				t.Errorf("%d escapes were written", n)
			}
			if spin := regexp.MustCompile(`[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]`).FindString(s); spin != "" {
				t.Errorf("a spinner turns:\n%s", s)
			}
		})
	}
}
