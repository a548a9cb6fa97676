package accesspolicy

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ralph/workers/exec/acts"
	"ralph/workers/git"
)

// maxConfigBytes bounds what is read of git's files.
const maxConfigBytes = 64 << 10

// readFile reads a file of a tree in which commands may run at the time: it
// follows no link at the end of the path, waits for no pipe, and reads no more
// than that many bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("no file of at most %d bytes", most)}
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// openOnly opens a directory and nothing else: a command can have put a pipe
// there, which must not be waited for.
func openOnly(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
}

func readDir(path string) ([]fs.DirEntry, error) {
	f, err := openOnly(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return f.ReadDir(-1)
}

// gitState is what of git's files is compared after a command.
type gitState struct {
	// configs are the configurations that were made read-only. Who works outside,
	// as `git push -u` does, puts another file in the place of such a one, and
	// that the running command can write to.
	configs map[string]config
	// execs are the commands in the list of what a rebase has still to do.
	execs []string
}

type config struct {
	mark mark
	text []byte
}

func stateOf(loc *git.Location) gitState {
	g := gitState{configs: map[string]config{}}
	if loc == nil {
		return g
	}
	for _, name := range []string{"config", "config.worktree"} {
		path := filepath.Join(loc.GitDir, name)
		if text, err := readFile(path, maxConfigBytes); err == nil {
			g.configs[path] = config{markOf(path), text}
		}
	}
	text, _ := readFile(todo(loc), maxConfigBytes) // there is mostly none
	g.execs = execs(text)
	return g
}

// checkGit looks at git's files after a command.
func (s *Sandbox) checkGit(was gitState, say func(string, ...any)) {
	for path, before := range was.configs {
		s.checkConfig(path, before, say)
	}
	loc := s.repository()
	if loc == nil || s.overlaid() {
		return
	}
	path := todo(loc)
	if info, err := os.Lstat(filepath.Dir(path)); err == nil && !info.IsDir() {
		s.takeAway(filepath.Dir(path), "is no state of a rebase as git keeps it", say)
		return
	}
	if _, err := os.Lstat(path); err != nil {
		return
	}
	text, err := readFile(path, maxConfigBytes)
	if err != nil {
		s.takeAway(path, "is no list of steps as git writes it", say)
		return
	}
	var rest []byte
	added := ""
	for line := range bytes.Lines(text) {
		if step := execs(line); len(step) == 1 && !slices.Contains(was.execs, step[0]) {
			added = step[0]
			continue
		}
		rest = append(rest, line...)
	}
	if added == "" {
		return
	}
	s.takeAway(path, fmt.Sprintf("would have the user's next `git rebase --continue` run %q; it was put back without such lines", added), say)
	if err := (keptFile{mode: 0o644, data: rest}).putBack(path); err != nil {
		say("%s could not be put back: %v", s.rel(path), err)
	}
}

// checkConfig puts a configuration back in whose place another one came that has
// git run something.
func (s *Sandbox) checkConfig(path string, was config, say func(string, ...any)) {
	if now := markOf(path); now == was.mark && !s.child() || now == (mark{}) {
		return
	}
	text, err := readFile(path, maxConfigBytes)
	key := "what cannot be read"
	if err == nil {
		if key = acts.UnsafeKey(text, acts.Settings(was.text)); key == "" {
			return
		}
	}
	s.takeAway(path, "was replaced while the command ran, and sets "+key+", which may have git run something; it was put back as it had been", say)
	if err := (keptFile{mode: 0o644, data: was.text}).putBack(path); err != nil {
		say("%s could not be put back: %v", s.rel(path), err)
	}
}

func todo(loc *git.Location) string {
	return filepath.Join(loc.GitDir, "rebase-merge", "git-rebase-todo")
}

// execs are the lines of a rebase's list that run commands.
func execs(text []byte) []string {
	var out []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if word, _, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " "); word == "exec" || word == "x" {
			out = append(out, line)
		}
	}
	return out
}
