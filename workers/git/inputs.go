package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"ralph/workers/exec"
	"ralph/workers/regular"
)

// maxPatternBytes bounds a file of patterns that git reads: each start of git reads it
// whole, and compares each path with each pattern. Files of this kind have kilobytes.
const maxPatternBytes = 1 << 20

// inputs refuses a work tree, a git directory and a configuration of the user's in which a
// file that every start of git reads has no end or takes too long; the error is a
// *regular.Error. For other files git is ended when it waits (exec.Spec.Tool). A command
// that reads no patterns is not kept from its work by them: what protects a repository
// depends on what its configuration holds.
func (p *place) inputs(command string) error {
	env := os.Environ()
	home, config := exec.Getenv(env, "HOME"), configHome(env)
	for _, in := range []struct {
		dir, name string
		most      int64
		stat      func(string) (fs.FileInfo, error)
	}{
		{p.commonDir, "config", maxConfigBytes, os.Stat},
		{p.commonDir, "objects/info/commit-graphs/commit-graph-chain", maxConfigBytes, os.Stat},
		{home, ".gitconfig", maxConfigBytes, os.Stat},
		{config, "git/config", maxConfigBytes, os.Stat},
		// Git follows no link to these.
		{p.workTree, ".gitignore", maxPatternBytes, os.Lstat},
		{p.workTree, ".gitattributes", maxPatternBytes, os.Lstat},
		{p.workTree, ".gitmodules", maxConfigBytes, os.Lstat},
		{p.commonDir, "info/exclude", maxPatternBytes, os.Stat},
		{p.commonDir, "info/attributes", maxPatternBytes, os.Stat},
		{config, "git/ignore", maxPatternBytes, os.Stat},
		{config, "git/attributes", maxPatternBytes, os.Stat},
	} {
		if in.name == ".gitignore" && slices.Contains(patternless(), command) {
			return nil
		}
		if err := bounded(filepath.Join(in.dir, in.name), in.most, in.stat); err != nil {
			return err
		}
	}
	return nil
}

// patternless are the commands that read neither a work tree nor patterns.
func patternless() []string {
	return []string{"cat-file", "commit-tree", "config", "for-each-ref", "rev-list", "rev-parse", "symbolic-ref", "update-ref", "write-tree"}
}

// bounded refuses a named pipe, and a file of more than so many bytes. Git reports what
// cannot be looked at; a device is often the null device.
func bounded(path string, most int64, stat func(string) (fs.FileInfo, error)) error {
	info, err := stat(path)
	switch {
	case err != nil:
	case info.Mode()&fs.ModeNamedPipe != 0:
		return regular.Endless(path)
	case info.Mode().IsRegular() && info.Size() > most:
		return regular.Large(path, info.Size(), most)
	}
	return nil
}

// maxRefLine bounds a line of packed-refs: a ref is a path, which has no more than 4,096
// bytes. Git takes seconds for one of megabytes.
const maxRefLine = 64 << 10

// refLines refuses packed-refs with a line that git never writes, for which it takes long
// before it says so. How many lines there are is the repository's matter.
func refLines(path string) error {
	f, err := regular.Open(path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()         // only read
	buf, line := make([]byte, maxRefLine), 0 // bytes since the last line end
	for {
		n, err := io.ReadFull(f, buf)
		part := buf[:n]
		first := bytes.IndexByte(part, '\n')
		switch {
		case n > 0 && (bytes.IndexByte(part, 0) >= 0 || bytes.Contains(part, []byte("\n\n"))):
			return &regular.Error{Path: path, Why: "is not as git writes it"}
		case line > 0 && (first < 0 || line+first > maxRefLine):
			return &regular.Error{Path: path, Why: fmt.Sprintf("has a line of more than %d bytes", maxRefLine)}
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
		line = n - 1 - bytes.LastIndexByte(part, '\n')
	}
}
