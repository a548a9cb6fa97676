package tamper_test

import (
	"testing"

	"ralph/coordinator/policy/tamper"
)

// TestAttacks has what a cheating agent tries in the projects of real people, and
// what an honest one does there. No honest change may be blocked.
func TestAttacks(t *testing.T) {
	for _, s := range corpus(t, "testdata/attacks.txtar") {
		if found := tamper.Inspect(s.files, s.checks); !blocks(found) {
			t.Errorf("missed %s: %+v", s.name, found)
		}
	}
	for _, s := range corpus(t, "testdata/plain.txtar") {
		if found := tamper.Inspect(s.files, s.checks); blocks(found) {
			t.Errorf("false block of %s: %+v", s.name, found)
		}
	}
}
