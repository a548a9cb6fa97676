package accesspolicy

import (
	"errors"
	"fmt"
	"io/fs"
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

const (
	// quiet is how old a directory's time of change must be to say that
	// nothing was changed since: the clock of filesystems goes in steps.
	quiet = 100 * time.Millisecond
)

// dir is a directory in which some names are protected.
type dir struct {
	path string
	why  func(folded string) string
	tree bool // a guard keeps commands from making the names
}

// mark tells a file from another one of its name.
type mark struct {
	dev, ino uint64
	link     string // the target, of a symbolic link
}

// present are the protected names that are there.
func (d dir) present() (map[string]mark, error) {
	f, err := openOnly(d.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	err = errors.Join(err, f.Close())
	found := map[string]mark{}
	for _, name := range names {
		if d.why(acts.Fold(name)) != "" {
			found[name] = markOf(filepath.Join(d.path, name))
		}
	}
	return found, err
}

func markOf(path string) mark {
	info, err := os.Lstat(path)
	if err != nil {
		return mark{}
	}
	var m mark
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		m.dev, m.ino = uint64(st.Dev), st.Ino
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		m.link, _ = os.Readlink(path) // one that is gone has no target
	}
	return m
}

// guardedDirs are the directories of the tree and of its repository with
// protected names, also those that are not there yet. An agent's own tree has none: what
// it made is judged when its work is taken over.
func (s *Sandbox) guardedDirs(loc *git.Location) []dir {
	if s.child() {
		return nil
	}
	root := s.o.Root
	dirs := []dir{{root, rootName, true}}
	for _, parent := range acts.Parents() {
		dirs = append(dirs, dir{filepath.Join(root, parent), func(name string) string { return rootName(parent + "/" + name) }, true})
	}
	for _, rel := range s.programsBelow() {
		dirs = append(dirs, dir{filepath.Join(root, filepath.Dir(rel)), func(name string) string {
			if name == acts.Fold(filepath.Base(rel)) {
				return acts.Why(acts.Hook)
			}
			return ""
		}, true})
	}
	dirs = append(dirs, s.guardedHome()...)
	if loc == nil || s.overlaid() {
		return dirs
	}
	dirs = append(dirs, dir{loc.GitDir, guardedRepo, false}, dir{filepath.Join(loc.CommonDir, "objects", "info"), func(name string) string {
		if name == "alternates" || name == "http-alternates" {
			return whyGit
		}
		return ""
	}, false})
	return dirs
}

// guardedHome are the directories with protected names where the tree holds the
// user's home or configuration.
func (s *Sandbox) guardedHome() []dir {
	var dirs []dir
	only := func(path, why string) {
		dirs = append(dirs, dir{filepath.Dir(path), func(name string) string {
			if name == acts.Fold(filepath.Base(path)) {
				return why
			}
			return ""
		}, false})
	}
	if c := s.o.UserConfig; c != "" && c != s.o.Root && below(s.o.Root, c) {
		only(c, whyRalph)
	}
	if s.home == "" || !below(s.o.Root, s.home) {
		return dirs
	}
	for at, names := range homeNames() {
		dirs = append(dirs, dir{filepath.Join(s.home, at), func(name string) string {
			if slices.Contains(names, name) || at == "." && rootName(name) != "" {
				return whyAccess
			}
			return ""
		}, false})
	}
	for _, p := range filepath.SplitList(s.o.Getenv("PATH")) {
		if p = filepath.Clean(p); p != s.o.Root && below(s.o.Root, p) {
			only(p, "is where the user's programs are")
		}
	}
	return dirs
}

// watch is how the protected names were before a command.
type watch struct {
	began time.Time
	dirs  []watched
	repo  bool // the root had a repository
	kept  *kept
	git   gitState
	held  *hold // nil where no mounts protect names

	guarded bool            // the command can make no names that act
	allowed []string        // classes of names that it may write
	acting  map[string]bool // names that act, deeper than dirs, relative to the root
	file    string          // see noteRunning
	said    []string        // what was done meanwhile; with Sandbox.patrol.looking
}

func (w *watch) say(format string, args ...any) {
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

type watched struct {
	dir
	names   map[string]mark
	changed time.Time // of the directory
}

// before looks at the protected names; nil: there is nothing to check later.
func (s *Sandbox) before(c *sandbox.Policy, o Call) *watch {
	if c == nil || s.o.ReadOnly {
		return nil
	}
	w := &watch{began: time.Now(), guarded: c.Guard != nil}
	s.rememberActing(w, o.Acts)
	loc := s.repository()
	for _, d := range s.guardedDirs(loc) {
		at := watched{dir: d, changed: changeTime(d.path)}
		at.names, _ = d.present() // what cannot be read is said afterwards
		w.dirs = append(w.dirs, at)
	}
	_, err := os.Lstat(filepath.Join(s.o.Root, ".git"))
	w.repo = err == nil
	if !s.overlaid() {
		w.git = stateOf(loc)
	}
	s.noteRunning(w)
	s.mu.Lock()
	s.watches[w] = true
	if !s.child() {
		s.patrols()
	}
	s.mu.Unlock()
	// What lies elsewhere a command cannot change: there it is the user, or another
	// agent, who does.
	held := slices.DeleteFunc(slices.Clone(c.Protect), func(p string) bool {
		return !slices.ContainsFunc(c.Write, func(dir string) bool { return below(dir, p) })
	})
	if loc != nil && s.overlaid() {
		// Of the repository no mount holds a file that has another name in the tree.
		held = slices.DeleteFunc(held, func(p string) bool { return below(loc.CommonDir, p) || below(loc.GitDir, p) })
		held = append(held, actingNames(loc)...)
	}
	state := filepath.Join(s.o.Project, ".ralph")
	if s.layers().Active("mount namespace") {
		w.kept = keepShared(held, state)
	} else {
		w.kept = keep(held, state)
	}
	return w
}

// actingNames are the files of a repository through which git runs programs.
func actingNames(loc *git.Location) []string {
	names, _ := dir{loc.CommonDir, guardedRepo, false}.present() // what cannot be read is said by git
	var out []string
	for name := range names {
		if name != "modules" {
			out = append(out, filepath.Join(loc.CommonDir, name))
		}
	}
	return out
}

// Grant says that a tool of Ralph's, which was permitted to, has written a file, relative to
// the tree: commands that run at the time are not taken to have made it. before is what an
// edit began with, nil where the tool wrote all of it.
func (s *Sandbox) Grant(name string, before, after []byte) {
	path := filepath.Join(s.o.Root, filepath.FromSlash(name))
	if s.o.Granted != nil {
		s.o.Granted.note(s.o.Agent, name, before, after)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		for i := range w.dirs {
			w.dirs[i].grant(path)
		}
		w.grantActing(filepath.Clean(name))
	}
}

// grant takes the entry of a directory that leads to path as one that was there.
func (d *watched) grant(path string) {
	rel, err := filepath.Rel(d.path, path)
	if err != nil || !filepath.IsLocal(rel) {
		return
	}
	first, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	if d.why(acts.Fold(first)) == "" {
		return
	}
	names := maps.Clone(d.names)
	if names == nil {
		names = map[string]mark{}
	}
	names[first] = markOf(filepath.Join(d.path, first))
	d.names = names
}

// leave is called around a command that runs outside the sandbox: what it makes
// was agreed to, also while another command runs.
func (s *Sandbox) leave() func() {
	look := func() map[string]bool {
		found := map[string]bool{}
		for _, d := range s.guardedDirs(s.repository()) {
			names, _ := d.present() // what cannot be read is nobody's yes
			for name := range names {
				found[filepath.Join(d.path, name)] = true
			}
		}
		return found
	}
	before := look()
	return func() {
		now := look()
		s.mu.Lock()
		defer s.mu.Unlock()
		for path := range now {
			if before[path] {
				continue
			}
			for w := range s.watches {
				for i := range w.dirs {
					w.dirs[i].grant(path)
				}
			}
		}
	}
}

// changeTime is when a directory was changed last, by the clock that no program
// can set back.
func changeTime(path string) time.Time {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Time{}
	}
	return ctime(info)
}

// after takes away what appeared under protected names, and says what it did.
func (s *Sandbox) after(w *watch, replaced []string) Report {
	var rep Report
	if w == nil {
		return rep
	}
	s.mu.Lock()
	delete(s.watches, w)
	s.mu.Unlock()
	s.patrol.looking.Lock()
	defer s.patrol.looking.Unlock()
	rep.Reverted = w.said
	if w.file != "" {
		defer func() { _ = os.Remove(w.file) }() // the next start finds nothing to take away
	}
	say := func(format string, args ...any) { rep.Reverted = append(rep.Reverted, fmt.Sprintf(format, args...)) }
	if w.kept != nil {
		w.kept.restore(s, say)
	}
	s.takeNew(w, say)
	for _, d := range w.dirs {
		if d.unchanged(w.began) {
			continue
		}
		names, _ := d.present() // said by takeNew
		for _, name := range slices.Sorted(maps.Keys(names)) {
			was, there := d.names[name]
			switch {
			case !there:
			case was.link != "" && was != names[name]:
				s.takeAway(filepath.Join(d.path, name), d.why(acts.Fold(name)), say)
				if err := os.Symlink(was.link, filepath.Join(d.path, name)); err != nil {
					say("%s, a link to %s, could not be put back: %v", name, was.link, err)
				}
			case was != names[name] && w.held == nil && w.git.configs[filepath.Join(d.path, name)].text == nil:
				say("%s was replaced from outside while the command ran, which could write to it from then on: look at it before it is used", s.rel(filepath.Join(d.path, name)))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(d.names)) {
			if was := d.names[name]; was.link != "" && names[name] == (mark{}) {
				if os.Symlink(was.link, filepath.Join(d.path, name)) == nil {
					say("%s, which was removed, was put back", s.rel(filepath.Join(d.path, name)))
				}
			}
		}
	}
	s.sayReplaced(w.held, replaced, say)
	s.checkGit(w.git, say)
	if s.child() {
		s.checkClone(say)
	}
	s.checkRepos(w.repo, false, say)
	s.checkReplaced(replaced, say)
	s.takeActing(w, say)
	return rep
}

// unchanged reports whether no name came or went in a directory since a command began.
func (d watched) unchanged(began time.Time) bool {
	now := changeTime(d.path)
	return now.IsZero() || now.Equal(d.changed) && began.Sub(now) > quiet
}

// takeNew takes away the protected names that were not there before a command, but for
// those that it cannot have made and those that a rule of the user allows.
func (s *Sandbox) takeNew(w *watch, say func(string, ...any)) {
	s.mu.Lock()
	dirs := slices.Clone(w.dirs) // Grant changes them
	s.mu.Unlock()
	for _, d := range dirs {
		if d.unchanged(w.began) {
			continue
		}
		names, err := d.present()
		if err != nil {
			say("%s could not be looked at after the command: %v", s.rel(d.path), err)
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			why := d.why(acts.Fold(name))
			if w.guarded && d.tree {
				continue
			}
			if _, there := d.names[name]; !there && !slices.ContainsFunc(w.allowed, func(class string) bool { return acts.Why(class) == why }) {
				s.takeAway(filepath.Join(d.path, name), why, say)
			}
		}
	}
}

// rel is a path as the model knows it.
func (s *Sandbox) rel(path string) string {
	for _, base := range []string{s.o.Root, s.o.Project} {
		if r, err := filepath.Rel(base, path); err == nil && filepath.IsLocal(r) {
			return r
		}
	}
	return path
}
