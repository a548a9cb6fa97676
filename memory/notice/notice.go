// Package notice asks the system to say when files of a directory are changed by
// somebody else, so that nobody has to look again and again. It knows no content,
// and refuses where the system's word cannot be relied on: who asks looks by
// itself there.
//
//	told, end := notice.Watch(root, func(name string) bool { return name == "RALPH_TASKS.md" })
//	defer end()
//	if told == nil {
//		every = 500 * time.Millisecond
//	}
package notice

import (
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// Watch returns a channel on which it says, at least once for any number of
// changes, that an entry of dir was created, written, renamed or removed for whose
// base name mine is true. mine is called on a goroutine of Watch. The channel is
// nil where the system does not tell of all changes: on a network's filesystem, or
// when there are no watches left. It is closed when dir itself goes. end gives the watch back and waits for its
// goroutine; it is called once, and never from mine.
func Watch(dir string, mine func(name string) bool) (told <-chan struct{}, end func()) {
	nothing := func() {}
	if remote(dir) {
		return nil, nothing
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nothing
	}
	dir = filepath.Clean(dir)
	if err := w.Add(dir); err != nil {
		_ = w.Close()
		return nil, nothing
	}
	tell, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case e, ok := <-w.Events:
				if !ok {
					return
				}
				if e.Name == dir && e.Op&(fsnotify.Remove|fsnotify.Rename) != 0 {
					close(tell)
					return
				}
				if !mine(filepath.Base(e.Name)) {
					continue
				}
			case _, ok := <-w.Errors: // of an overflow, too: look
				if !ok {
					return
				}
			}
			select {
			case tell <- struct{}{}:
			default:
			}
		}
	}()
	return tell, func() {
		_ = w.Close() // which ends the goroutine
		<-done
	}
}
