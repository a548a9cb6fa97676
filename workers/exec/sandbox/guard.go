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

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// stages begins the paths of the files that stand for a configuration of git. Each command has
// a /dev/shm of its own.
const stages = "/dev/shm/ralph-git-"

// StandsForConfig reports whether the target of a link is a file that a command writes, and
// that becomes a configuration of git.
func StandsForConfig(target string) bool { return strings.HasPrefix(target, stages) }
