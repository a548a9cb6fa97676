package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"ralph/workers/exec"
	"ralph/workers/exec/acts"
)

// Open opens the regular file name for reading and says what it resolved to,
// relative to the root. FIFOs, devices, sockets and directories are refused
// without waiting for them. The caller closes the file.
func (w *Workspace) Open(name string) (f *os.File, resolved string, err error) {
	p, err := w.reach("read", name, looking)
	if err != nil {
		return nil, "", err
	}
	defer p.close()
	f, _, err = p.open()
	if err != nil {
		return nil, "", &Error{Op: "read", Path: name, Err: err, Hint: w.readHint(p, err)}
	}
	return f, p.path(), nil
}

func (p *place) open() (*os.File, fs.FileInfo, error) {
	switch {
	case p.info == nil:
		return nil, nil, fs.ErrNotExist
	case p.info.IsDir():
		return nil, nil, syscall.EISDIR
	case !p.info.Mode().IsRegular():
		return nil, nil, ErrSpecial
	}
	return openRegular(p.dir(), p.name)
}

// openRegular opens what name is now, which need not be what it was when it was
// looked at: O_NONBLOCK keeps a FIFO from holding the open up, and the opened
// file is checked, not the name.
func openRegular(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrSpecial
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// readHint says what to do instead, or which names are close.
func (w *Workspace) readHint(p *place, err error) string {
	switch {
	case errors.Is(err, syscall.EISDIR):
		return "it is a directory: use list"
	case errors.Is(err, fs.ErrNotExist):
		if near := p.near(); len(near) > 0 {
			return "there is: " + strings.Join(near, ", ")
		}
		return "use glob or list to find it"
	}
	return ""
}

// near lists up to three names that the missing name may have been meant for.
func (p *place) near() []string {
	d, err := p.dir().Open(".")
	if err != nil {
		return nil
	}
	defer d.Close()
	const most = 2000 // a hint is not worth reading a huge directory
	names, _ := d.Readdirnames(most)
	var near []string
	for _, n := range names {
		if len(near) < 3 && (acts.Fold(n) == acts.Fold(p.name) || within(n, p.name, 2)) {
			near = append(near, path.Join(append(append([]string{}, p.names...), n)...))
		}
	}
	return near
}

// within says whether a becomes b by at most most insertions, deletions and
// replacements of a character; short names must share more.
func within(a, b string, most int) bool {
	x, y := []rune(a), []rune(b)
	if d := len(x) - len(y); d > most || -d > most || min(len(x), len(y)) <= 2*most || len(x) > 255 {
		return false
	}
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range y {
			cost := diagonal
			if r != s {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(y)] <= most
}

// OpenDir opens the directory name and says what it resolved to, relative to
// the root. The caller closes it; the root itself too.
func (w *Workspace) OpenDir(name string) (dir *os.Root, resolved string, err error) {
	p, err := w.reach("open directory", name, looking)
	if err != nil {
		return nil, "", err
	}
	defer p.close()
	switch {
	case p.info == nil:
		err = fs.ErrNotExist
	case !p.info.IsDir():
		err = syscall.ENOTDIR
	default:
		if dir, err = p.dir().OpenRoot("."); err == nil {
			return dir, p.path(), nil
		}
	}
	hint := w.readHint(p, err)
	if errors.Is(err, syscall.ENOTDIR) {
		hint = "it is a file: use read"
	}
	return nil, "", &Error{Op: "open directory", Path: name, Err: err, Hint: hint}
}

// content is a file as it was read.
type content struct {
	path string // resolved, relative to the root
	data []byte
	info fs.FileInfo // nil: the file does not exist
}

// load reads the file name whole for a change to it; a file that does not exist
// is no error. Files over max bytes are refused.
func (w *Workspace) load(ctx context.Context, op, name string, max int64) (content, error) {
	if strings.HasSuffix(name, "/") {
		return content{}, &Error{Op: op, Path: name, Err: syscall.EISDIR, Hint: "the path ends in a slash"}
	}
	p, err := w.reach(op, name, writing)
	if err != nil {
		return content{}, err
	}
	defer p.close()
	c := content{path: p.path()}
	if p.info == nil {
		return c, nil
	}
	if err := p.writable(); err != nil {
		return c, &Error{Op: op, Path: name, Err: err}
	}
	f, info, err := p.open()
	if err != nil {
		return c, &Error{Op: op, Path: name, Err: err}
	}
	defer f.Close()
	if info.Size() > max {
		return c, &Error{Op: op, Path: name, Err: fmt.Errorf("%d bytes are too many to change here", info.Size()), Hint: "use shell"}
	}
	c.info = info
	if c.data, err = io.ReadAll(until(ctx, io.LimitReader(f, max))); err != nil {
		return c, &Error{Op: op, Path: name, Err: err}
	}
	return c, nil
}

// writable refuses an existing target that must not be replaced.
func (p *place) writable() error {
	switch {
	case p.info.IsDir():
		return syscall.EISDIR
	case !p.info.Mode().IsRegular():
		return ErrSpecial
	case p.info.Mode().Perm()&0o200 == 0:
		return fmt.Errorf("the file is read-only (mode %04o)", p.info.Mode().Perm())
	}
	if st, ok := p.info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		return ErrLinked
	}
	return nil
}

// store replaces the file that c was loaded from with data, or creates it with
// its missing directories: a temporary file in the same opened directory,
// synced and renamed over the name, so that no reader sees half of it and no
// symlink put there meanwhile is written through. When the file is no longer
// as it was loaded, nothing is done and the error matches ErrChanged; when ctx
// ends before the renaming, nothing is done either.
func (w *Workspace) store(ctx context.Context, op string, c content, data []byte) error {
	p, err := w.reach(op, c.path, making)
	if err != nil {
		return err
	}
	defer p.close()
	full := p.path()
	if !path.IsAbs(full) {
		full = path.Join(w.real, full)
	}
	done := w.writing(full)
	err = p.replace(ctx, c, data)
	done(err == nil)
	if err != nil {
		return &Error{Op: op, Path: c.path, Err: err, Hint: hintFor(err)}
	}
	return nil
}

func (p *place) replace(ctx context.Context, c content, data []byte) (err error) {
	if p.name == "." {
		return syscall.EISDIR
	}
	perm := fs.FileMode(0o644)
	if c.info != nil {
		perm = c.info.Mode().Perm()
	}
	if err := p.unchanged(c); err != nil {
		return err
	}
	temp := exec.TempName("write")
	f, err := p.dir().OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.dir().Remove(temp))
		}
	}()
	_, err = io.Copy(f, until(ctx, bytes.NewReader(data)))
	if err == nil && c.info != nil {
		err = keepOwner(f, c.info, perm)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if ctx.Err() != nil { // the sync may have taken long
		return context.Cause(ctx)
	}
	if err := p.unchanged(c); err != nil {
		return err
	}
	return p.dir().Rename(temp, p.name)
}

// unchanged looks at the target once more.
func (p *place) unchanged(c content) error {
	now, err := p.dir().Lstat(p.name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.info == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return ErrChanged
	case err != nil:
		return err
	case c.info == nil, !os.SameFile(now, c.info), now.Size() != c.info.Size(), !now.ModTime().Equal(c.info.ModTime()):
		return ErrChanged
	}
	p.info = now
	return p.writable()
}

// keepOwner gives the new file the mode of the old one past the umask, and its
// owner where that is allowed and needed.
func keepOwner(f *os.File, old fs.FileInfo, perm fs.FileMode) error {
	was, ok := old.Sys().(*syscall.Stat_t)
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if st, is := now.Sys().(*syscall.Stat_t); ok && is && (st.Uid != was.Uid || st.Gid != was.Gid) {
		// Only root may give files away; for others the file becomes theirs, as
		// with any editor that renames.
		_ = f.Chown(int(was.Uid), int(was.Gid))
	}
	return f.Chmod(perm)
}
