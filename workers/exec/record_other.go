//go:build !linux

package exec

import (
	"errors"
	"os"
)

func memoryFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }
