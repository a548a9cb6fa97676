package beads_test

import (
	"fmt"
	"strings"
	"testing"

	"ralph/coordinator/plan/beads"
)

// BenchmarkRead is what a snapshot costs beside bd itself.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, `{"id":"demo-%d","title":"Task %d","description":"%s","status":"open","priority":2,"issue_type":"task","updated_at":"2026-11-21T02:44:42.8Z","dependencies":[{"issue_id":"demo-%d","depends_on_id":"demo-%d","type":"blocks"}]}`+"\n",
				i, i, strings.Repeat("words ", 40), i, max(i-7, 0))
		}
		data := []byte(text.String())
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				issues, faults := beads.Parse(data)
				s := beads.Snapshot{Issues: issues}
				if len(faults) > 0 || len(s.Waits()) != n {
					b.Fatal(faults)
				}
			}
		})
	}
}
