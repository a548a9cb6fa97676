package exec

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

const (
	defaultMaxBytes     = 64 << 10
	defaultMaxFileBytes = 256 << 20
)

const (
	streamOut = iota
	streamErr
	streams
)

// recorder keeps the output of one command. It is safe for concurrent use.
type recorder struct {
	onOutput func([]byte)
	calls    sync.Mutex // serialises onOutput; never taken with mu held

	mu    sync.Mutex // guards all below
	rings [streams]ring
	spool spool
}

func newRecorder(s Spec, kept *allowance) *recorder {
	limit := s.MaxBytes
	if limit <= 0 {
		limit = defaultMaxBytes
	}
	fileLimit := s.MaxFileBytes
	if fileLimit <= 0 {
		fileLimit = defaultMaxFileBytes
	}
	r := &recorder{onOutput: s.OnOutput, spool: spool{path: s.OutputFile, limit: fileLimit, redact: s.Redact, kept: kept}}
	for i := range r.rings {
		r.rings[i] = ring{headMax: limit - limit/2, tailMax: limit / 2}
	}
	return r
}

func (r *recorder) write(stream int, p []byte) {
	r.record(stream, p)
	if r.onOutput != nil {
		r.calls.Lock()
		defer r.calls.Unlock()
		r.onOutput(p)
	}
}

func (r *recorder) record(stream int, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := &r.rings[stream]
	g.add(p)
	r.spool.add(p, g.bytes > int64(g.headMax+g.tailMax))
}

// capture returns a copy of the output so far.
func (r *recorder) capture(stream int) Capture {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.rings[stream].capture()
	if r.spool.opened {
		c.File, c.FileCut = r.spool.path, r.spool.cut
	}
	return c
}

// full reports whether output was not kept for lack of an allowance.
func (r *recorder) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spool.full
}

// close closes the spool and returns its error.
func (r *recorder) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spool.close()
}

// ring keeps the first headMax and the last tailMax bytes.
type ring struct {
	headMax, tailMax int
	head, tail       []byte
	next             int // where the next byte goes in a full tail
	bytes            int64
}

func (g *ring) add(p []byte) {
	g.bytes += int64(len(p))
	if n := min(g.headMax-len(g.head), len(p)); n > 0 {
		g.head = append(g.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > g.tailMax {
		p = p[len(p)-g.tailMax:]
	}
	if n := min(g.tailMax-len(g.tail), len(p)); n > 0 {
		g.tail = append(g.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(g.tail[g.next:], p)
		g.next = (g.next + n) % len(g.tail)
		p = p[n:]
	}
}

func (g *ring) capture() Capture {
	c := Capture{Head: bytes.Clone(g.head), Bytes: g.bytes}
	c.Tail = make([]byte, 0, len(g.tail))
	c.Tail = append(c.Tail, g.tail[g.next:]...)
	c.Tail = append(c.Tail, g.tail[:g.next]...)
	return c
}

// spool keeps the output of both streams in order of arrival until one of them does not
// fit into memory, then moves it to a file.
type spool struct {
	path   string
	limit  int64
	redact func([]byte) []byte
	opened bool
	held   []byte // not in the file yet
	file   *os.File
	bytes  int64
	cut    bool // more came than limit or kept
	full   bool // more came than kept
	kept   *allowance
	err    error
}

// maxHeldLine bounds the part of a line that is held back so that redact sees the
// whole line.
const maxHeldLine = 64 << 10

func (s *spool) add(p []byte, full bool) {
	if s.path == "" || s.err != nil || s.cut {
		return
	}
	s.held = append(s.held, p...)
	if !s.opened && !full {
		return
	}
	if !s.opened {
		s.open()
	}
	whole := len(s.held)
	if s.redact != nil && whole < maxHeldLine {
		whole = bytes.LastIndexByte(s.held, '\n') + 1
	}
	s.flush(whole)
}

// flush writes the first n bytes of what is held.
func (s *spool) flush(n int) {
	if s.err != nil || n == 0 {
		return
	}
	p := s.held[:n]
	if s.redact != nil {
		p = s.redact(bytes.Clone(p))
	}
	if room := s.limit - s.bytes; int64(len(p)) > room {
		p, s.cut = p[:max(room, 0)], true
	}
	if room := s.kept.take(int64(len(p))); int64(len(p)) > room {
		p, s.cut, s.full = p[:room], true, true
	}
	wrote, err := s.file.Write(p)
	s.held = s.held[:copy(s.held, s.held[n:])]
	s.bytes += int64(wrote)
	if err != nil {
		s.err = fmt.Errorf("write output file %q: %w", s.path, err)
	}
}

// open makes the file.
func (s *spool) open() {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		s.err = fmt.Errorf("create output file %q: %w", s.path, err)
		return
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		s.err = fmt.Errorf("create output file %q: %w", s.path, err)
		return
	}
	s.file, s.opened = f, true
}

func (s *spool) close() error {
	if s.file != nil {
		s.flush(len(s.held))
		if err := s.file.Close(); err != nil && s.err == nil {
			s.err = fmt.Errorf("close output file %q: %w", s.path, err)
		}
		s.file = nil
	}
	return s.err
}
