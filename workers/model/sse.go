package model

import (
	"bytes"
	"errors"
	"io"
)

// Bounds of what is taken from an endpoint. A reply beyond them is refused.
const (
	maxLineBytes  = 8 << 20   // one line of a stream
	maxReplyBytes = 16 << 20  // text, reasoning and arguments of one reply
	maxWireBytes  = 512 << 20 // one response on the wire, envelopes and all
	maxErrorBytes = 256 << 10 // the body of an error response
)

// errLineTooLong is the answer to a line beyond maxLineBytes.
var errLineTooLong = errors.New("a line of the stream is longer than 8 MiB")

// errWireTooLong is the answer to a response beyond maxWireBytes.
var errWireTooLong = errors.New("the response is larger than 512 MiB")

// lines splits a stream into lines that end with LF, CRLF or CR, as server-sent
// events may. A line is handed out as soon as its end has arrived.
type lines struct {
	r          io.Reader
	buf        []byte
	start, end int  // the unread part of buf
	seen       int  // of the unread part, how much is known to hold no line end
	afterCR    bool // a line ended with CR: an LF that follows belongs to it
	total      int64
	err        error
}

// firstBuffer is what a connection reads at a time, and what each stream holds.
const firstBuffer = 4 << 10

// next returns the next line without its end. It is valid until the following
// call. At the end of the stream what is left comes as a last line, then the
// error of the stream, io.EOF for a regular end.
func (l *lines) next() ([]byte, error) {
	for {
		if l.afterCR && l.start < l.end {
			if l.buf[l.start] == '\n' {
				l.start++
			}
			l.afterCR = false
		}
		if line, ok := l.cut(); ok {
			return line, nil
		}
		if l.err != nil {
			rest := l.buf[l.start:l.end]
			l.start, l.seen = l.end, 0
			if len(rest) > 0 && l.err != errLineTooLong {
				return rest, nil
			}
			return nil, l.err
		}
		l.err = l.fill()
	}
}

// cut takes one line from the unread part, if there is a whole one.
func (l *lines) cut() ([]byte, bool) {
	rest := l.buf[l.start:l.end]
	n := bytes.IndexByte(rest[l.seen:], '\n')
	if n >= 0 {
		n += l.seen
		rest = rest[:n]
	}
	if cr := bytes.IndexByte(rest[l.seen:], '\r'); cr >= 0 {
		n = l.seen + cr
		l.afterCR = true
	}
	if n < 0 {
		l.seen = len(rest)
		return nil, false
	}
	line := rest[:n]
	l.start, l.seen = l.start+n+1, 0
	return line, true
}

// fill reads more behind the unread part.
func (l *lines) fill() error {
	if l.start == l.end {
		l.start, l.end = 0, 0
	}
	if l.end == len(l.buf) {
		switch unread := l.end - l.start; {
		case l.start > 0:
			copy(l.buf, l.buf[l.start:l.end])
			l.start, l.end = 0, unread
		case len(l.buf) >= maxLineBytes:
			return errLineTooLong
		default:
			grown := make([]byte, max(firstBuffer, 2*len(l.buf)))
			copy(grown, l.buf[:l.end])
			l.buf = grown
		}
	}
	n, err := l.r.Read(l.buf[l.end:])
	l.end += n
	l.total += int64(n)
	if l.total > maxWireBytes && err == nil {
		err = errWireTooLong
	}
	return err
}

// field splits a line of a stream of server-sent events. A comment has an empty
// name.
func field(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte{':'})
	return name, bytes.TrimPrefix(value, []byte{' '})
}
