package desk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ralph/coordinator/slash"
)

// EditorHint is the way out where there is no editor.
const EditorHint = "set VISUAL or EDITOR to your editor, and start again"

// Editor is the command of the user's editor: $VISUAL, $EDITOR, or vi or nano
// where one is there. A program with a slash in its name is looked for from dir.
func Editor(getenv func(string) string, dir string) ([]string, error) {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		text := strings.TrimSpace(getenv(name))
		if text == "" {
			continue
		}
		argv, err := slash.Words(text)
		if err == nil && len(argv) == 0 {
			continue
		}
		if err == nil && !onPath(getenv("PATH"), dir, argv[0]) {
			err = errors.New("there is no such program")
		}
		if err != nil {
			return nil, fmt.Errorf("$%s %q: %w", name, text, err)
		}
		return argv, nil
	}
	for _, name := range []string{"vi", "nano"} {
		if onPath(getenv("PATH"), dir, name) {
			return []string{name}, nil
		}
	}
	return nil, errors.New("none is set, and there is no vi and no nano")
}

// onPath says that a program is there to be run.
func onPath(path, dir, name string) bool {
	dirs := filepath.SplitList(path)
	if strings.Contains(name, "/") {
		dirs = []string{""}
		if !filepath.IsAbs(name) {
			dirs[0] = dir
		}
	}
	for _, d := range dirs {
		if info, err := os.Stat(filepath.Join(d, name)); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}
