package folder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// LogReader reads the events of an execution log in a stream, also of one that
// is being written: what it holds at a time is no more than the largest event.
//
//	r, err := folder.OpenLog(fsys, dir)
//	for {
//		e, id, err := r.Next() // io.EOF: no more by now; ask again when the file changed
//	}
//	err = r.Broken() // when no more is to come
//	err = r.Close()
//
// It is not safe for concurrent use; whoever opens it closes it.
type LogReader struct {
	fs   afero.Fs
	path string

	file afero.File
	info fs.FileInfo // of file, before the first byte was read
	buf  []byte      // what stands in the file from base on, as far as it was read
	base int64
	i    int // in buf: what is read next
	vain int // bytes that were read in vain for what follows a broken event

	passed int64 // bytes in which no event begins

	at       mark
	behind   mark   // at, when the last entry or the begin of a list was passed
	anchor   []byte // what stood in the file before anchored
	anchored int64

	words  words
	fields fields

	atEnd     bool
	restarted bool
	id        string
	closed    error // what is missing behind the last event; nil when nothing is
}

// mark is a place in a log to which reading can go back.
type mark struct {
	offset  int64
	place   place
	bare    bool // the list is the document
	some    bool // the list has an entry before here
	commas  int  // since the last entry
	events  int
	skipped int
	odd     int // separators that are missing or too many
}

// place is what is expected next in a log.
type place int

const (
	atBegin place = iota
	inObject
	inList
	atClose // behind the document
)

const (
	readBytes = 256 << 10
	// maxEventBytes bounds an event; what is longer counts as broken.
	maxEventBytes = 16 << 20
	// maxVain bounds what is read twice to find events behind broken ones.
	maxVain = 64 << 20
	// anchorBytes is how much has to be the same before the place at which a
	// changed file is read on.
	anchorBytes = 512
)

// OpenLog opens the execution log of the session in dir. No log is an error
// that matches fs.ErrNotExist.
func OpenLog(fsys afero.Fs, dir string) (*LogReader, error) {
	if fsys == nil {
		fsys = durable.Disk()
	}
	r := &LogReader{fs: fsys, path: filepath.Join(dir, logFile)}
	var err error
	if r.file, r.info, err = openRegular(fsys, r.path); err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	return r, nil
}

// Next returns the next event and its id: e1 is the first of the log. io.EOF
// says that there is none by now, also when the last is only half written; a
// later call reads on when the file has grown, and from the begin when it holds
// something else. Entries that are no event are left out, and so are broken
// ones: reading goes on behind them. Any other error is that the file cannot be
// read.
func (r *LogReader) Next() (e Event, id string, err error) {
	r.restarted = false
	if r.file == nil {
		return Event{}, "", fmt.Errorf("read log %q: %w", r.path, fs.ErrClosed)
	}
	if r.atEnd {
		changed, err := r.again()
		if err != nil {
			return Event{}, "", fmt.Errorf("read log %q: %w", r.path, err)
		}
		if !changed {
			return Event{}, "", io.EOF
		}
	}
	raw, err := r.next()
	switch {
	case errors.Is(err, io.EOF):
		r.atEnd = true
		return Event{}, "", io.EOF
	case err != nil:
		return Event{}, "", fmt.Errorf("read log %q: %w", r.path, err)
	}
	e = r.fields.event(raw, &r.words)
	return e, "e" + strconv.Itoa(r.at.events), nil
}

// Restarted says that the last Next found another log than the one that was
// read, since the file was replaced, edited or shrank, and began anew: ids count
// from e1 again.
func (r *LogReader) Restarted() bool { return r.restarted }

// SessionID is the session id that the log states, as far as it was read.
func (r *LogReader) SessionID() string { return r.id }

// Skipped is how many broken entries were left out, as far as the log was read.
func (r *LogReader) Skipped() int { return r.at.skipped }

// Broken says what is wrong with the log as it stood when Next last returned
// io.EOF: that it breaks off, or what of it is no JSON. A log that is being
// written may break off and be whole later. Before io.EOF it is nil.
func (r *LogReader) Broken() error {
	if !r.atEnd {
		return nil
	}
	errs := []error{}
	if r.at.skipped > 0 {
		errs = append(errs, fmt.Errorf("broken entries that were left out: %d", r.at.skipped))
	}
	if r.at.odd > 0 {
		errs = append(errs, fmt.Errorf("separators between events that are missing or too many: %d", r.at.odd))
	}
	if r.closed != nil {
		errs = append(errs, r.closed)
	}
	return joined(errs)
}

// joined is errors.Join in one line.
func joined(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	err := errs[0]
	for _, e := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return err
}

// Close closes the file. A second Close does nothing.
func (r *LogReader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file, r.buf = nil, nil
	return err
}

// again looks whether the file has changed since it was opened, and goes back to
// where its content is the same still.
func (r *LogReader) again() (changed bool, err error) {
	info, err := durable.Lstat(r.fs, r.path)
	if err == nil && same(info, r.info) {
		return false, nil
	}
	var f afero.File
	if err == nil {
		f, info, err = openRegular(r.fs, r.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // it is being replaced, or gone for good
	}
	if err != nil {
		return false, err
	}
	_ = r.file.Close() // only read from
	r.file, r.info = f, info
	r.keepAnchor()
	before := make([]byte, len(r.anchor))
	n, err := f.ReadAt(before, r.behind.offset-int64(len(before)))
	if err != nil && !ends(err) {
		return false, err
	}
	if n < len(before) || !bytes.Equal(before, r.anchor) {
		r.behind, r.anchor, r.anchored = mark{}, nil, 0
		r.id, r.restarted, r.vain, r.passed = "", true, 0, 0
	}
	r.at = r.behind
	r.buf, r.base, r.i = r.buf[:0], r.at.offset, 0
	r.atEnd, r.closed = false, nil
	return true, nil
}

// same says that a file was not written between two looks at it.
func same(a, b fs.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && (a.Sys() == nil || os.SameFile(a, b))
}

func ends(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// keepAnchor notes what stands before the place to which again goes back, as
// long as it is held.
func (r *LogReader) keepAnchor() {
	if end := r.behind.offset - r.base; end > 0 && r.anchored != r.behind.offset {
		r.anchor = append(r.anchor[:0], r.buf[max(0, end-anchorBytes):end]...)
		r.anchored = r.behind.offset
	}
}

// pass notes that what stands before is done with.
func (r *LogReader) pass() {
	r.at.offset = r.base + int64(r.i)
	r.behind = r.at
}

// fill reads more of the file behind what is there, up to the size it had when it
// was opened; false says that there is no more. What stands before i is forgotten.
//
// A write that appends replaces the closing brackets first, and the kernel shows it
// page by page. A read beyond the size at the open could join the brackets of
// before with the middle of an event. Within that size only the brackets differ.
func (r *LogReader) fill() (bool, error) {
	r.keepAnchor()
	if r.i > 0 {
		r.buf = append(r.buf[:0], r.buf[r.i:]...)
		r.base += int64(r.i)
		r.i = 0
	}
	have := len(r.buf)
	left := r.info.Size() - r.base - int64(have)
	if left <= 0 {
		return false, nil
	}
	if room := int(min(max(left+1, readBytes/64), readBytes/2)); cap(r.buf)-have < room {
		r.buf = append(make([]byte, 0, have+max(2*room, have)), r.buf...)
	}
	end := have + int(min(left, int64(cap(r.buf)-have)))
	n, err := r.file.ReadAt(r.buf[have:end], r.base+int64(have))
	if err != nil && !ends(err) {
		return false, err
	}
	r.buf = r.buf[:have+n]
	return n > 0, nil
}

// Events calls each for the events of the execution log in dir, in order, and
// reads no more than it needs to at a time. Entries that are no event are left
// out. It returns the session id that the log states. A log that breaks off or
// is broken is an error once all events that can be found were passed; no log
// is an error that matches fs.ErrNotExist. An error of each ends it and is
// returned.
func Events(fsys afero.Fs, dir string, each func(Event) error) (sessionID string, err error) {
	r, err := OpenLog(fsys, dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }() // only read from
	for {
		e, _, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = each(e)
		}
		if err != nil {
			return r.SessionID(), err
		}
	}
	if err := r.Broken(); err != nil {
		return r.SessionID(), fmt.Errorf("read log %q: %w", r.path, err)
	}
	return r.SessionID(), nil
}
