//go:build !linux

package proc

import (
	"context"
	"errors"
)

// canScan says that Leaks can find what it looks for.
const canScan = false

// running cannot be told here.
func (c *command) running() []Process {
	return []Process{{Command: c.spec.name()}}
}

// Leaks is empty: this system does not show whose a process is.
func Leaks() []Process { return nil }

// Owner is empty: see Leaks.
func Owner() string { return "" }

// Sweep ends nothing: see Leaks.
func Sweep(_ context.Context, owner string) ([]Process, error) {
	if owner != "" {
		return nil, errors.ErrUnsupported
	}
	return nil, nil
}

// Carries is false: see Leaks.
func Carries(int) bool { return false }
