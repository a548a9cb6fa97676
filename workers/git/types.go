package git

import (
	"errors"
	"fmt"
	"time"
)

// ErrNoRepository is returned by Find outside a repository with a work tree.
var ErrNoRepository = errors.New("not in a git repository with a work tree")

// ErrNothingToCommit is returned by Commit when the commit would be empty.
var ErrNothingToCommit = errors.New("nothing to commit")

// ErrBadName is matched by the error for a ref, range or path that git could
// take for something else, such as one that starts with a dash.
var ErrBadName = errors.New("not a valid name")

// Kind says what happened to a file.
type Kind string

// The kinds. Untracked and Conflicted come only from Status.
const (
	Added      Kind = "added"
	Modified   Kind = "modified"
	Deleted    Kind = "deleted"
	Renamed    Kind = "renamed"
	Untracked  Kind = "untracked"
	Conflicted Kind = "conflicted"
)

// Location of a work tree. All paths are absolute and free of symlinks.
type Location struct {
	// Root of the work tree.
	Root string
	// GitDir of this work tree; CommonDir is where objects and refs are, the
	// same but in a linked worktree.
	GitDir, CommonDir string
	// Worktree says that it is a linked worktree, Submodule that it is one.
	Worktree, Submodule bool
}

// Change is one line of Status. Paths are relative to the root, with slashes;
// OldPath is set for a renamed file.
type Change struct {
	Path    string
	OldPath string
	Kind    Kind
}

// DiffOptions of Diff. The zero value shows what is changed in the work tree
// and not staged.
type DiffOptions struct {
	// From and To are revisions. From alone compares it with the work tree.
	From, To string
	// Staged compares the index with From, or with HEAD.
	Staged bool
	// Paths, literal and relative to the root, limit it; nil is everything.
	Paths []string
	// Context lines around a change; 0 is git's three.
	Context int
}

// LogOptions of Log.
type LogOptions struct {
	// N is the most that is returned; 0 is 20.
	N int
	// Paths, literal and relative to the root; nil is everything.
	Paths []string
	// Range is a revision or A..B; "" is HEAD.
	Range string
}

// Commit is one entry of Log.
type Commit struct {
	Hash    string
	Author  string // Name <address>
	Time    time.Time
	Subject string
	Body    string
}

// CommitOptions of Commit.
type CommitOptions struct {
	// Message of the commit; must not be blank.
	Message string
	// Paths, literal and relative to the root, whose content in the work tree is
	// committed, and nothing else. A directory stands for what is in it. nil
	// is what All says; an empty list that is not nil is nothing.
	Paths []string
	// All takes every change of tracked files and every untracked file; without
	// it and without Paths everything is taken just the same.
	All bool
}

// ErrNoStore is matched when checkpoints have no directory in which they can be
// kept.
var ErrNoStore = errors.New("the user's state directory cannot be written")

// Checkpoint is the recorded state of all files below a root.
type Checkpoint struct {
	ID     string
	Commit string // full hash, in the store of checkpoints
	Tree   string // full hash, of the root
	Head   string // full hash of the user's commit that was checked out; "" for none
	Time   time.Time
	// Converted: an earlier version of Ralph took it, with line ends, identities and encodings
	// as git stores them.
	Converted bool
}

// FileChange is a file that differs between two checkpoints.
type FileChange struct {
	// Path is relative to the root, with slashes; OldPath is set when renamed.
	Path    string
	OldPath string
	Kind    Kind
	// Added and Removed count lines; -1 for a binary file.
	Added, Removed int
}

// BlobChange is a file that differs between two checkpoints, with the ids of its
// content before and after: blobs in the store of checkpoints; "" where there is
// none.
type BlobChange struct {
	FileChange
	Before, After string
}

// Error is a git command that failed.
type Error struct {
	// Op is the git command: "commit"; Path is the root or the object at fault.
	Op, Path string
	ExitCode int
	// Err carries what git said.
	Err error
	// Hint is a way out for the user; may be "".
	Hint string
}

// Error says what was tried, on what, and why it did not work.
// Error is "git op in \"path\": cause".
func (e *Error) Error() string { return fmt.Sprintf("git %s in %q: %v", e.Op, e.Path, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
