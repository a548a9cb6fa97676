package accesspolicy

import (
	"crypto/sha256"
	"path"
	"sync"
)

// Grants are the files that tools of Ralph were permitted to write in the trees of
// agents. The zero value has none. It is safe for concurrent use.
type Grants struct {
	mu   sync.Mutex
	sums map[grant][sha256.Size]byte
}

// grant is a file of an agent's tree, relative to the root of the project in it.
type grant struct{ agent, name string }

func (g *Grants) note(agent, name string, content []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sums == nil {
		g.sums = map[grant][sha256.Size]byte{}
	}
	g.sums[grant{agent, path.Clean(name)}] = sha256.Sum256(content)
}

// Has reports whether a tool was permitted to write exactly this content, last, to a file
// in the tree of an agent.
func (g *Grants) Has(agent, name string, content []byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	sum, ok := g.sums[grant{agent, path.Clean(name)}]
	return ok && sum == sha256.Sum256(content)
}
