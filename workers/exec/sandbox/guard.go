package sandbox

import (
	"strings"

	"ralph/workers/exec/acts"
)

// Guard keeps a command and its descendants from making names that act below a directory.
// It holds for what is made, renamed or linked; what is there already is protected by
// Policy.Protect. It takes effect where Features.Guard is set.
type Guard struct {
	acts.Rules
	// Root is the directory, absolute and without symbolic links.
	Root string
}

// Stages begins the paths of the files that stand for a configuration of git's that a command is
// writing: a link in the tree leads to one until it is whole. Each command has a /dev/shm of its
// own.
const Stages = "/dev/shm/ralph-git-"

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}
