package accesspolicy

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func ctime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}

func ctimeOf(st *unix.Stat_t) int64 { return unix.TimespecToNsec(st.Ctim) }
