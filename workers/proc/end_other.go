//go:build !linux

package proc

import (
	"context"
	"fmt"
	"time"
)

// End refuses: this system does not tell one process from a later one with the
// same pid.
func End(_ context.Context, c Claim, _ string, _ time.Duration) error {
	return fmt.Errorf("end process %d: %w", c.PID, ErrUnproven)
}

// Lives is false: this system does not tell.
func Lives(Claim) bool { return false }
