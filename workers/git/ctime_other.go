//go:build !linux

package git

import (
	"io/fs"
	"time"
)

// ctime is not known.
func ctime(fs.FileInfo) (time.Time, bool) { return time.Time{}, false }
