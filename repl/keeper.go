package repl

import (
	"os"
	"path/filepath"
	"time"

	"ralph/repl/line"
)

// keeperWait bounds how long leaving waits for the disk that keeps the history.
const keeperWait = time.Second

// keeper writes the history beside the loop, so that the conversation never
// waits for the disk. openKeeper makes it; close ends it.
type keeper struct {
	h     *line.History
	path  string
	early []string
	queue chan string
	done  chan struct{}
}

func openKeeper(path string) (*keeper, error) {
	h, err := line.OpenHistory(path)
	k := &keeper{h: h, path: path, early: h.Lines(), queue: make(chan string, 64), done: make(chan struct{})}
	go k.run()
	return k, err
}

func (k *keeper) lines() []string { return k.early }

func (k *keeper) run() {
	defer close(k.done)
	made := k.path == ""
	for text := range k.queue {
		if !made {
			// A directory that cannot be made is what Add fails at too.
			made = os.MkdirAll(filepath.Dir(k.path), 0o700) == nil
		}
		_ = k.h.Add(text) // a history that cannot be kept is no reason to disturb
	}
}

// add keeps a line; when the disk is far behind, the line is not kept.
func (k *keeper) add(text string) {
	select {
	case k.queue <- text:
	default:
	}
}

func (k *keeper) close() {
	close(k.queue)
	select {
	case <-k.done:
	case <-time.After(keeperWait):
	}
}
