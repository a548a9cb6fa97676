package external

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ralph/workers/accesspolicy"
	"ralph/workers/exec"
)

// environ is the environment of the program. Without Held it begins with what
// every command gets, and a PATH without places in the tree.
func (r *run) environ() []string {
	var env []string
	if !r.q.Held {
		for _, kv := range accesspolicy.Environ(r.q.Environ, true) {
			if name, value, _ := strings.Cut(kv, "="); name == "PATH" {
				kv = "PATH=" + outsidePath(value, r.q.Dir)
			}
			env = append(env, kv)
		}
	}
	env = append(env, r.q.Adapter.environ(r.q.Environ)...)
	env = append(env, r.q.Env...)
	// The daemon of bd would outlive everything, and a hook can start it.
	env = append(env, "BEADS_NO_DAEMON=1")
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "NO_COLOR=") }) {
		env = append(env, "NO_COLOR=1")
	}
	return exec.Last(env)
}

// environ is what of the user's environment the adapter names, and what it sets.
func (a Adapter) environ(user []string) []string {
	var out []string
	for _, want := range a.Env {
		name, _, set := strings.Cut(want, "=")
		prefix, many := strings.CutSuffix(name, "*")
		if set {
			out = append(out, want)
			continue
		}
		for _, kv := range user {
			has, value, _ := strings.Cut(kv, "=")
			// The key of Ralph's own endpoint is nobody else's.
			if value != "" && (has == name || many && prefix != "" && strings.HasPrefix(has, prefix)) && !strings.HasPrefix(has, "RALPH_") {
				out = append(out, kv)
			}
		}
	}
	return out
}

// pathOf is the PATH of an environment, or that of the user's where it has none.
func pathOf(env, user []string) string {
	for _, e := range [][]string{env, user} {
		for _, kv := range slices.Backward(e) {
			if value, ok := strings.CutPrefix(kv, "PATH="); ok {
				return value
			}
		}
	}
	return ""
}

// outsidePath is PATH without entries that are relative or in the tree: what
// stands there is the project's.
func outsidePath(path, dir string) string {
	var keep []string
	for _, entry := range filepath.SplitList(path) {
		if filepath.IsAbs(entry) && !in(dir, entry) {
			keep = append(keep, entry)
		}
	}
	return strings.Join(keep, string(filepath.ListSeparator))
}

// in says that path is dir or below it, also by way of a link.
func in(dir, path string) bool {
	if dir == "" {
		return false
	}
	for _, d := range []string{dir, real(dir)} {
		for _, p := range []string{path, real(path)} {
			if rel, err := filepath.Rel(d, p); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
				return true
			}
		}
	}
	return false
}

func real(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return path
}

// find gives the absolute path of a program: itself, or from the places of PATH
// that are not in the tree.
func find(program, path, dir string) (string, error) {
	if filepath.IsAbs(program) {
		return program, executable(program)
	}
	err := error(fs.ErrNotExist)
	for _, entry := range filepath.SplitList(outsidePath(path, dir)) {
		p := filepath.Join(entry, program)
		was := executable(p)
		if was == nil {
			return p, nil
		}
		if !errors.Is(was, fs.ErrNotExist) {
			err = was
		}
	}
	return "", fmt.Errorf("%s: %w", program, err)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s: %w", path, fs.ErrPermission)
	}
	return nil
}
