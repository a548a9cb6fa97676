package trees

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/regular"
)

// record is what is known of one agent's tree. It lies where no agent can write,
// and is believed before any ref.
type record struct {
	Agent string    `json:"agent"`
	Ref   string    `json:"ref"`
	Admin string    `json:"admin"` // name of Ralph's part of the tree, "" while there is none
	Base  string    `json:"base"`
	Head  string    `json:"head"` // the last one that is known
	Time  time.Time `json:"time"`
	Ready bool      `json:"ready"`
	// Maker names the process that makes the tree, by exec.TempName, while it is not
	// Ready.
	Maker string `json:"maker,omitempty"`
	// Gone says that the removal of the tree and its branch has begun. Whoever holds
	// the lock ends it.
	Gone bool `json:"gone,omitempty"`
	// Content is a commit whose files are in the tree instead of those of Base.
	Content string `json:"content,omitempty"`
	// Links are paths, with the targets that they have; not always UTF-8.
	Links   []link   `json:"links,omitempty"`
	LeftOut []string `json:"left_out,omitempty"`
	Merged  string   `json:"merged,omitempty"`
	// Into is the commit of the user's branch by which Merged landed.
	Into string `json:"into,omitempty"`

	ignored []string // in the user's tree, when that was just looked up
}

type link struct {
	Path   []byte `json:"path"`
	Target []byte `json:"target"`
}

// queue is what is merged and not landed yet.
type queue struct {
	// Integration is what refs/ralph/integration has to be, "" when nothing waits.
	Integration string `json:"integration,omitempty"`
	// Onto is the HEAD of the user's that it was made for. Only what came after it
	// waits: the user may have gone to another branch.
	Onto string `json:"onto,omitempty"`
	// Waits are the agents whose work is in Integration.
	Waits []waiter `json:"waits,omitempty"`
	// Loose is work that no commit can hold without the user's own changes.
	Loose []loose `json:"loose,omitempty"`
	// Laid are the blobs by which Ralph changed files without a commit. A file that
	// still has its blob was changed by nobody else since.
	Laid []laid `json:"laid,omitempty"`
	// Landings are the steps by which Ralph moved branches of the user, the newest last.
	Landings []landing `json:"landings,omitempty"`
}

type loose struct {
	Agent, Base, Head string
	Took              []waiter // whose work it is
}

type landing struct{ From, To string }

type laid struct {
	Path []byte
	Blob string
}

func (t *Trees) home() string            { return filepath.Join(t.stateDir, "worktrees") }
func (t *Trees) private() string         { return filepath.Join(t.home(), ".ralph") }
func (t *Trees) dir(agent string) string { return filepath.Join(t.home(), agent) }
func (t *Trees) recordPath(agent string) string {
	return filepath.Join(t.private(), "agent-"+agent+".json")
}
func (t *Trees) queuePath() string   { return filepath.Join(t.private(), "queue.json") }
func (t *Trees) journalPath() string { return filepath.Join(t.private(), "landing.json") }

// admin is Ralph's own git directory for the files of an agent: an index of them,
// which no agent writes. Objects, refs and configuration are those of the user's
// repository.
func (t *Trees) admin(name string) string { return filepath.Join(t.private(), adminPrefix+name) }

const adminPrefix = "tree-"

func (t *Trees) baseRef(agent string) string  { return "refs/ralph/base/" + t.mark + agent }
func (t *Trees) looseRef(agent string) string { return "refs/ralph/waiting/" + t.mark + agent }
func (t *Trees) integrationRef() string {
	return "refs/ralph/integration" + strings.TrimSuffix(t.mark, "/")
}

// lock keeps this and every other process from changing trees, refs and landings
// of the repository at the same time. It makes the directories on the way.
func (t *Trees) lock(ctx context.Context) (func(), error) {
	t.mu.Lock()
	unlock, err := t.lockFile(ctx)
	if err != nil {
		t.mu.Unlock()
		return nil, fmt.Errorf("lock worktrees: %w", err)
	}
	release := t.holdGC(ctx)
	return func() { release(); unlock(); t.mu.Unlock() }, nil
}

// gcHold holds the user's git gc off while n is not 0.
type gcHold struct {
	mu      sync.Mutex // guards what follows
	n       int
	release func()
}

// holdGC is git.HoldGC for those who make commits at the same time.
func (t *Trees) holdGC(ctx context.Context) (release func()) {
	t.gc.mu.Lock()
	defer t.gc.mu.Unlock()
	if t.gc.n++; t.gc.n == 1 {
		t.gc.release = git.HoldGC(ctx, t.loc.CommonDir)
	}
	return func() {
		t.gc.mu.Lock()
		defer t.gc.mu.Unlock()
		if t.gc.n--; t.gc.n == 0 {
			t.gc.release()
		}
	}
}

func (t *Trees) lockFile(ctx context.Context) (func(), error) {
	for _, dir := range []string{t.stateDir, t.home(), t.private()} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		// A link could have come with the repository, to have Ralph write elsewhere.
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return nil, errors.Join(err, &regular.Error{Path: dir, Why: "is not a directory of its own"})
		}
	}
	path := filepath.Join(t.private(), "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
		return nil, &regular.Error{Path: path, Why: "is not a regular file"}
	}
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() {
				// A process that is just being forked has a copy of the descriptor.
				_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
				_ = f.Close()
			}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close() // the first error is the one to report
			return nil, err
		}
		select {
		case <-ctx.Done():
			_ = f.Close() // nothing was written
			return nil, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// sum is the authentication code of a file of ours; empty
// for a caller who answers for the files. A code is good for one name only.
func (t *Trees) sum(path string, data []byte) string {
	if t.sign == nil {
		return ""
	}
	return t.sign("worktrees/"+filepath.Base(path), data)
}

// save replaces a file of ours in one step that outlasts a crash. Its last line is
// an authentication code.
func (t *Trees) save(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	b = fmt.Appendf(b, "\n%s", t.sum(path, b))
	temp := filepath.Join(filepath.Dir(path), exec.TempName("write"))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(temp) // the first error is the one to report
		return fmt.Errorf("write %q: %w", path, err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil // this file system has no such thing
	}
	return errors.Join(err, d.Close())
}

// maxRecordBytes bounds a record, which names the files that an agent changed.
const maxRecordBytes = 64 << 20

// load reads a file of ours; one that is missing leaves v as it is, as does one that
// a repository or an archive brought along: its code is not that of the key.
func (t *Trees) load(path string, v any) (found bool, err error) {
	b, err := regular.Read(path, maxRecordBytes)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	var bad *regular.Error
	if errors.As(err, &bad) {
		return false, err // it names the file
	}
	if err == nil {
		b = bytes.TrimSuffix(b, []byte("\n"))
		end := bytes.LastIndexByte(b, '\n')
		text := b[:max(end, 0)]
		if !hmac.Equal(b[end+1:], []byte(t.sum(path, text))) {
			return false, nil
		}
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return false, fmt.Errorf("read %q: %w", path, err)
	}
	return true, nil
}

// recordOf reads the record of an agent.
func (t *Trees) recordOf(agent string) (record, error) {
	if err := checkAgent(agent); err != nil {
		return record{}, err
	}
	var r record
	found, err := t.load(t.recordPath(agent), &r)
	if err == nil && !found {
		err = fmt.Errorf("agent %q: %w", agent, ErrUnknown)
	}
	if err == nil && (r.Agent != agent || !plainName(r.Admin) && (r.Ready || r.Admin != "") || !ownBranch(r.Ref)) {
		err = fmt.Errorf("read %q: not a record of that agent", t.recordPath(agent))
	}
	return r, err
}

// ownBranch reports whether a ref is the branch of an agent, whose record may have it
// removed.
func ownBranch(ref string) bool {
	return strings.HasPrefix(ref, "refs/heads/ralph/") || strings.HasPrefix(ref, "refs/heads/ralph-")
}

// plainName says that a name stays in its directory.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}
