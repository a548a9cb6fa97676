package accesspolicy

import (
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/fsnotify/fsnotify"

	"ralph/workers/exec/sandbox"
)

// A mount holds a file or directory and not its name: when a protected name, or a
// directory above it, is replaced outside the command's namespace, the command may
// write to what is there then. Such a command is ended.

// guards watches the names that mounts protect for commands that run. It is safe
// for concurrent use; close ends its goroutine.
type guards struct {
	mu      sync.Mutex
	watcher *fsnotify.Watcher // nil before the first hold, and where the system has none left
	done    chan struct{}     // closed when the goroutine of watcher ends
	held    map[*hold]bool
}

// hold are the names that mounts protect for one command.
type hold struct {
	guards *guards
	marks  map[string]mark // of the names and the directories above them, by path
	stop   func()          // ends the command

	mu       sync.Mutex
	replaced map[string]bool
}

// hold protects the names of a confinement until release. stop ends the command
// when one of them is replaced; it is called at most once, and must not block. nil
// where no mounts protect names.
func (s *Sandbox) hold(c *sandbox.Policy, stop func()) *hold {
	if c == nil || s.o.ReadOnly || !s.overlaid() {
		return nil
	}
	h := &hold{guards: &s.guards, marks: map[string]mark{}, stop: sync.OnceFunc(stop), replaced: map[string]bool{}}
	paths := slices.Clone(c.Protect)
	for _, o := range c.Overlays {
		paths = append(paths, o.Path)
	}
	dirs := map[string]bool{}
	for _, path := range paths {
		for ; path != s.o.Root && below(s.o.Root, path) && h.marks[path] == (mark{}); path = filepath.Dir(path) {
			h.marks[path] = mark{}
			dirs[filepath.Dir(path)] = true
		}
	}
	s.guards.mu.Lock()
	defer s.guards.mu.Unlock()
	s.guards.watch(dirs)
	for path := range h.marks {
		h.marks[path] = markOf(path)
	}
	if s.guards.held == nil {
		s.guards.held = map[*hold]bool{}
	}
	s.guards.held[h] = true
	return h
}

// watch has directories watched. The caller has g.mu.
func (g *guards) watch(dirs map[string]bool) {
	if g.watcher == nil {
		w, err := fsnotify.NewWatcher()
		if err == nil {
			g.watcher, g.done = w, make(chan struct{})
			go g.serve(w)
		}
	}
	for dir := range dirs {
		if g.watcher != nil {
			_ = g.watcher.Add(dir) // without it the marks are compared at the end
		}
	}
}

func (g *guards) serve(w *fsnotify.Watcher) {
	defer close(g.done)
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return
			}
			if e.Op&(fsnotify.Create|fsnotify.Remove|fsnotify.Rename) != 0 {
				g.changed(e.Name)
			}
		case _, ok := <-w.Errors: // events are lost: the marks are compared at the end
			if !ok {
				return
			}
		}
	}
}

// changed ends the commands for which the name of an event was held. A command
// cannot cause one: its own mounts are on the name.
func (g *guards) changed(path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for h := range g.held {
		if m, held := h.marks[path]; held && m != (mark{}) {
			h.mu.Lock()
			h.replaced[path] = true
			h.mu.Unlock()
			h.stop()
		}
	}
}

// release ends a hold and returns the names that were replaced, sorted.
func (h *hold) release() []string {
	if h == nil {
		return nil
	}
	h.guards.mu.Lock()
	delete(h.guards.held, h)
	h.guards.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	for path, m := range h.marks {
		if m != (mark{}) && markOf(path) != m {
			h.replaced[path] = true
		}
	}
	return slices.Sorted(maps.Keys(h.replaced))
}

// release ends the hold of a command; see hold.release.
func (w *watch) release() []string {
	if w == nil {
		return nil
	}
	return w.held.release()
}

// lost reports whether a protected path, or a directory above it, is among those
// replaced.
func lost(path string, replaced []string) bool {
	return slices.ContainsFunc(replaced, func(p string) bool { return below(p, path) })
}

// close ends the watch.
func (g *guards) close() {
	g.mu.Lock()
	w := g.watcher
	g.mu.Unlock()
	if w != nil {
		_ = w.Close() // which ends the goroutine
		<-g.done
	}
}

// sayReplaced says which names were replaced while a command ran, and keeps what moved away
// from them as the user's.
func (s *Sandbox) sayReplaced(h *hold, replaced []string, say func(string, ...any)) {
	if len(replaced) == 0 {
		return
	}
	own := map[mark]bool{}
	for _, m := range h.marks {
		own[m] = true
	}
	n := s.nested
	n.mu.Lock()
	for _, path := range n.below(maxDirs) {
		if own[markOf(path)] && !lost(path, replaced) {
			n.users[path] = s.unsafeNames(path)
		}
	}
	n.mu.Unlock()
	for i, path := range replaced {
		if i > 0 && lost(path, replaced[:i]) {
			continue
		}
		say("%s was replaced from outside while the command ran, which could write to it from then on and was ended: look at it before it is used", s.rel(path))
	}
}

// checkReplaced makes the repositories harmless that are at such names, since what is in them
// may be the command's. What files there lead to is harmless already, by checkRepos.
func (s *Sandbox) checkReplaced(replaced []string, say func(string, ...any)) {
	if len(replaced) == 0 {
		return
	}
	s.nested.mu.Lock()
	defer s.nested.mu.Unlock()
	for _, path := range append(s.nested.below(maxDirs), filepath.Join(s.o.Root, ".git")) {
		if lost(path, replaced) {
			s.checkRepo(path, false, say)
		}
	}
}
