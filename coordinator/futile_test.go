package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"ralph/workers/regular"
)

// TestOutsideTrees decides by the place of a file whether another attempt can help: what an
// agent did to its own tree is gone with the tree.
func TestOutsideTrees(t *testing.T) {
	const trees = "/p/.ralph/worktrees"
	for path, want := range map[string]bool{
		"/p/.gitignore": true, "/p/.git/refs/heads/x": true, trees + "/.ralph/queue.json": true, trees + "/.ralph": true, trees: true,
		trees + "/agent/.gitignore": false, trees + "/agent/.git/HEAD": false, "agent": false, "": false,
	} {
		for _, err := range []error{regular.Endless(path), &fs.PathError{Op: "open", Path: path, Err: syscall.EACCES}, &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}} {
			if got := outsideTrees(fmt.Errorf("make a tree: %w", err), trees); got != want {
				t.Errorf("%v: %v", err, got)
			}
		}
	}
	for _, err := range []error{nil, errors.New("other"), &fs.PathError{Op: "write", Path: "/p/x", Err: syscall.ENOSPC}, &fs.PathError{Op: "open", Path: "/p/x", Err: fs.ErrNotExist}} {
		if outsideTrees(err, trees) {
			t.Errorf("%v", err)
		}
	}
}
