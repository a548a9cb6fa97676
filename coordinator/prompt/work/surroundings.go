package work

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// maxState is how much of a state file is read for a prompt, in bytes.
const maxState = 8 << 20

// Surroundings reads what the prompt of a task says of the project: the newest
// of RALPH_PROGRESS.md, which has that first, and of AGENT.md, which has it
// last. A file that is missing is no error.
func Surroundings(fsys afero.Fs, root string) (progress, learned string, err error) {
	read := func(name string) string {
		data, rerr := durable.ReadFile(fsys, filepath.Join(root, name), maxState)
		if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return string(data)
	}
	return head(read("RALPH_PROGRESS.md"), maxRemembered), tail(read("AGENT.md"), maxRemembered), err
}
