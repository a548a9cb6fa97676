package scripts

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// noticeAfter is when the person is told what Ralph waits for.
	noticeAfter = 1 * time.Second
	// leaveAfter is when a silent standard input is given up, if no other
	// command of the same pipeline holds its other end.
	leaveAfter = 3 * time.Second
)

var errSilent = errors.New("standard input is silent")

// patientReader reads a pipe, a socket or a terminal so that the wait can be
// ended: by ctx at once, and, when leave is set, by silence. Many callers (CI,
// editors, cron, ssh) hand down a pipe into which nobody ever writes, while
// `go test ./... | ralph "fix it"` may be silent for minutes: what tells the
// two apart is who holds the other end.
type patientReader struct {
	ctx    context.Context // of the one call that opens and closes the reader
	f      *os.File
	fd     int
	wake   [2]*os.File // a byte can be read from the first once ctx has ended
	stop   func() bool
	notice func()
	leave  bool
	begun  bool // something was read
	since  time.Time
}

func newPatientReader(ctx context.Context, f *os.File) (*patientReader, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &patientReader{ctx: ctx, f: f, fd: int(f.Fd()), wake: [2]*os.File{r, w}, since: time.Now()}
	p.stop = context.AfterFunc(ctx, func() { _, _ = w.Write([]byte{0}) }) // the reader sees ctx anyway, only later
	return p, nil
}

func (p *patientReader) close() {
	p.stop()
	p.wake[0].Close()
	p.wake[1].Close()
}

// Read waits for input and returns it; it fails with the cause of ctx's end,
// or with errSilent.
func (p *patientReader) Read(b []byte) (int, error) {
	wakeFD := int32(p.wake[0].Fd())
	for {
		if p.ctx.Err() != nil {
			return 0, context.Cause(p.ctx)
		}
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}, {Fd: wakeFD, Events: unix.POLLIN}}
		_, err := unix.Poll(fds, p.wait())
		switch {
		case err != nil && !errors.Is(err, syscall.EINTR):
			return 0, err
		case fds[0].Revents != 0:
			n, err := p.f.Read(b)
			p.begun = p.begun || n > 0
			return n, err
		}
		waited := time.Since(p.since)
		if p.notice != nil && !p.begun && waited >= noticeAfter {
			p.notice()
			p.notice = nil
		}
		if p.leave && !p.begun && waited >= leaveAfter {
			if !writerInPipeline(p.fd) {
				return 0, errSilent
			}
			p.leave = false
		}
	}
}

// wait returns how long to poll, in milliseconds; -1 is for ever.
func (p *patientReader) wait() int {
	if p.begun || p.notice == nil && !p.leave {
		return -1
	}
	next := leaveAfter
	if p.notice != nil {
		next = noticeAfter
	}
	return int(max(next-time.Since(p.since), 0).Milliseconds()) + 1
}

// writerInPipeline says whether a process that is no ancestor of this one, a
// neighbour in a pipeline, holds the other end of the pipe fd. Where /proc does
// not tell it says no.
func writerInPipeline(fd int) bool {
	self, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return false
	}
	ancestors := map[int]bool{os.Getpid(): true}
	for pid := os.Getppid(); pid > 1 && !ancestors[pid]; pid = parentOf(pid) {
		ancestors[pid] = true
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return false
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || target != self {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(link))))
		if err == nil && !ancestors[pid] && opensForWriting(pid, filepath.Base(link)) {
			return true
		}
	}
	return false
}

// opensForWriting reads the flags of an open file of a process.
func opensForWriting(pid int, fd string) bool {
	flags, err := procField("/proc/"+strconv.Itoa(pid)+"/fdinfo/"+fd, "flags:")
	if err != nil {
		return false
	}
	bits, err := strconv.ParseInt(flags, 8, 64)
	return err == nil && bits&syscall.O_ACCMODE != syscall.O_RDONLY
}

// parentOf returns the parent of a process, 0 when it cannot be told.
func parentOf(pid int) int {
	text, err := procField("/proc/"+strconv.Itoa(pid)+"/status", "PPid:")
	if err != nil {
		return 0
	}
	parent, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return parent
}

var _ io.Reader = (*patientReader)(nil)

// procField returns what follows name on its line of a file of /proc.
func procField(path, name string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", errors.New(name + " is missing")
}
