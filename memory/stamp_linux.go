package memory

import "syscall"

// ctime is when the file's content or its inode last changed; no program can
// set it.
func ctime(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }
