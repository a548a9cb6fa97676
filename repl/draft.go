package repl

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"ralph/memory/text"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxDraft bounds a half-typed line that is kept, in bytes; of a longer one
	// nothing is.
	maxDraft = 16 << 20
	// draftTemp is in the name of a draft that was not written whole.
	draftTemp = ".new-"
	// draftYoung is how old such a file must be before another chat touches it: a
	// lock on one that is just being written would cost its chat the draft.
	draftYoung = time.Hour
)

// drafts keeps the half-typed line of this chat in a file of its own, written
// beside the loop, so that it outlives the process however that ends. A lock on
// the file says that its chat is alive; a file without one was left by a chat that
// ended, and the next one takes it up. openDrafts makes it; close ends it. Its
// methods may be called from any goroutine and wait for no disk, but close.
type drafts struct {
	text string // that was taken up
	more int    // drafts of other chats that are left for later ones

	base string // how the paths of all drafts begin; "" keeps none
	// path and held are this chat's file and the lock on it; they belong to the
	// goroutine that writes.
	path string
	held *os.File
	wake chan struct{}
	done chan struct{}

	mu     sync.Mutex // guards the fields below
	now    string     // what the line is
	stale  bool       // the file does not have it yet
	closed bool
}

// openDrafts takes up the newest draft that was left.
func openDrafts(base string) *drafts {
	d := &drafts{base: base, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if base != "" {
		d.takeUp()
	}
	d.now = d.text
	go d.run()
	return d
}

// takeUp looks for drafts that nobody holds, newest first. What cannot be read is
// left alone.
func (d *drafts) takeUp() {
	entries, err := os.ReadDir(filepath.Dir(d.base))
	if err != nil {
		return
	}
	type left struct {
		name string
		at   time.Time
	}
	var found []left
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasPrefix(e.Name(), filepath.Base(d.base)+".") {
			continue
		}
		if !strings.Contains(e.Name(), draftTemp) || time.Since(info.ModTime()) > draftYoung {
			found = append(found, left{filepath.Join(filepath.Dir(d.base), e.Name()), info.ModTime()})
		}
	}
	slices.SortStableFunc(found, func(a, b left) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.name, b.name)) })
	for _, l := range found {
		f, err := claim(l.name)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(f, maxDraft+1))
		switch {
		case err != nil || len(text) > maxDraft:
		case strings.TrimSpace(string(text)) == "" || strings.Contains(filepath.Base(l.name), draftTemp):
			_ = os.Remove(l.name) // nothing in it is worth a word
		case d.path == "":
			d.path, d.held, d.text = l.name, f, strings.ToValidUTF8(string(text), "\uFFFD")
			continue
		default:
			d.more++
		}
		_ = f.Close() // only read from; this lets it go
	}
}

// errHeld says that a draft belongs to a chat that lives.
var errHeld = errors.New("another chat holds it")

// claim opens a file and locks it, if it still is the one of that name then.
func claim(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		mine, merr := f.Stat()
		there, terr := os.Lstat(name)
		if err = errors.Join(merr, terr); err == nil && (!mine.Mode().IsRegular() || !os.SameFile(mine, there)) {
			err = errHeld
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// tell says what the line is now. One that begins with a blank is not kept, as in
// the history.
func (d *drafts) tell(text string) {
	if strings.HasPrefix(text, " ") || strings.TrimSpace(text) == "" || len(text) > maxDraft {
		text = ""
	}
	d.mu.Lock()
	if d.now != text {
		d.now, d.stale = text, true
	}
	d.mu.Unlock()
	d.ring()
}

func (d *drafts) ring() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// kept says that a line is there for the next chat.
func (d *drafts) kept() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.base != "" && d.now != ""
}

func (d *drafts) run() {
	defer close(d.done)
	for range d.wake {
		d.mu.Lock()
		text, stale, closed := d.now, d.stale, d.closed
		d.stale = false
		d.mu.Unlock()
		if stale && d.base != "" {
			_ = d.write(text) // a draft that cannot be kept is no reason to disturb
		}
		if closed {
			if d.held != nil {
				_ = d.held.Close() // lets the draft go
			}
			return
		}
	}
}

// write replaces the file. The new one is locked before it has the name, so that
// it is never seen without its owner.
func (d *drafts) write(text string) error {
	if text == "" {
		if d.held == nil {
			return nil
		}
		err := errors.Join(os.Remove(d.path), d.held.Close())
		d.path, d.held = "", nil
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.base), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(d.base), filepath.Base(d.base)+draftTemp+"*")
	if err != nil {
		return err
	}
	path := d.path
	if path == "" {
		path = strings.Replace(f.Name(), draftTemp, ".", 1)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if d.held != nil {
		err = d.held.Close()
	}
	d.path, d.held = path, f
	return err
}

// close writes what is still to be written; the wait for the disk is bounded.
func (d *drafts) close() {
	if d == nil {
		return
	}
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.ring()
	select {
	case <-d.done:
	case <-time.After(keeperWait):
	}
}

// resumeDraft says that a line stands in the prompt that an earlier chat left; ""
// when none does.
func (s *Shell) resumeDraft() string {
	if s.drafts == nil || s.drafts.text == "" {
		return ""
	}
	content := "what you had typed in the last chat is in the prompt again"
	if s.drafts.more > 0 {
		content += fmt.Sprintf("; %s of others at the next start", text.Count(s.drafts.more, "line"))
	}
	return content
}

// keepsDraft says, to one who leaves, what stays half typed.
func (s *Shell) keepsDraft() {
	if s.drafts != nil && s.drafts.kept() {
		s.note("what you had typed is kept; it is in the prompt at the next start")
	}
}
