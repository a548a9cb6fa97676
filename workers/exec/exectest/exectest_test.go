package exectest_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"ralph/workers/exec/exectest"
)

// TestWriteProgram runs programs just written while others are started. With
// os.WriteFile some of them fail with ETXTBSY.
func TestWriteProgram(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				path := filepath.Join(dir, strconv.Itoa(i)+"-"+strconv.Itoa(j))
				if err := exectest.WriteProgram(path, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
					t.Error(err)
				}
				if err := exec.Command(path).Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
