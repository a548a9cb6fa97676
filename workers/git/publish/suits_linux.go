package publish

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// suits reports why a directory cannot hold an upper layer.
func suits(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look at %q: %w", dir, err)
	}
	switch st.Type {
	case unix.OVERLAYFS_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.V9FS_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return fmt.Errorf("%q is on a file system that cannot be written through", dir)
	}
	var own unix.Stat_t
	if err := unix.Lstat(dir, &own); err != nil {
		return fmt.Errorf("look at %q: %w", dir, err)
	}
	if int(own.Uid) != os.Getuid() || own.Mode&0o022 != 0 {
		return fmt.Errorf("%q can be written by other users", dir)
	}
	if err := unix.Setxattr(dir, "user.overlay.ralph", []byte("y"), 0); err != nil {
		return fmt.Errorf("%q takes no extended attributes: %w", dir, err)
	}
	_ = unix.Removexattr(dir, "user.overlay.ralph") // it means nothing
	return nil
}
