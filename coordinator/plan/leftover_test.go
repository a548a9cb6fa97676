package plan

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// What a Ralph was about to write that was killed is gone once another begins; what
// only looks like it is not.
func TestReleaseRemovesWhatAKilledRalphLeft(t *testing.T) {
	for _, name := range []string{prdFile, loopFile} {
		root := write(t, one())
		left, other := filepath.Join(root, "."+name+".ABCDEFGHIJ.tmp"), filepath.Join(root, ".mine.ABCDEFGHIJ.tmp")
		for _, path := range []string{left, other} {
			if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := opened(t, root, name).Release(context.Background(), "ralph/001"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", left, err)
		}
		if _, err := os.Stat(other); err != nil {
			t.Error(err)
		}
	}
}
