package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"ralph/workers/exec/sandbox"
	"ralph/workers/exec/supervise"
)

// recordInterval bounds how long Spec.OnWrite comes after the beginning of a write.
const recordInterval = 10 * time.Millisecond

// record is a file in memory, to which the init of a command appends what the command is
// about to write. It needs no process to take it, so that a write costs the command little,
// and it is whole whatever is killed.
type record struct {
	file       *os.File
	size       int64  // of what has been read
	rest       []byte // begin of a line that was being written
	begun, gap bool
	tell       func([]sandbox.Write)
	over       chan struct{}
	followed   chan struct{} // closed when follow has returned
}

// newRecord returns nil where s needs no record or the system has none.
func newRecord(s Spec) (*record, error) {
	if s.Watch == "" || s.OnWrite == nil {
		return nil, nil
	}
	f, err := memoryFile("record")
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &record{file: f, tell: s.OnWrite, over: make(chan struct{})}, nil
}

// follow reads the record every recordInterval, on another goroutine.
func (r *record) follow() {
	r.followed = make(chan struct{})
	go func() {
		defer close(r.followed)
		tick := time.NewTicker(recordInterval)
		defer tick.Stop()
		for {
			select {
			case <-r.over:
				return
			case <-tick.C:
				r.read()
			}
		}
	}()
}

// close reads the rest, once nothing of the command is left, and returns whether
// everything that the command wrote was on record.
func (r *record) close() (complete bool) {
	if r == nil {
		return false
	}
	defer func() { _ = r.file.Close() }()
	if r.followed == nil { // it never started
		return false
	}
	close(r.over)
	<-r.followed
	r.read()
	return r.begun && !r.gap && len(r.rest) == 0
}

// read reports what was added.
func (r *record) read() {
	added, err := io.ReadAll(io.NewSectionReader(r.file, r.size, 1<<62))
	r.size += int64(len(added))
	r.gap = r.gap || err != nil
	lines := bytes.Split(append(r.rest, added...), []byte{'\n'})
	r.rest = lines[len(lines)-1]
	var list []sandbox.Write
	for _, line := range lines[:len(lines)-1] {
		var s supervise.Seen
		err := json.Unmarshal(line, &s)
		r.begun, r.gap = r.begun || s.Begun, r.gap || s.Gap || err != nil
		if len(s.Path) > 0 {
			list = append(list, sandbox.Write{Path: string(s.Path), At: s.At, Before: s.Before})
		}
	}
	if len(list) > 0 {
		r.tell(list)
	}
}
