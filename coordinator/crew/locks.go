package crew

import (
	"fmt"
	"strings"
	"sync"
)

// locks say who changes which path, where all work in one tree.
type locks struct {
	// mu guards owner.
	mu    sync.Mutex
	owner map[string]string // by path, folded
}

// take gives a path to an agent until it ends, or says who has it.
func (l *locks) take(id, path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := strings.ToLower(path)
	if who := l.owner[key]; who != "" && who != id {
		return fmt.Errorf("%s is being changed by %s; without git all agents work in one tree, so wait for its end or leave the file to it", path, who)
	}
	l.owner[key] = id
	return nil
}

// free gives back all that an agent has.
func (l *locks) free(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for path, who := range l.owner {
		if who == id {
			delete(l.owner, path)
		}
	}
}

// Lock asks for a path that an agent is about to change. With trees of their own
// every path is free. The error says who has it.
func (c *Crew) Lock(id, path string) error {
	if c.o.Trees != nil {
		return nil
	}
	return c.locks.take(id, path)
}

// sayOneTree tells once that there is no tree for each.
func (c *Crew) sayOneTree() {
	c.mu.Lock()
	said := c.told
	c.told = true
	c.mu.Unlock()
	if !said {
		c.o.Warn("there is no git repository, so all agents work in one tree: a file that one of them changes is locked for the others until it ends, and what their commands change is not")
	}
}
