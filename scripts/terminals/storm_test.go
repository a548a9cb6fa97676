package terminals

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ralph/repl/ttytest"
	"ralph/workers/model/modeltest"
)

// torn is how many rows of an answer may be lost where tmux changes its screen before the program
// can know the new size: where it became wider, one row can be taken for the draft's.
const torn = 1

// The window is resized all the time while an answer streams above a draft of several
// rows: the answer stays whole, and old frames do not pile up among what was scrolled
// away. tmux changes its screen before the program can know the new size, and what the
// program writes in between is torn: a draft is left over where rows became narrower, and
// where they became wider one row of the answer can be taken for the draft's.
func TestTmuxResizeStorm(t *testing.T) {
	t.Parallel()
	const resizes, bound = 30, 3
	r := enter(t, modeltest.Text(answer()).Slow(3*time.Millisecond))
	p := split(r, 80, 24)
	p.types("ralph chat --new", "Enter")
	p.has("ralph ❯")
	p.types("tell me", "Enter")
	p.has("M00")
	p.types("first row of a draft which is so long that it is broken", "M-Enter")
	p.types("second row", "M-Enter")
	p.types("third row")
	p.has("third row")
	random := rand.New(rand.NewPCG(1, 2))
	for range resizes {
		p.resize(40+random.IntN(81), 12+random.IntN(29))
		time.Sleep(50 * time.Millisecond) // as by hand; nothing depends on it
	}
	p.resize(80, 24)
	until(t, "the answer and the draft below it", p.screen, func(s string) bool {
		return strings.Contains(s, "M30") && strings.HasSuffix(strings.TrimRight(s, "\n"), "third row")
	})
	all := p.all()
	var lost []string
	for i := range 31 {
		if mark := fmt.Sprintf("M%02d", i); !strings.Contains(all, mark) {
			lost = append(lost, mark)
		}
	}
	if len(lost) > torn {
		t.Errorf("%v are lost", lost)
	}
	if n := strings.Count(all, "first row of"); n < 1 || n > 1+bound {
		t.Errorf("the draft stands there %d times", n)
	}
	if n := strings.Count(all, "third row"); n < 1 || n > 1+bound {
		t.Errorf("the end of the draft stands there %d times", n)
	}
	if t.Failed() {
		t.Log(all)
	}
}

// An output that nobody takes does not keep a chat from leaving when it is told to,
// nor from saving what it knows.
func TestBlockedOutput(t *testing.T) {
	t.Parallel()
	r := enter(t, modeltest.Text(strings.Repeat("a line of a long answer\n\n", 20_000)))
	y := ttytest.New(t, 80, 24)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.Command("ralph", "chat", "--new")
	cmd.Dir, cmd.Env = r.dir, append(r.env, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = y.Slave, write, y.Slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	_ = write.Close()
	y.Type("tell me\r")
	until(t, "a full pipe", func() string { return fmt.Sprint(pending(t, read)) }, func(s string) bool { return len(s) >= 5 && s[0] >= '6' })
	began := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if took := time.Since(began); took > 5*time.Second { // 11 s without care
		t.Errorf("it took %v to leave", took)
	}
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
	list := exec.Command("ralph", "sessions")
	list.Dir, list.Env = r.dir, r.env
	out, err := list.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "paused") { // what is cut off is called interrupted
		t.Errorf("the session was not saved: %v\n%s", err, out)
	}
}

// The key for the editor, pressed again while it opens, is nothing.
func TestTmuxEditorTwice(t *testing.T) {
	t.Parallel()
	r := enter(t)
	editor := filepath.Join(r.home, "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nsleep 0.5\necho from the editor > \"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, "VISUAL="+editor)
	p := split(r, 80, 24)
	p.types("ralph chat --new", "Enter")
	p.has("ralph ❯")
	p.types("half", "C-x", "C-e", "C-x", "C-e", "C-x", "C-e")
	if s := p.has("❯ from the editor"); strings.Contains(s, "lent") {
		t.Errorf("it says\n%s", s)
	}
}

// pending is how many bytes wait in a pipe.
func pending(t *testing.T, f *os.File) int {
	t.Helper()
	n, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
