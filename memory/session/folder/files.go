package folder

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/afero"

	"ralph/memory/durable"
)

// openRegular opens a regular file for reading and never a link or a FIFO.
func openRegular(fsys afero.Fs, path string) (afero.File, fs.FileInfo, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = durable.ErrNotRegular
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, nil, err
	}
	return f, info, nil
}
