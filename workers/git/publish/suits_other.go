//go:build !linux

package publish

import "errors"

// suits reports that nothing can hold an upper layer: there are no overlays here.
func suits(string) error { return errors.ErrUnsupported }
