package coordinator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"ralph/coordinator/permission"
	"ralph/coordinator/policy"
	"ralph/memory/config"
	"ralph/memory/identity"
	"ralph/workers/accesspolicy"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/git"
	"ralph/workers/git/trees"
	"ralph/workers/tools"
)

// station is where an agent works: its tree, and what it has open there.
type station struct {
	name string
	root string // of the project in its tree
	work *tools.Workspace
	repo *git.Repo // nil without a repository
	// own is the repository for the agent's own tools: of a child that of its private
	// clone, in which git runs confined. Otherwise it is repo.
	own  *git.Repo
	cage *accesspolicy.Sandbox
	// output is the directory for outputs too long to show.
	output string
	closed func() // called by close; may be nil
	// proves is what a check here has to prove, nil for the tree as it is. release,
	// which close calls last, gives the tree back to its agent.
	proves  *trees.Recorded
	release func() error
}

// requester returns the station's agent as one that asks for permissions.
func (s *station) requester() permission.Requester {
	return permission.Requester{Name: s.name, Root: s.root, Resolve: s.work.Resolve, Guarded: s.cage.Guarded}
}

// proven is the git tree that its checks look at, "" for none.
func (s *station) proven() string {
	if s.proves == nil {
		return ""
	}
	return s.proves.Tree
}

// close gives back what the station has open.
func (s *station) close() error {
	var errs []error
	if s.closed != nil {
		s.closed()
	}
	if s.cage != nil {
		errs = append(errs, s.cage.Close())
	}
	if s.work != nil {
		errs = append(errs, s.work.Close())
	}
	if s.release != nil {
		errs = append(errs, s.release())
	}
	return errors.Join(errs...)
}

// openStation opens the place of an agent: root is its tree's root, or the
// directory of the project in it. What is in also, absolute, may be read besides.
func (c *Coordinator) openStation(name, root string, also ...string) (*station, error) {
	s := &station{name: name, root: root}
	userDir := ""
	if c.opt.Getenv != nil { // a project may be the user's home
		userDir = filepath.Dir(config.UserFile(c.opt.Getenv))
	}
	var protect []string
	if userDir != "" {
		protect = append(protect, userDir)
	}
	var err error
	if s.work, err = tools.OpenWorkspace(root, protect...); err != nil {
		return nil, err
	}
	if root == c.opt.Root {
		s.work.OnWrite(c.writes.writing)
	}
	if home := c.opt.owned().Home(); home != "" {
		if _, err := identity.Outside(home, c.opt.Root); errors.Is(err, identity.ErrInside) {
			if err := os.MkdirAll(home, 0o700); err != nil { // what is not there cannot be hidden from commands
				c.warn("the user's state directory is not hidden from commands: " + err.Error())
			}
		}
		s.work.Conceal(home)
	}
	for _, dir := range also {
		if err := s.work.Also(dir); err != nil {
			return nil, errors.Join(err, s.work.Close())
		}
	}
	loc, err := git.Find(root)
	var at *git.Location
	switch {
	case err == nil:
		at = &loc
		s.repo = git.Open(c.own, loc)
	case !errors.Is(err, git.ErrNoRepository):
		c.warn("the git repository is left alone: " + err.Error())
	}
	if s.cage, err = accesspolicy.Open(c.sandboxOptions(name, root, at)); err != nil {
		return nil, errors.Join(err, s.work.Close())
	}
	if s.own = s.repo; at != nil && root != c.opt.Root {
		if trusted, err := c.trees.Repo(name); err == nil {
			s.own = s.repo.Within(func(ctx context.Context, sp exec.Spec) (exec.Result, error) {
				res, _, err := s.cage.Run(ctx, sp, accesspolicy.Call{}) // what was reverted the next command of the agent would say too
				return res, err
			})
			s.repo = trusted
		}
	}
	c.stations.add(s)
	return s, nil
}

// sandboxOptions are those of the commands of an agent in a tree.
func (c *Coordinator) sandboxOptions(name, root string, at *git.Location) accesspolicy.Options {
	o := accesspolicy.Options{Proc: c.opt.Proc, Root: root, Project: c.opt.Root, Git: at, Agent: name,
		ReadOnly: c.cfg.Sandbox == string(policy.SandboxReadOnly), Off: c.cfg.Sandbox == string(policy.SandboxOff) || c.confined().None(),
		Getenv: c.opt.Getenv, Environ: os.Environ(), Own: c.own, State: c.userState()}
	if root == c.opt.Root {
		o.Writes = c.writes
	}
	o.Granted = c.granted
	o.Filling = func() {
		c.events.emit(agent.Event{Type: agent.EventDecision, Status: "cache", Text: "a command fills the sandbox's build cache, which was empty",
			Reason: "the first build takes longer; yours is not shared with what a model runs"})
	}
	o.Read, o.Write, o.Memory = c.cfg.SandboxRead, c.cfg.SandboxWrite, c.cfg.CommandMemory
	if c.opt.Getenv != nil {
		o.UserConfig = filepath.Dir(config.UserFile(c.opt.Getenv))
	}
	return o
}

// stations are those that are open. It is safe for concurrent use.
type stations struct {
	mu   sync.Mutex
	open []*station
}

func (s *stations) add(st *station) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, st)
	st.closed = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open = slices.DeleteFunc(s.open, func(x *station) bool { return x == st })
	}
}

// stopJobs ends the background commands that can write to a tree, with an empty root all
// of them, and names them.
func (s *stations) stopJobs(ctx context.Context, root string) (ended []string, err error) {
	s.mu.Lock()
	open := slices.Clone(s.open)
	s.mu.Unlock()
	for _, st := range open {
		if root != "" && st.root != root {
			continue
		}
		jobs, e := st.cage.StopJobs(ctx)
		ended, err = append(ended, jobs...), errors.Join(err, e)
	}
	return ended, err
}

// confined says what the kernel holds commands to.
func (c *Coordinator) confined() accesspolicy.Status {
	if c.cfg.Sandbox == string(policy.SandboxOff) {
		return accesspolicy.Status{}
	}
	return accesspolicy.Check(c.opt.Proc)
}

// lacking are the layers that do not hold, where others do.
func lacking(s accesspolicy.Status) []string {
	if s.None() {
		return nil
	}
	return s.Missing
}
