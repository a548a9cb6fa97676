package folder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// errOdd says that what stands at r.i is not what can stand there.
var errOdd = errors.New("it is no JSON")

// next returns the JSON of the next event; io.EOF when there is none. It is
// valid until the next call.
func (r *LogReader) next() ([]byte, error) {
	for tries := 0; ; {
		raw, wrong, err := r.step()
		odd := errors.Is(err, errOdd)
		if !odd && !errors.Is(err, io.EOF) {
			return raw, err
		}
		// The file may have grown since it was opened, and what looks odd may be
		// two states of a file that is being written.
		if tries++; tries <= 3 {
			if changed, err := r.again(); err != nil {
				return nil, err
			} else if changed {
				continue
			}
		}
		if !odd {
			return nil, err
		}
		r.at.skipped++
		found, err := r.resync(wrong, false)
		if err != nil {
			return nil, err
		}
		if !found {
			if end := bytes.TrimRight(r.buf, " \t\r\n"); r.at.place != atClose && !bytes.HasSuffix(end, []byte{'}'}) && !bytes.HasSuffix(end, []byte{']'}) {
				r.closed = errBreaksOff()
			}
			return nil, io.EOF
		}
	}
}

// step reads up to the next event. With errOdd it says where in the file what
// cannot stand there begins.
func (r *LogReader) step() (raw []byte, wrong int64, err error) {
	for {
		c, ok, err := r.peek()
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			if r.at.place != atClose {
				r.closed = errBreaksOff()
			}
			return nil, 0, io.EOF
		}
		done := false
		switch r.at.place {
		case atBegin:
			wrong, err = r.begin(c)
		case inObject:
			wrong, err = r.member(c)
		case inList:
			raw, wrong, done, err = r.entry(c)
		case atClose:
			wrong, err = r.base+int64(r.i), errOdd
		}
		if err != nil || done {
			return raw, wrong, err
		}
	}
}

func errBreaksOff() error { return fmt.Errorf("it breaks off: %w", io.ErrUnexpectedEOF) }

func (r *LogReader) begin(c byte) (wrong int64, err error) {
	const byteOrderMark = "\ufeff"
	switch {
	case c == '{':
		r.at.place = inObject
		r.i++
	case c == '[':
		r.at.place, r.at.bare = inList, true
		r.i++
		r.pass()
	case r.base == 0 && r.i == 0 && len(r.buf) >= len(byteOrderMark) && string(r.buf[:len(byteOrderMark)]) == byteOrderMark:
		r.i = len(byteOrderMark)
	default:
		return r.base + int64(r.i), errOdd
	}
	return 0, nil
}

// member reads a key of the document and its value, or the document's end.
func (r *LogReader) member(c byte) (wrong int64, err error) {
	switch c {
	case ',':
		r.i++
		return 0, nil
	case '}':
		r.i++
		r.at.place = atClose
		return 0, nil
	case '"':
	default:
		return r.base + int64(r.i), errOdd
	}
	end, wrong, err := r.value()
	if err != nil {
		return wrong, err
	}
	key := unquoted(r.buf[r.i:end])
	r.i = end
	if c, ok, err := r.peek(); err != nil || !ok {
		return 0, err
	} else if c != ':' {
		return r.base + int64(r.i), errOdd
	}
	r.i++
	c, ok, err := r.peek()
	if err != nil || !ok {
		return 0, err
	}
	if key == "events" {
		if c != '[' {
			r.closed = errors.New("events is no list")
			return 0, io.EOF
		}
		r.i++
		r.at.place, r.at.some, r.at.commas = inList, false, 0
		r.pass()
		return 0, nil
	}
	if end, wrong, err = r.value(); err != nil {
		return wrong, err
	}
	if key == "session_id" {
		r.id = scalarText(r.buf[r.i:end])
	}
	r.i = end
	return 0, nil
}

// entry reads an entry of a list, or what stands between two, or its end; done
// says that it is an event.
func (r *LogReader) entry(c byte) (raw []byte, wrong int64, done bool, err error) {
	switch c {
	case ',':
		r.i++
		r.at.commas++
		return nil, 0, false, nil
	case ']':
		r.i++
		r.at.odd += r.at.commas
		r.at.place = inObject
		if r.at.bare {
			r.at.place = atClose
		}
		return nil, 0, false, nil
	}
	end, wrong, err := r.value()
	if err != nil {
		return nil, wrong, false, err
	}
	raw = r.buf[r.i:end]
	switch {
	case !r.at.some:
		r.at.odd += r.at.commas
	case r.at.commas != 1:
		r.at.odd++
	}
	r.at.some, r.at.commas = true, 0
	if done = c == '{'; done {
		r.at.events++
	}
	r.i = end
	r.pass()
	return raw, 0, done, nil
}

// peek passes white space and returns the byte behind it; false at the file's
// end.
func (r *LogReader) peek() (c byte, ok bool, err error) {
	for {
		for r.i < len(r.buf) {
			if c = r.buf[r.i]; !space(c) {
				return c, true, nil
			}
			r.i++
		}
		if more, err := r.fill(); err != nil || !more {
			return 0, false, err
		}
	}
}

// value returns where in buf the value ends that begins at i. At the file's end
// it is io.EOF: the value breaks off, and so does the log, unless whole events
// follow on lines of their own.
func (r *LogReader) value() (end int, wrong int64, err error) {
	for {
		end, how := scan(r.buf, r.i, 0)
		switch {
		case how == whole && end-r.i > maxEventBytes:
			return 0, r.base + int64(end), errOdd
		case how == whole:
			return end, 0, nil
		case how == broken:
			return 0, r.base + int64(end), errOdd
		case len(r.buf)-r.i > maxEventBytes:
			return 0, r.base + int64(len(r.buf)), errOdd
		}
		more, err := r.fill()
		if err != nil {
			return 0, 0, err
		}
		if more {
			continue
		}
		found, err := r.resync(r.base+int64(len(r.buf)), true)
		if err != nil {
			return 0, 0, err
		}
		if !found {
			r.closed = errBreaksOff()
			return 0, 0, io.EOF
		}
		r.at.skipped++
	}
}

// resync goes to the next event behind the begin of what is broken, at i. Where
// what is broken became so, at wrong, an event may begin anywhere; before it, at
// the begin of a line, as what breaks off may have swallowed what follows. strict
// says that wrong is the end of a file that is perhaps being written.
func (r *LogReader) resync(wrong int64, strict bool) (found bool, err error) {
	from := r.base + int64(r.i) + 1
	for {
		at, ok, err := r.brace(from)
		if err != nil || !ok {
			return false, err
		}
		begin := r.base + int64(at)
		line := lineBegins(r.buf, at)
		from = begin + 1
		if !(line && r.vain <= maxVain) && (strict || begin < wrong) {
			continue
		}
		end, how, err := r.candidate(at)
		if err != nil {
			return false, err
		}
		if how == whole {
			r.fields.take(r.buf[r.i:end], &r.words)
			if r.fields.isEvent(line && !strict) {
				r.at.place, r.at.some, r.at.commas = inList, true, 1
				return true, nil
			}
		}
		r.vain += end - r.i
		if !line || r.vain > maxVain {
			from = max(from, r.base+int64(end))
		}
	}
}

// candidate goes to at and looks whether a whole value begins there.
func (r *LogReader) candidate(at int) (end int, how outcome, err error) {
	const maxBytes = 4 << 20
	for r.i = at; ; {
		end, how = scan(r.buf, r.i, 0)
		if how != cut || len(r.buf)-r.i > maxBytes {
			return end, how, nil
		}
		if more, err := r.fill(); err != nil || !more {
			return end, how, err
		}
	}
}

// brace finds the next brace that opens, in buf, from a place in the file on, unless it has
// passed over more than durable.MaxDamage in all.
func (r *LogReader) brace(from int64) (at int, ok bool, err error) {
	const before = 256 // what lineBegins looks at
	for {
		if at := max(0, int(from-r.base)); at < len(r.buf) {
			if n := bytes.IndexByte(r.buf[at:], '{'); n >= 0 {
				return at + n, true, nil
			}
			r.passed += int64(len(r.buf) - at)
		}
		if r.passed > durable.MaxDamage {
			return 0, false, nil
		}
		from = max(from, r.base+int64(len(r.buf)))
		r.i = max(r.i, len(r.buf)-before)
		if more, err := r.fill(); err != nil || !more {
			return 0, false, err
		}
	}
}

// lineBegins says that only white space stands before at in its line.
func lineBegins(b []byte, at int) bool {
	for at--; at >= 0; at-- {
		switch b[at] {
		case '\n', '\r':
			return true
		case ' ', '\t':
		default:
			return false
		}
	}
	return false
}

// openRegular opens a regular file for reading and never a link or a FIFO.
func openRegular(fsys afero.Fs, path string) (afero.File, fs.FileInfo, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = durable.ErrNotRegular
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, nil, err
	}
	return f, info, nil
}
