package memory

import (
	"os"
	"path/filepath"

	"ralph/memory/notice"
)

// notices is a channel on which the system says that a state file changed; end
// gives it back. Where the system cannot say so (other filesystems, a state file
// that is elsewhere, no watches left) the channel is nil, and the loop looks twice a
// second.
func (s *Store) notices() (edits <-chan struct{}, end func()) {
	if !s.real() {
		return nil, func() {}
	}
	for name := range s.files {
		if info, err := os.Lstat(filepath.Join(s.root, name)); err == nil && !info.Mode().IsRegular() {
			return nil, func() {}
		}
	}
	return notice.Watch(s.root, func(name string) bool { return s.files[name] != nil })
}
