package repl

import (
	"time"

	"ralph/repl/line"
)

// keeperWait bounds how long leaving waits for the disk that keeps the history.
const keeperWait = time.Second

// keeper writes the history beside the loop, so that the conversation never
// waits for the disk. openKeeper makes it; close ends it.
type keeper struct {
	h     *line.History
	early []string
	queue chan string
	done  chan struct{}
}

func openKeeper(path string) (*keeper, error) {
	h, err := line.OpenHistory(path)
	k := &keeper{h: h, early: h.Lines(), queue: make(chan string, 64), done: make(chan struct{})}
	go k.run()
	return k, err
}

func (k *keeper) lines() []string { return k.early }

func (k *keeper) run() {
	defer close(k.done)
	for text := range k.queue {
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
