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

// birth returns when a file was made; zero where that is not known.
func birth(path string) time.Time {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st) != nil || st.Mask&unix.STATX_BTIME == 0 {
		return time.Time{}
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
}
