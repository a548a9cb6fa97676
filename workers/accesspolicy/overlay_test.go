package accesspolicy_test

import (
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
