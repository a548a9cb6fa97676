//go:build linux

package proc

import (
	"os/exec"
	"slices"
	"testing"
	"time"
)

// TestCost prints what a command costs by each method, in a process that has as
// much memory in use as Ralph, and bounds it loosely.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("figures")
	}
	const n = 200
	ballast := make([]byte, 40<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	measure := func(run func() error) (p50, p99 time.Duration) {
		took := make([]time.Duration, n)
		for i := range took {
			ballast[i*4096] = 2
			began := time.Now()
			if err := run(); err != nil {
				t.Fatal(err)
			}
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took[n/2], took[n*99/100]
	}
	by := func(method string) func() error {
		r := New(Options{Method: method})
		return func() error {
			_, err := r.Run(t.Context(), Spec{Argv: []string{"/bin/true"}})
			return err
		}
	}
	plain50, plain99 := measure(func() error { _, err := exec.Command("/bin/true").CombinedOutput(); return err })
	tree50, tree99 := measure(by(methodSession))
	best50, best99 := measure(by(""))
	t.Logf("n=%d, p50 and p99: os/exec %v %v, %s %v %v, %s %v %v", n, plain50, plain99, sessions().Name, tree50, tree99, Detect().Name, best50, best99)
	if best50 > plain50+10*time.Millisecond {
		t.Errorf("a command costs %v, a plain one %v", best50, plain50)
	}
}
