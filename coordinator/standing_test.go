package coordinator

import (
	"fmt"
	"testing"
	"time"

	"ralph/coordinator/result"
	"ralph/memory/session"
)

func TestAgo(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "just now", 59 * time.Second: "just now", time.Minute: "1 minute ago", 59 * time.Minute: "59 minutes ago",
		time.Hour: "1 hour ago", 47 * time.Hour: "47 hours ago", 72 * time.Hour: "3 days ago",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

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
