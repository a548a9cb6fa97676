package git

import (
	"io/fs"
	"syscall"
	"time"
)

// ctime returns when a file or what is known of it last changed; false where that is not
// known.
func ctime(info fs.FileInfo) (time.Time, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(st.Ctim.Unix()), true
}
