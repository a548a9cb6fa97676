package lives

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(withRalph(m)) }

// withRalph runs the tests with the program in PATH.
func withRalph(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ralph-lives-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		var out []byte
		if out, err = exec.Command("go", "build", "-o", filepath.Join(dir, "ralph"), "ralph").CombinedOutput(); err != nil {
			err = fmt.Errorf("build ralph: %w\n%s", err, out)
		}
	}
	if err == nil {
		err = os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
