package memory

import "github.com/fsnotify/fsnotify"

// notices is a channel on which the system says that a state file changed; end
// gives it back. Where there is no such system (other filesystems, no watches
// left) the channel is nil, and the loop looks twice a second.
func (s *Store) notices() (edits <-chan struct{}, end func()) {
	if !s.real() {
		return nil, func() {}
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}
	}
	if err := w.Add(s.root); err != nil {
		_ = w.Close()
		return nil, func() {}
	}
	told, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case e, ok := <-w.Events:
				if !ok {
					return
				}
				if s.files[s.rel(e.Name)] == nil {
					continue
				}
			case _, ok := <-w.Errors: // of an overflow, too: look
				if !ok {
					return
				}
			}
			select {
			case told <- struct{}{}:
			default:
			}
		}
	}()
	return told, func() {
		_ = w.Close() // which ends the goroutine
		<-done
	}
}
