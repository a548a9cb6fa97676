package accesspolicy

import (
	"crypto/sha256"
	"path"
	"sync"
)

// Grants are the changes that tools of Ralph were permitted to make in the trees of agents.
// The zero value has none. It is safe for concurrent use.
type Grants struct {
	mu   sync.Mutex
	made map[grant]map[sum]granted
}

// grant is a file of an agent's tree, relative to the root of the project in it.
type grant struct{ agent, name string }

type sum [sha256.Size]byte

// granted is where a content came from.
type granted struct {
	whole bool // all of it was written
	from  sum  // of what it was made by an edit
}

// note notes that a tool wrote a file; before is what an edit began with, nil where the tool
// wrote all of it.
func (g *Grants) note(agent, name string, before, after []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := grant{agent, path.Clean(name)}
	if g.made == nil {
		g.made = map[grant]map[sum]granted{}
	}
	if g.made[at] == nil {
		g.made[at] = map[sum]granted{}
	}
	if to := sha256.Sum256(after); before == nil {
		g.made[at][to] = granted{whole: true}
	} else if !g.made[at][to].whole {
		g.made[at][to] = granted{from: sha256.Sum256(before)}
	}
}

// Has reports whether tools were permitted to make exactly this content of a file in the
// tree of an agent, all of it or by edits that began with base; base is nil for no file.
func (g *Grants) Has(agent, name string, content, base []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	made, at := g.made[grant{agent, path.Clean(name)}], sum(sha256.Sum256(content))
	for range len(made) {
		from, ok := made[at]
		switch {
		case !ok:
			return false
		case from.whole, base != nil && from.from == sha256.Sum256(base):
			return true
		}
		at = from.from
	}
	return false
}
