package accesspolicy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ralph/workers/buildcache"
	"ralph/workers/exec"
	"ralph/workers/exec/acts"
	"ralph/workers/exec/sandbox"
	"ralph/workers/git"
	"ralph/workers/git/backup"
	"ralph/workers/tempdir"
)

// MaxFileBytes bounds each file that a confined command writes.
const MaxFileBytes = 8 << 30

// ErrClosed is returned by a Sandbox after Close.
var ErrClosed = errors.New("the sandbox is closed")

// errReplaced ends a command one of whose protected names was replaced.
var errReplaced = errors.New("a protected name was replaced")

// Options of a Sandbox.
type Options struct {
	Proc *exec.Runner
	// Own runs Ralph's own git; nil means Proc.
	Own *exec.Runner
	// State is the user's directory for Ralph's state, which holds what commands
	// write into the user's repository until it is verified; "" means none.
	State string
	// Root is the agent's tree: the user's project, or the worktree of a child.
	Root string
	// Project is the project's root, the same as Root but for a child.
	Project string
	// Git is the repository of Root; nil without one. One that a command makes
	// later is found.
	Git *git.Location
	// ReadOnly leaves only the temp directory and the caches writable.
	ReadOnly bool
	// Off confines nothing: the environment is the user's without secrets. It is
	// for --sandbox off, and for a machine on which nothing confines commands
	// (Status.None) once the user agreed to that.
	Off bool
	// Agent names the temp directory and, for a child, its branch.
	Agent string
	// Getenv and Environ are the user's environment.
	Getenv  func(string) string
	Environ []string
	// UserConfig is the directory of the user's Ralph configuration.
	UserConfig string
	// Read and Write are paths, absolute or below ~/, that commands see, or may change,
	// besides. What is not there, or leads to the whole file system, is left out.
	Read, Write []string
	// Memory bounds the data of each process of a command, in bytes; 0 is no bound.
	Memory int64
	// Caches are the build caches; nil for those of the Project.
	Caches *buildcache.Store
	// Writes is told what commands write below Root; nil is not.
	Writes Writes
	// Granted is told what tools of Ralph write below Root; nil is not.
	Granted *Grants
	// Filling is called once, when a command has begun to fill build caches that were
	// empty; nil is not called.
	Filling func()
	// Fill begins with empty build caches, of which KeepCaches makes those of all
	// later sandboxes. It is for a tree that no agent has written.
	Fill bool
}

// Call is what one command is allowed besides.
type Call struct {
	// Network: a rule allows it the host's network.
	Network bool
	// Acts are the classes of names that act which a rule lets it write; those of git and
	// hooks only where they exist.
	Acts []string
	// Outside: the human approved that it runs outside the sandbox.
	Outside bool
	// State are files and directories, absolute, that it sees and may change besides,
	// such as another agent's own home; Read those that it only sees. What is not there
	// is left out.
	State, Read []string
	// Serve offers it a service: see exec.Spec. It is for a command without Network, and
	// is not called for one that is not confined.
	Serve func(net.Listener)
}

// Report is what the sandbox has to say about a command that ended, each entry a
// line for the model and the user.
type Report struct {
	// Reverted are protected names that were changed or appeared, and what was
	// done about it.
	Reverted []string
	// Denied is what the sandbox seems to have denied, with how to allow it.
	Denied []string
}

// Sandbox confines the commands of one agent. It is safe for concurrent use; who
// opened it closes it, after its commands have ended.
type Sandbox struct {
	o      Options
	home   string
	layers func() Status
	status atomic.Pointer[Status]   // see check
	tools  func() tools             // found once
	caches func() *buildcache.Store // opened once
	// overlays says that an overlay of the caches can be mounted; tried once.
	overlays func() bool
	nested   *nested
	guards   guards
	files    func() map[string]string // see made
	users    func() *git.Location     // see findUsers
	own      func() []string          // see makeHome; made once
	system   func() []string          // see closedPlaces; found once

	patrol   patrol
	watchers sync.WaitGroup
	closing  chan struct{}
	filling  sync.Once

	// mu guards what follows.
	mu      sync.Mutex
	temp    *tempdir.Dir
	ownHome *tempdir.Dir // see makeHome
	closed  bool
	repo    *git.Location
	reports map[*exec.Job]*ended
	watches map[*watch]bool     // of commands that run
	leased  []*buildcache.Cache // all that commands have or had
	idle    []*buildcache.Cache // those of leased that no command has now
	rules   acts.Rules          // as they were at rulesAt
	rulesAt time.Time
	hidden  []string // the places of secrets, as they were at hiddenAt

	hiddenAt  time.Time
	histories map[string]history // by git's common directory
	ignored   freeDirs
	backups   map[string]*backup.Backup // by git's common directory

	configured map[string]programFiles // by git's directory
}

// ended is the report of a job; done is closed when it is there.
type ended struct {
	done   chan struct{}
	report Report
}

// Open looks at the agent's place. It starts nothing; directories are made when
// the first command needs them.
func Open(o Options) (*Sandbox, error) {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Project == "" {
		o.Project = o.Root
	}
	if o.Own == nil {
		o.Own = o.Proc
	}
	for _, p := range []*string{&o.Root, &o.Project} {
		real, err := filepath.EvalSymlinks(*p)
		if err == nil {
			real, err = filepath.Abs(real)
		}
		if err != nil {
			return nil, fmt.Errorf("open sandbox of %q: %w", *p, err)
		}
		*p = real
	}
	s := &Sandbox{o: o, repo: o.Git, closing: make(chan struct{}), patrol: patrol{noticed: make(chan struct{}, 1)}, reports: map[*exec.Job]*ended{}, watches: map[*watch]bool{}}
	if home := o.Getenv("HOME"); filepath.IsAbs(home) {
		s.home = home
		if real, err := filepath.EvalSymlinks(home); err == nil {
			s.home = real
		}
	}
	s.layers = s.check
	s.tools = sync.OnceValue(s.findTools)
	s.nested = newNested(s.o.Root)
	s.files = sync.OnceValue(s.made)
	s.caches = sync.OnceValue(s.openCaches)
	s.overlays = sync.OnceValue(s.tryOverlay)
	s.users = sync.OnceValue(s.findUsers)
	s.own = sync.OnceValue(s.makeHome)
	s.system = sync.OnceValue(func() []string { return closedPlaces("/etc", "/usr/local/etc", "/var") })
	return s, nil
}

// Prepare completes a command: its environment is the allow-list with what sp.Env
// adds, and it is confined as o and the options say. A command that is prepared
// and run by the caller is not checked afterwards, and has a build cache of its
// own until Close.
func (s *Sandbox) Prepare(sp exec.Spec, o Call) (exec.Spec, error) {
	return s.prepare(sp, o, s.lease(o))
}

func (s *Sandbox) prepare(sp exec.Spec, o Call, cache *buildcache.Cache) (exec.Spec, error) {
	added := sp.Env
	if s.o.Writes != nil {
		sp.Record = exec.NewRecord(s.o.Root, s.o.Writes.Place(), func(list []sandbox.Write) {
			s.o.Writes.Wrote(list)
			s.patrol.notice(list)
		})
	}
	if s.o.Off || o.Outside {
		sp.Env = exec.Last(slices.Concat(exec.Environ(s.o.Environ), added))
		sp.Confine = nil
		return sp, nil
	}
	temp, err := s.tempDir()
	if err != nil {
		return sp, err
	}
	c, err := s.confinement(temp, cache, o)
	if err != nil {
		return sp, err
	}
	c.Write, c.Hide = opened(c.Write, c.Hide, o.State)
	c.Protect, c.Hide = opened(c.Protect, c.Hide, o.Read)
	sp.Serve = o.Serve
	sp.Env = exec.Last(slices.Concat(s.environ(temp, cache, o), added))
	if sp.Confine = c; c.Guard != nil && sp.Record == nil {
		sp.Record = exec.NewRecord(s.o.Root, "", s.patrol.notice)
	}
	return sp, nil
}

// Run prepares a command, runs it to its end and checks what it left. Result and
// error are those of exec.Runner.Run.
func (s *Sandbox) Run(ctx context.Context, sp exec.Spec, o Call) (exec.Result, Report, error) {
	var res exec.Result
	var rep Report
	cache := s.lease(o)
	defer s.giveBack(cache)
	defer s.watchFilling(cache)()
	err := s.settled(sp, o, cache, func(sp exec.Spec) error {
		w := s.before(sp.Confine, o)
		if sp.Confine == nil && !s.o.Off {
			defer s.leave()()
		}
		layers, told, err := s.layer(ctx, sp.Confine, o)
		copies, lines := s.backUp(ctx, sp.Confine)
		told = append(told, lines...)
		var replaced []string
		if err == nil {
			run, end := context.WithCancelCause(ctx)
			if w != nil {
				w.held = s.hold(sp.Confine, func() { end(errReplaced) })
			}
			ended := s.began(sp)
			res, err = s.o.Proc.Run(run, sp)
			ended(res.Watched || res.Duration == 0) // else it was not started
			if errors.Is(err, errReplaced) {
				err = nil // the report says it
			}
			end(nil)
			replaced = w.release()
		}
		// Before the tree is looked at: a work tree of the repository is one only when
		// that has taken it over.
		told = append(told, layers.publish(ctx, replaced)...)
		told = append(told, s.leftLocks(sp)...)
		rep = s.after(w, replaced)
		rep.Reverted = slices.Concat(told, rep.Reverted, copies.end())
		if sp.Confine != nil && err == nil {
			rep.Denied = s.denied(res, sp.Record.Refused(), o, false)
		}
		rep.Denied = append(rep.Denied, bounded(res)...)
		return err
	})
	return res, rep, err
}

// settled prepares a command for run. Where a place that was to be hidden went
// away before it could be, such as the socket of a program that ended, run has
// started nothing, and it is tried again with what is there then.
func (s *Sandbox) settled(sp exec.Spec, o Call, cache *buildcache.Cache, run func(exec.Spec) error) error {
	const tries = 5
	for i := 1; ; i++ {
		ready, err := s.prepare(sp, o, cache)
		if err != nil {
			return err
		}
		err = run(ready)
		var pe *exec.Error
		if i == tries || !errors.As(err, &pe) || pe.Op != "find" || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.mu.Lock()
		s.hidden = nil
		s.mu.Unlock()
	}
}

// Start starts a command in the background. What it leaves is checked when it
// ends, or when the sandbox is closed; see Ended.
func (s *Sandbox) Start(ctx context.Context, sp exec.Spec, o Call) (*exec.Job, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, fmt.Errorf("start %q: %w", strings.Join(sp.Argv, " "), ErrClosed)
	}
	s.watchers.Add(1)
	s.mu.Unlock()
	var job *exec.Job
	var w *watch
	over := func(bool) {}
	var copies backups
	var told []string
	cache := s.lease(o)
	var ready exec.Spec
	err := s.settled(sp, o, cache, func(sp exec.Spec) error {
		ready = sp
		w = s.before(sp.Confine, o)
		replaced := make(chan struct{})
		if w != nil {
			w.held = s.hold(sp.Confine, func() { close(replaced) })
		}
		var err error
		over = s.began(sp)
		copies, told = s.backUp(ctx, sp.Confine)
		if job, err = s.o.Proc.Start(ctx, sp); err != nil {
			over(true) // nothing was started
			s.after(w, w.release())
			copies.end()
			return err
		}
		go func(job *exec.Job) {
			select {
			case <-replaced:
				_ = job.Stop(context.WithoutCancel(ctx)) // what survives is the runner's to report
			case <-job.Done():
			}
		}(job)
		return nil
	})
	if err != nil {
		s.giveBack(cache)
		s.watchers.Done()
		return nil, err
	}
	e := &ended{done: make(chan struct{})}
	s.mu.Lock()
	s.reports[job] = e
	s.mu.Unlock()
	go func() {
		defer s.watchers.Done()
		defer close(e.done)
		select {
		case <-job.Done():
			res, _ := job.Result()
			over(res.Watched)
			s.giveBack(cache)
		case <-s.closing:
		}
		e.report = s.after(w, w.release())
		e.report.Reverted = slices.Concat(told, e.report.Reverted, copies.end())
		res, over := job.Result()
		if over {
			e.report.Reverted = append(e.report.Reverted, s.leftLocks(ready)...)
		}
		if over && ready.Confine != nil {
			e.report.Denied = append(s.denied(res, ready.Record.Refused(), o, true), bounded(res)...)
		}
	}()
	return job, nil
}

// Ended is the report about a job of Start, once it has ended; it waits for the
// check. Of a job that runs, or is not of this sandbox, there is none.
func (s *Sandbox) Ended(job *exec.Job) Report {
	s.mu.Lock()
	e := s.reports[job]
	s.mu.Unlock()
	if e == nil {
		return Report{}
	}
	if _, over := job.Result(); !over {
		return Report{}
	}
	<-e.done
	return e.report
}

// StopJobs ends the jobs of Start that still run, and names them.
func (s *Sandbox) StopJobs(ctx context.Context) (ended []string, err error) {
	s.mu.Lock()
	jobs := slices.Collect(maps.Keys(s.reports))
	s.mu.Unlock()
	for _, j := range jobs {
		if _, over := j.Result(); over {
			continue
		}
		err = errors.Join(err, j.Stop(ctx))
		ended = append(ended, j.ID())
	}
	slices.Sort(ended)
	return ended, err
}

// Close checks what the jobs that still run have left so far, and removes the
// temp directory and the build caches. Closing again is harmless.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	s.mu.Unlock()
	s.watchers.Wait()
	s.guards.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.dropCaches()
	if s.ownHome != nil {
		err = errors.Join(err, s.ownHome.Remove())
	}
	if s.temp != nil {
		err = errors.Join(err, s.temp.Remove())
	}
	if err != nil {
		return fmt.Errorf("close sandbox: %w", err)
	}
	return nil
}

// Fresh opens another sandbox of the same place, which shares with this one the
// tree alone: its temp directory and its build caches are new.
func (s *Sandbox) Fresh() (*Sandbox, error) {
	o := s.o
	o.Caches = s.caches()
	return Open(o)
}

// repository is that of the tree, also one that was made since the sandbox was
// opened; nil without one.
func (s *Sandbox) repository() *git.Location {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.repo != nil {
		return s.repo
	}
	if _, err := os.Lstat(filepath.Join(s.o.Root, ".git")); err != nil {
		return nil
	}
	loc, err := git.Find(s.o.Root)
	if err != nil || loc.Root != s.o.Root {
		return nil // whatever it is, it gets no rights of its own
	}
	s.repo = &loc
	return s.repo
}
