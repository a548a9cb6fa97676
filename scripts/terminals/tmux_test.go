package terminals

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ralph/workers/model/modeltest"
)

// pane is a tmux of its own with one window, in which a shell runs.
type pane struct {
	*room
}

// split opens tmux with a shell in the room.
func split(r *room, cols, rows int) *pane {
	r.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		r.t.Skip("tmux is not installed")
	}
	p := &pane{r}
	p.tmux("-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(cols), "-y", fmt.Sprint(rows), "exec sh -i")
	r.t.Cleanup(func() { p.tmux("kill-server") })
	p.tmux("set-option", "-g", "status", "off")
	p.tmux("set-option", "-g", "window-size", "manual")
	p.has("$")
	return p
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-L", "t", "-u"}, args...)...)
	cmd.Env, cmd.Dir = p.env, p.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (p *pane) screen() string { return p.tmux("capture-pane", "-p") }

// all is the screen with what was scrolled away; rows that were broken because
// they are longer than the window are joined.
func (p *pane) all() string { return p.tmux("capture-pane", "-p", "-J", "-S", "-") }

func (p *pane) has(text string) string {
	p.t.Helper()
	return until(p.t, fmt.Sprintf("%q", text), p.screen, func(s string) bool { return strings.Contains(s, text) })
}

// types sends text as it is, and then keys by their tmux names.
func (p *pane) types(text string, keys ...string) {
	p.t.Helper()
	if text != "" {
		p.tmux("send-keys", "-l", text)
	}
	if len(keys) > 0 {
		p.tmux(append([]string{"send-keys"}, keys...)...)
	}
}

func (p *pane) resize(cols, rows int) {
	p.t.Helper()
	p.tmux("resize-window", "-x", fmt.Sprint(cols), "-y", fmt.Sprint(rows))
}

// told is after how long a program knows of a new size: tmux tells of it after up to
// 250 ms, and nothing on so small a screen says that it did.
const told = 500 * time.Millisecond

// An answer streams while the window is resized again and again and a line is
// typed: in the end each row of the answer is there once, but for torn, and the line is whole.
func TestTmuxResize(t *testing.T) {
	t.Parallel()
	r := enter(t, modeltest.Text(answer()).Slow(4*time.Millisecond))
	p := split(r, 80, 24)
	p.types("ralph chat --new; echo left", "Enter")
	p.has("ralph ❯")
	r.golden("tmux-greeting.screen", p.screen)
	p.types("tell me", "Enter")
	p.has("M05")
	// More than one row in the narrow ones: tmux breaks the rows anew at once, and
	// tells of it up to a quarter of a second later.
	p.types("half 日本 and a line that has two rows in a narrow window")
	for _, size := range [][2]int{{60, 20}, {100, 30}, {42, 12}, {200, 50}, {79, 24}, {80, 24}} {
		p.resize(size[0], size[1])
		p.has("half 日本")
		time.Sleep(50 * time.Millisecond) // the answer goes on meanwhile
	}
	p.has("M30")
	p.has("ralph ❯ half 日本 and a line that has two rows in a narrow window")
	all := p.all()
	if wrong := onceEach(all); len(wrong) > torn {
		t.Errorf("torn or lost: %s\n%s", strings.Join(wrong, ", "), all)
	}
	if n := strings.Count(all, "half 日本"); n != 1 {
		t.Errorf("the line that is typed stands there %d times:\n%s", n, all)
	}
	// How rows above are broken follows from the width that they were written at.
	r.golden("tmux-resized.screen", func() string {
		s := p.screen()
		return s[max(strings.Index(s, "M30"), 0):]
	})
	p.types("", "C-u", "C-d")
	p.has("left")
}

// A window of the size of a stamp, and back.
func TestTmuxTiny(t *testing.T) {
	t.Parallel()
	r := enter(t, modeltest.Text("M00 first.\n\nM01 second."), modeltest.Text("M02 third."))
	p := split(r, 80, 24)
	p.types("ralph chat --new", "Enter")
	p.has("ralph ❯")
	p.types("one", "Enter")
	p.has("M01")
	for _, size := range [][2]int{{2, 1}, {1, 2}, {10, 3}, {500, 200}, {1, 1}} {
		p.resize(size[0], size[1])
		time.Sleep(told)
		p.types("x")
		time.Sleep(told) // at this size, so that it is painted for it
	}
	p.resize(80, 24)
	p.has("ralph ❯ xxxxx")
	p.types("", "C-u")
	p.types("two", "Enter")
	p.has("M02")
	// What is above may hold rows of windows that were too low for them.
	r.golden("tmux-tiny.screen", func() string {
		s := p.screen()
		return s[max(strings.LastIndex(s, "\n❯ two"), 0):]
	})
	all := p.all() // what the small windows pushed out is above
	for _, once := range []string{"session 001", "M00 first.", "M01 second.", "M02 third."} {
		if n := strings.Count(all, once); n != 1 {
			t.Errorf("%q stands there %d times:\n%s", once, n, all)
		}
	}
}

// What is pasted comes as one text, however it looks.
func TestTmuxPaste(t *testing.T) {
	t.Parallel()
	r := enter(t, modeltest.Text("M00 read."), modeltest.Text("M01 read."))
	p := split(r, 80, 24)
	p.types("ralph chat --new", "Enter")
	p.has("ralph ❯")
	text := "one\n\ttwo with a tab\n/exit\n\x1b[31mred\x1b[0m\nthe last"
	if err := os.WriteFile(filepath.Join(r.home, "text"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.tmux("load-buffer", filepath.Join(r.home, "text"))
	p.tmux("paste-buffer", "-p", "-r")
	p.has("the last")
	r.golden("tmux-paste.screen", p.screen)
	p.types("", "Enter")
	p.has("M00")
	if err := os.WriteFile(filepath.Join(r.home, "text"), []byte(strings.Repeat("a line of a long text\n", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.tmux("load-buffer", filepath.Join(r.home, "text"))
	p.tmux("paste-buffer", "-p", "-r")
	p.has("[pasted 2000 lines")
	p.types(" what is it?", "Enter")
	p.has("M01")
	p.types("", "C-d")
	p.has("ralph chat --resume")
}

// Ctrl-Z leaves a usable shell, and fg comes back to the half-typed line, also
// while work runs.
func TestTmuxSuspend(t *testing.T) {
	t.Parallel()
	r := enter(t, modeltest.Text(answer()).Slow(5*time.Millisecond))
	p := split(r, 80, 24)
	p.types("ralph chat --new", "Enter")
	p.has("ralph ❯")
	p.types("tell me", "Enter")
	p.has("M00")
	p.types("half")
	p.has("❯ half")
	p.types("", "C-z")
	p.has("Stopped")
	p.types("echo in the sh''ell", "Enter")
	p.has("in the shell")
	p.types("fg", "Enter")
	p.has("❯ half")
	p.has("M30")
	if wrong := onceEach(p.all()); len(wrong) > 0 {
		t.Errorf("torn or lost: %s\n%s", strings.Join(wrong, ", "), p.all())
	}
}

// After kill -9 the terminal can be used, and the next chat has the half-typed
// line and says what was going on.
func TestTmuxKilled(t *testing.T) {
	t.Parallel()
	r := enter(t, modeltest.Text("M00 It begins and hangs").HangAt(3), modeltest.Text("M01 again."))
	p := split(r, 80, 24)
	p.types("ralph chat --new; echo ended $?", "Enter")
	p.has("ralph ❯")
	p.types("tell me", "Enter")
	p.has("M00")
	p.types("half a line")
	p.has("❯ half a line")
	drafts := func() string {
		out, _ := exec.Command("grep", "-rl", "--exclude=*.new-*", "half a line", r.home).Output()
		return string(out)
	}
	until(t, "the draft on the disk", drafts, func(s string) bool { return s != "" })
	pid := strings.TrimSpace(p.tmux("list-panes", "-F", "#{pane_pid}"))
	out, err := exec.Command("pgrep", "-P", pid, "ralph").Output()
	if err != nil {
		t.Fatalf("find ralph below %s: %v", pid, err)
	}
	var ralph int
	if _, err := fmt.Sscan(string(out), &ralph); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(ralph, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.has("ended 137")
	p.types("stty sane; echo bet''ter", "C-j") // the terminal is as the chat had it
	p.has("better")                            // before it is, Enter is no end of a line
	p.types("clear; ralph chat", "Enter")
	p.has("was cut off")
	p.has("❯ half a line")
	r.golden("tmux-back.screen", p.screen)
	p.types(" goes on", "Enter")
	p.has("M01")
	p.types("", "C-d")
	p.has("ralph chat --resume")
}
