package exec

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"ralph/workers/exec/supervise"
)

var (
	errNoProgram     = errors.New("no program given")
	errNotInPath     = errors.New("program not found in PATH")
	errNotExecutable = errors.New("not executable")
	errIsDir         = errors.New("is a directory")
	errNotDir        = errors.New("not a directory")
)

// name returns the program, for errors.
func (s Spec) name() string {
	if len(s.Argv) == 0 {
		return ""
	}
	return s.Argv[0]
}

// resolve checks the directory and returns the path of the program. A name without a
// slash never means a program of project, see Options.Project.
func resolve(s Spec, env []string, project string) (string, error) {
	if s.name() == "" {
		return "", &Error{Op: "start", Err: errNoProgram, Hint: "give the program and its arguments"}
	}
	if s.Dir != "" {
		info, err := os.Stat(s.Dir)
		if err == nil && !info.IsDir() {
			err = errNotDir
		}
		if err != nil {
			return "", &Error{Op: "enter directory", Path: s.Dir, Err: cause(err), Hint: "the working directory of the command must exist"}
		}
	}
	if strings.Contains(s.Argv[0], "/") {
		path := s.Argv[0]
		if !filepath.IsAbs(path) && s.Dir != "" {
			path = filepath.Join(s.Dir, path)
		}
		if err := executable(path); err != nil {
			return "", startError(s.Argv[0], err)
		}
		return absolute(path), nil
	}
	return Search(s.Argv[0], Getenv(env, "PATH"), project)
}

// Search looks a program up in the absolute directories of path. Relative ones, which
// depend on the working directory, are ignored, and so is what lies in project, also
// by way of a link: commands and the repository write there.
func Search(name, path, project string) (string, error) {
	if real, err := filepath.EvalSymlinks(project); err == nil {
		project = real
	}
	found := error(errNotInPath)
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		p := filepath.Join(dir, name)
		err := executable(p)
		if err == nil && lies(p, project) {
			continue
		}
		if err == nil {
			return p, nil
		}
		if errors.Is(err, errNotExecutable) {
			found = err
		}
	}
	return "", startError(name, found)
}

// lies reports whether a file, as it is named or where it is, is below dir; nothing is
// below "" and "/".
func lies(path, dir string) bool {
	if dir == "" || dir == "/" {
		return false
	}
	real, err := filepath.EvalSymlinks(path)
	return err != nil || strings.HasPrefix(real, dir+"/") || strings.HasPrefix(filepath.Clean(path), dir+"/")
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return cause(err)
	case info.IsDir():
		return errIsDir
	case info.Mode().Perm()&0o111 == 0:
		return errNotExecutable
	}
	return nil
}

// cause returns err without the path, which the Error has already.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// RoomHint says what to do when there is no room for what was to be started; "" for errors
// for which supervise.Exhausted does not hold.
func RoomHint(err error) string {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return "the system, or a limit (ulimit -u), allows no more processes; end some or raise it"
	case errors.Is(err, syscall.ENOMEM):
		return "the system, or a limit (ulimit -v), has no more memory; end some programs or raise it"
	case errors.Is(err, syscall.EMFILE):
		return "this process may not open more files; raise the limit (ulimit -n 1024)"
	case errors.Is(err, syscall.ENFILE):
		return "the system has too many open files; end some programs"
	}
	return ""
}

// startError returns the error of a program that does not start, with a hint for the
// usual reasons.
func startError(path string, err error) *Error {
	hint := RoomHint(err)
	switch {
	case hint != "":
	case errors.Is(err, errNotInPath):
		hint = "is " + path + " installed, and is its directory in PATH?"
	case errors.Is(err, errNotExecutable), errors.Is(err, syscall.EACCES):
		hint = "make it executable (chmod +x), or run it with its interpreter"
	case errors.Is(err, errIsDir):
		hint = "name a program, not a directory"
	case errors.Is(err, syscall.ENOEXEC):
		hint = "not a program for this system, or a script without a #! line"
	case errors.Is(err, syscall.E2BIG):
		hint = "arguments and environment are too long; pass the data by stdin or a file"
	case errors.Is(err, fs.ErrNotExist):
		if executable(path) == nil {
			hint = "the interpreter in its first line does not exist"
		} else {
			hint = "check the path"
		}
	}
	return &Error{Op: "start", Path: path, Err: err, Hint: hint}
}

// confineError returns the error of a command that cannot be restricted to its policy.
func confineError(err *fs.PathError) *Error {
	hint := RoomHint(err)
	switch {
	case hint != "":
	case errors.Is(err, errors.ErrUnsupported):
		hint = "ralph doctor shows what confines commands here"
	case errors.Is(err, supervise.ErrNoContainer):
		hint = "the system has no room for another confined command just now; end some programs"
	case errors.Is(err, fs.ErrNotExist):
		hint = "a place that the command may use must exist"
	case errors.Is(err, syscall.ELOOP):
		hint = "a symbolic link was put in the way"
	}
	return &Error{Op: err.Op, Path: err.Path, Err: err.Err, Hint: hint}
}

// workDir returns the absolute path, without symbolic links, of the directory of a
// confined command: its mounts may cover the current directory of this process.
func workDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", &Error{Op: "enter directory", Path: dir, Err: cause(err)}
	}
	return abs, nil
}

// Shell returns the absolute path of the shell for command lines: bash, which people
// and models write for, if PATH has it outside of project, else sh.
func Shell(project string) string {
	for _, name := range []string{"bash", "sh"} {
		if path, err := Search(name, os.Getenv("PATH"), project); err == nil {
			return path
		}
	}
	return "/bin/sh"
}
