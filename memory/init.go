package memory

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/afero"

	"ralph/memory/config"
	"ralph/memory/durable"
)

// Part is one of the things that a project of Ralph's has.
type Part struct {
	// Path is relative to the root, with slashes; absolute for what is git's. It
	// ends with a slash for a directory.
	Path string `json:"path"`
	What string `json:"what"`
	// Exists says that it is there already, and stays as it is.
	Exists bool `json:"exists"`

	make func() error
}

// Plan lists what a project at root has, and what of that is there. It writes
// nothing; Make makes a part.
func Plan(fsys afero.Fs, root string) ([]Part, error) {
	if fsys == nil {
		fsys = durable.Disk()
	}
	dir := filepath.Join(root, ".ralph")
	s := &Store{fs: fsys, root: root}
	if err := unlinked(fsys, dir); err != nil {
		return nil, fmt.Errorf("look at the state directory: %w", err)
	}
	if _, err := s.stamped(); err != nil {
		return nil, fmt.Errorf("look at %q: %w", dir, err)
	}
	parts := []Part{{Path: ".ralph/", What: "what happened: sessions, journals, the queue, backups; git ignores all but config.yaml, commands/, skills/, agents/", make: func() error { return durable.MkdirAll(fsys, dir, 0o700) }}}
	file := func(name, what, text string, mode fs.FileMode) {
		parts = append(parts, Part{Path: name, What: what, make: func() error { return createFile(fsys, filepath.Join(root, filepath.FromSlash(name)), text, mode) }})
	}
	file(".ralph/FORMAT", "says that the directory is Ralph's", format+"\n", 0o600)
	file(".ralph/config.yaml", "settings of this project, each a remark until it is set; they can only narrow", config.Skeleton(true), 0o644)
	file(GoalsFile, "goals, and when they are met", header(GoalsFile), 0o644)
	file(TasksFile, "the tasks that are worked on", header(TasksFile), 0o644)
	file(TodoFile, "what comes next", header(TodoFile), 0o644)
	file(ProgressFile, "what was done", header(ProgressFile), 0o644)
	file(AgentFile, "what was learned", header(AgentFile), 0o644)
	for i := range parts {
		switch _, err := durable.Lstat(fsys, filepath.Join(root, filepath.FromSlash(strings.TrimSuffix(parts[i].Path, "/")))); {
		case err == nil:
			parts[i].Exists = true
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return nil, fmt.Errorf("look at %q: %w", parts[i].Path, unpath(err))
		}
	}
	if common := findGit(fsys, root).common; common != "" {
		path := filepath.Join(common, "info", "exclude")
		p := Part{Path: path, What: "the state in .ralph/, so that git does not show it", make: func() error { return exclude(fsys, common) }}
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			p.Path = filepath.ToSlash(rel)
		}
		if data, err := durable.ReadFile(fsys, path, 1<<20); err == nil && excluded(data) {
			p.Exists = true
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// Make makes the part, and nothing else; made is false for one that is there, also
// when it came meanwhile. It needs no lock and can be repeated.
func (p Part) Make() (made bool, err error) {
	if p.Exists {
		return false, nil
	}
	switch err := p.make(); {
	case errors.Is(err, fs.ErrExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("create %q: %w", p.Path, unpath(err))
	}
	return true, nil
}

// createFile makes a file that is not there, and syncs it.
func createFile(fsys afero.Fs, path, text string, mode fs.FileMode) error {
	f, err := fsys.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, fsys.Remove(path)) // half of it would be kept for good
	}
	return durable.SyncDir(fsys, filepath.Dir(path))
}

// excluded reports whether git's exclude file names the state in `.ralph/`, or
// all of the directory, already.
func excluded(data []byte) bool {
	for line := range bytes.Lines(data) {
		switch strings.TrimSpace(string(line)) {
		case ".ralph/", "/.ralph/", ".ralph", "/.ralph", excludePatterns()[0]:
			return true
		}
	}
	return false
}
