package accesspolicy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ralph/workers/exec/acts"
	"ralph/workers/exec/sandbox"
)

const (
	// settleTime is how long after a write that may make a repository act it is looked at: a
	// program has written the rest by then.
	settleTime = 20 * time.Millisecond
	// lookEvery is how often the tree is looked at where nothing keeps commands from
	// making names that act, and lookShare bounds the part of the time that looking takes.
	lookEvery = time.Second
	lookShare = 10
)

// patrol looks at the tree while commands run, for what is otherwise looked for when they
// end: a job may run for hours.
type patrol struct {
	once    sync.Once
	noticed chan struct{}
	// looking is held while the tree is looked at.
	looking sync.Mutex
}

// notice takes what a command writes.
func (p *patrol) notice(list []sandbox.Write) {
	if !slices.ContainsFunc(list, func(w sandbox.Write) bool { return ofRepository(w.Path) }) {
		return
	}
	select {
	case p.noticed <- struct{}{}:
	default: // it is noticed already
	}
}

// ofRepository reports whether a write to a path may make a repository, or have one act.
func ofRepository(path string) bool {
	switch acts.Fold(filepath.Base(path)) {
	case ".git", "head", "config", "config.worktree", "commondir", "attributes", "grafts", "alternates", "http-alternates", "hooks":
		return true
	}
	if parent := filepath.Base(filepath.Dir(path)); parent == "remotes" || parent == "branches" {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir() // one that was moved brings along what it has, and a link leads there
}

// patrols starts the patrol with the first command. The caller has s.mu.
func (s *Sandbox) patrols() {
	s.patrol.once.Do(func() {
		if s.closed {
			return
		}
		s.watchers.Add(1)
		go func() {
			defer s.watchers.Done()
			s.look()
		}()
	})
}

// look looks until the sandbox is closed.
func (s *Sandbox) look() {
	every, settle := lookEvery, settleTime
	for {
		timer := time.NewTimer(every)
		select {
		case <-s.closing:
			timer.Stop()
			return
		case <-timer.C:
			every = max(lookEvery, lookShare*s.lookOnce(false))
		case <-s.patrol.noticed:
			timer.Reset(settle)
			select {
			case <-s.closing:
				return
			case <-timer.C:
			}
			settle = max(settleTime, s.lookOnce(true)) // at most half of the time
		}
	}
}

// lookOnce looks at the tree for the commands that run, all of them or those that nothing
// keeps from making names that act, and returns how long that took.
func (s *Sandbox) lookOnce(all bool) time.Duration {
	s.patrol.looking.Lock()
	defer s.patrol.looking.Unlock()
	began := time.Now()
	s.mu.Lock()
	var running []*watch
	repo := true
	for w := range s.watches {
		if all || !w.guarded {
			running = append(running, w)
			repo = repo && w.repo
		}
	}
	s.mu.Unlock()
	if len(running) == 0 {
		return 0
	}
	s.checkRepos(repo, true, running[0].say)
	for _, w := range running {
		if !w.guarded {
			s.takeNew(w, w.say)
			s.takeActing(w, w.say)
		}
	}
	return time.Since(began)
}

// running is what was there before commands began to run. It is a file while they do, by
// which the next start finds what they made when Ralph was killed.
type running struct {
	Root   string
	Dirs   map[string][]string // protected names by directory; nil where nothing is made
	Acting []string            // see watch.acting
	Repos  []string            // the user's, see nested
}

func (s *Sandbox) runningDir() string { return filepath.Join(s.o.State, "history") }

func (s *Sandbox) runningPrefix() string { return "running-" + hashed(s.o.Project) + "-" }

// noteRunning makes the file of a command, which its end removes. Without it the command
// runs all the same.
func (s *Sandbox) noteRunning(w *watch) {
	if s.o.State == "" || s.child() {
		return
	}
	r := running{Root: s.o.Root}
	if !w.guarded {
		r.Dirs = map[string][]string{}
		for _, d := range w.dirs {
			for name := range d.names {
				r.Dirs[d.path] = append(r.Dirs[d.path], name)
			}
		}
		for rel := range w.acting {
			r.Acting = append(r.Acting, rel)
		}
	}
	s.nested.mu.Lock()
	for path := range s.nested.users {
		r.Repos = append(r.Repos, path)
	}
	s.nested.mu.Unlock()
	text, err := json.Marshal(r)
	if err != nil || os.MkdirAll(s.runningDir(), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(s.runningDir(), s.runningPrefix())
	if err != nil {
		return
	}
	w.file = f.Name()
	_, err = f.Write(text)
	if cerr := f.Close(); err != nil || cerr != nil {
		_ = os.Remove(w.file) // half of it would have all else taken away
	}
}

// recoverRunning takes away what commands made that ran when Ralph was killed. No command
// runs.
func (s *Sandbox) recoverRunning() []string {
	if s.o.State == "" {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(s.runningDir(), s.runningPrefix()+"*"))
	if err != nil || len(found) == 0 {
		return nil
	}
	w := &watch{repo: true}
	for _, path := range found {
		const most = 16 << 20
		var r running
		text, err := readFile(path, most)
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		done := func() { _ = os.Remove(path) } // one that stays is found again
		if err != nil || r.Root != s.o.Root {
			done() // it was being written: its command had not begun
			continue
		}
		s.nested.mu.Lock()
		for _, repo := range s.nested.below(maxDirs) {
			if slices.Contains(r.Repos, repo) {
				s.nested.users[repo] = s.unsafeNames(repo)
			}
		}
		s.nested.mu.Unlock()
		s.checkRepos(true, false, w.say)
		if r.Dirs == nil {
			done()
			continue
		}
		w.acting = map[string]bool{}
		for _, rel := range r.Acting {
			w.acting[rel] = true
		}
		w.dirs = nil
		for _, d := range s.guardedDirs(s.repository()) {
			at := watched{dir: d, names: map[string]mark{}}
			for _, name := range r.Dirs[d.path] {
				at.names[name] = markOf(filepath.Join(d.path, name))
			}
			w.dirs = append(w.dirs, at)
		}
		s.takeNew(w, w.say)
		s.takeActing(w, w.say)
		done()
	}
	return w.said
}

// anyGuarded reports whether a guard keeps a command that runs from making names that act.
func (s *Sandbox) anyGuarded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if w.guarded {
			return true
		}
	}
	return false
}
