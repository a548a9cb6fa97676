package buildcache

import "golang.org/x/sys/unix"

// syncFS makes durable what is in the file system of an open file.
func syncFS(fd int) error { return unix.Syncfs(fd) }
