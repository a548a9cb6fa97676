package trees

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"ralph/workers/exec"
	"ralph/workers/git"
)

// Sign returns the authentication code of data for one purpose, on one line. It is
// called from several goroutines.
type Sign func(purpose string, data []byte) string

// Trees are the working trees of the agents of one repository. There must be one per
// repository and process; other processes are kept out by a lock in the state
// directory. It is safe for concurrent use; Close
// only tidies up.
type Trees struct {
	proc     *exec.Runner
	repo     *git.Repo
	loc      git.Location
	stateDir string
	sign     Sign
	prefix   string   // of the project in the repository: "" or "dir/"
	mark     string   // of this project in the names of refs that it shares with others of the repository: "" or "@mark/"
	known    sync.Map // commit → tree, which never changes
	last     atomic.Pointer[compared]
	children sync.Map // record's place → *git.Repo, which knows the configuration
	configs  sync.Map // configuration of the user → what clones have of it, as bytes
	synced   sync.Map // directory of a snapshot → the time of the user's when both were the same

	// OnWrite is called with the absolute path of each file of the user's before it is
	// replaced, and what it returns after that, with whether it was. It is set before
	// the Trees are used.
	OnWrite func(path string) (done func(ok bool))

	// Refuse returns why a change that an agent made is not taken over, "" for one that
	// is; nil refuses none. It is set before the Trees are used.
	Refuse func(Proposed) string

	// step is told what comes next in a landing; tests set it.
	step func(name string)

	mu sync.Mutex // held with the lock file
	gc gcHold
}

// OpenTrees makes Trees for the repository at loc. stateDir is .ralph of the
// project. sign makes the authentication codes by which what Ralph wrote there is told
// from what came with a repository; with nil the caller answers for all that is there.
// OpenTrees starts and writes nothing.
func OpenTrees(p *exec.Runner, loc git.Location, stateDir string, sign Sign) *Trees {
	t := &Trees{sign: sign, OnWrite: func(string) func(bool) { return func(bool) {} }, proc: p, repo: git.Open(p, loc).Raw(), loc: loc, stateDir: stateDir}
	if rel, err := filepath.Rel(loc.Root, filepath.Dir(stateDir)); err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, "../") {
		t.prefix = filepath.ToSlash(rel) + "/"
	}
	if name := t.prefix + "\x00" + filepath.Base(loc.GitDir); t.prefix != "" || loc.GitDir != loc.CommonDir {
		sum := sha256.Sum256([]byte(name))
		t.mark = "@" + hex.EncodeToString(sum[:6]) + "/"
	}
	return t
}
