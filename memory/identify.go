package memory

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"ralph/memory/durable"
	"ralph/memory/feature"
	"ralph/memory/identity"
	"ralph/memory/session"
)

// Owner says whose state is worked with, and what becomes of somebody else's.
type Owner struct {
	// Home is the user's own state directory; empty when none is known.
	Home string
	// Adopt takes over the texts of somebody else's state; without it all of it is
	// set aside.
	Adopt bool
}

// checkpoints is what of a project's directory below Owner.Home a change of the
// identity leaves: it holds only what the user's own files held.
const checkpoints = "checkpoints"

// Settle makes the state of a project the user's own, under the project's lock,
// as Open does, and closes it again. It makes no directory: a project without
// `.ralph/` is left as it is.
func Settle(ctx context.Context, o Options) (Recovery, error) {
	s, err := newStore(o)
	if err != nil {
		return Recovery{}, err
	}
	if _, err := durable.Lstat(s.fs, s.StateDir()); err != nil {
		return Recovery{}, nil
	}
	store, rec, err := Open(ctx, o)
	if err != nil {
		return rec, err
	}
	return rec, store.Close()
}

// Examine says whose the state of the project at root is. It changes nothing.
func Examine(fsys afero.Fs, home, root string) (identity.Found, error) {
	if fsys == nil {
		fsys = durable.Disk()
	}
	return identity.Examine(fsys, home, filepath.Join(root, ".ralph"))
}

// identify makes sure that what is in `.ralph/` is the user's own: somebody
// else's state goes to the quarantine, or its texts are taken over. It prepares
// the directory, too. The lock is ours. Without an Owner the caller answers for
// what is there.
func (s *Store) identify(o Options, rec *Recovery) error {
	if o.Owner == nil {
		return s.prepare(rec, false)
	}
	s.key = identity.NewKey() // of this process alone, unless a record has one
	found, err := identity.Examine(s.fs, o.Owner.Home, s.StateDir())
	if err == nil && !found.Trusted() {
		if err = identity.Writable(s.fs, o.Owner.Home); err != nil { // before anything is moved for good
			found.Standing = identity.Unknown
		}
	}
	if err != nil && found.Standing != identity.Unknown {
		rec.Warnings = append(rec.Warnings, "whose the state of this project is cannot be seen: "+err.Error())
	}
	switch found.Standing {
	case identity.Unknown:
		rec.Unknown = true
		rec.Warnings = append(rec.Warnings, homeless(err))
		return s.prepare(rec, false)
	case identity.Own:
		s.identified(o.Owner.Home, found.Record)
		return errors.Join(s.prepare(rec, false), s.estrange(o, rec))
	case identity.Moved:
		r, err := identity.Follow(s.fs, o.Owner.Home, s.StateDir(), found.Record)
		if err != nil {
			rec.Warnings = append(rec.Warnings, "that the project was moved is not on record: "+err.Error())
		}
		s.identified(o.Owner.Home, r)
		return errors.Join(s.prepare(rec, false), s.estrange(o, rec))
	}
	rec.Crashed = nil // whatever its lock says is not of this machine
	for _, name := range found.State {
		if o.Owner.Adopt && identity.Text(name) {
			rec.Adopted = append(rec.Adopted, name)
			continue
		}
		rec.SetAside = append(rec.SetAside, name)
	}
	if err := s.quarantineState(rec.SetAside); err != nil {
		return err
	}
	if err := s.prepare(rec, true); err != nil {
		return err
	}
	if len(rec.SetAside) > 0 {
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("the state in .ralph is not yours (%s): %s went to .ralph/quarantine", whose(found.Standing), strings.Join(rec.SetAside, ", ")))
	}
	if len(rec.Adopted) > 0 {
		rec.Warnings = append(rec.Warnings, fmt.Sprintf("taken over as text from somebody else's state: %s; settings, approvals and messages are not", strings.Join(rec.Adopted, ", ")))
	}
	r, err := identity.Establish(s.fs, o.Owner.Home, s.StateDir(), checkpoints)
	if err != nil {
		rec.Unknown = true
		rec.Warnings = append(rec.Warnings, homeless(err))
		return nil
	}
	s.identified(o.Owner.Home, r)
	return s.seal(rec.Adopted)
}

// estrange sets aside what of the user's own state Ralph did not write: it came with a
// pull, a merge, an archive or a patch. Its texts are taken over when the user says so.
func (s *Store) estrange(o Options, rec *Recovery) error {
	strange, err := strangers(s.fs, s.StateDir(), s.key)
	if err != nil || len(strange) == 0 {
		return err
	}
	if o.Owner.Adopt {
		if err := s.seal(strange); err != nil {
			return err
		}
		rec.Adopted = strange
		rec.Warnings = append(rec.Warnings, "taken over as text, though your Ralph did not write it: "+strings.Join(strange, ", "))
		return nil
	}
	if err := s.quarantineState(strange); err != nil {
		return err
	}
	rec.SetAside = strange
	rec.Warnings = append(rec.Warnings, fmt.Sprintf("your Ralph did not write %s: it went to .ralph/quarantine (--adopt-state takes over the texts of such state)", strings.Join(strange, ", ")))
	return nil
}

// seal authenticates the journals of state that the user took over.
func (s *Store) seal(names []string) error {
	for _, name := range names {
		if name != "sessions" && name != "runs" && !strings.Contains(name, "/") {
			continue
		}
		err := session.Seal(s.fs, s.StateDir(), name, s.key)
		if err == nil {
			err = feature.Seal(feature.Options{FS: s.fs, StateDir: s.StateDir(), Key: s.key, Now: s.now}, name)
		}
		if err != nil {
			return fmt.Errorf("take over %q: %w", name, err)
		}
	}
	return nil
}

// homeless is what the user is told when nothing can be recorded on their side.
func homeless(err error) string {
	return "your own state directory cannot be used, so that there is no undo and no resume here (--state-dir DIR names another): " + err.Error()
}

// whose explains a standing.
func whose(s identity.Standing) string {
	if s == identity.Copied {
		return "it was copied or restored"
	}
	return "it came with the directory"
}

func (s *Store) identified(home string, r identity.Record) {
	s.userHome, s.mine, s.key = home, r, r.Key
}

// identifyAgain puts the id back into a `.ralph/` that was deleted while it was
// open. The user's record names the new directory then.
func (s *Store) identifyAgain() error {
	if s.mine.ID == "" {
		return nil
	}
	_, err := identity.Follow(s.fs, s.userHome, s.StateDir(), s.mine)
	return err
}

// Key authenticates what is written to `.ralph/` and read back as the user's
// word. It is nil when Open was given no Owner.
func (s *Store) Key() identity.Key { return s.key }

// UserDir returns the project's directory in the user's own state directory;
// empty when there is none.
func (s *Store) UserDir() string { return identity.Dir(s.userHome, s.mine.ID) }

// quarantineState moves state to the quarantine, as it is: a link stays a link.
func (s *Store) quarantineState(names []string) error {
	if len(names) == 0 {
		return nil
	}
	aside := filepath.Join(s.Quarantine(), "foreign-"+s.now().UTC().Format("20060102T150405.000000000"))
	for _, name := range names {
		from, to := filepath.Join(s.StateDir(), filepath.FromSlash(name)), filepath.Join(aside, filepath.FromSlash(name))
		err := durable.MkdirAll(s.fs, filepath.Dir(to), 0o700)
		if err == nil {
			err = s.fs.Rename(from, to)
		}
		if err == nil {
			err = errors.Join(durable.SyncDir(s.fs, filepath.Dir(to)), durable.SyncDir(s.fs, filepath.Dir(from)))
		}
		if err != nil {
			return fmt.Errorf("set aside %q: %w", name, err)
		}
	}
	return nil
}

// Strange returns what of the user's own state at root Ralph did not write, as
// session.Strange does. It changes nothing.
func Strange(root string, found identity.Found) ([]string, error) {
	if !found.Trusted() || found.Record.ID == "" {
		return nil, nil
	}
	return strangers(durable.Disk(), filepath.Join(root, ".ralph"), found.Record.Key)
}

// strangers are what a holder of the key did not write: journals and snapshots.
func strangers(fsys afero.Fs, stateDir string, key identity.Key) ([]string, error) {
	strange, err := session.Strange(fsys, stateDir, key)
	if err != nil || slices.Contains(strange, "sessions") {
		return strange, err
	}
	snapshots, err := feature.Strange(feature.Options{FS: fsys, StateDir: stateDir, Key: key})
	return append(strange, snapshots...), err
}
