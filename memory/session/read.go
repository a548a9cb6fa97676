package session

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

// chunkBytes is how much is read at a time when a line's begin is looked for.
const chunkBytes = 64 << 10

// Tail calls each, in order, for the last whole records that fit into maxBytes,
// and for the last line in any case. offset is where the first of these lines
// begins: 0 says that there are no others, and otherwise Before and Window read
// on from there. Lines that are no records are skipped and counted; see Damage.
// It may be used while the journal is appended to, also after Close. An error
// of each ends it and is returned.
func (j *Journal) Tail(maxBytes int64, each func(Record) error) (offset int64, err error) {
	j.mu.Lock()
	j.bad = 0
	j.mu.Unlock()
	return j.window(-1, maxBytes, each)
}

// Before calls each, in order, for all whole records before an offset that Tail
// or Window returned.
func (j *Journal) Before(offset int64, each func(Record) error) error {
	if offset <= 0 {
		return nil
	}
	_, err := j.window(offset, offset, each)
	return err
}

// Window is Tail for the part of the journal that ends at an offset that Tail
// or Window returned.
func (j *Journal) Window(end, maxBytes int64, each func(Record) error) (offset int64, err error) {
	if end <= 0 {
		return 0, nil
	}
	return j.window(end, maxBytes, each)
}

func (j *Journal) window(end, maxBytes int64, each func(Record) error) (int64, error) {
	f, size, err := openForReading(j.fs, j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read journal: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	if end < 0 || end > size {
		end = size
	}
	start, bad, stopped := int64(0), 0, error(nil)
	if start, err = lineStart(f, end, maxBytes); err == nil {
		bad, err = recordsBetween(f, start, end, j.seal, func(r Record) error { stopped = each(r); return stopped })
	}
	j.mu.Lock()
	j.bad += bad
	j.mu.Unlock()
	if err != nil && stopped == nil {
		err = fmt.Errorf("read journal %q: %w", j.path, err)
	}
	return start, err
}

// openForReading opens a regular file, and never a link or a FIFO.
func openForReading(fsys afero.Fs, path string) (afero.File, int64, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = durable.ErrNotRegular
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, 0, fmt.Errorf("%q: %w", path, err)
	}
	return f, info.Size(), nil
}

// lineStart returns where the first line begins that lies within the last
// maxBytes before end; the last line counts in any case, unless it is beyond what
// is read of damage (durable.ErrTooLarge).
func lineStart(f io.ReaderAt, end, maxBytes int64) (int64, error) {
	from := max(0, end-max(1, maxBytes))
	if from == 0 {
		return 0, nil
	}
	buf := make([]byte, chunkBytes)
	// One byte further back, for the line end that makes from a begin.
	for at := from - 1; at < end-1; {
		part := buf[:min(chunkBytes, end-1-at)]
		if _, err := f.ReadAt(part, at); err != nil {
			return 0, err
		}
		if i := bytes.IndexByte(part, '\n'); i >= 0 {
			return at + int64(i) + 1, nil
		}
		at += int64(len(part))
	}
	for at := from; at > 0; {
		if end-at > durable.MaxDamage {
			return 0, durable.ErrTooLarge
		}
		part := buf[:min(chunkBytes, at)]
		at -= int64(len(part))
		if _, err := f.ReadAt(part, at); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return at + int64(i) + 1, nil
		}
	}
	return 0, nil
}

// recordsBetween calls each for the whole records of the lines from start to
// end, and counts the lines that are none.
func recordsBetween(f io.ReaderAt, start, end int64, g seal, each func(Record) error) (bad int, err error) {
	err = durable.Lines(io.NewSectionReader(f, start, end-start), func(line []byte, _ bool) error {
		if record, ok := g.decode(line); ok {
			return each(record)
		}
		bad++
		return nil
	})
	return bad, err
}

// lastSeq finds the highest number near the end of a journal. It goes back
// only while it finds no whole record, and no further than durable.MaxDamage
// (durable.ErrTooLarge).
func lastSeq(fsys afero.Fs, path string) (int64, error) {
	f, end, err := openForReading(fsys, path)
	if err != nil {
		return 0, fmt.Errorf("read journal: %w", err)
	}
	defer func() { _ = f.Close() }() // only read from
	for size := end; end > 0; {
		if size-end > durable.MaxDamage {
			return 0, fmt.Errorf("read journal %q: %w", path, durable.ErrTooLarge)
		}
		start, err := lineStart(f, end, chunkBytes)
		if err != nil {
			return 0, fmt.Errorf("read journal %q: %w", path, err)
		}
		last := int64(0)
		if _, err := recordsBetween(f, start, end, seal{}, func(r Record) error { last = max(last, r.Seq); return nil }); err != nil {
			return 0, fmt.Errorf("read journal %q: %w", path, err)
		}
		if last > 0 {
			return last, nil
		}
		end = start
	}
	return 0, nil
}
