//go:build !linux

package exec

import (
	"errors"
	"os"
)

func recordFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }
