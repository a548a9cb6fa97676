package memory

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// old is a file that was replaced while somebody may have had it open.
type old struct {
	opened
	f     *file
	was   []byte
	lost  string // what was said of it; empty when Ralph just wrote the file
	until time.Time
}

// opened is a file that was opened before it was moved from its place, to see
// later whether somebody still wrote to it. The zero value is none.
type opened struct {
	handle afero.File
	stamp  stamp
}

func openOld(fsys afero.Fs, path string) opened {
	f, err := fsys.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return opened{}
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		_ = f.Close() // only read from
		return opened{}
	}
	return opened{f, stampOf(info)}
}

// moved opens what was moved to quarantine, judged by how it looked then: what came
// to stand there at the last moment shows as written since.
func (s *Store) moved(rel string, judged stamp) opened {
	if rel == "" {
		return opened{}
	}
	o := openOld(s.fs, filepath.Join(s.root, filepath.FromSlash(rel)))
	o.stamp = judged
	return o
}

func (o opened) close() {
	if o.handle != nil {
		_ = o.handle.Close() // only read from
	}
}

// unchanged says that the file is as it was; without certain only as far as its
// stamp tells.
func (o opened) unchanged(certain bool) bool {
	info, err := o.handle.Stat()
	return err != nil || info.Size() == o.stamp.Size && info.ModTime().UnixNano() == o.stamp.Mtime && (!certain || o.stamp.settled())
}

// Programs that had the old file open are watched for so long, so often, and
// at most so many of them.
const (
	lookBackFor  = time.Second
	lookBackLost = 10 * time.Second // when it was lost: it may have been emptied to be written
	lookBackTime = 100 * time.Millisecond
	maxOlds      = 32
)

func (s *Store) rememberOld(f *file, o opened, was []byte, lost string) {
	if o.handle == nil || was == nil {
		o.close()
		return
	}
	until := time.Now().Add(lookBackFor)
	if lost != "" {
		until = time.Now().Add(lookBackLost)
	}
	s.olds = append(s.olds, old{opened: o, f: f, was: was, lost: lost, until: until})
}

// lookBack merges what was written to files after they were replaced, also in
// several steps. It reports whether there was something; last closes them all.
func (s *Store) lookBack(last bool) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.olds[:0]
	for i, o := range s.olds {
		end := last || time.Now().After(o.until) || len(s.olds)-i > maxOlds
		if !o.unchanged(end) && s.fill(&o, end) {
			found = true
		}
		if end {
			o.close()
		} else {
			rest = append(rest, o)
		}
	}
	s.olds = rest
	return found
}

// fill merges what was written to a file that is not in its place any more, once
// the program is done with that, or nobody waits for it. It reports whether there
// was something. mu is held.
func (s *Store) fill(o *old, end bool) bool {
	info, err := o.handle.Stat()
	if err != nil {
		return false
	}
	v := sight{stamp: stampOf(info)}
	if v.data, err = readOpen(o.handle); err != nil || len(v.data) == 0 {
		return false // a program that empties a file will fill it
	}
	if !end && halfWritten(v, o.was, v.stamp, s.settle) {
		return false
	}
	if o.lost != "" && wholesome(v.data, true, !o.f.raw) == nil {
		s.untell(o.lost)
	}
	was := o.was
	o.was, o.stamp = v.data, v.stamp
	if string(v.data) == string(was) {
		return false
	}
	s.late(o.f, was, v.data)
	return true
}

// readOpen reads a whole open file.
func readOpen(f afero.File) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f, 0, maxStateBytes))
}

// late merges what somebody wrote to a file that Ralph had just replaced. What
// is no text is kept in quarantine. mu is held.
func (s *Store) late(f *file, was, user []byte) {
	if wholesome(user, true, !f.raw) == nil {
		s.merge(f, was, user)
		return
	}
	_ = s.setAside(f, user) // there is nobody to tell
}

// setAside keeps in quarantine what was caught and cannot be merged. mu is held.
func (s *Store) setAside(f *file, caught []byte) error {
	if len(caught) == 0 {
		return nil
	}
	path, err := s.vacant(f.name)
	if err == nil {
		err = durable.Replace(s.fs, path, caught, 0o600)
	}
	if err == nil {
		s.tell(Pickup{File: f.name, Lost: f.name + " was overwritten meanwhile: what was written is in " + s.rel(path)})
	}
	return err
}

// version is what a file held until Ralph replaced it.
type version struct {
	data []byte
	at   time.Time
}

// staleTime is how long after Ralph wrote a file somebody may write it who read
// it before; maxPast bounds what is kept to know that.
const (
	staleTime = time.Second
	maxPast   = 8
)

// remember keeps what Ralph replaced.
func (f *file) remember(was []byte) {
	if was == nil {
		return
	}
	f.past = append(f.past, version{was, time.Now()})
	for len(f.past) > maxPast || len(f.past) > 0 && time.Since(f.past[0].at) > staleTime {
		f.past = f.past[1:]
	}
}

// ancestor is the version that the user's text was made from: what is on disk,
// as a rule. A text that was saved within a second of Ralph's write and is
// nearer to what stood there before was made from that, without having seen
// what Ralph wrote; one that is exactly what stood there before is a wish to
// have that again.
func (f *file) ancestor(user []byte) []byte {
	best := f.base
	if best == nil {
		return []byte(header(f.name))
	}
	if f.theirs {
		return best // Ralph wrote nothing since
	}
	least := -1
	for i := len(f.past) - 1; i >= 0 && time.Since(f.past[i].at) < staleTime; i-- {
		if bytes.Equal(f.past[i].data, user) {
			return f.base
		}
		if least < 0 {
			least = distance(f.base, user)
		}
		if n := distance(f.past[i].data, user); n < least {
			best, least = f.past[i].data, n
		}
	}
	return best
}

// distance counts the lines that one text has and the other has not.
func distance(a, b []byte) int {
	count := map[string]int{}
	for line := range bytes.Lines(a) {
		count[string(bytes.TrimRight(line, "\r\n"))]++
	}
	for line := range bytes.Lines(b) {
		count[string(bytes.TrimRight(line, "\r\n"))]--
	}
	n := 0
	for _, c := range count {
		n += max(c, -c)
	}
	return n
}
