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
)

const (
	editorGrace = 2 * time.Second // between TERM and KILL of a program on the terminal: it saves what it has
	// stopPause is how long a program rests that was stopped again and again, so
	// that it does not spin.
	stopPause = 100 * time.Millisecond
	manyStops = 20
)

// errNoTerminal says that a file is no terminal.
var errNoTerminal = errors.New("is not a terminal")

// OnTerminal runs a program of the user's, such as an editor, on the terminal tty,
// which is its standard input, output and error, and waits for its end. It is the
// leader of a process group of its own, which has the terminal meanwhile: what is
// typed there, Ctrl-C too, is its alone. One that is stopped goes on at once, as
// nobody else could let it go on. Whatever happens, the terminal is given back to
// who had it, with the modes that it had. env nil is the environment of this
// process; dir "" its directory. Nobody else may read the terminal meanwhile.
//
// A non-zero exit is no error. The error is an *Error when the program could not be
// started, or was killed by a signal, which exit tells as 128+n; when ctx ends, the
// program is asked to end, after two seconds killed, and the error matches the
// cause. What the program leaves running, such as a window, is left alone.
func OnTerminal(ctx context.Context, argv []string, tty *os.File, dir string, env []string) (exit int, err error) {
	if env == nil {
		env = os.Environ()
	}
	s := Spec{Argv: argv, Dir: dir, Env: env}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("run %q: %w", s.name(), context.Cause(ctx))
	}
	path, err := resolve(s, env)
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

// held is a terminal that a program has for its time.
type held struct {
	file     *os.File
	fd       int
	modes    *term.State
	owner    int // the process group that had it, 0 where it is nobody's
	flags    int // of the open file
	borrower int // the process group that has it now
}

func holdTerminal(tty *os.File) (*held, error) {
	conn, err := tty.SyscallConn()
	if err != nil {
		return nil, &Error{Op: "open terminal", Path: tty.Name(), Err: cause(err)}
	}
	h := &held{file: tty, fd: -1}
	// The file's own Fd would make it a blocking one for good. It stays open: who
	// called holds it until we return.
	if err := conn.Control(func(fd uintptr) { h.fd = int(fd) }); err != nil {
		return nil, &Error{Op: "open terminal", Path: tty.Name(), Err: cause(err)}
	}
	if h.modes, err = term.GetState(h.fd); err != nil {
		return nil, &Error{Op: "open terminal", Path: tty.Name(), Err: errNoTerminal, Hint: "it needs a terminal to run on"}
	}
	if owner, err := unix.IoctlGetInt(h.fd, unix.TIOCGPGRP); err == nil && owner > 0 {
		h.owner = owner // else it is not our controlling terminal, and has no foreground for us
	}
	if h.flags, err = unix.FcntlInt(uintptr(h.fd), unix.F_GETFL, 0); err == nil && h.flags&unix.O_NONBLOCK != 0 {
		_ = unix.SetNonblock(h.fd, false) // the open file is shared with the program, which expects it so
	}
	return h, nil
}

// lend puts a process group into the foreground. A program that was faster, and
// was stopped because it had not the terminal yet, is let go on by attend.
func (h *held) lend(group int) {
	h.borrower = group
	h.foreground(group)
}

func (h *held) foreground(group int) {
	if h.owner == 0 {
		return
	}
	// A group in the background may do this only with SIGTTOU out of the way.
	withoutTTOU(func() { _ = unix.IoctlSetPointerInt(h.fd, unix.TIOCSPGRP, group) })
}

// giveBack puts everything back as it was found.
func (h *held) giveBack() error {
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

// attend waits for the program's end and gives its status. The error is the cause
// of ctx when that ended it, or says that it could not be killed.
func (h *held) attend(ctx context.Context, pid int) (syscall.WaitStatus, error) {
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
			kill, lost = nil, time.After(killGrace)
		case <-lost:
			go func() { // it hangs in the kernel; whenever that lets it go it is reaped
				for range changes {
				}
			}()
			return syscall.WaitStatus(syscall.SIGKILL), errors.Join(why, &SurvivorError{Processes: []Process{{PID: pid, Command: "the program on the terminal"}}})
		}
	}
}
