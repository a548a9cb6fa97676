package accesspolicy

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ralph/workers/exec/acts"
	"ralph/workers/exec/sandbox"
	"ralph/workers/git"
)

// acting returns which names act in the tree.
func (s *Sandbox) acting() acts.Rules {
	r := acts.Rules{Free: s.free()}
	repos, _ := s.inTree()
	for _, loc := range repos {
		if _, err := os.Lstat(filepath.Join(loc.Root, ".git")); err == nil {
			r.Roots = append(r.Roots, acts.FoldPath(s.rel(loc.Root)))
		}
	}
	for _, n := range s.led(r) {
		r.Paths = append(r.Paths, acts.Name{Path: acts.FoldPath(s.rel(n.Path)), Class: n.Class})
	}
	return r
}

// led returns the files and directories of the tree, absolute, that act by what leads to them:
// git's configuration of each repository in it, hooks that are links, and links by names that
// act by themselves. They need not exist.
func (s *Sandbox) led(names acts.Rules) (list []acts.Name) {
	add := func(path, class string) {
		if path != s.o.Root && below(s.o.Root, path) && !slices.Contains(strings.Split(s.rel(path), "/"), ".git") {
			list = append(list, acts.Name{Path: path, Class: class})
		}
	}
	for _, rel := range s.programsBelow() {
		add(filepath.Join(s.o.Root, rel), acts.Hook)
	}
	repos, configured := s.inTree()
	for _, loc := range repos {
		if configured[loc.GitDir] {
			for _, path := range s.programs(&loc) {
				add(path, acts.Hook)
			}
		}
	}
	if loc := s.repository(); loc != nil {
		repos = append(repos, *loc)
	}
	for _, loc := range repos {
		hooks := filepath.Join(loc.CommonDir, "hooks")
		links := []string{hooks}
		entries, _ := readDir(hooks) // there mostly are none
		for _, e := range entries {
			links = append(links, filepath.Join(hooks, e.Name()))
		}
		for _, path := range links {
			if isLink(path) {
				add(resolved(path), acts.Hook)
			}
		}
	}
	s.nested.mu.Lock()
	candidates := slices.Clone(s.nested.candidates)
	s.nested.mu.Unlock()
	for _, path := range candidates {
		if n, ok := names.Match(s.rel(path)); ok && isLink(path) {
			add(resolved(path), n.Class)
		}
	}
	return list
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// programsBelow returns the files and directories in the tree that git's configuration has
// git run or read, relative to it.
func (s *Sandbox) programsBelow() []string {
	var list []string
	if loc := s.repository(); loc == nil {
		return nil
	} else if s.child() {
		list = s.hooks()
	} else {
		list = s.programs(loc)
	}
	for i, path := range list {
		list[i] = s.rel(path)
	}
	return list
}

// programFiles are what git's configuration for a repository names, with the state of the
// files that it depends on.
type programFiles struct {
	sources map[string]version
	list    []string
}

// version identifies a file behind links with its content; zero where there is no file.
type version struct {
	dev, ino uint64
	changed  time.Time
}

func versionOf(path string) version {
	info, err := os.Stat(path)
	if err != nil {
		return version{}
	}
	v := version{changed: ctime(info)}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		v.dev, v.ino = uint64(st.Dev), st.Ino
	}
	return v
}

// programs returns the files and directories below the root of a repository that git's
// configuration has git run or read, absolute and without links; they need not exist. When
// git cannot be asked, they are those of the last time.
func (s *Sandbox) programs(loc *git.Location) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.configured[loc.GitDir]
	if known.current() {
		return slices.Clone(known.list)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	env := []string{"HOME=" + s.o.Getenv("HOME")}
	for _, name := range []string{"XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"} {
		if value := s.o.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	found, err := git.Open(s.o.Own, *loc).Plumbing().Programs(ctx, env)
	if err != nil {
		return slices.Clone(known.list)
	}
	p := programFiles{sources: map[string]version{}}
	for _, path := range found.Sources {
		p.sources[path] = versionOf(path)
	}
	for _, path := range found.Paths {
		for _, at := range []string{path, resolved(path)} {
			switch {
			case at == loc.Root: // for hooks
				for _, name := range acts.HookNames() {
					p.list = append(p.list, filepath.Join(at, name))
				}
			case below(loc.Root, at) && !below(loc.CommonDir, at):
				p.list = append(p.list, at)
			}
		}
	}
	slices.Sort(p.list)
	p.list = slices.Compact(p.list)
	if s.configured == nil {
		s.configured = map[string]programFiles{}
	}
	s.configured[loc.GitDir] = p
	return slices.Clone(p.list)
}

// current reports whether git would answer the same.
func (p programFiles) current() bool {
	for path, was := range p.sources {
		if versionOf(path) != was {
			return false
		}
	}
	return p.sources != nil
}

// resolved returns a path without links; of what does not exist those above it are
// resolved.
func resolved(path string) string { return resolveLinks(path, 40) }

func resolveLinks(path string, left int) string {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		return real
	}
	if target, err := os.Readlink(path); err == nil && left > 0 {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		return resolveLinks(target, left-1)
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(resolveLinks(dir, left), filepath.Base(path))
	}
	return path
}

// guard returns what keeps a command from making names that act in the user's tree; nil
// where the kernel gives no means to.
func (s *Sandbox) guard(o Call) *sandbox.Guard {
	if !s.overlaid() || !s.layers().Active(guardLayer) {
		return nil
	}
	g := &sandbox.Guard{Root: s.o.Root, Rules: s.acting()}
	g.Allow = slices.DeleteFunc(slices.Clone(o.Acts), func(class string) bool { return class == acts.Git || class == acts.Hook })
	return g
}

// guardLayer begins the name of the layer that makes names for commands.
const guardLayer = "guard of names"

// freeDirs are the dependency directories that git ignores, as they were for the files that
// say so.
type freeDirs struct {
	known bool
	of    [2]time.Time // when .gitignore and info/exclude had changed
	list  []string
}

// free returns the dependency directories in which names do not act: those that git
// ignores; without a repository all of them.
func (s *Sandbox) free() []string {
	loc := s.repository()
	if loc == nil {
		return acts.DependencyDirs()
	}
	of := [2]time.Time{changeTime(filepath.Join(s.o.Root, ".gitignore")), changeTime(filepath.Join(loc.CommonDir, "info", "exclude"))}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ignored.known || s.ignored.of != of {
		s.ignored = freeDirs{known: true, of: of, list: s.ignoredDirs(*loc)}
	}
	return s.ignored.list
}

// ignoredDirs asks git which dependency directories it ignores, at the root and below.
func (s *Sandbox) ignoredDirs(loc git.Location) []string {
	const below = "packages/any/"
	var ask []string
	for _, dir := range acts.DependencyDirs() {
		ask = append(ask, dir+"/", below+dir+"/")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	names, err := git.Open(s.o.Own, loc).Plumbing().Ignored(ctx, ask)
	if err != nil {
		return nil // all names act
	}
	var list []string
	for _, name := range names {
		if dir, deep := strings.CutPrefix(name, below); deep {
			list = append(list, strings.TrimSuffix(dir, "/"))
		} else {
			list = append(list, "/"+strings.TrimSuffix(name, "/"))
		}
	}
	return list
}

// actingBelow returns the names in the tree that act, but for those that guardedDirs has
// and for classes that a rule allows; relative to the root, sorted, none below another.
func (s *Sandbox) actingBelow(allowed []string) []string {
	rules := s.acting()
	rules.Allow = allowed
	n := s.nested
	n.mu.Lock()
	found := slices.Clone(n.candidates)
	n.mu.Unlock()
	var out []string
	slices.Sort(found)
	for _, path := range found {
		rel := s.rel(path)
		if _, ok := rules.Match(rel); ok && strings.Contains(rel, "/") && (len(out) == 0 || !below(filepath.Join(s.o.Root, out[len(out)-1]), path)) {
			out = append(out, rel)
		}
	}
	return out
}

// takeActing takes away the names that act and were not there before a command that no guard
// kept from making them.
func (s *Sandbox) takeActing(w *watch, say func(string, ...any)) {
	if s.child() || w.guarded {
		return
	}
	rules := s.acting()
	s.mu.Lock()
	before := w.acting
	s.mu.Unlock()
	for _, rel := range s.actingBelow(w.allowed) {
		path := filepath.Join(s.o.Root, rel)
		if before[rel] {
			continue
		}
		if n, ok := rules.Match(rel); ok {
			s.takeAway(path, acts.Why(n.Class), say)
		}
	}
}

// rememberActing notes which names that act are there.
func (s *Sandbox) rememberActing(w *watch, allowed []string) {
	w.allowed, w.acting = allowed, map[string]bool{}
	for _, rel := range s.actingBelow(allowed) {
		w.acting[rel] = true
	}
}

// grantActing takes a path as one that was there.
func (w *watch) grantActing(rel string) {
	now := maps.Clone(w.acting)
	if now == nil {
		now = map[string]bool{}
	}
	for at := rel; at != "."; at = filepath.Dir(at) {
		now[at] = true
	}
	w.acting = now
}

// heldActing returns the names that act which mounts protect for a command.
func (s *Sandbox) heldActing(o Call) ([]string, error) {
	var out []string
	for _, n := range s.led(acts.Rules{Free: s.free()}) {
		if _, err := os.Lstat(n.Path); err == nil && !slices.Contains(o.Acts, n.Class) {
			out = append(out, n.Path)
		}
	}
	for _, rel := range s.actingBelow(o.Acts) {
		path := filepath.Join(s.o.Root, rel)
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink == 0 {
			out = append(out, path)
		}
	}
	if len(out) > maxProtected {
		return nil, fmt.Errorf("protect the %d names in %q that programs run or obey by themselves, such as %q: only %d can be: start Ralph in a part of it, or allow a class of them by --allow 'acts == \"editor\"'",
			len(out), s.o.Root, s.rel(out[0]), maxProtected)
	}
	return out, nil
}
