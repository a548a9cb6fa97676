package line

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// maxHistory is how many lines are kept.
	maxHistory = 1000
	// maxEntry bounds one kept line; a longer one is not recorded.
	maxEntry = 16 << 10
	// maxHistoryBytes bounds what is read of a file; only its end counts.
	maxHistoryBytes = 4 << 20
)

// History is the list of earlier lines of one project, in a file of JSON
// strings, one a line, 0600. A file that cannot be read or written costs only
// the history: every method goes on without it. One goroutine uses it.
type History struct {
	path    string
	lines   []string
	records int // in the file, with what is not kept any more
}

// OpenHistory reads the file; path "" keeps the history in memory only. The
// error says why earlier lines are missing; the History works in any case.
func OpenHistory(path string) (*History, error) {
	h := &History{path: path}
	if path == "" {
		return h, nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		h.path = ""
		return h, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		h.path = ""
		return h, errors.Join(err, errors.New("history is not a regular file"))
	}
	if skip := info.Size() - maxHistoryBytes; skip > 0 {
		if _, err := f.Seek(skip, io.SeekStart); err != nil {
			return h, err
		}
	}
	s := bufio.NewScanner(f)
	s.Buffer(make([]byte, 0, 64<<10), 8*maxEntry)
	for s.Scan() {
		h.records++
		var text string
		if json.Unmarshal(s.Bytes(), &text) == nil && text != "" {
			h.remember(text)
		}
	}
	return h, s.Err()
}

// Lines returns the kept lines, oldest first.
func (h *History) Lines() []string { return append([]string(nil), h.lines...) }

// Add records a line. A line that is there already moves to the end. The error
// says that it will be forgotten when the program ends.
func (h *History) Add(text string) error {
	if text == "" || len(text) > maxEntry || (len(h.lines) > 0 && h.lines[len(h.lines)-1] == text) {
		return nil
	}
	h.remember(text)
	if h.path == "" {
		return nil
	}
	record, err := json.Marshal(text)
	if err != nil {
		return err
	}
	h.records++
	if h.records > 2*maxHistory {
		return h.rewrite()
	}
	f, err := os.OpenFile(h.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if torn(f) {
		record = append([]byte("\n"), record...)
	}
	if _, err := f.Write(append(record, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

// torn reports whether the file ends in the middle of a record.
func torn(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	var end [1]byte
	_, err = f.ReadAt(end[:], info.Size()-1)
	return err == nil && end[0] != '\n'
}

func (h *History) remember(text string) {
	for i := len(h.lines) - 1; i >= 0; i-- {
		if h.lines[i] == text {
			h.lines = append(h.lines[:i], h.lines[i+1:]...)
			break
		}
	}
	h.lines = append(h.lines, text)
	if over := len(h.lines) - maxHistory; over > 0 {
		h.lines = append([]string(nil), h.lines[over:]...)
	}
}

// rewrite replaces the file by what is kept.
func (h *History) rewrite() error {
	f, err := os.CreateTemp(filepath.Dir(h.path), ".history-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is nothing to remove
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for _, l := range h.lines {
		if err = enc.Encode(l); err != nil {
			break
		}
	}
	err = errors.Join(err, w.Flush(), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), h.path); err != nil {
		return err
	}
	h.records = len(h.lines)
	return nil
}
