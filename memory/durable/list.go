package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/afero"
)

// listClosing is how a list ends; elements stand on lines of their own before
// it, four spaces in.
const (
	listClosing = "\n  ]\n}\n"
	listIndent  = "\n    "
)

// maxUnsynced bounds the bytes that a List writes before it syncs: what a power
// cut may leave of them is no more than what is looked at when it is opened.
const maxUnsynced = 32 << 10

// List is a JSON document of the form {head…, "name": [ … ]} to whose array
// elements are appended in constant time: each append is one positioned write
// of ", element ] }" over the closing brackets, so that the file is valid JSON
// between any two calls. No byte of an element is ever written over.
//
// It is safe for concurrent use; whoever opens it closes it. There must be only
// one List for a file at a time: the caller's lock sees to that. A file that
// somebody edits meanwhile is read again, whether it was saved in place or by a
// rename.
type List struct {
	fs   afero.Fs
	path string
	o    ListOptions
	op   string

	mu      sync.Mutex
	f       afero.File
	at      int64     // behind the last element, or behind the bracket that opens the array
	some    bool      // there is an element
	size    int64     // of the file, as last written or opened
	mtime   time.Time // of the file, as last written or opened
	synced  int64     // what stands before is on disk or was there when the file was opened
	pending []byte    // what was written between synced and at
	broken  bool      // a write or sync failed: what is behind synced is not known
	placed  bool      // the file's entry in its directory is known to be on disk
	damage  Damage
}

// ListOptions says how a List is opened.
type ListOptions struct {
	// Name is the key of the array.
	Name string
	// Head holds the keys before the array, for a new file.
	Head map[string]any
	// Quarantine is the directory to which damage is moved, made when needed;
	// empty: the file's own.
	Quarantine string
	// Perm is the mode of a new file; zero is 0600.
	Perm fs.FileMode
	// Sync makes each Append return only when the elements are on disk.
	// Otherwise the last 32 KiB may be lost in a power cut, though not when the
	// process is killed.
	Sync bool
}

// OpenList opens the list at path, and makes it if there is none. Of a file
// that Ralph wrote it reads the tail only; one that was edited by hand is read
// whole.
//
// A torn tail is mended: what is no whole element goes to quarantine, and the
// closing brackets are put back. Damage in the middle goes the same way, and
// the whole elements behind it that stand on lines of their own stay. Keys
// behind the array are moved before it, once, so that no append has to write
// over them. A file that is no such document, or two of them, is moved to
// quarantine whole and the list begins anew; an empty file is just begun.
func OpenList(fsys afero.Fs, path string, o ListOptions) (*List, Damage, error) {
	if o.Perm == 0 {
		o.Perm = 0o600
	}
	if o.Quarantine == "" {
		o.Quarantine = filepath.Dir(path)
	}
	l := &List{fs: fsys, path: path, o: o, op: "append to"}
	if err := l.open(); err != nil {
		return nil, l.damage, fail("open list", path, fsys, err)
	}
	return l, l.damage, nil
}

// Damage says what was wrong with the file when it was last opened: by OpenList,
// or by an Append that found it edited.
func (l *List) Damage() Damage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.damage
}

// Append puts elements at the end of the array, all in one write as long as they
// are small. Each must be one JSON value; none is in the list after an error,
// and the next Append first writes the list anew into a new file, since a file
// whose sync failed may have lost data that a second sync would not report.
func (l *List) Append(elements ...json.RawMessage) error {
	compact := make([][]byte, len(elements))
	for i, e := range elements {
		var b bytes.Buffer
		if err := json.Compact(&b, e); err != nil {
			return fail(l.op, l.path, l.fs, fmt.Errorf("element %d: %w", i, err))
		}
		if b.Len() > maxRecordBytes {
			return fail(l.op, l.path, l.fs, fmt.Errorf("an element of %d bytes %w", b.Len(), ErrTooLarge))
		}
		compact[i] = b.Bytes()
	}
	if len(elements) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return fail(l.op, l.path, l.fs, fs.ErrClosed)
	}
	if err := l.ready(); err != nil {
		return fail(l.op, l.path, l.fs, err)
	}
	return fail(l.op, l.path, l.fs, l.append(compact))
}

func (l *List) append(elements [][]byte) error {
	at, some, pending := l.at, l.some, l.pending
	var err error
	for len(elements) > 0 && err == nil {
		var text []byte
		for len(elements) > 0 && (len(text) == 0 || len(text)+len(elements[0]) < maxUnsynced) {
			if l.some {
				text = append(text, ',')
			}
			text = append(append(text, listIndent...), elements[0]...)
			elements, l.some = elements[1:], true
		}
		err = l.write(text)
	}
	if err == nil && l.o.Sync {
		err = l.sync()
	}
	if err == nil {
		return nil
	}
	// What was there before stands in the file or in pending: the next try
	// writes just that.
	l.at, l.some, l.broken = at, some, true
	if l.synced > at {
		l.synced = at
	}
	l.pending = pending[:min(int64(len(pending)), at-l.synced)]
	return err
}

// write puts text behind the last element and closes the document again, in one
// write. The file never gets shorter.
func (l *List) write(text []byte) error {
	if n := len(l.pending); n > 0 && n+len(text) > maxUnsynced {
		if err := l.sync(); err != nil {
			return err
		}
	}
	end := l.at + int64(len(text)+len(listClosing))
	whole := append(append(make([]byte, 0, len(text)+len(listClosing)), text...), listClosing...)
	for ; end < l.size; end++ {
		whole = append(whole, '\n')
	}
	// Set before the write, so that nothing between here and its end can leave
	// the list looking whole.
	l.broken = true
	if _, err := l.f.WriteAt(whole, l.at); err != nil {
		return err
	}
	l.broken = false
	l.at += int64(len(text))
	l.pending = append(l.pending, text...)
	l.seen(end)
	return nil
}

// seen notes what the file looks like after a write of ours. When that cannot
// be told the file will be read again before the next one.
func (l *List) seen(size int64) {
	l.size, l.mtime = size, time.Time{}
	if info, err := l.f.Stat(); err == nil {
		l.mtime = info.ModTime()
	}
}

// sync brings what was written to disk, and the file's entry with it.
func (l *List) sync() error {
	var err error
	if !l.placed {
		err = SyncDir(l.fs, filepath.Dir(l.path))
		l.placed = err == nil
	}
	if err == nil {
		err = l.f.Sync()
	}
	if err != nil {
		l.broken = true
		return err
	}
	// A fresh slice: append may have to go back to the old one.
	l.synced, l.pending = l.at, nil
	return nil
}

// ready makes sure that the open file is the one at path, that nobody has
// edited it, and that it is whole.
func (l *List) ready() error {
	for range maxReopen {
		here, err := inPlace(l.fs, l.f, l.path)
		broken := l.broken
		switch {
		case err != nil:
			return err
		case here && broken:
			return l.heal()
		case here:
			info, err := l.f.Stat()
			if err != nil {
				return err
			}
			if info.Size() == l.size && info.ModTime().Equal(l.mtime) {
				return nil
			}
		}
		if err := l.reopen(); err != nil {
			return err
		}
		// A healing that broke off behind its rename is begun again, as the
		// directory's sync may have failed.
		l.broken = broken
	}
	return ErrChanged
}

// reopen reads what stands at path now. After an error the old file stays open,
// for the next try.
func (l *List) reopen() error {
	old := l.f
	if err := l.open(); err != nil {
		return err
	}
	_ = old.Close() // its content is in the file just opened, or was deleted
	return nil
}

// heal writes what is known to be in the list into a new file.
func (l *List) heal() error {
	whole := make([]byte, l.synced, l.synced+int64(len(l.pending)+len(listClosing)))
	if _, err := l.f.ReadAt(whole, 0); err != nil && l.synced > 0 {
		return err
	}
	whole = append(append(whole, l.pending...), listClosing...)
	if err := Replace(l.fs, l.path, whole, l.o.Perm); err != nil {
		return err
	}
	return l.reopen()
}

// open opens what stands at path, and mends it.
func (l *List) open() error {
	l.damage = Damage{}
	for range maxReopen {
		f, made, err := l.file()
		if err != nil {
			return err
		}
		again, err := l.adopt(f)
		if err != nil || again {
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return err
		}
		if !again {
			l.placed = made
			return nil
		}
	}
	return ErrChanged
}

// file opens the file at path; made says that it was begun here and that its
// entry is on disk.
func (l *List) file() (f afero.File, made bool, err error) {
	info, err := Lstat(l.fs, l.path)
	switch {
	case err == nil && info.Size() > 0 || err == nil && regular(info) != nil:
		err = regular(info)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		made = true
		if err = l.begin(); err != nil {
			// Where only the directory's sync failed the file is there: it must
			// not be found by the next try, which would sync the directory again.
			_ = l.fs.Remove(l.path)
		}
	}
	if err != nil {
		return nil, false, err
	}
	if f, err = l.fs.OpenFile(l.path, os.O_RDWR|openFlags, 0); err != nil {
		return nil, false, linkError(err)
	}
	return f, made, nil
}

// begin makes a list without elements.
func (l *List) begin() error {
	text := []byte("{")
	if len(l.o.Head) > 0 {
		head, err := json.MarshalIndent(l.o.Head, "", "  ")
		if err != nil {
			return fmt.Errorf("head: %w", err)
		}
		text = append(bytes.TrimSuffix(head, []byte("\n}")), ',')
	}
	name, err := json.Marshal(l.o.Name)
	if err != nil {
		return err
	}
	text = append(append(append(text, "\n  "...), name...), ": ["...)
	return Replace(l.fs, l.path, append(text, listClosing...), l.o.Perm)
}

// Sync brings what was appended to disk.
func (l *List) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return fail("sync", l.path, l.fs, fs.ErrClosed)
	}
	return fail("sync", l.path, l.fs, l.flush())
}

// flush syncs what is not on disk yet. Where that fails the list is written
// anew.
func (l *List) flush() error {
	if !l.broken && len(l.pending) == 0 {
		return nil
	}
	if !l.broken {
		if err := l.sync(); err == nil {
			return nil
		}
	}
	return l.ready()
}

// Close syncs and closes the file. After an error of the sync it is open still,
// and Close can be tried again. A second Close does nothing.
func (l *List) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	if err := l.flush(); err != nil {
		return fail("close", l.path, l.fs, err)
	}
	err := l.f.Close()
	l.f = nil
	return fail("close", l.path, l.fs, err)
}
