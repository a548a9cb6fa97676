package control

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The names in `.ralph`. The lock decides which of several servers has the
// socket; like every lock it is never removed.
const (
	socketName = "control.sock"
	lockName   = "control.lock"
)

// pointerMark begins the file that stands for a socket elsewhere.
const pointerMark = "ralph-socket "

const maxPointerBytes = 4096

// maxPathBytes is the longest name that a socket can have on this system.
const maxPathBytes = len(syscall.RawSockaddrUnix{}.Path) - 1

// place is where a server listens.
type place struct {
	dir     string // `.ralph`, absolute
	socket  string // the socket
	pointer string // the file in dir that names it; empty when it is in dir
	lock    *os.File
	made    []made // what is ours to remove
}

// made is a file as it was when it was made.
type made struct {
	path string
	info fs.FileInfo
}

func (m made) inPlace() bool {
	now, err := os.Lstat(m.path)
	return err == nil && os.SameFile(now, m.info)
}

// locate says where the socket of a `.ralph` is to be.
func locate(dir, runtime string) (*place, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	p := &place{dir: dir, socket: filepath.Join(dir, socketName)}
	if len(p.socket) <= maxPathBytes {
		return p, nil
	}
	p.pointer = p.socket
	if p.socket, err = shortPath(dir, runtime); err != nil {
		return nil, err
	}
	return p, nil
}

// shortPath is the name of a socket below the user's runtime directory.
func shortPath(dir, runtime string) (string, error) {
	if runtime == "" {
		runtime = os.TempDir()
	}
	runtime, err := filepath.Abs(runtime)
	if err != nil {
		return "", err
	}
	path := filepath.Join(runtime, shortDir(), shortName(dir))
	if len(path) > maxPathBytes {
		return "", fmt.Errorf("the runtime directory %q is too long for a socket", runtime)
	}
	return path, nil
}

func shortDir() string { return "ralph-" + strconv.Itoa(os.Geteuid()) }

// shortName is the same for all paths that lead to a directory.
func shortName(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:8]) + ".sock"
}

// claim makes the place this process's: its directories, the lock, and nothing
// in the way that somebody could still need. The lock may be held from before.
func (p *place) claim() error {
	if err := ownDir(p.dir, false); err != nil {
		return err
	}
	if err := p.take(); err != nil {
		return err
	}
	if err := p.clear(filepath.Join(p.dir, socketName)); err != nil {
		return err
	}
	if p.pointer == "" {
		return nil
	}
	if err := ownDir(filepath.Dir(p.socket), true); err != nil {
		return err
	}
	return p.clear(p.socket)
}

// ownDir makes a directory unless it is there; private ones must be this user's
// alone.
func ownDir(dir string, private bool) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%q %w", dir, ErrForeign)
	case private && (!mine(info) || info.Mode().Perm()&0o077 != 0):
		return fmt.Errorf("%q %w: it must be this user's, with mode 0700", dir, ErrForeign)
	}
	return nil
}

// mine says that a file is this user's. Where there are no owners it is.
func mine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) == os.Geteuid()
}

// take takes the lock, unless it is held and still in its place.
func (p *place) take() error {
	path := filepath.Join(p.dir, lockName)
	for {
		if p.lock != nil && held(p.lock, path) {
			return nil
		}
		p.drop()
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			p.lock = f
			continue // it may have been replaced before it was locked
		}
		_ = f.Close() // nothing was written to it
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return ErrLive
		}
		return fmt.Errorf("lock %q: %w", path, err)
	}
}

func held(f *os.File, path string) bool {
	a, err := f.Stat()
	b, err2 := os.Lstat(path)
	return err == nil && err2 == nil && os.SameFile(a, b)
}

func (p *place) drop() {
	if p.lock != nil {
		// A process that is just being forked has a copy of the descriptor, so closing
		// ours alone could leave it locked for a moment.
		_ = syscall.Flock(int(p.lock.Fd()), syscall.LOCK_UN)
		_ = p.lock.Close()
		p.lock = nil
	}
}

// clear removes what a dead server left at path. Anything else stays, and is
// an error.
func (p *place) clear(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !mine(info):
		return fmt.Errorf("%q %w: it is another user's", path, ErrForeign)
	case info.Mode()&fs.ModeSocket != 0 && len(path) > maxPathBytes:
		return os.Remove(path) // nobody can connect to it
	case info.Mode()&fs.ModeSocket != 0:
		if answers(path) {
			return ErrLive
		}
		return os.Remove(path)
	case info.Mode().IsRegular():
		target, err := readPointer(path, p.dir)
		if err == nil && answers(target) {
			return ErrLive
		}
		if err == nil {
			return os.Remove(path)
		}
	}
	return fmt.Errorf("%q %w: move it away", path, ErrForeign)
}

// answers says that somebody listens on a socket. Only a refusal means that
// nobody does: a full backlog, say, is one who is busy.
func answers(path string) bool {
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return true
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
}

// listen makes the socket, and the file that names it.
func (p *place) listen() (*net.UnixListener, error) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false)
	p.made = nil
	// Who connected before is asked who it is all the same.
	err = os.Chmod(p.socket, 0o600)
	if err == nil {
		err = p.note(p.socket)
	}
	if err == nil && p.pointer != "" {
		err = p.point()
	}
	if err != nil {
		p.remove()
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// note remembers a file as ours.
func (p *place) note(path string) error {
	info, err := os.Lstat(path)
	if err == nil {
		p.made = append(p.made, made{path: path, info: info})
	}
	return err
}

// point writes the file that names the socket.
func (p *place) point() error {
	f, err := os.OpenFile(p.pointer, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(pointerMark + p.socket + "\n")
	return errors.Join(err, f.Close(), p.note(p.pointer))
}

// inPlace says that the socket can be found.
func (p *place) inPlace() bool {
	for _, m := range p.made {
		if !m.inPlace() {
			return false
		}
	}
	return len(p.made) > 0
}

// remove removes what is still ours.
func (p *place) remove() {
	for _, m := range p.made {
		if m.inPlace() {
			_ = os.Remove(m.path) // the next server finds it stale
		}
	}
	p.made = nil
}

// readPointer reads the file that names a socket of dir. A repository could
// bring one along: it may only lead to where a server of this user would put
// the socket of this very directory.
func readPointer(path, dir string) (string, error) {
	foreign := fmt.Errorf("%q %w", path, ErrForeign)
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || !mine(info) {
		return "", foreign
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxPointerBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	rest, ok := bytes.CutPrefix(data, []byte(pointerMark))
	target, whole := strings.CutSuffix(string(rest), "\n")
	if !ok || !whole || len(data) > maxPointerBytes || !filepath.IsAbs(target) || target != filepath.Clean(target) ||
		filepath.Base(target) != shortName(dir) || filepath.Base(filepath.Dir(target)) != shortDir() {
		return "", foreign
	}
	return target, nil
}
