package accesspolicy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ralph/workers/exec/acts"
	"ralph/workers/exec/sandbox"
	"ralph/workers/git"
)

const (
	// maxDirs bounds how many directories of the tree are looked at for
	// repositories.
	maxDirs = 200_000
	// maxModules bounds how deep the repositories of submodules are nested.
	maxModules = 64
	// maxProtected bounds how many of the user's repositories there are in a tree, and
	// how many names that act: each is a mount of every command.
	maxProtected = 1000
)

// repositories finds the git repositories in a tree, at any depth: a ".git", which
// is a directory or a file that leads to one, and the layout by which git takes
// any other directory for a repository. It remembers directories that did not
// change: of those it asks only for the time of their change.
type repositories struct {
	root string
	skip string // a directory that is not looked into
	top  seenDir
	// walked is the time of the last look at every directory, and again says that it
	// was not the first.
	walked time.Time
	again  bool
	// candidates are the paths of the last find with names that may act.
	candidates []string
}

// seenDir is what a directory held when it was read.
type seenDir struct {
	changed int64 // nanoseconds
	settled bool  // it was read well after it had changed
	subs    map[string]*seenDir
	entries []string // names that are ".git" to some file system
	acting  []string // names that may act
	bare    bool     // the directory itself is one of git's
	objects bool     // it holds files of git's objects that have another name elsewhere
}

// find returns the paths of what git takes for repositories: ".git" in a work
// tree, or a directory of git's of another name; and of directories with objects
// of another repository's. It looks into all of them but ".git": whatever a
// directory looks like, git finds the repositories below it. Directories deeper
// than depth are taken to be as they were.
func (r *repositories) find(depth int) []string {
	if depth == maxDirs {
		r.again = !r.walked.IsZero()
		r.walked = time.Now()
	}
	left := maxDirs
	r.candidates = nil
	return r.walk(r.root, &r.top, depth, nil, &left)
}

func (r *repositories) walk(path string, d *seenDir, depth int, out []string, left *int) []string {
	var st unix.Stat_t
	if depth >= 0 || d.changed == 0 {
		if *left--; *left < 0 || unix.Lstat(path, &st) != nil {
			return out
		}
		if changed := ctimeOf(&st); !d.settled || changed != d.changed {
			if r.again && st.Mode&0o500 != 0o500 {
				r.open(path, os.FileMode(st.Mode))
			}
			d.read(path, changed)
		}
	}
	for _, name := range d.entries {
		out = append(out, path+"/"+name)
	}
	for _, name := range d.acting {
		r.candidates = append(r.candidates, path+"/"+name)
	}
	lends := false
	for name, sub := range d.subs {
		at := path + "/" + name
		if at == r.skip {
			continue
		}
		out = r.walk(at, sub, depth-1, out, left)
		switch {
		case !sub.objects:
		case path == r.root:
			out = append(out, at)
		default:
			lends = true // the directory of all of them
		}
	}
	if d.bare || lends {
		out = append(out, path)
	}
	return out
}

// open gives the owner of a directory the right to list it: git finds a repository
// below it all the same. That was taken away since the first look. Where it fails,
// as with somebody else's directory, it stays unread.
func (r *repositories) open(path string, mode os.FileMode) {
	root, err := os.OpenRoot(r.root) // no link leads the change out of the tree
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }()
	if rel, err := filepath.Rel(r.root, path); err == nil {
		_ = root.Chmod(rel, mode&0o777|0o500)
	}
}

// read reads a directory; what it knows of those below stays.
func (d *seenDir) read(path string, changed int64) {
	d.changed, d.settled = changed, time.Now().UnixNano()-changed > int64(quiet)
	subs := map[string]*seenDir{}
	d.entries, d.acting, d.bare, d.objects = nil, nil, false, false
	list, _ := readDir(path) // what cannot be read cannot be entered either
	var head, common, objects, refs bool
	for _, e := range list {
		name := e.Name()
		switch name {
		case "HEAD":
			head = true
		case "commondir":
			common = true
		case "objects":
			objects = true
		case "refs":
			refs = true
		}
		switch {
		case !d.objects && e.Type().IsRegular() && objectFile().MatchString(filepath.Base(path)+"/"+name):
			info, err := e.Info()
			d.objects = err == nil && links(info) > 1
		case acts.Fold(name) == ".git":
			d.entries = append(d.entries, name)
		}
		if acts.Candidate(name) {
			d.acting = append(d.acting, name)
		}
		if e.IsDir() && name != ".git" {
			if subs[name] = d.subs[name]; subs[name] == nil {
				subs[name] = &seenDir{}
			}
		}
	}
	d.subs, d.bare = subs, head && (common || objects && refs)
}

// objectFile matches the files that git keeps objects in, with the name of their
// directory: those of one object, and packs; see gitrepository-layout(5).
var objectFile = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-f]{2}/([0-9a-f]{38}|[0-9a-f]{62})$|/pack-[0-9a-f]{40,64}\.[a-z]+$`)
})

// links is how many names a file has.
func links(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(st.Nlink)
}

// nested are the repositories in the tree, besides its own.
type nested struct {
	repositories
	mu sync.Mutex
	// users are those that appeared while no command ran, with the parts of them
	// through which git runs something; commands are the others.
	users    map[string][]string
	commands map[string]bool
}

func newNested(root string) *nested {
	return &nested{repositories: repositories{root: root, skip: filepath.Join(root, ".ralph")}, users: map[string][]string{}, commands: map[string]bool{}}
}

// below lists the repositories of the tree but its own, what files lead to before them; see find.
func (n *nested) below(depth int) []string {
	list := slices.DeleteFunc(n.find(depth), func(p string) bool { return filepath.Dir(p) == n.root && filepath.Base(p) == ".git" })
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(fileRank(a), fileRank(b)), cmp.Compare(a, b)) })
	return list
}

// usersRepos are the paths that are protected of the user's own repositories in the
// tree. Where mounts hold them that is the whole of each, which layer may open
// again; its objects can have other names, in repositories elsewhere.
func (s *Sandbox) usersRepos() ([]string, error) {
	n := s.nested
	n.mu.Lock()
	defer n.mu.Unlock()
	depth := maxDirs
	if time.Since(n.walked) < quiet {
		depth = 1 // nobody makes a repository that soon after a command
	}
	var out []string
	whole := s.overlaid()
	for _, path := range n.below(depth) {
		if n.commands[path] {
			continue
		}
		if _, known := n.users[path]; !known {
			n.users[path] = s.unsafeNames(path)
		}
		if whole || !isDir(path) {
			out = append(out, path)
			continue
		}
		for _, name := range []string{"config", "config.worktree", "hooks", "info", "commondir"} {
			if _, err := os.Lstat(filepath.Join(path, name)); err == nil {
				out = append(out, filepath.Join(path, name))
			}
		}
	}
	if len(out) > maxProtected {
		return nil, fmt.Errorf("protect the %d git repositories in %q: only %d can be: start Ralph in one of them", len(out), s.o.Root, maxProtected)
	}
	return out, nil
}

// inTree returns the user's repositories in the tree besides its own, with those whose
// directory lies elsewhere, such as submodules; configured are those whose configuration is
// not known to be harmless.
func (s *Sandbox) inTree() (repos []git.Location, configured map[string]bool) {
	repos, configured = s.nestedRepos(), map[string]bool{}
	n := s.nested
	n.mu.Lock()
	defer n.mu.Unlock()
	for path, unsafe := range n.users {
		gitDir := path
		if isRegular(path) {
			loc, err := git.Find(filepath.Dir(path))
			if err != nil || loc.Root != filepath.Dir(path) {
				continue
			}
			gitDir, repos = loc.GitDir, append(repos, loc)
			unsafe = s.unsafeNames(gitDir)
		}
		configured[gitDir] = slices.Contains(unsafe, "config") || slices.Contains(unsafe, "config.worktree")
	}
	return repos, configured
}

// nestedRepos are the user's repositories in the tree besides its own, sorted.
func (s *Sandbox) nestedRepos() []git.Location {
	n := s.nested
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []git.Location
	for _, path := range slices.Sorted(maps.Keys(n.users)) {
		if path != s.o.Root && isDir(path) && isRegular(filepath.Join(path, "HEAD")) && !isRegular(filepath.Join(path, "commondir")) {
			out = append(out, git.Location{Root: filepath.Dir(path), GitDir: path, CommonDir: path})
		}
	}
	return out
}

// checkRepos makes the repositories harmless that commands have made, wherever in
// the tree: they may stay, but not with anything that git would run for the user,
// or that leads it elsewhere. Of the user's own what was not there before goes. own says
// that the repository of the root is the user's, meanwhile that commands run.
func (s *Sandbox) checkRepos(own, meanwhile bool, say func(string, ...any)) {
	if !own {
		s.checkRepo(filepath.Join(s.o.Root, ".git"), meanwhile, say)
	}
	n := s.nested
	n.mu.Lock()
	defer n.mu.Unlock()
	found := n.below(maxDirs)
	for _, path := range found {
		known, users := n.users[path]
		if !users {
			n.commands[path] = true
			s.checkRepo(path, meanwhile, say)
			continue
		}
		for _, b := range s.unsafeParts(path) {
			if !slices.Contains(known, b.name) {
				s.takePart(path, b, say)
			}
		}
	}
	gone := func(path string) bool { return !slices.Contains(found, path) }
	maps.DeleteFunc(n.users, func(path string, _ []string) bool { return gone(path) })
	maps.DeleteFunc(n.commands, func(path string, _ bool) bool { return gone(path) })
}

// fileRank is 1 for a file, 0 for a directory.
func fileRank(path string) int {
	if isDir(path) {
		return 0
	}
	return 1
}

// checkRepo makes one repository harmless. A file that leads to one with something that git would
// run goes, as that may be the user's. Meanwhile a file may lead to what only the commands see: a
// submodule in the layer over the user's repository.
func (s *Sandbox) checkRepo(path string, meanwhile bool, say func(string, ...any)) {
	info, err := os.Lstat(path)
	if err != nil {
		return
	}
	if info.IsDir() {
		s.tame(path, say)
		return
	}
	target, ok := gitFile(path, info)
	if !ok && (meanwhile || s.anyGuarded()) {
		return
	}
	if loc := s.repository(); loc != nil && ok && below(loc.CommonDir, target) {
		return // a work tree or submodule of the repository: all of that is guarded
	}
	switch {
	case !ok || !below(s.o.Root, target):
		s.takeAway(path, "leads git to a place outside the tree", say)
	case slices.ContainsFunc(gitDirs(target, 0), func(dir string) bool { return len(s.unsafeParts(dir)) > 0 }):
		s.takeAway(path, "leads git to a directory with something that git would run", say)
	}
}

// tame takes from a directory of git's, and those of its submodules and linked work
// trees, what git would run or be misled by. Of configuration it leaves what is
// harmless; the whole is in the quarantine.
func (s *Sandbox) tame(gitDir string, say func(string, ...any)) {
	for _, dir := range gitDirs(gitDir, 0) {
		for _, b := range s.unsafeParts(dir) {
			s.takePart(dir, b, say)
		}
	}
}

// takePart takes an unsafe part of a repository away, but for what may stay of it.
func (s *Sandbox) takePart(gitDir string, b bad, say func(string, ...any)) {
	path := filepath.Join(gitDir, b.name)
	s.takeAway(path, b.why, say)
	if b.rest == nil {
		return
	}
	if err := (keptFile{mode: 0o644, data: b.rest}).putBack(path); err != nil {
		say("%s could not be put back without that: %v", s.rel(path), err)
	}
}

// gitDirs are a directory of git's and those of its submodules and linked work trees. One that is
// incomplete, as while it is copied or removed, is none for git either.
func gitDirs(dir string, depth int) []string {
	return append(append([]string{dir}, gitDirsBelow(filepath.Join(dir, "worktrees"), depth)...), gitDirsBelow(filepath.Join(dir, "modules"), depth)...)
}

// gitDirsBelow are those of the directories below one, as the name of a submodule has slashes.
func gitDirsBelow(dir string, depth int) []string {
	var out []string
	entries, _ := readDir(dir) // mostly there is none
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		switch {
		case !e.IsDir() || depth > maxModules:
		case git.IsGitDir(sub):
			out = append(out, gitDirs(sub, depth+1)...)
		default:
			out = append(out, gitDirsBelow(sub, depth+1)...)
		}
	}
	return out
}

// bad is a part of a git directory that git would run, or be misled by. rest is
// what may stay of it, nil for nothing.
type bad struct {
	name, why string
	rest      []byte
}

// unsafeNames are the names of the unsafe parts of a repository.
func (s *Sandbox) unsafeNames(gitDir string) []string {
	names := []string{}
	for _, b := range s.unsafeParts(gitDir) {
		names = append(names, b.name)
	}
	return names
}

// unsafeParts looks for them in a git directory that a command has made. What a command writes
// meanwhile is none: its guard judges that when it is whole.
func (s *Sandbox) unsafeParts(gitDir string) []bad {
	var out []bad
	add := func(name, why string, rest []byte) {
		if to, err := os.Readlink(filepath.Join(gitDir, name)); err != nil || !strings.HasPrefix(to, sandbox.Stages) || !s.anyGuarded() {
			out = append(out, bad{name, why, rest})
		}
	}
	for _, name := range []string{"config", "config.worktree"} {
		path := filepath.Join(gitDir, name)
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if !info.Mode().IsRegular() || info.Size() > maxConfigBytes {
			add(name, "is no configuration as git writes it", nil)
			continue
		}
		text, err := readFile(path, maxConfigBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is being removed
		}
		if err != nil {
			add(name, "cannot be read", nil)
			continue
		}
		if key := acts.UnsafeKey(text, acts.WorkTrees(s.o.Root, gitDir, text)); key != "" {
			rest := acts.HarmlessConfig(text, acts.WorkTrees(s.o.Root, gitDir, text))
			if len(acts.Settings(rest)) == 0 {
				rest = nil
			}
			add(name, "sets "+key+", which may have git run something; what else it sets stays", rest)
		}
	}
	if text, err := readFile(filepath.Join(gitDir, "commondir"), maxConfigBytes); err == nil || !errors.Is(err, fs.ErrNotExist) {
		// That of a linked work tree is the repository that it belongs to.
		to := filepath.Join(gitDir, strings.TrimSpace(string(text)))
		linked := filepath.Base(filepath.Dir(gitDir)) == "worktrees" && to == filepath.Dir(filepath.Dir(gitDir))
		if err != nil || !linked && len(text) > 0 { // an empty one is being written, and leads nowhere
			add("commondir", "leads git to other configuration", nil)
		}
	}
	if holdsOther(filepath.Join(gitDir, "hooks"), ".sample") {
		add("hooks", "holds programs that git would run", nil)
	}
	for _, name := range []string{"objects", "refs", "logs", "info", "modules", "worktrees"} {
		if info, err := os.Lstat(filepath.Join(gitDir, name)); err == nil && !info.IsDir() {
			add(name, "leads git to another place", nil)
		}
	}
	for _, name := range []string{"remotes", "branches"} {
		if holdsOther(filepath.Join(gitDir, name), "/") {
			add(name, "leads git to other repositories", nil)
		}
	}
	for _, name := range []string{"info/attributes", "info/grafts", "objects/info/http-alternates"} {
		if name == "info/attributes" && slices.Contains(s.clone(), gitDir) {
			continue // Ralph's, of the user's repository
		}
		if _, err := os.Lstat(filepath.Join(gitDir, name)); err == nil {
			add(name, "misleads git", nil)
		}
	}
	if path := filepath.Join(gitDir, "objects", "info", "alternates"); !s.borrowsInTree(path) {
		add("objects/info/alternates", "leads git to objects outside the tree", nil)
	}
	return out
}

// holdsOther reports whether a path is anything but a directory whose names all end in suffix. One
// that is not there, or is being removed, is harmless.
func holdsOther(path, suffix string) bool {
	if info, err := os.Lstat(path); err == nil && !info.IsDir() {
		return true
	}
	entries, err := readDir(path)
	return err != nil && !errors.Is(err, fs.ErrNotExist) || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), suffix) })
}

// borrowsInTree reports whether a list of alternates leads nowhere but into the
// tree, or is not there.
func (s *Sandbox) borrowsInTree(path string) bool {
	text, err := readFile(path, maxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if !filepath.IsAbs(line) {
			line = filepath.Join(filepath.Dir(filepath.Dir(path)), line)
		}
		real, rerr := filepath.EvalSymlinks(line)
		lent := s.trees() != "" && below(s.trees(), real) // to an agent's clone
		if rerr != nil || strings.HasPrefix(line, `"`) || !below(s.o.Root, real) && !lent {
			return false
		}
	}
	return err == nil
}
