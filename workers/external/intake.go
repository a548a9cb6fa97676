package external

import (
	"bytes"

	"ralph/workers/agent"
)

const (
	maxLine   = 5 << 20   // a longer line of a stream is known by its head only
	headBytes = 4 << 10   // of such a line
	maxFinal  = 256 << 10 // of the final text
	maxStderr = 16 << 10
	maxOutput = 8 << 10 // of a tool's output or arguments in an event
)

// line is one line of a stream, without its end. Of one that is too long only the
// head is there.
type line struct {
	text []byte
	cut  bool
}

// reader takes one line in, and says whether it was an event.
type reader func(s *state, l line) bool

// readerOf is the reader of a format, nil for an unknown one.
func readerOf(format string) reader {
	switch format {
	case formatText:
		return readText
	case formatClaude:
		return readClaude
	case formatCodex:
		return readCodex
	case formatGemini:
		return readGemini
	case formatOpencode:
		return readOpencode
	case formatPi:
		return readPi
	}
	return nil
}

// intake cuts a stream into lines and has them read. It is used by one goroutine
// at a time.
type intake struct {
	read    reader
	s       *state
	buf     []byte
	cut     bool // the line in buf was too long; buf is its head
	lines   int
	skipped int
}

func newIntake(format string, emit func(agent.Event)) *intake {
	if emit == nil {
		emit = func(agent.Event) {}
	}
	s := &state{emit: emit, open: map[string]string{}}
	if format == formatText {
		s.plain, s.closed = true, true // its end is its closing event, also of none
	}
	return &intake{read: readerOf(format), s: s}
}

func (in *intake) write(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			in.add(p)
			return
		}
		in.add(p[:i])
		in.flush()
		p = p[i+1:]
	}
}

func (in *intake) add(p []byte) {
	if in.cut {
		return
	}
	if len(in.buf)+len(p) <= maxLine {
		in.buf = append(in.buf, p...)
		return
	}
	in.cut = true
	in.buf = append(in.buf, p[:min(len(p), headBytes)]...)
	in.buf = append([]byte(nil), in.buf[:min(len(in.buf), headBytes)]...)
}

func (in *intake) flush() {
	l := line{text: bytes.TrimSuffix(in.buf, []byte("\r")), cut: in.cut}
	if len(bytes.TrimSpace(l.text)) > 0 {
		in.lines++
		if in.read(in.s, l) {
			in.s.events++
		} else {
			in.skipped++
		}
	} else if in.s.plain {
		in.read(in.s, l) // an empty line is a part of a text
	}
	// A buffer that one long line has made is not kept for the others.
	if cap(in.buf) > 256<<10 {
		in.buf = nil
	}
	in.buf, in.cut = in.buf[:0], false
}

// close reads what stands after the last end of a line, and ends the calls that
// the stream has left open.
func (in *intake) close() {
	if len(in.buf) > 0 {
		in.flush()
	}
	in.s.finish()
}

// tail keeps the end of what is written.
type tail struct{ buf []byte }

func (t *tail) write(p []byte) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*maxStderr {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-maxStderr:]...)
	}
}

func (t *tail) String() string {
	return string(t.buf[max(0, len(t.buf)-maxStderr):])
}
