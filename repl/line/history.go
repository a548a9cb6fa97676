package line

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxHistory is how many lines are kept.
	maxHistory = 1000
	// maxEntry bounds one kept line; a longer one is not recorded.
	maxEntry = 16 << 10
	// maxHistoryBytes bounds what is read of a file; only its end counts.
	maxHistoryBytes = 4 << 20
	// historyLock bounds the wait for another chat that writes the same file.
	historyLock = 300 * time.Millisecond
)

// errNoHistoryFile says that something else has the history's name.
var errNoHistoryFile = errors.New("history is not a regular file")

// History is the list of earlier lines of one project, in a file of JSON
// strings, one a line, 0600. A line that begins with a blank is not kept. Chats
// that run at once append to the same file and lose nothing of each other's. A
// file that cannot be read or written costs only the history: every method goes
// on without it. One goroutine uses it.
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
	err = h.read(f)
	if errors.Is(err, errNoHistoryFile) {
		h.path = ""
	}
	return h, err
}

// read takes over what f holds; h is empty.
func (h *History) read(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errNoHistoryFile)
	}
	skip := max(info.Size()-maxHistoryBytes, 0)
	data, err := io.ReadAll(io.NewSectionReader(f, skip, maxHistoryBytes))
	h.records = 1 + bytes.Count(data, []byte("\n"))
	if skip > 0 {
		// What was skipped is not kept: the file is due for a rewrite, and its first
		// record here is half a one.
		h.records += 2 * maxHistory
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	// From the end, as far as lines are kept: the start of the chat waits for this.
	known := map[string]bool{}
	for n := 0; len(data) > 0 && len(known) < maxHistory && n < 20*maxHistory; n++ {
		record := data[bytes.LastIndexByte(data, '\n')+1:]
		data = bytes.TrimSuffix(data[:len(data)-len(record)], []byte("\n"))
		var text string
		if len(record) > 8*maxEntry || json.Unmarshal(record, &text) != nil || text == "" || len(text) > maxEntry || known[text] {
			continue
		}
		known[text] = true
		h.lines = append(h.lines, text)
	}
	slices.Reverse(h.lines)
	return err
}

// Lines returns the kept lines, oldest first.
func (h *History) Lines() []string { return append([]string(nil), h.lines...) }

// private reports whether a line is marked as one that nobody is to find again.
func private(text string) bool { return strings.HasPrefix(text, " ") }

// Add records a line, unless it begins with a blank. A line that is there already
// moves to the end. The error says that it will be forgotten when the program ends.
func (h *History) Add(text string) error {
	if text == "" || private(text) || len(text) > maxEntry || (len(h.lines) > 0 && h.lines[len(h.lines)-1] == text) {
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
	f, locked, err := h.openLocked()
	if err != nil {
		return err
	}
	defer f.Close() // which unlocks it
	if torn(f) {
		record = append([]byte("\n"), record...)
	}
	if _, err := f.Write(append(record, '\n')); err != nil {
		return err
	}
	h.records++
	if h.records > 2*maxHistory && locked {
		return h.rewrite(f)
	}
	return f.Sync()
}

// openLocked opens the file for appending and locks it, so that no chat replaces it
// while another appends. A lock that somebody keeps is not waited for: an append
// needs none, and is lost only if the file is replaced in that moment.
func (h *History) openLocked() (f *os.File, locked bool, err error) {
	for end := time.Now().Add(historyLock); ; time.Sleep(time.Millisecond) {
		f, err = os.OpenFile(h.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, false, err
		}
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			_ = f.Close()
			return nil, false, errors.Join(err, errNoHistoryFile)
		}
		late := time.Now().After(end)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if now, there := os.Lstat(h.path); err == nil && there == nil && os.SameFile(info, now) {
			return f, true, nil
		}
		if late {
			return f, false, nil
		}
		_ = f.Close() // somebody writes, or the file was replaced before it was locked
	}
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

// rewrite replaces the file by what is kept of it, the lines of other chats too.
// old is the file, locked.
func (h *History) rewrite(old *os.File) error {
	whole := &History{}
	if err := whole.read(old); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(h.path), ".history-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is nothing to remove
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for _, l := range whole.lines {
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
	h.records = len(whole.lines)
	return nil
}
