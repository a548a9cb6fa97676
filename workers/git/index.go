package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ralph/workers/exec"
	"ralph/workers/regular"
)

// index is an index file of our own in a directory of its own, where git can
// put its lock beside it.
type index struct{ dir, path string }

// newIndex copies an index; one that is missing makes an empty one. "" starts
// empty too.
func newIndex(parent, from string) (index, error) {
	dir := filepath.Join(parent, exec.TempName("index"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return index{}, fmt.Errorf("make temporary index: %w", err)
	}
	x := index{dir: dir, path: filepath.Join(dir, "index")}
	if from == "" {
		return x, nil
	}
	if err := copyIndex(from, x.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.remove()
		return index{}, fmt.Errorf("copy index %q: %w", from, err)
	}
	return x, nil
}

// maxIndexBytes bounds an index that is read: 100 bytes and more for each file.
const maxIndexBytes = 512 << 20

// copyIndex keeps the time of the file: git takes a file that changed in the
// same moment as its index for suspect, and with a younger index it would miss
// the change.
func copyIndex(from, to string) error {
	in, err := regular.Open(from, 0)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	return err
}

// sweepIndexes removes what Ralphs that were killed have left in dir. It is
// clean-up: what cannot be removed is tried again next time.
func sweepIndexes(dir string) { sweep(dir, "index") }

// sweep removes the temporary files for some purposes whose makers are no more.
func sweep(dir string, purposes ...string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer func() { _ = d.Close() }()
	names, _ := d.Readdirnames(-1)
	for _, n := range names {
		for _, p := range purposes {
			if exec.Leftover(n, p) {
				_ = os.RemoveAll(filepath.Join(dir, n))
			}
		}
	}
}

func (x index) env() []string { return []string{"GIT_INDEX_FILE=" + x.path} }

// remove is a clean-up; what it leaves behind does no harm.
func (x index) remove() { _ = os.RemoveAll(x.dir) }

// tree writes the tree of an index. The objects of its entries are there: they
// were just written, or are not checked out in a partial clone.
func (p *place) tree(ctx context.Context, x index) (string, error) {
	out, err := p.run(ctx, call{args: []string{"write-tree", "--missing-ok"}, env: x.env()})
	return strings.TrimSpace(string(out)), err
}
