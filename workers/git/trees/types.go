package trees

import (
	"errors"
	"time"

	"ralph/workers/git"
)

// ErrUnknown is matched by the error for an agent of which there is neither a
// worktree nor a branch nor a record.
var ErrUnknown = errors.New("no such agent")

// ErrExists is matched by the error of Add for an agent that has a tree with
// another base.
var ErrExists = errors.New("has a tree already")

// ErrUnsaved is matched by the error of Remove when something would be gone that
// is nowhere else. Nothing has been removed.
var ErrUnsaved = errors.New("holds work that is nowhere else")

// ErrMoved is matched by the error of Unland when the branch has gone on.
var ErrMoved = errors.New("there are newer commits")

// snapshot is the user's state at one moment, as a commit.
type snapshot struct {
	// Commit has all files as they are, and Head as its parent; it is Head itself
	// when nothing differs (Clean), and a root commit when there is no Head yet.
	Commit, Head string
	Clean        bool
	// LeftOut names what is not in it though somebody may miss it, each with the
	// reason: ".env (a secret by its name)".
	LeftOut []string

	ignored []string // as git lists it
}

// Tree is the worktree and the branch of one agent.
type Tree struct {
	Agent string
	// Dir is the worktree, Root the agent's part of it: the same subdirectory that
	// the project is of the repository. Dir is "" when there is only a branch.
	Dir, Root string
	// Branch is the full name of the ref. Base is the commit that the agent began
	// with, Head the last one on the branch, both full hashes, BaseTree the tree of
	// Base.
	Branch, Base, Head, BaseTree string
	Time                         time.Time
	// Linked are directories of the user's tree, relative to Dir, that are there as
	// links because git ignores them and builds need them; a command that writes
	// through one writes into the user's directory, unless the sandbox forbids it.
	Linked []string
	// LeftOut names what is not in it though somebody may miss it, each with the
	// reason: ".env (a secret by its name)".
	LeftOut []string
	// Merged is the head that Merge took last, "" for none.
	Merged string
	// Waits says that what was merged is not in the user's tree yet. Otherwise it is,
	// by the commit Into of the user's branch, or without a commit.
	Waits bool
	Into  string
	// Broken says what is wrong with it, "" for nothing. Add mends it.
	Broken string
}

// AddOptions of Add.
type AddOptions struct {
	// Agent names the tree: letters, digits, "_", "-" and ".".
	Agent string
	// Base is the commit to begin with; "" is the first parent of Content, or the
	// user's state now.
	Base string
	// Content is a commit whose files are put into the worktree instead of those of
	// Base, as uncommitted changes: what conflicts, for one who resolves it.
	Content string
}

// Work is what Commit recorded.
type Work struct {
	Hash  string // the head of the branch
	Tree  string // of Hash
	Files []git.FileChange
	// LeftOut names the changes that were not recorded, each with the reason.
	LeftOut []string
	// Unrecorded are those of them that belong to the work: files that go through a
	// filter, which only the user's git runs, and content of submodules that their
	// commit does not have.
	Unrecorded []string
}

// Proposed is a change that an agent made to one file.
type Proposed struct {
	Agent string
	// Path is relative to the root of the repository.
	Path string
	// Exists reports whether the file was there when the agent began.
	Exists bool
	// Repository is the directory that git takes for a repository of its own when
	// the work is taken over, with Path in it; "" for none.
	Repository string
	// Link is the target of a symbolic link, "" for anything else.
	Link string
	// Plain reports whether it is a file that is not executable, or one whose mode is as
	// it was.
	Plain bool
	// Content returns what the file holds now, Before what it held when the agent began;
	// an error where there is no file.
	Content, Before func() ([]byte, error)
}

// Conflict is a file that two sides changed differently.
type Conflict struct {
	Path string
	Kind string // what git calls it: "contents", "binary", "modify/delete" …
}

// Merge is what became of the work of an agent.
type Merge struct {
	// Commit is the tip of refs/ralph/integration after it, or of the user's branch;
	// "" when the agent changed nothing that was not there already.
	Commit string
	// Files are what the agent changed.
	Files []git.FileChange
	// Landed says that the files are in the user's tree, Committed that the user's
	// branch has them too.
	Landed, Committed bool
	// Combined says that the user's branch, or what waits for it, had something that the
	// agent's tree did not: nobody has seen the two together.
	Combined bool
	// Conflicts with other agents: nothing has moved. ConflictCommit has the files
	// with conflict markers, and is the Content for one who resolves it.
	Conflicts      []Conflict
	ConflictCommit string
	// Earlier says that the conflicts are of what was merged before and waits with
	// new commits of the user's: the agent's own work is not in ConflictCommit.
	Earlier bool
	// Held names the files because of which nothing landed; the work waits for Land.
	Held []string
	// Why says in words why it did not land, or was not committed.
	Why string
	// LeftOut names what the agent committed itself and Ralph does not pass on.
	LeftOut []string
}
