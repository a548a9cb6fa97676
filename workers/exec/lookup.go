package exec

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

var (
	errNoProgram     = errors.New("no program given")
	errNotInPath     = errors.New("program not found in PATH")
	errNotExecutable = errors.New("not executable")
	errIsDir         = errors.New("is a directory")
	errNotDir        = errors.New("not a directory")
)

// name of the program, for errors.
func (s Spec) name() string {
	if len(s.Argv) == 0 {
		return ""
	}
	return s.Argv[0]
}

// resolve checks the directory and finds the program.
func resolve(s Spec, env []string) (string, error) {
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
	return search(s, lookupEnv(env, "PATH"))
}

// search goes through PATH; entries that are relative, and so depend on the
// directory, are passed over.
func search(s Spec, path string) (string, error) {
	found := error(errNotInPath)
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		p := filepath.Join(dir, s.Argv[0])
		err := executable(p)
		if err == nil {
			return p, nil
		}
		if errors.Is(err, errNotExecutable) {
			found = err
		}
	}
	return "", startError(s.Argv[0], found)
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

// cause takes off the path, which the Error names already.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// startError adds a way out to the usual reasons why exec refuses.
func startError(path string, err error) *Error {
	hint := ""
	switch {
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
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		hint = "the system has no room for another process; end some"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		hint = "too many open files; end some programs or raise the limit (ulimit -n)"
	case errors.Is(err, fs.ErrNotExist):
		if executable(path) == nil {
			hint = "the interpreter in its first line does not exist"
		} else {
			hint = "check the path"
		}
	}
	return &Error{Op: "start", Path: path, Err: err, Hint: hint}
}
