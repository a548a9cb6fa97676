package coordinator

import (
	"context"
	"fmt"

	"ralph/coordinator/result"
	"ralph/memory"
	"ralph/memory/markdown"
	"ralph/memory/text"
	"ralph/workers/exec/supervise"
)

// keeps says that what is accepted can be kept on disk.
func (b *book) keeps() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.store != nil && !b.dry && !b.readOnly
}

// keepsQueue reports whether the queue can be stored, and its stored messages be
// delivered: not without the user's key.
func (b *book) keepsQueue() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.store != nil && !b.dry && !b.readOnly && !b.unknown
}

// homeless reports whether the state was opened without the user's own directory.
func (b *book) homeless() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unknown
}

// keepRecord lets a record wait for the next flush.
func (b *book) keepRecord(kind string, payload []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.dry {
		b.keep(kind, payload)
	}
}

// flushEvents writes what waits now: it is worth a sync of its own.
func (b *book) flushEvents() {
	b.mu.Lock()
	defer b.leave()
	if !b.dry {
		b.flush()
	}
}

// sweep ends what the commands of a Ralph that was killed left running, where the
// system could not end them with it. mu is held, and the project's lock.
func (b *book) sweep(ctx context.Context, found memory.Recovery) {
	if found.Crashed == nil || found.Crashed.Tag == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	ended, err := supervise.Sweep(ctx, found.Crashed.Tag)
	if len(ended) > 0 {
		b.note(fmt.Sprintf("ended %s that the last Ralph, which was killed, had left running: %s", text.Count(len(ended), "process"), processNames(ended)))
	}
	if err != nil {
		b.note("what the last Ralph left running: " + err.Error())
	}
}

// tally counts the project's tasks, as far as they can be read; while the state
// is written it is the count before.
func (b *book) tally() result.TaskCount {
	if b.mu.TryLock() {
		defer b.mu.Unlock()
		if b.store != nil {
			if tasks, err := b.store.Tasks(); err == nil {
				n := tally(tasks)
				b.counted.Store(&n)
			}
		}
	}
	if n := b.counted.Load(); n != nil {
		return *n
	}
	return result.TaskCount{}
}

func tally(tasks []memory.Task) result.TaskCount {
	var n result.TaskCount
	for _, t := range tasks {
		switch t.Status {
		case markdown.Done:
			n.Done++
		case markdown.Failed:
			n.Failed++
		case markdown.Skipped:
			n.Skipped++
		default:
			n.Open++
		}
	}
	return n
}
