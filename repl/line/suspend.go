package line

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// signals are those that concern the terminal, each on a channel of its own:
// a storm of one never displaces another.
type signals struct{ resized, stop, proceed chan os.Signal }

func newSignals() signals {
	return signals{resized: make(chan os.Signal, 1), stop: make(chan os.Signal, 1), proceed: make(chan os.Signal, 1)}
}

func (s signals) watch() {
	signal.Notify(s.resized, unix.SIGWINCH)
	signal.Notify(s.stop, unix.SIGTSTP)
	signal.Notify(s.proceed, unix.SIGCONT)
}

func (s signals) ignore() {
	signal.Stop(s.resized)
	signal.Stop(s.stop)
	signal.Stop(s.proceed)
}

// suspend gives the terminal back and stops this process until it is let go on.
// It follows a SIGTSTP, from the key or from outside. The runtime cannot give
// that signal its default effect again once it was caught, so that a SIGSTOP has
// to do it, and what the kernel does for an orphaned group is done here: nobody
// could let it go on, so it goes on at once.
func (t *Term) suspend() {
	t.tellDraft()
	if orphaned() {
		return
	}
	t.mu.Lock()
	m := t.modal
	t.mu.Unlock()
	if m != nil && m.outside {
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP) // the terminal is not ours
		return
	}
	erase := t.off()
	if m != nil && m.entered {
		erase = "\r" + clearBelow // the borrower's rows begin at the cursor
	}
	t.write(erase + pasteOff + "\x1b[?25h")
	_ = term.Restore(t.fd, t.saved)
	for len(t.sigs.proceed) > 0 {
		<-t.sigs.proceed // of an earlier stop
	}
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	late := time.NewTimer(suspendWait)
	defer late.Stop()
	select {
	case <-t.sigs.proceed:
	case <-late.C:
	case <-t.quit:
		return
	}
	for len(t.sigs.stop) > 0 {
		<-t.sigs.stop // several asked for this one stop
	}
	t.resume()
}

// orphaned reports whether no shell is there to continue this process group: the
// nearest ancestor outside of the group is not of this session.
func orphaned() bool {
	group, parent := unix.Getpgrp(), os.Getppid()
	for parent > 1 {
		if g, err := unix.Getpgid(parent); err != nil || g != group {
			break
		}
		parent = parentOf(parent)
	}
	own, err := unix.Getsid(0)
	session, gone := unix.Getsid(parent)
	return parent <= 0 || err != nil || gone != nil || session != own
}

// parentOf is the parent of a process, 0 when it is not known.
func parentOf(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name of the program, in brackets, may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}

// resume takes the terminal again after a stop. The rows that were shown before
// it belong to the past: whatever the shell printed since stands below them.
func (t *Term) resume() {
	l := &t.loop
	t.mu.Lock()
	m := t.modal
	t.mu.Unlock()
	if m != nil && m.outside || l.ended {
		return
	}
	if _, err := term.MakeRaw(t.fd); err != nil {
		return
	}
	t.write(pasteOn)
	l.storm.began = time.Time{}
	t.sized(Size(t.o.Out))
	if m != nil && m.entered {
		m.put(key{code: keyControl, r: 12}) // the borrower paints
		return
	}
	erase := "\r" + clearBelow
	if time.Since(l.resumed) < suspendWait {
		erase = l.screen.erase() // the same stop, noticed twice
	}
	l.resumed = time.Now()
	l.screen.shown = frame{}
	t.write(erase + l.screen.paint(t.layout()))
}
