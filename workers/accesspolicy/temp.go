package accesspolicy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ralph/workers/tempdir"
)

// tempDir makes the temp directory. It is named for the agent, below the user's
// own place for such things.
func (s *Sandbox) tempDir() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return "", fmt.Errorf("prepare a command: %w", ErrClosed)
	case s.temp != nil:
		if info, err := os.Lstat(s.temp.Path); err == nil && info.IsDir() {
			return s.temp.Path, nil
		}
		if err := s.temp.Release(); err != nil {
			return "", err
		}
	}
	base, err := filepath.EvalSymlinks(tempBase(s.o.Getenv))
	if err != nil {
		return "", fmt.Errorf("make a temp directory: %w", err)
	}
	if s.temp, err = tempdir.Make(base, plainName(s.o.Agent)); err != nil {
		return "", err
	}
	return s.temp.Path, nil
}

// SweepTemp removes the temp directories of sandboxes whose process was killed.
func SweepTemp(getenv func(string) string) error { return tempdir.Sweep(tempBase(getenv)) }

func tempBase(getenv func(string) string) string {
	if dir := getenv("TMPDIR"); filepath.IsAbs(dir) {
		return dir
	}
	return "/tmp"
}

// plainName is a name that fits into a file name.
func plainName(name string) string {
	const most = 40
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), most)]
}
