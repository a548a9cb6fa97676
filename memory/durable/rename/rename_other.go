//go:build !linux

package rename

import "errors"

// Exchange is not offered here: the error matches errors.ErrUnsupported.
func Exchange(_, _ string) error { return errors.ErrUnsupported }

// NoReplace is not offered here: the error matches errors.ErrUnsupported.
func NoReplace(_, _ string) error { return errors.ErrUnsupported }
