package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	agents  = 8 // commands that run at once in every lane
	seeWait = 30 * time.Second
)

// lane is one chat in a project of its own, on a terminal of its own, with its
// part at the model server.
type lane struct {
	l       *lab
	part    *part
	dir     string
	project string
	leaf    string // the command line of a leaf, of this lane only
	gate    string // a named pipe: whoever opens it waits for open
	cmd     *exec.Cmd
	tty     *tty
	exited  chan struct{}
	err     error // set before exited is closed
	turns   int
	caged   bool // commands are confined
}

// newLane makes the project; it starts nothing that stays.
func (l *lab) newLane() (*lane, error) {
	name, _ := l.nextRun()
	n := &lane{l: l, part: newPart(), dir: filepath.Join(l.dir, name)}
	n.project, n.gate, n.leaf = filepath.Join(n.dir, "project"), filepath.Join(n.dir, "gate"), fmt.Sprintf("sleep 600.%06d", l.runs)
	l.server.cast(name, n.part)
	for _, dir := range []string{filepath.Join(n.dir, "home"), n.project} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(os.WriteFile(n.mark(), nil, 0o600), os.WriteFile(filepath.Join(n.project, "main.go"), []byte("package main\n"), 0o600), unix.Mkfifo(n.gate, 0o600)); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=b", "-c", "user.email=b@b", "commit", "-q", "-m", "begin"}} {
		c := exec.CommandContext(l.ctx, "git", args...)
		c.Dir = n.project
		if out, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	return n, nil
}

func (n *lane) mark() string { return filepath.Join(n.dir, "mark") }

// fill puts the lane's names into a command of a shape. Every command holds the
// mark file open.
func (n *lane) fill(command string) string {
	return "exec 9<" + n.mark() + "; " + strings.NewReplacer("LEAF", n.leaf, "GATE", n.gate).Replace(command)
}

// ralph is Ralph in this lane's project.
func (n *lane) ralph(args ...string) *exec.Cmd {
	sandbox := "off"
	if n.caged {
		sandbox = "workspace"
	}
	c := exec.Command(n.l.ralph, append([]string{"--sandbox", sandbox, "--base-url", n.l.server.url + "/" + filepath.Base(n.dir) + "/v1", "--model", "bench"}, args...)...)
	c.Dir = n.project
	c.Env = append([]string{"HOME=" + filepath.Join(n.dir, "home"), "PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "LANG=C.UTF-8", markVariable + "=" + filepath.Base(n.dir)}, n.l.environ...)
	return c
}

// begin starts a command of the bench's own and waits for it beside.
func (n *lane) begin(c *exec.Cmd) error {
	if err := c.Start(); err != nil {
		return err
	}
	if err := n.l.scan.owns(c.Process.Pid); err != nil {
		return errors.Join(err, c.Process.Kill(), c.Wait())
	}
	exited := make(chan struct{})
	n.cmd, n.exited = c, exited
	go func() {
		defer close(exited)
		n.err = c.Wait()
	}()
	return nil
}

// chat starts the chat; it is ready when rested says so.
func (n *lane) chat() (err error) {
	if n.tty, err = openTTY(); err != nil {
		return err
	}
	c := n.ralph("chat", "--theme", "dark", "--new")
	c.Stdin, c.Stdout, c.Stderr = n.tty.slave, n.tty.slave, n.tty.slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return n.begin(c)
}

func (n *lane) rested() error {
	_, err := n.sees("a prompt at rest", n.tty.expect(atRest("")))
	return err
}

// sees waits for a sight.
func (n *lane) sees(what string, s *sight) (time.Time, error) {
	late := time.NewTimer(seeWait)
	defer late.Stop()
	why := ""
	select {
	case at := <-s.at:
		return at, nil
	case <-n.l.ctx.Done():
		return time.Time{}, context.Cause(n.l.ctx)
	case <-n.exited:
		why = fmt.Sprintf("the chat ended (%v)", n.err)
	case <-late.C:
		why = fmt.Sprintf("not seen within %v", seeWait)
	}
	return time.Time{}, fmt.Errorf("%s: %s; the screen is\n%s", what, why, n.tty.screen())
}

// line submits a line.
func (n *lane) line(text string) error { return n.tty.typeKeys(text + "\r") }

// work has the model begin another turn that does something.
func (n *lane) work() error {
	n.turns++
	if n.turns == 1 {
		return n.line("begin")
	}
	return n.line("/go")
}

// leave ends the chat as a user does, and by force when that takes too long.
func (n *lane) leave() error {
	if n.tty == nil {
		return nil
	}
	defer n.tty.close()
	if n.cmd == nil {
		return nil
	}
	err := n.tty.typeKeys("\x15\x04")
	select {
	case <-n.exited:
		return err
	case <-time.After(10 * time.Second):
		screen := n.tty.screen()
		err = errors.Join(err, fmt.Errorf("the chat does not leave; the screen is\n%s", screen), n.cmd.Process.Kill())
		<-n.exited
		return err
	}
}

// leaves counts the lane's leaves that live below its Ralph.
func (n *lane) leaves() int {
	all, err := table()
	if err != nil {
		return 0
	}
	count := 0
	for _, e := range n.l.scan.below(all, n.cmd.Process.Pid) {
		if e.comm == "sleep" && commandOf(e.pid) == n.leaf {
			count++
		}
	}
	return count
}

// open lets all go on that wait at the gate.
func (n *lane) open() error {
	f, err := os.OpenFile(n.gate, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("nobody waits at the gate: %w", err)
	}
	return f.Close()
}
