package accesspolicy

import (
	"io/fs"
	"syscall"
	"time"
)

func ctime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}
