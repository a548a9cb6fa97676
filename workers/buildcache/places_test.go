package buildcache

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestNothingWaitsForAPipeInAStore opens a store whose state and lock are named pipes.
func TestNothingWaitsForAPipeInAStore(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{stateFile, stateFile + lockSuffix} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &Store{dir: dir}
	done := make(chan error, 1)
	go func() {
		st := s.state()
		lock := newLock(filepath.Join(dir, stateFile+lockSuffix))
		_, err := lock.TryLock()
		_ = lock.Close() // it holds nothing that counts
		if err == nil && st != (state{}) {
			err = os.ErrInvalid
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a pipe is waited for")
	}
}
