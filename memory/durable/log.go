package durable

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/spf13/afero"
)

// maxRecordBytes bounds one line of a log.
const maxRecordBytes = 64 << 20

// Log is a file of one record a line, to which records are only appended. It
// is safe for concurrent use; whoever opens it closes it. There must be only
// one Log for a file at a time: the caller's lock sees to that.
type Log struct {
	fs   afero.Fs
	path string
	perm fs.FileMode
	op   string

	mu     sync.Mutex
	f      afero.File
	end    int64 // where the last record that is known to be on disk ends
	torn   bool  // the file does not end with a line end
	broken bool  // a write or sync failed: what is behind end is not known
	placed bool  // the file's entry in its directory is known to be on disk
}

// LogOptions says how a Log is opened. The zero value makes files of mode 0600
// and leaves a torn tail where it is, as a bad line of its own.
type LogOptions struct {
	// Quarantine is the directory to which a torn tail is moved; it is made
	// when needed.
	Quarantine string
	// Perm is the mode of a new file.
	Perm fs.FileMode
	// Valid tells whether a last line without a line end is a whole record, as
	// an editor may leave it; such a line stays. Nil: it never is.
	Valid func(line []byte) bool

	op string
}

// Damage says what was wrong with a log or a list when it was opened. The zero
// value means nothing was.
type Damage struct {
	// TornBytes is the length of an incomplete last line, or of what was taken
	// out of a list.
	TornBytes int64
	// Moved is the file to which it was moved, empty when it stayed.
	Moved string
	// Whole means that the whole file was moved and a new one begun.
	Whole bool
}

// OpenLog opens the log at path for appending, and makes it if there is none.
// It reads the tail only.
func OpenLog(fsys afero.Fs, path string, o LogOptions) (*Log, Damage, error) {
	if o.Perm == 0 {
		o.Perm = 0o600
	}
	if o.op == "" {
		o.op = "open log"
	}
	l := &Log{fs: fsys, path: path, perm: o.Perm, op: o.op}
	if err := l.open(); err != nil {
		return nil, Damage{}, fail(l.op, path, fsys, err)
	}
	damage, err := l.mend(o)
	if err != nil {
		return nil, damage, fail(l.op, path, fsys, errors.Join(err, l.f.Close()))
	}
	l.op = "append to"
	return l, damage, nil
}

// open opens the file and finds where it ends. Whoever made it, now or before,
// may have died before its entry in the directory was on disk: that is seen to
// before the first append.
func (l *Log) open() error {
	info, err := Lstat(l.fs, l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		if err := regular(info); err != nil {
			return err
		}
	}
	f, err := l.fs.OpenFile(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|openFlags, l.perm)
	if err != nil {
		return linkError(err)
	}
	info, err = f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	torn := false
	if end := info.Size(); end > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, end-1); err != nil {
			return errors.Join(err, f.Close())
		}
		torn = last[0] != '\n'
	}
	l.f, l.end, l.torn, l.placed = f, info.Size(), torn, false
	return nil
}

// mend deals with a torn tail: what is valid stays, the rest is moved to
// quarantine. Only once it is durable there is it cut off here.
func (l *Log) mend(o LogOptions) (Damage, error) {
	if !l.torn || o.Quarantine == "" && o.Valid == nil {
		return Damage{}, nil
	}
	start, tail, err := l.tail()
	if err != nil {
		return Damage{}, err
	}
	if o.Valid != nil && o.Valid(tail) || o.Quarantine == "" {
		return Damage{}, nil
	}
	damage := Damage{TornBytes: l.end - start}
	sum := sha256.Sum256(tail)
	// Named by content: a crash before the cut leaves no second copy.
	name := fmt.Sprintf("%s.torn-%d-%s", filepath.Base(l.path), start, hex.EncodeToString(sum[:4]))
	moved := filepath.Join(o.Quarantine, name)
	if err := MkdirAll(l.fs, o.Quarantine, 0o700); err != nil {
		return damage, err
	}
	if err := Replace(l.fs, moved, tail, 0o600); err != nil {
		return damage, err
	}
	damage.Moved = moved
	if err := l.f.Truncate(start); err != nil {
		return damage, err
	}
	// On the real disk O_APPEND finds the end by itself; in memory it does not.
	if _, err := l.f.Seek(0, io.SeekEnd); err != nil {
		return damage, err
	}
	// Behind a part of a tail that was too long the next record needs a line of its own.
	l.end, l.torn = start, start > 0 && damage.TornBytes >= maxRecordBytes
	return damage, l.f.Sync()
}

// tail returns what stands behind the last line end, and where it begins. Of a
// tail beyond maxRecordBytes only that much counts as the tail.
func (l *Log) tail() (start int64, tail []byte, err error) {
	buf := make([]byte, 64<<10)
	for start = l.end; start > 0 && l.end-start < maxRecordBytes; {
		n := min(int64(len(buf)), start)
		if _, err := l.f.ReadAt(buf[:n], start-n); err != nil {
			return 0, nil, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			start += int64(i) + 1 - n
			break
		}
		start -= n
	}
	tail, err = readAll(l.f, start, l.end)
	return start, tail, err
}

// Append writes records, which must hold no line end, each on a line of its
// own, all in one write, and returns once they are on disk. After an error
// none of them is in the log: the next Append first writes the log anew
// without them, since a file whose sync failed may have lost data that a
// second sync would not report.
func (l *Log) Append(records ...[]byte) error {
	for _, record := range records {
		if bytes.IndexByte(record, '\n') >= 0 {
			return fail(l.op, l.path, l.fs, errors.New("a record holds a line end"))
		}
		if len(record) > maxRecordBytes {
			return fail(l.op, l.path, l.fs, fmt.Errorf("a record of %d bytes %w", len(record), ErrTooLarge))
		}
	}
	if len(records) == 0 {
		return nil
	}
	return fail(l.op, l.path, l.fs, l.append(bytes.Join(records, []byte{'\n'})))
}

func (l *Log) append(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return fs.ErrClosed
	}
	if err := l.ready(); err != nil {
		return err
	}
	line := make([]byte, 0, len(text)+2)
	if l.torn {
		line = append(line, '\n')
	}
	line = append(append(line, text...), '\n')
	// Set before the write, so that nothing between here and the end of the
	// sync can leave the log looking whole.
	l.broken = true
	if _, err := l.f.Write(line); err != nil {
		return err
	}
	if err := l.f.Sync(); err != nil {
		return err
	}
	l.end += int64(len(line))
	l.torn, l.broken = false, false
	return nil
}

// ready makes sure that the open file is the one at path, that it is whole, and
// that its entry in the directory is on disk.
func (l *Log) ready() error {
	for range maxReopen {
		here, err := inPlace(l.fs, l.f, l.path)
		switch {
		case err != nil:
			return err
		case !here:
			err = l.reopen()
		case l.broken:
			err = l.heal()
		case l.placed:
			return nil
		default:
			// A directory whose sync failed is not synced again: the file is
			// renamed into it anew.
			err = SyncDir(l.fs, filepath.Dir(l.path))
			l.placed, l.broken = err == nil, err != nil
		}
		if err != nil {
			return err
		}
	}
	return ErrChanged
}

// maxReopen bounds how often a file that somebody replaces all the time is
// opened for one append.
const maxReopen = 8

// heal writes what is known to be in the log into a new file.
func (l *Log) heal() error {
	whole := make([]byte, l.end)
	if _, err := l.f.ReadAt(whole, 0); err != nil && l.end > 0 {
		return err
	}
	if err := Replace(l.fs, l.path, whole, l.perm); err != nil {
		return err
	}
	if err := l.reopen(); err != nil {
		return err
	}
	l.broken = false
	return nil
}

// reopen opens what stands at path. After an error the old file stays open, for
// the next try.
func (l *Log) reopen() error {
	old := l.f
	if err := l.open(); err != nil {
		return err
	}
	_ = old.Close() // its content is in the file just opened, or was deleted
	return nil
}

// inPlace reports whether an open file still stands at path. An editor that
// saves by renaming puts another file there; what is appended to the old one
// would be lost.
func inPlace(fsys afero.Fs, f afero.File, path string) (bool, error) {
	here, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := Lstat(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	a, ok := here.Sys().(*syscall.Stat_t)
	b, ok2 := there.Sys().(*syscall.Stat_t)
	return !ok || !ok2 || a.Dev == b.Dev && a.Ino == b.Ino, nil
}

// Close closes the file. All that was appended is on disk already; when the last
// Append failed, Close tries to write the log anew without it. A second Close
// does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	if l.broken {
		_ = l.ready() // nothing acknowledged depends on it
	}
	err := l.f.Close()
	l.f = nil
	return fail("close", l.path, l.fs, err)
}

// MaxDamage is how many bytes of a log that hold no record are read: a line beyond
// 64 MiB, or one with a NUL, which no record has. A program can make a file of any
// size in no time.
const MaxDamage = 128 << 20

// errDamage reports that a log has more than MaxDamage bytes without a record.
func errDamage() error {
	return fmt.Errorf("%w: more than %d MiB of it hold no record", ErrTooLarge, MaxDamage>>20)
}

// ReadLines calls each for every line of the log at path, without its line
// end; whole is false for a last line that has none. Empty lines are left out;
// a line beyond 64 MiB is passed as nil. The slice is only valid during the
// call. An error of each ends the reading and is returned as it is. More than
// MaxDamage end it with ErrTooLarge.
func ReadLines(fsys afero.Fs, path string, each func(line []byte, whole bool) error) error {
	const op = "read log"
	info, err := Lstat(fsys, path)
	if err != nil {
		return fail(op, path, fsys, err)
	}
	if err := regular(info); err != nil {
		return fail(op, path, fsys, err)
	}
	f, err := fsys.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return fail(op, path, fsys, linkError(err))
	}
	defer func() { _ = f.Close() }()
	var stopped error
	err = Lines(f, func(line []byte, whole bool) error {
		stopped = each(line, whole)
		return stopped
	})
	if stopped != nil {
		return stopped
	}
	return fail(op, path, fsys, err)
}

// Lines is ReadLines for what a reader holds.
func Lines(from io.Reader, each func(line []byte, whole bool) error) error {
	r := bufio.NewReaderSize(from, 64<<10)
	var line []byte
	damage := int64(0)
	for {
		skipLineEnds(r)
		whole, length, err := false, int64(0), error(nil)
		line, length, whole, err = readLine(r, line, MaxDamage-damage)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil && length == 0 {
			return nil
		}
		if line == nil || bytes.IndexByte(line, 0) >= 0 {
			if damage += length; damage > MaxDamage {
				return errDamage()
			}
		} else if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := each(line, whole); err != nil {
			return err
		}
	}
}

// skipLineEnds passes over empty lines at memory speed: a file may hold nothing else.
func skipLineEnds(r *bufio.Reader) {
	for {
		if _, err := r.Peek(1); err != nil {
			return // the next read reports it
		}
		ahead, _ := r.Peek(r.Buffered()) // it is all there
		n := len(ahead) - len(bytes.TrimLeft(ahead, "\n"))
		_, _ = r.Discard(n) // as above
		if n < len(ahead) {
			return
		}
	}
}

// readLine reads a line into the space of an earlier one, if that is no
// giant's; nil is a line that is too long. length counts its bytes, of which there
// may be most more than in a record.
func readLine(r *bufio.Reader, old []byte, most int64) (line []byte, length int64, whole bool, err error) {
	const keep = 1 << 20
	if line = old[:0]; cap(old) > keep {
		line = nil
	}
	for {
		part, err := r.ReadSlice('\n')
		length += int64(len(part))
		switch {
		case length <= maxRecordBytes+1:
			line = append(line, part...)
		case length > maxRecordBytes+most:
			return nil, length, false, errDamage()
		default:
			line = nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil {
			return bytes.TrimSuffix(line, []byte{'\n'}), length, true, nil
		}
		return line, length, false, err
	}
}
