package identity

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// entry is one name directly below `.ralph/` that Ralph writes state to.
type entry struct {
	name string
	text bool // a person can take it over from somebody else: it says what happened
}

// entries lists every name of state below `.ralph/`, sorted. Not in it: what
// belongs to the project (config.yaml, commands, skills, agents), what holds
// nothing (FORMAT, lock, the socket), and the quarantine, which is never read.
func entries() []entry {
	return []entry{
		{"backups", true},
		{"changes.jsonl", true},
		{"checkpoint.index", false},
		{"queue.jsonl", false},
		{"queue.md", false},
		{"runs", true},
		{"runs.jsonl", true},
		{"saved.json", true},
		{"sessions", true},
		{"shadow.git", false},
		{"worktrees", false},
	}
}

// List returns the names of state that are in stateDir, sorted. A stateDir that
// is no directory is an error, one that does not exist has none.
func List(fsys afero.Fs, stateDir string) ([]string, error) {
	info, err := durable.Lstat(fsys, stateDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, errors.New("not a directory")
	}
	var names []string
	for _, e := range entries() {
		switch _, err := durable.Lstat(fsys, filepath.Join(stateDir, e.name)); {
		case err == nil:
			names = append(names, e.name)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return names, nil
}

// Text reports whether state of a name is text that a user can take over from
// somebody else. Messages, work trees and checkpoints are not.
func Text(name string) bool {
	for _, e := range entries() {
		if e.name == name {
			return e.text
		}
	}
	return false
}
