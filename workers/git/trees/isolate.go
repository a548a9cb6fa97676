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

	"ralph/workers/exec"
	"ralph/workers/git"
)

// Recorded is what a commit would hold of the work of an agent.
type Recorded struct {
	// Commit holds it. No ref names it.
	Commit string
	// Tree is the tree of Commit.
	Tree string
	// LeftOut names what the agent's tree holds beside it, each with the reason;
	// what git ignores is not among it.
	LeftOut []string
}

// releaseTime bounds how long the files of an agent may take to come back.
const releaseTime = time.Minute

// Isolate records the work of an agent as Commit would, without moving its branch,
// and makes its tree what a checkout of that commit gives, with a repository that
// holds nothing of the agent's: everything else is moved to where no command sees
// it, but for what git ignores. release removes what was written since beside
// ignored files and puts the agent's files and repository back; the caller calls
// it once, after all commands in the tree have ended. When Ralph is killed before,
// the next Add, Commit or Isolate puts them back.
//
// The content of checked out submodules stays as the agent left it. Nobody else may
// use the tree until release.
func (t *Trees) Isolate(ctx context.Context, agent string) (Recorded, func() error, error) {
	rec, release, err := t.isolate(ctx, agent)
	if err != nil {
		return rec, nil, fmt.Errorf("isolate the work of %q: %w", agent, err)
	}
	return rec, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer cancel()
		if err := release(ctx); err != nil {
			return fmt.Errorf("put back the files of %q: %w", agent, err)
		}
		return nil
	}, nil
}

func (t *Trees) isolate(ctx context.Context, agent string) (rec Recorded, release func(context.Context) error, err error) {
	r, err := t.find(ctx, agent)
	if err != nil {
		return rec, nil, err
	}
	if err := t.reunite(r); err != nil {
		return rec, nil, err
	}
	g, err := t.gather(ctx, r)
	if err != nil {
		return rec, nil, err
	}
	defer func() {
		if err != nil {
			g.remove()
		}
	}()
	parents, tree, err := t.lineage(ctx, &g)
	if err != nil {
		return rec, nil, err
	}
	p := t.child(r).Plumbing()
	if err = t.follow(ctx, p, &g, tree); err != nil {
		return rec, nil, err
	}
	rec.Commit, rec.Tree = parents[0], tree
	if old, err := t.treeOf(ctx, parents[0]); err != nil || old != tree {
		if err != nil {
			return rec, nil, err
		}
		if rec.Commit, err = t.synthetic(tree, "ralph: what is checked", parents...); err != nil {
			return rec, nil, err
		}
	}
	s := stripping{t: t, r: r, p: p, index: g.index}
	away, err := s.strip(ctx, t.aside(r), true)
	if err == nil {
		err = t.freshClone(ctx, r, rec.Commit, g.index)
	}
	if err != nil {
		return rec, nil, errors.Join(err, t.reunite(r))
	}
	rec.LeftOut = bounded(named(g.leftOut, away))
	return rec, func(ctx context.Context) error {
		defer g.remove()
		// What the commands wrote is nobody's work.
		made := filepath.Join(t.private(), exec.TempName("copy"))
		_, err := s.strip(ctx, made, false)
		return errors.Join(err, removeAll(made), t.reunite(r))
	}, nil
}

// Record makes a commit of the user's files as they are, as Commit would of an
// agent's; it is HEAD when nothing differs. The user's tree and refs stay as they are.
func (t *Trees) Record(ctx context.Context) (Recorded, error) {
	rec, err := t.record(ctx)
	if err != nil {
		return rec, fmt.Errorf("record the work tree: %w", err)
	}
	return rec, nil
}

func (t *Trees) record(ctx context.Context) (rec Recorded, err error) {
	unlock, err := t.lock(ctx)
	if err != nil {
		return rec, err
	}
	defer unlock()
	if rec.Commit, _, err = t.user().Head(ctx); err != nil {
		return rec, err
	}
	now, err := t.present(ctx, true)
	if err != nil {
		return rec, err
	}
	defer now.remove()
	rec.Tree, rec.LeftOut = now.tree, bounded(now.leftOut)
	if rec.Commit != "" {
		if old, err := t.treeOf(ctx, rec.Commit); err != nil || old == rec.Tree {
			return rec, err
		}
	}
	rec.Commit, err = t.synthetic(rec.Tree, "ralph: what is checked", rec.Commit)
	return rec, err
}

// named adds to what was left out of a commit what was moved away and is not named
// there.
func named(leftOut, away []string) []string {
	list := slices.Clone(leftOut)
	for _, name := range away {
		known := func(l string) bool {
			rest, ok := strings.CutPrefix(l, name)
			return ok && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, " ("))
		}
		if !slices.ContainsFunc(leftOut, known) {
			list = append(list, reason(name, whyDiffers))
		}
	}
	slices.Sort(list)
	return list
}

// aside is where the files of an agent are while its tree is isolated.
func (t *Trees) aside(r record) string { return filepath.Join(t.admin(r.Admin), "aside") }

// filledMark is a file that is made when the directory of a tree has been checked
// out for the first time. The directory may serve other agents after that.
func (t *Trees) filledMark(r record) string { return filepath.Join(t.admin(r.Admin), "filled") }

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
	ignored map[string]bool // as git lists them, without a slash
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
	if err := save(filepath.Join(into, "moved.json"), list); err != nil {
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
	s.extra, s.doubted, s.parents, s.ignored, s.above = nil, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
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
		case s.ignores(name) && !s.t.own(name):
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

// ignores reports whether git ignores a path.
func (s *stripping) ignores(name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if s.ignored[name] {
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

// freshClone gives a tree, whose repository was moved away, one that is at commit
// and has nothing of the agent's but the repositories of its submodules.
func (t *Trees) freshClone(ctx context.Context, r record, commit, index string) error {
	unlock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	snapshot, err := t.takeSnapshot(ctx)
	if err != nil {
		return err
	}
	if err := t.layClone(ctx, r, commit, snapshot, true); err != nil {
		return err
	}
	root, err := t.openTree(r.Agent)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // files are closed one by one
	text, err := os.ReadFile(index)
	if err != nil {
		return err
	}
	if err := writeIn(root, ".git/index", text); err != nil {
		return err
	}
	return swapModules(filepath.Join(t.aside(r), "0"), filepath.Join(t.dir(r.Agent), ".git"))
}

// swapModules moves the repositories of submodules from one repository to another.
func swapModules(from, to string) error {
	if info, err := os.Lstat(filepath.Join(from, "modules")); err != nil || !info.IsDir() {
		return nil // there are none
	}
	if err := removeAll(filepath.Join(to, "modules")); err != nil {
		return err
	}
	return os.Rename(filepath.Join(from, "modules"), filepath.Join(to, "modules"))
}

// reunite brings the files of an agent back that strip moved away. It may be cut
// off and done again, and does nothing for a tree that is not isolated.
func (t *Trees) reunite(r record) error {
	if r.Admin == "" {
		return nil
	}
	aside, dir := t.aside(r), t.dir(r.Agent)
	var list []moved
	if _, err := load(filepath.Join(aside, "moved.json"), &list); err != nil {
		return err
	}
	for n, m := range slices.Backward(list) {
		from, to := filepath.Join(aside, strconv.Itoa(n)), filepath.Join(dir, filepath.FromSlash(string(m.Path)))
		if _, err := os.Lstat(from); err != nil {
			if m.None {
				if err := removeFile(to); err != nil {
					return err
				}
			}
			continue // it never left, or is back
		}
		if string(m.Path) == ".git" {
			if err := swapModules(to, from); err != nil {
				return err
			}
		}
		if err := removeAll(to); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	return removeAll(aside)
}
