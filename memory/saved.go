package memory

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// noted is what `.ralph/saved.json` says: up to which change each file has been
// written, and how it looked then. It is written without a sync and only makes
// opening cheaper: without it, or with an old one, the log is read.
type noted struct {
	N     int64                `json:"n"`
	Log   int64                `json:"log"` // how long the log is when all of it is in the files; 0 when not all is
	Files map[string]notedFile `json:"files"`
}

type notedFile struct {
	N int64 `json:"n"`
	stamp
}

func (s *Store) notePath() string { return filepath.Join(s.StateDir(), "saved.json") }

// note is the note as it should be; nil when it is so, or is not known. mu is
// held.
func (s *Store) note() []byte {
	if !s.stale {
		return nil
	}
	n, all := noted{N: s.n, Files: map[string]notedFile{}}, len(s.unlogged) == 0
	for name, f := range s.files {
		if f.unmet {
			return nil
		}
		at := notedFile{N: f.saved, stamp: f.stamp}
		if f.dirty() || len(f.wait) > 0 {
			all, at.stamp = false, stamp{}
		}
		if f.known {
			n.Files[name] = at
		}
	}
	if info, err := durable.Lstat(s.fs, s.logPath()); err == nil && all {
		n.Log = info.Size()
	}
	data, err := json.Marshal(n)
	if err != nil {
		return nil
	}
	s.stale = false
	return append(data, '\n')
}

// writeNote writes the note, without mu: a slow disk keeps nobody from it. An
// older note stays where that fails, until the next.
func (s *Store) writeNote(data []byte) {
	if data == nil {
		return
	}
	temp := s.notePath() + ".new"
	var h afero.File
	err := s.home()
	if err == nil {
		_ = s.fs.Remove(temp) // of one who was killed
		h, err = s.fs.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err == nil {
		_, err = h.Write(data)
		if err = errors.Join(err, h.Close()); err == nil {
			err = s.fs.Rename(temp, s.notePath())
		}
	}
	if err != nil {
		s.mu.Lock()
		s.stale = true
		s.mu.Unlock()
	}
}

func (s *Store) readNote() noted {
	var n noted
	data, err := durable.ReadFile(s.fs, s.notePath(), 64<<10)
	if err != nil || json.Unmarshal(data, &n) != nil {
		return noted{}
	}
	return n
}
