package accesspolicy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ralph/workers/accesspolicy"
)

// The caches of agents are overlays at one path where those can be mounted, and
// what one writes no other sees.
func TestCachesAreOverlays(t *testing.T) {
	w := newWorld(t, true)
	one, other := w.open(nil), w.open(nil)
	if out := w.works(one, "mkdir -p $GOCACHE && echo x > $GOCACHE/a && echo $GOCACHE"); !strings.HasSuffix(strings.TrimSpace(out), "/view/go-build") {
		t.Errorf("the cache is at %s", out)
	}
	w.works(one, "test -f $GOCACHE/a")
	if o := w.run(other, w.root, "test -e $GOCACHE/a", accesspolicy.Call{}); o.code == 0 {
		t.Error("an agent sees what another one wrote")
	}
}

// TestFillingIsTold: while a command fills an empty cache that is told, once, and nothing
// of one that writes little.
func TestFillingIsTold(t *testing.T) {
	w := newWorld(t, true)
	told := 0
	s := w.open(func(o *accesspolicy.Options) {
		o.Filling = func() {
			told++
			if err := os.WriteFile(filepath.Join(w.root, "told"), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	w.works(s, "mkdir -p $GOCACHE && echo x > $GOCACHE/a")
	fill := "head -c 5000000 /dev/zero > $GOCACHE/$$; until test -e told; do sleep 0.05; done"
	w.works(s, fill)
	w.works(s, fill)
	if told != 1 {
		t.Errorf("it was told %d times", told)
	}
}
