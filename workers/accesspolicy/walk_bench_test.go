package accesspolicy

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkNested measures what looking for repositories costs a command that
// changed nothing.
func BenchmarkNested(b *testing.B) {
	for _, dirs := range []int{10, 500, 5000} {
		b.Run(fmt.Sprint(dirs, " directories"), func(b *testing.B) {
			root := b.TempDir()
			for i := range dirs {
				if err := os.MkdirAll(filepath.Join(root, fmt.Sprint(i%50), fmt.Sprint(i)), 0o755); err != nil {
					b.Fatal(err)
				}
			}
			n := newNested(root)
			for b.Loop() {
				n.below(maxDirs)
			}
		})
	}
}
