package scripts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"ralph/coordinator"
)

const (
	maxFilesBytes = 4 << 20
	maxFiles      = 1000
)

// gatherer collects what --files names.
type gatherer struct {
	root   *os.Root
	tree   fs.FS // of root
	seen   map[string]bool
	files  []coordinator.File
	bytes  int64
	warn   func(string)
	globAt string // the pattern at work, as given
}

// gather reads the text files that the patterns match, sorted within each
// pattern. Patterns are relative to dir, which lies in root; the paths of the
// files are relative to root. Nothing outside root is read, also not through a
// symlink. A pattern that matches nothing is a mistake of the user.
func gather(rootDir, dir string, patterns []string, warn func(string)) ([]coordinator.File, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(rootDir)
	if err != nil {
		return nil, broken("io", "", err, "open the project")
	}
	defer root.Close() // only read
	g := &gatherer{root: root, tree: root.FS(), seen: map[string]bool{}, warn: warn}
	for _, p := range patterns {
		inside, err := insidePattern(rootDir, dir, p)
		if err != nil {
			return nil, err
		}
		if err := g.pattern(p, inside); err != nil {
			return nil, err
		}
	}
	return g.files, nil
}

// insidePattern turns a pattern as given into one relative to the root.
func insidePattern(root, dir, pattern string) (string, error) {
	full := filepath.ToSlash(pattern)
	if !path.IsAbs(full) {
		full = path.Join(filepath.ToSlash(dir), full)
	}
	inside, ok := strings.CutPrefix(path.Clean(full), strings.TrimSuffix(filepath.ToSlash(root), "/")+"/")
	if !ok {
		return "", usage("--files takes globs of files in the project", "--files %q points outside the project %q", pattern, root)
	}
	if !doublestar.ValidatePattern(inside) {
		return "", usage("quote the glob, such as --files '**/*.go'", "--files %q is not a valid glob", pattern)
	}
	return inside, nil
}

func (g *gatherer) pattern(given, inside string) error {
	g.globAt = given
	literal := !strings.ContainsAny(inside, `*?[{\`)
	var names []string
	err := doublestar.GlobWalk(g.tree, inside, func(name string, d fs.DirEntry) error {
		if !literal && hiddenState(name) {
			if d.IsDir() {
				return doublestar.SkipDir
			}
			return nil
		}
		if !d.IsDir() {
			names = append(names, name)
		}
		if len(names) > maxFiles {
			return usage("narrow the glob", "--files %q matches more than %d files", given, maxFiles)
		}
		return nil
	})
	var f *fault
	switch {
	case errors.As(err, &f):
		return err
	case err != nil:
		return usage("--files takes globs of files in the project", "--files %q: %s", given, reason(err))
	case len(names) == 0 && literal:
		return g.missing(given, inside)
	case len(names) == 0:
		return usage("quote the glob, such as --files '**/*.go'; it is relative to the directory that Ralph works in",
			"--files %q matches no file", given)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := g.file(name, literal); err != nil {
			return err
		}
	}
	return nil
}

// missing says why a path without a glob in it gives no file.
func (g *gatherer) missing(given, inside string) error {
	info, err := g.root.Stat(inside)
	switch {
	case err == nil && info.IsDir():
		return usage(fmt.Sprintf("--files '%s/**' takes what is in it", given), "--files %q matches no file: it is a directory", given)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return usage("the path is relative to the directory that Ralph works in", "--files %q matches no file: there is none of that name", given)
	}
	return usage("--files takes text files of the project", "--files %q: %s", given, reason(err))
}

// hiddenState says that a path belongs to git or to Ralph; a glob does not
// mean those.
func hiddenState(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".git" || part == ".ralph" {
			return true
		}
	}
	return false
}

// file adds one file. What is not text is an error when it was named, and left
// out with a warning when a glob swept it up.
func (g *gatherer) file(name string, named bool) error {
	if g.seen[name] {
		return nil
	}
	g.seen[name] = true
	text, err := g.read(name)
	var f *fault
	switch {
	case errors.As(err, &f):
		return err
	case err != nil && named:
		return usage("--files takes text files of the project", "--files %q: %s: %s", g.globAt, name, reason(err))
	case err != nil:
		g.warn(fmt.Sprintf("--files %q: left out %s: %s", g.globAt, name, reason(err)))
		return nil
	}
	g.files = append(g.files, coordinator.File{Path: name, Text: text})
	return nil
}

func (g *gatherer) read(name string) (string, error) {
	// The kind is checked before opening: opening a FIFO would wait for ever.
	if info, err := g.root.Stat(name); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	f, err := g.root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() // only read
	left := maxFilesBytes - g.bytes
	data, err := io.ReadAll(io.LimitReader(f, left+1))
	switch {
	case err != nil:
		return "", err
	case bytes.IndexByte(data, 0) >= 0 || int64(len(data)) <= left && !utf8.Valid(data):
		return "", errors.New("not a text file")
	case int64(len(data)) > left:
		return "", usage("narrow the glob, or name the files in the task: the model can read them",
			"--files: the files have more than %s together", sizeText(maxFilesBytes))
	}
	g.bytes += int64(len(data))
	return string(data), nil
}
