package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ralph/memory/durable"
)

const (
	// smallBytes is how large a file may be that is rewritten at once for one
	// change; larger ones wait for others to change with.
	smallBytes = 64 << 10
	// eagerHeld is how many entries that the disk did not take are tried again
	// with each new one.
	eagerHeld = 64
	// maxHeld bounds what is held in memory of one file.
	maxHeld = 1 << 16
	// maxRewriteBytes bounds the file that is rewritten for a change.
	maxRewriteBytes = 512 << 20
)

// listFile is a JSON document with a list to which entries are appended in
// constant time. Everything else that changes in it costs a rewrite. The
// Folder's mutex guards it.
type listFile struct {
	o    *Options
	path string
	name string // of the list
	head []member

	list    *durable.List // nil when it is not open
	held    []json.RawMessage
	changes []func(*document)
	tried   attempt
	lost    int
	err     error // why what is held is not in the file
}

// attempt is a rewrite whose end is not known: it failed, but its content may
// stand in the file all the same.
type attempt struct {
	text          []byte
	held, changes int
}

func newListFile(o *Options, file, name string, head ...member) *listFile {
	return &listFile{o: o, path: filepath.Join(o.Dir, file), name: name, head: head}
}

// append takes an entry; flush or write brings it into the file.
func (l *listFile) append(entry json.RawMessage) {
	l.held = append(l.held, entry)
	if len(l.held) > maxHeld {
		l.held, l.tried = l.held[1:], attempt{}
		l.lost++
	}
}

// change takes a change of what is in the file; flush or write makes it. It is
// called with the document as it stands in the file, each time that is tried.
func (l *listFile) change(make func(*document)) {
	l.changes = append(l.changes, make)
	if len(l.changes) > maxHeld {
		l.changes, l.tried = l.changes[1:], attempt{}
		l.lost++
	}
}

// flush writes what is cheap to write now; later says that something waits.
func (l *listFile) flush() (later bool) {
	if l.err != nil && len(l.held)+len(l.changes) > eagerHeld {
		return true
	}
	if len(l.changes) > 0 && l.size() > smallBytes {
		return true
	}
	return l.write()
}

func (l *listFile) size() int64 {
	st, err := l.o.FS.Stat(l.path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// write writes what waits; again says that it is to be tried again.
func (l *listFile) write() (again bool) {
	if len(l.held)+len(l.changes) == 0 {
		return false
	}
	if len(l.changes) > 0 {
		l.err = l.reach(l.rewrite)
	} else {
		l.err = l.reach(l.appendHeld)
	}
	if l.err == nil && l.lost > 0 {
		l.err = fmt.Errorf("write %q: %d entries are lost: more than %d were held", l.path, l.lost, maxHeld)
	}
	return len(l.held)+len(l.changes) > 0
}

// reach makes the directory again when it is gone, and sets aside what is no
// file, before it gives up.
func (l *listFile) reach(write func() error) error { return reach(l.o, l.path, write) }

func reach(o *Options, path string, write func() error) error {
	err := write()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = durable.MkdirAll(o.FS, o.Dir, 0o700)
	case errors.Is(err, durable.ErrSymlink), errors.Is(err, durable.ErrNotRegular):
		err = setAside(o, path)
	default:
		return err
	}
	if err != nil {
		return err
	}
	return write()
}

// setAside moves what stands at path to the quarantine.
func setAside(o *Options, path string) error {
	if err := durable.MkdirAll(o.FS, o.Quarantine, 0o700); err != nil {
		return err
	}
	base := filepath.Base(o.Dir) + "." + filepath.Base(path) + ".broken-"
	taken := map[string]bool{}
	if d, err := o.FS.Open(o.Quarantine); err == nil {
		names, err := d.Readdirnames(-1)
		if err := errors.Join(err, d.Close()); err != nil {
			return fmt.Errorf("set aside %q: %w", path, err)
		}
		for _, n := range names {
			taken[n] = true
		}
	}
	n := 1
	for taken[fmt.Sprint(base, n)] {
		n++
	}
	if err := o.FS.Rename(path, filepath.Join(o.Quarantine, fmt.Sprint(base, n))); err != nil {
		return fmt.Errorf("set aside %q: %w", path, err)
	}
	return errors.Join(durable.SyncDir(o.FS, o.Quarantine), durable.SyncDir(o.FS, filepath.Dir(path)))
}

// appendHeld appends what is held. A list that cannot make out what somebody
// did to its file is opened once more.
func (l *listFile) appendHeld() error {
	err := l.appendTo()
	if errors.Is(err, durable.ErrChanged) && l.close() == nil {
		err = l.appendTo()
	}
	return err
}

func (l *listFile) appendTo() error {
	if l.list == nil {
		head := make(map[string]any, len(l.head))
		for _, m := range l.head {
			head[m.key] = m.value
		}
		var err error
		l.list, _, err = durable.OpenList(l.o.FS, l.path, durable.ListOptions{Name: l.name, Head: head, Quarantine: l.o.Quarantine, Perm: 0o600})
		if err != nil {
			l.list = nil
			return err
		}
	}
	if err := l.list.Append(l.held...); err != nil {
		return err
	}
	l.held = nil
	return nil
}

// rewrite puts a new file in the place of the old one, with what is held and
// what is to be changed.
func (l *listFile) rewrite() error {
	if err := l.close(); err != nil {
		return err
	}
	old, err := durable.ReadFile(l.o.FS, l.path, maxRewriteBytes)
	var d *document
	switch {
	case err == nil:
		d, err = parseDocument(old, l.name)
		if err != nil {
			if err := setAside(l.o, l.path); err != nil {
				return err
			}
			d = l.fresh()
		}
	case errors.Is(err, fs.ErrNotExist):
		d = l.fresh()
	default:
		return err
	}
	if l.tried.text != nil && bytes.Equal(old, l.tried.text) {
		l.held, l.changes = l.held[l.tried.held:], l.changes[l.tried.changes:]
	}
	d.push(l.name, l.held...)
	for _, change := range l.changes {
		change(d)
	}
	l.tried = attempt{d.render(), len(l.held), len(l.changes)}
	if err := durable.Replace(l.o.FS, l.path, l.tried.text, 0o600); err != nil {
		return err
	}
	l.held, l.changes, l.tried = nil, nil, attempt{}
	return nil
}

func (l *listFile) fresh() *document {
	return &document{main: l.name, members: append(slices.Clone(l.head), member{key: l.name}), lists: map[string][]json.RawMessage{l.name: nil}}
}

func (l *listFile) close() error {
	if l.list == nil {
		return nil
	}
	if err := l.list.Close(); err != nil {
		return err
	}
	l.list = nil
	return nil
}
