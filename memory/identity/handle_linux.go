package identity

import (
	"encoding/hex"
	"fmt"

	"golang.org/x/sys/unix"
)

// fileHandle identifies the directory at path among all that its file system
// ever had. Inode numbers alone are reused: the handle adds the inode's
// generation and, where the file system gives no handle (overlay without
// nfs_export), its time of birth, which nobody can set. Empty: neither is given.
func fileHandle(path string) string {
	if h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0); err == nil {
		return fmt.Sprintf("handle:%d:%s", h.Type(), hex.EncodeToString(h.Bytes()))
	}
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME|unix.STATX_INO, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return ""
	}
	return fmt.Sprintf("birth:%d:%d.%09d", st.Ino, st.Btime.Sec, st.Btime.Nsec)
}
