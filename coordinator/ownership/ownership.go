// Package ownership decides whose the state in a project's `.ralph/` is, and finds what authenticates
// it on the user's side: keys, the queue's place and what the user granted to runs.
package ownership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/afero"

	"ralph/coordinator/loop"
	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/feature"
	"ralph/memory/identity"
	"ralph/memory/queue"
)

// LockWait is how long another Ralph in the project is waited for.
const LockWait = 2 * time.Second

// Project is a project and the user that works in it.
type Project struct {
	// FS holds the state; nil means the real one.
	FS afero.Fs
	// Root is the project's root, absolute.
	Root string
	// Getenv reads the user's environment; nil is for a caller that answers for the state.
	Getenv func(string) string
	// Adopt takes over the texts of a state that is somebody else's.
	Adopt bool
}

// Home returns the user's directory for Ralph's state, wherever it is; "" where there is none.
func (p Project) Home() string {
	if p.Getenv == nil {
		return ""
	}
	return identity.Home(p.Getenv)
}

// WritableHome is Home where it lies outside of the project and can be written, else "".
func (p Project) WritableHome() string {
	home, err := identity.Outside(p.Home(), p.Root)
	if err != nil || identity.Writable(durable.Disk(), home) != nil {
		return ""
	}
	return home
}

// Owner returns the user as the owner of the state; nil without an environment.
func (p Project) Owner() *memory.Owner {
	if p.Getenv == nil {
		return nil
	}
	return &memory.Owner{Home: p.Home(), Adopt: p.Adopt}
}

// Examine finds out whose the state is. It changes nothing.
func (p Project) Examine() (identity.Found, error) { return memory.Examine(p.FS, p.Home(), p.Root) }

// Key returns what authenticates the user's words in `.ralph/`; nil without an environment, and one
// that verifies nothing where the state is not the user's.
func (p Project) Key() identity.Key {
	if p.Getenv == nil {
		return nil
	}
	found, err := p.Examine()
	if err != nil || !found.Trusted() || len(found.Record.Key) == 0 {
		return identity.NewKey()
	}
	return found.Record.Key
}

// errForeign is why state is not gone on with.
var errForeign = errors.New("the state in .ralph is not yours")

// Check returns the error of a command that changes the state when that is somebody else's and
// Adopt is not set.
func (p Project) Check() error {
	if p.Getenv == nil || p.Adopt {
		return nil
	}
	found, err := p.Examine()
	if err == nil && found.Trusted() {
		return nil
	}
	if err == nil {
		err = errForeign
	}
	return &result.Error{Op: "change the state of", Path: p.Root, Err: err, Status: result.NeedsInput, Hint: "--adopt-state takes over its texts (tasks, history, learnings) and grants nothing"}
}

// Settle makes the state the user's own before anything of it is read to be worked with: somebody
// else's is set aside or, with Adopt, its texts are taken over. The result is what the user should
// know, a sentence each. run names this process's work.
func (p Project) Settle(ctx context.Context, run string, now func() time.Time) ([]string, error) {
	found, err := memory.Settle(ctx, memory.Options{FS: p.FS, Root: p.Root, Now: now, Holder: "settle", SessionID: run, LockWait: LockWait, Owner: p.Owner()})
	return found.Warnings, err
}

// Queue returns the place of the project's queue, and what authenticates it, for use while no
// coordinator has it open.
func (p Project) Queue() queue.Options {
	o := queue.Options{FS: p.FS, StateDir: filepath.Join(p.Root, ".ralph")}
	if p.Getenv == nil {
		return o
	}
	o.Key = identity.NewKey() // verifies nothing
	if found, err := p.Examine(); err == nil && found.Trusted() && found.Record.ID != "" {
		o.Key, o.UserDir = found.Record.Key, identity.Dir(p.Home(), found.Record.ID)
	}
	return o
}

// Granted returns what the user granted the run of a snapshot; nil when nothing is on record for
// this run in this session, or the state is not the user's.
func (p Project) Granted(s feature.Snapshot) (*loop.Granted, error) {
	found, err := p.Examine()
	if err != nil || !found.Trusted() {
		return nil, err
	}
	fsys := p.FS
	if fsys == nil {
		fsys = durable.Disk()
	}
	return LoadGrant(fsys, identity.Dir(p.Home(), found.Record.ID), s)
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

// LoadGrant is Granted with the project's directory on the user's side; "" has nothing.
func LoadGrant(fsys afero.Fs, userDir string, s feature.Snapshot) (*loop.Granted, error) {
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

// SaveGrant writes what the user granted the run of a feature in a session.
func SaveGrant(fsys afero.Fs, userDir, name, session string, granted loop.Granted) error {
	data, err := json.MarshalIndent(grant{Feature: name, SessionID: session, Granted: granted}, "", "  ")
	if err == nil {
		err = durable.MkdirAll(fsys, filepath.Join(userDir, grantsDir), 0o700)
	}
	if err == nil {
		err = durable.Replace(fsys, grantPath(userDir, name), append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep what was granted to run %q: %w", name, err)
	}
	return nil
}
