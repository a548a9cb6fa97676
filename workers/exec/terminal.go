package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"ralph/workers/exec/supervise"
)

const (
	editorGrace = 2 * time.Second // between TERM and KILL of a program on the terminal, for saving
	// stopPause delays the continuing of a program after manyStops, so that it does
	// not spin.
	stopPause = 100 * time.Millisecond
	manyStops = 20
)

var errNoTerminal = errors.New("is not a terminal")

// OnTerminal runs a program of the user's, such as an editor, on the terminal tty,
// which is its standard input, output and error, and waits for its end. The program
// leads a process group of its own, which has the terminal meanwhile, so that only it
// gets what is typed, Ctrl-C too. A program that is suspended is continued at once. In
// every case OnTerminal restores the modes and the foreground group of the terminal.
// env nil is the environment of this process; dir "" is its directory. The caller
// keeps all other readers off the terminal.
//
// A non-zero exit is no error. The error is an *Error when the program could not be
// started or was killed by signal n, when exit is 128+n. When ctx ends, the program
// gets TERM, after two seconds KILL, and the error matches the cause. What the program
// leaves running, such as a window, is left alone.
func OnTerminal(ctx context.Context, argv []string, tty *os.File, dir string, env []string) (exit int, err error) {
	if env == nil {
		env = os.Environ()
	}
	s := Spec{Argv: argv, Dir: dir, Env: env}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("run %q: %w", s.name(), context.Cause(ctx))
	}
	path, err := resolve(s, env, "")
	if err != nil {
		return 0, err
	}
	t, err := holdTerminal(tty)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.giveBack()) }()
	fd := uintptr(t.fd)
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Dir: dir, Env: env, Files: []uintptr{fd, fd, fd}, Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		return 0, startError(s.name(), err)
	}
	t.lend(pid)
	status, err := t.attend(ctx, pid)
	exit = status.ExitStatus()
	if status.Signaled() {
		exit = 128 + int(status.Signal())
	}
	switch {
	case err != nil:
		err = fmt.Errorf("run %q: %w", s.name(), err)
	case status.Signaled():
		err = &Error{Op: "run", Path: s.name(), Err: fmt.Errorf("it was ended by %s", signalName(status.Signal()))}
	}
	return exit, err
}

// lease is a terminal that is lent to a program.
type lease struct {
	file     *os.File
	fd       int
	modes    *term.State
	owner    int // the foreground process group before; 0 for none
	flags    int // of the open file
	borrower int // the process group of the program
}

func holdTerminal(tty *os.File) (*lease, error) {
	conn, err := tty.SyscallConn()
	if err != nil {
		return nil, &Error{Op: "open terminal", Path: tty.Name(), Err: cause(err)}
	}
	h := &lease{file: tty, fd: -1}
	// Fd would make the file a blocking one for good. The caller keeps it open.
	if err := conn.Control(func(fd uintptr) { h.fd = int(fd) }); err != nil {
		return nil, &Error{Op: "open terminal", Path: tty.Name(), Err: cause(err)}
	}
	if h.modes, err = term.GetState(h.fd); err != nil {
		return nil, &Error{Op: "open terminal", Path: tty.Name(), Err: errNoTerminal, Hint: "it needs a terminal to run on"}
	}
	if owner, err := unix.IoctlGetInt(h.fd, unix.TIOCGPGRP); err == nil && owner > 0 {
		h.owner = owner // on error it is not the controlling terminal of this process
	}
	if h.flags, err = unix.FcntlInt(uintptr(h.fd), unix.F_GETFL, 0); err == nil && h.flags&unix.O_NONBLOCK != 0 {
		_ = unix.SetNonblock(h.fd, false) // the program shares the open file and expects it to block
	}
	return h, nil
}

// lend puts a process group into the foreground. attend continues a program that was
// suspended because it used the terminal before.
func (h *lease) lend(group int) {
	h.borrower = group
	h.foreground(group)
}

func (h *lease) foreground(group int) {
	if h.owner == 0 {
		return
	}
	// A group in the background may do this only without SIGTTOU.
	withoutTTOU(func() { _ = unix.IoctlSetPointerInt(h.fd, unix.TIOCSPGRP, group) })
}

// giveBack restores the terminal.
func (h *lease) giveBack() error {
	h.foreground(h.owner)
	var err error
	withoutTTOU(func() { err = term.Restore(h.fd, h.modes) })
	if h.flags&unix.O_NONBLOCK != 0 {
		_ = unix.SetNonblock(h.fd, true)
	}
	runtime.KeepAlive(h.file)
	if err != nil && !errors.Is(err, syscall.EIO) { // EIO: the terminal is gone
		return &Error{Op: "restore terminal", Path: h.file.Name(), Err: err, Hint: "stty sane puts it in order"}
	}
	return nil
}

// attend waits for the program's end and returns its status. The error is the cause of
// ctx when that ended it, or a *supervise.SurvivorError.
func (h *lease) attend(ctx context.Context, pid int) (syscall.WaitStatus, error) {
	changes := make(chan syscall.WaitStatus)
	go func() { // ends with the program, whose end attend waits for
		defer close(changes)
		for {
			var ws syscall.WaitStatus
			_, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil)
			if err == syscall.EINTR {
				continue
			}
			changes <- ws
			if err != nil || !ws.Stopped() {
				return
			}
		}
	}()
	ended := ctx.Done()
	var kill, lost <-chan time.Time
	var why error
	for stops := 0; ; {
		select {
		case ws := <-changes:
			if !ws.Stopped() {
				return ws, why
			}
			if stops++; stops > manyStops {
				time.Sleep(stopPause)
			}
			h.foreground(h.borrower)
			_ = syscall.Kill(-pid, syscall.SIGCONT)
		case <-ended:
			ended, why = nil, context.Cause(ctx)
			_ = syscall.Kill(-pid, syscall.SIGTERM)
			_ = syscall.Kill(-pid, syscall.SIGCONT)
			kill = time.After(editorGrace)
		case <-kill:
			_ = syscall.Kill(-pid, syscall.SIGKILL)
			kill, lost = nil, time.After(supervise.KillGrace)
		case <-lost:
			go func() { // it hangs in the kernel, and is reaped when that ends
				for range changes {
				}
			}()
			return syscall.WaitStatus(syscall.SIGKILL), errors.Join(why, &supervise.SurvivorError{Processes: []supervise.Process{{PID: pid, Command: "the program on the terminal"}}})
		}
	}
}
