package trees

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ralph/workers/git"
)

// moved is a path that was moved away, or put where nothing was (None), in the
// order in which that was done. The file is at its position in the list.
type moved struct {
	Path []byte
	None bool
}

// stripping makes a tree what a checkout of an index gives.
type stripping struct {
	t     *Trees
	r     record
	p     git.Plumbing
	index string

	filled  time.Time // when files were checked out first; zero where that is not known
	all     map[string]entry
	parents map[string]bool // directories of entries
	hidden  map[string]bool // what git ignores, as it lists it, without a slash
	ignored map[string]bool // what of hidden stays, see ignoredAt
	above   map[string]bool // directories of ignored files
	extra   []string
	doubted map[string]bool // entries whose file may differ
}

// strip moves everything that a checkout of the index does not give into a new
// directory, the repository too when asked for, and puts in its place what a
// checkout gives. It names what was moved, but for the repository.
func (s *stripping) strip(ctx context.Context, into string, repository bool) (away []string, err error) {
	if err := s.survey(ctx); err != nil {
		return nil, err
	}
	if err := os.Mkdir(into, 0o700); err != nil {
		return nil, err
	}
	differ, err := s.differing(ctx, filepath.Join(into, "want"))
	if err != nil {
		return nil, err
	}
	var list []moved
	if repository {
		list = append(list, moved{Path: []byte(".git")})
	}
	for _, name := range s.extra {
		list = append(list, moved{Path: []byte(name)})
	}
	dir := s.t.dir(s.r.Agent)
	for _, name := range differ {
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
		list = append(list, moved{Path: []byte(name), None: err != nil})
	}
	if err := s.t.save(filepath.Join(into, "moved.json"), list); err != nil {
		return nil, err
	}
	for n, m := range list {
		if m.None {
			continue
		}
		name := filepath.FromSlash(string(m.Path))
		if err := renameAny(filepath.Join(dir, name), filepath.Join(into, strconv.Itoa(n))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for _, name := range differ {
		from, to := filepath.Join(into, "want", filepath.FromSlash(name)), filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return nil, err
		}
		if err := os.Rename(from, to); err != nil {
			return nil, err
		}
	}
	return append(slices.Clone(s.extra), differ...), s.refresh(ctx, differ)
}

// refresh has the index know the files of entries that were replaced.
func (s *stripping) refresh(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var info []byte // an entry without the size of its file is compared by content
	for _, name := range names {
		e := s.all[name]
		info = fmt.Appendf(info, "%s %s 0\t%s\x00", e.mode, e.hash, name)
	}
	_, _, err := s.p.Run(ctx, git.Call{Args: []string{"update-index", "-z", "--index-info"}, Stdin: info, Index: s.index})
	if err == nil {
		_, _, err = s.p.Run(ctx, git.Call{Args: []string{"update-index", "-q", "--refresh"}, Index: s.index, Allow: []int{1}})
	}
	return err
}

// renameAny is os.Rename, also for a directory that its owner may not write.
func renameAny(from, to string) error {
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrPermission) {
		if info, lerr := os.Lstat(from); lerr == nil && info.IsDir() && os.Chmod(from, info.Mode().Perm()|0o700) == nil {
			err = os.Rename(from, to)
		}
	}
	return err
}

// survey finds what is in the tree and not in the index, and the entries of the
// index that may differ from their files.
func (s *stripping) survey(ctx context.Context) (err error) {
	s.extra, s.doubted, s.parents, s.hidden, s.ignored, s.above = nil, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	if s.all, err = entries(ctx, s.p, s.index, nil); err != nil {
		return err
	}
	if _, err := unhide(ctx, s.p, s.t.dir(s.r.Agent), s.index, s.all); err != nil {
		return err
	}
	for name, e := range s.all {
		upward(name, s.parents)
		if e.skip || e.assume {
			s.doubted[name] = true
		}
	}
	if info, err := os.Lstat(s.t.filledMark(s.r)); err == nil {
		s.filled = statusTime(info)
	}
	out, _, err := s.p.Run(ctx, git.Call{Args: []string{"ls-files", "-z", "-o", "-i", "--directory", "--exclude-standard"}, Index: s.index})
	if err != nil {
		return err
	}
	for _, name := range fields(out) {
		s.hidden[strings.TrimSuffix(name, "/")] = true
	}
	before, err := s.t.ignoredAt(ctx, s.r, s.r.Base, fields(out))
	if err != nil {
		return err
	}
	for _, name := range before {
		name = strings.TrimSuffix(name, "/")
		s.ignored[name] = true
		upward(name, s.above)
	}
	// What an agent configured, and the times that it set, have no say in it.
	env := []string{"GIT_CONFIG_PARAMETERS='core.trustctime'='true' 'core.checkstat'='default' 'core.filemode'='true' 'core.symlinks'='true'"}
	if out, _, err = s.p.Run(ctx, git.Call{Args: []string{"diff-files", "--name-only", "-z", "--ignore-submodules=all"}, Index: s.index, Env: env}); err != nil {
		return err
	}
	for _, name := range fields(out) {
		s.doubted[name] = true
	}
	return s.walk("")
}

// upward adds the directories above a path to a set.
func upward(name string, set map[string]bool) {
	for d := path.Dir(name); d != "." && !set[d]; d = path.Dir(d) {
		set[d] = true
	}
}

// walk looks at the files of one directory of the tree.
func (s *stripping) walk(dir string) error {
	at := filepath.Join(s.t.dir(s.r.Agent), filepath.FromSlash(dir))
	list, err := os.ReadDir(at)
	if errors.Is(err, fs.ErrPermission) && os.Chmod(at, 0o700) == nil {
		list, err = os.ReadDir(at)
	}
	if err != nil {
		return err
	}
	for _, d := range list {
		name := path.Join(dir, d.Name())
		if name == ".git" {
			continue
		}
		e, tracked := s.all[name]
		switch {
		case tracked && e.mode == modeGitlink && d.IsDir():
		case tracked && d.Type() == fs.ModeSymlink && e.mode == modeLink:
		case tracked:
			info, err := d.Info()
			if err != nil {
				return err
			}
			// One that was written since may hold what git takes for equal: other line
			// ends, or what an attribute converts.
			if !info.Mode().IsRegular() || e.mode == modeLink || (info.Mode()&0o100 != 0) != (e.mode == modeExec) || !statusTime(info).Before(s.filled) {
				s.doubted[name] = true
			}
		case s.linked(name):
		case d.IsDir() && (s.parents[name] || s.above[name] && !s.t.own(name)):
			if err := s.walk(name); err != nil {
				return err
			}
		case among(s.ignored, name) && !s.t.own(name):
		default:
			s.extra = append(s.extra, name)
		}
	}
	return nil
}

// linked reports whether a path is a link that Ralph made.
func (s *stripping) linked(name string) bool {
	target, err := os.Readlink(filepath.Join(s.t.dir(s.r.Agent), filepath.FromSlash(name)))
	return err == nil && slices.ContainsFunc(s.r.Links, func(l link) bool { return string(l.Path) == name && string(l.Target) == target })
}

// among reports whether a path, or a directory above it, is in a set.
func among(set map[string]bool, name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if set[name] {
			return true
		}
	}
	return false
}

// differing checks the doubted entries out into want, and gives those whose file is
// not what their checkout is.
func (s *stripping) differing(ctx context.Context, want string) ([]string, error) {
	var names []byte
	var list []string
	for name := range s.doubted {
		if e, ok := s.all[name]; ok && e.mode != modeGitlink && e.stage == "0" {
			list = append(list, name)
			names = append(append(names, name...), 0)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	if _, _, err := s.p.Run(ctx, git.Call{Args: []string{"checkout-index", "--prefix=" + want + "/", "-z", "--stdin"}, Stdin: names, Index: s.index}); err != nil {
		return nil, err
	}
	slices.Sort(list)
	var differ []string
	for _, name := range list {
		file := filepath.FromSlash(name)
		same, err := sameFile(filepath.Join(want, file), filepath.Join(s.t.dir(s.r.Agent), file))
		if err != nil {
			return nil, err
		}
		if !same {
			differ = append(differ, name)
		}
	}
	return differ, nil
}

// sameFile reports whether two paths are the same to git: of one type, with the
// same content, and both executable or not.
func sameFile(a, b string) (bool, error) {
	x, err := os.Lstat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Lstat(b)
	if err != nil || x.Mode().Type() != y.Mode().Type() {
		return false, nil
	}
	if x.Mode()&fs.ModeSymlink != 0 {
		to, err := os.Readlink(a)
		have, berr := os.Readlink(b)
		return to == have && berr == nil, err
	}
	if x.Size() != y.Size() || x.Mode()&0o100 != y.Mode()&0o100 {
		return false, nil
	}
	f, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	g, err := os.Open(b)
	if err != nil {
		return false, nil
	}
	defer func() { _ = g.Close() }() // it was only read
	one, two := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(f, one)
		m, berr := io.ReadFull(g, two)
		if !bytes.Equal(one[:n], two[:m]) || err == nil && berr != nil {
			return false, nil
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}
