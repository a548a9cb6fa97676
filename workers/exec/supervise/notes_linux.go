package supervise

import (
	"encoding/json"
	"os"
	"sync"
)

// notes appends to a record. It is safe for concurrent use.
type notes struct {
	mu   sync.Mutex
	to   *os.File // nil for none
	lost bool     // an entry could not be appended: the command goes on, and the next one says it
}

func (n *notes) add(s Seen) {
	if n.to == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s.Gap = s.Gap || n.lost
	text, err := json.Marshal(s)
	if err == nil {
		_, err = n.to.Write(append(text, '\n'))
	}
	n.lost = err != nil
}
