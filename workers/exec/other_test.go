//go:build !linux

package exec

import "context"

// play is what the test binary does for a test.
func play(ctx context.Context, _ string) { playVictim(ctx) }
