package exec

import (
	"encoding/gob"
	"os"

	"ralph/workers/exec/supervise"
)

// openRecord opens the pipe for what the command writes. The caller closes the other
// end after the start.
func (c *command) openRecord() (watch string, other []*os.File, err error) {
	if c.spec.Watch == "" || c.spec.OnWrite == nil {
		return "", nil, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return "", nil, err
	}
	c.record = r
	return c.spec.Watch, []*os.File{w}, nil
}

func fdOf(files []*os.File) uintptr {
	if len(files) == 0 {
		return 0
	}
	return files[0].Fd()
}

// readRecord reports what the command writes, to the end of it, and returns whether that
// was all. Each path comes before it is written, so nothing is missing where a command
// was killed.
func (c *command) readRecord() (complete bool) {
	defer func() { _ = c.record.Close() }()
	dec := gob.NewDecoder(c.record)
	for {
		var s supervise.Seen
		if dec.Decode(&s) != nil {
			return complete
		}
		complete = s.Begun || complete && !s.Gap
		if s.Write.Path != "" {
			c.spec.OnWrite(s.Write)
		}
	}
}
