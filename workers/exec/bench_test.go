//go:build linux

package exec

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ralph/workers/exec/sandbox"
	"ralph/workers/exec/supervise"
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
		r := newRunnerWith(t, Options{Method: method, Init: Self()})
		return func() error {
			_, err := r.Run(t.Context(), Spec{Argv: []string{"/bin/true"}})
			return err
		}
	}
	plain50, plain99 := measure(func() error { _, err := exec.Command("/bin/true").CombinedOutput(); return err })
	tree50, tree99 := measure(by(supervise.MethodSession))
	best50, best99 := measure(by(""))
	project, temp := t.TempDir(), t.TempDir()
	held := sandbox.Policy{Write: []string{project}, Temp: temp}
	for _, dir := range []string{".git", ".ralph", ".vscode", ".idea", ".github/workflows"} {
		if err := os.MkdirAll(filepath.Join(project, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		held.Protect = append(held.Protect, filepath.Join(project, dir))
	}
	for i := range 8 {
		held.Hide = append(held.Hide, filepath.Join("/etc", []string{"passwd", "group", "hosts", "ssl", "profile", "default", "init.d", "alternatives"}[i]))
	}
	confined := func(method string, network bool) func() error {
		r, c := newRunnerWith(t, Options{Method: method, Init: Self()}), held
		c.Network = network
		return func() error {
			_, err := r.Run(t.Context(), Spec{Argv: []string{"/bin/true"}, Dir: project, Confine: &c})
			return err
		}
	}
	if err := confined("", false)(); err != nil { // the probe
		t.Fatal(err)
	}
	held50, held99 := measure(confined("", false))
	net50, net99 := measure(confined("", true))
	bound50, bound99 := measure(confined(supervise.MethodSession, false))
	t.Logf("n=%d, p50 and p99: confined %v %v, with the host's network %v %v, without namespaces %v %v", n, held50, held99, net50, net99, bound50, bound99)
	t.Logf("n=%d, p50 and p99: os/exec %v %v, %s %v %v, %s %v %v", n, plain50, plain99, "session", tree50, tree99, newRunner(t).Method().Name, best50, best99)
	if best50 > plain50+10*time.Millisecond {
		t.Errorf("a command costs %v, a plain one %v", best50, plain50)
	}
}
