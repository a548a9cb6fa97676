package coordinator

import (
	"fmt"
	"testing"

	"ralph/coordinator/result"
	"ralph/memory/session"
)

// TestAWrongSessionIsAUsageError: the user named it, and is told what to do.
func TestAWrongSessionIsAUsageError(t *testing.T) {
	t.Parallel()
	for _, err := range []error{session.ErrNotFound, session.ErrAmbiguous} {
		status, f := Fail(fmt.Errorf("%w: %q", err, "9"))
		if status != result.Usage || f.Hint == "" {
			t.Errorf("%v ends as %s with the hint %q", err, status, f.Hint)
		}
	}
}
