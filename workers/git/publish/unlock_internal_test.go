package publish

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A git that is killed while it removes a packed ref leaves a lock and a new file; either
// keeps every later one from packing refs.
func TestUnlockOfPackedRefs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"packed-refs.lock", "packed-refs.new"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	journal{Time: time.Now(), Locks: []lockFile{{Path: filepath.Join(dir, "packed-refs.lock")}}}.unlock()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
