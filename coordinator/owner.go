package coordinator

import (
	"ralph/coordinator/loop"
	"ralph/coordinator/ownership"
	"ralph/memory/feature"
	"ralph/memory/identity"
	"ralph/workers/git/trees"
)

// owned returns the project and the user that works in it.
func (o Options) owned() ownership.Project {
	return ownership.Project{FS: o.FS, Root: o.Root, Getenv: o.Getenv, Adopt: o.Config != nil && o.Config.AdoptState}
}

// keepGrant keeps what the user granted the run of a feature.
func (c *Coordinator) keepGrant(name string, g loop.Granted) error {
	dir := c.book.userDir()
	if dir == "" {
		return nil // it was warned about when the project was opened
	}
	return ownership.SaveGrant(c.opt.FS, dir, name, c.SessionID(), g)
}

// regranted is what the user granted a run that goes on; nil: nothing.
func (c *Coordinator) regranted(s *feature.Snapshot) *loop.Granted {
	if s == nil {
		return nil
	}
	g, err := ownership.LoadGrant(c.opt.FS, c.book.userDir(), *s)
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
			key = c.opt.owned().Key()
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
