package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/afero"

	"ralph/coordinator/loop"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/feature"
	"ralph/memory/identity"
	"ralph/memory/queue"
	"ralph/workers/git/trees"
)

// owner is the user who works, as the state of a project is theirs or not. It is
// nil for a caller without an environment, who answers for the state.
func (o Options) owner() *memory.Owner {
	if o.Getenv == nil {
		return nil
	}
	return &memory.Owner{Home: o.stateHome(), Adopt: o.Config != nil && o.Config.AdoptState}
}

// key authenticates the user's words in `.ralph/`, for commands that open no
// coordinator; nil for a caller without an environment.
func (o Options) key() identity.Key {
	if o.Getenv == nil {
		return nil
	}
	found, err := memory.Examine(o.FS, o.stateHome(), o.Root)
	if err != nil || !found.Trusted() || len(found.Record.Key) == 0 {
		return identity.NewKey() // verifies nothing
	}
	return found.Record.Key
}

// StateOf says whose the state of the project at root is. It changes nothing.
func StateOf(getenv func(string) string, root string) (identity.Found, error) {
	return memory.Examine(nil, identity.Home(getenv), root)
}

// ownState is the error of a command that changes the state of a project when
// that is somebody else's and the user did not say that its texts are taken over.
func (o Options) ownState() error {
	owner := o.owner()
	if owner == nil || owner.Adopt {
		return nil
	}
	found, err := memory.Examine(o.FS, owner.Home, o.Root)
	if err == nil && found.Trusted() {
		return nil
	}
	if err == nil {
		err = errForeign
	}
	return &Error{Op: "change the state of", Path: o.Root, Err: err, Status: StatusNeedsInput, Hint: hintAdopt}
}

// errForeign is why state is not gone on with.
var errForeign = errors.New("the state in .ralph is not yours")

const hintAdopt = "--adopt-state takes over its texts (tasks, history, learnings) and grants nothing"

// SettleState makes the state of a project the user's own before anything of it
// is read to be worked with: somebody else's is set aside or, with
// Config.AdoptState, its texts are taken over. It returns what the user should
// know, a sentence each.
func SettleState(ctx context.Context, o Options) ([]string, error) {
	found, err := memory.Settle(ctx, memory.Options{FS: o.FS, Root: o.Root, Now: o.Now, Holder: o.Holder, SessionID: o.RunID, LockWait: lockWait, Owner: o.owner()})
	return found.Warnings, err
}

// QueueOf says where the queue of a project is, and what authenticates it, for
// those who work with it while no coordinator does.
func QueueOf(getenv func(string) string, fsys afero.Fs, root string) queue.Options {
	o := queue.Options{FS: fsys, StateDir: filepath.Join(root, ".ralph")}
	if getenv == nil {
		return o
	}
	home := identity.Home(getenv)
	o.Key = identity.NewKey() // verifies nothing
	if found, err := memory.Examine(fsys, home, root); err == nil && found.Trusted() && found.Record.ID != "" {
		o.Key, o.UserDir = found.Record.Key, identity.Dir(home, found.Record.ID)
	}
	return o
}

// grant is what the user's side keeps of one run.
type grant struct {
	Feature   string       `json:"feature"`
	SessionID string       `json:"sessionId"`
	Granted   loop.Granted `json:"granted"`
}

const (
	grantsDir     = "grants"
	maxGrantBytes = 16 << 20
)

func grantPath(userDir, name string) string { return filepath.Join(userDir, grantsDir, name+".json") }

// GrantedTo returns what the user granted the run of a snapshot; nil when nothing
// is on record for this run in this session, or the state is not the user's.
func GrantedTo(getenv func(string) string, root string, s feature.Snapshot) (*loop.Granted, error) {
	home := identity.Home(getenv)
	found, err := memory.Examine(nil, home, root)
	if err != nil || !found.Trusted() {
		return nil, err
	}
	return loadGrant(durable.Disk(), identity.Dir(home, found.Record.ID), s)
}

func loadGrant(fsys afero.Fs, userDir string, s feature.Snapshot) (*loop.Granted, error) {
	name, err := feature.Name(s.Feature)
	if userDir == "" || err != nil || name != s.Feature {
		return nil, nil
	}
	data, err := durable.ReadFile(fsys, grantPath(userDir, name), maxGrantBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var g grant
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was granted to run %q: %w", name, err)
	}
	if g.Feature != s.Feature || g.SessionID != s.SessionID {
		return nil, nil
	}
	return &g.Granted, nil
}

// keepGrant keeps what the user granted the run of a feature.
func (c *Coordinator) keepGrant(name string, g loop.Granted) error {
	dir := c.book.userDir()
	if dir == "" {
		return nil // it was warned about when the project was opened
	}
	data, err := json.MarshalIndent(grant{Feature: name, SessionID: c.SessionID(), Granted: g}, "", "  ")
	if err == nil {
		err = durable.MkdirAll(c.opt.FS, filepath.Join(dir, grantsDir), 0o700)
	}
	if err == nil {
		err = durable.Replace(c.opt.FS, grantPath(dir, name), append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep what was granted to run %q: %w", name, err)
	}
	return nil
}

// regranted is what the user granted a run that goes on; nil: nothing.
func (c *Coordinator) regranted(s *feature.Snapshot) *loop.Granted {
	if s == nil {
		return nil
	}
	g, err := loadGrant(c.opt.FS, c.book.userDir(), *s)
	if err != nil {
		c.warn(err.Error())
	}
	return g
}

// sign returns what signs with the project's key, also while no session is open; nil
// for a caller without an environment, who answers for the state.
func (c *Coordinator) sign() trees.Sign {
	if c.opt.Getenv == nil {
		return nil
	}
	return func(purpose string, data []byte) string {
		key := c.book.key()
		if key == nil {
			key = c.opt.key()
		}
		return key.Sum(purpose, data)
	}
}

// key authenticates the user's words in `.ralph/`.
func (b *book) key() identity.Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store == nil {
		return nil
	}
	return b.store.Key()
}

// userDir is the project's directory in the user's own state directory; empty
// when there is none.
func (b *book) userDir() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store == nil {
		return ""
	}
	return b.store.UserDir()
}
