//go:build !linux

package accesspolicy

import (
	"io/fs"
	"time"
)

// ctime is now, which means that nothing is known to be unchanged.
func ctime(fs.FileInfo) time.Time { return time.Now() }
