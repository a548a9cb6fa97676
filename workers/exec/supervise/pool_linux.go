package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"

	"ralph/workers/exec/sandbox"
)

// maxIdle bounds how many containers wait for their next command.
const maxIdle = 4

// pool holds the containers of a Supervisor. It is safe for concurrent use.
type pool struct {
	init []string // see Options.Init

	probing sync.Mutex // guards probed
	probed  *features  // nil before features has tried them out

	starting sync.WaitGroup // goroutines of ready

	mu     sync.Mutex // guards what follows
	idle   []*container
	coming bool // ready is making one
	closed bool
}

func newPool(init []string) *pool {
	return &pool{init: init}
}

// features returns the means that work here. The first call tries them out, and so does
// the next one where the system had no room for that.
func (p *pool) features() features {
	p.probing.Lock()
	defer p.probing.Unlock()
	if p.probed == nil || p.probed.exhausted() != nil {
		f := p.probe()
		p.probed = &f
	}
	return *p.probed
}

// take returns an idle container or a new one. limits are those of a confined
// command; nil is not confined.
func (p *pool) take(user bool, limits *sandbox.Limits) (*container, error) {
	for {
		c := p.pick(user, limits)
		if c == nil {
			return startContainer(p.init, user)
		}
		if !c.dead() {
			return c, nil
		}
	}
}

func (p *pool) pick(user bool, limits *sandbox.Limits) *container {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.idle, func(c *container) bool {
		return c.user == user && (c.limits == nil || limits != nil && *c.limits == *limits)
	})
	if i < 0 {
		return nil
	}
	c := p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	return c
}

// put keeps a container for the next command, or ends it.
func (p *pool) put(c *container) {
	p.mu.Lock()
	keep := !p.closed && len(p.idle) < maxIdle
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		c.end()
	}
}

// ready makes a container for confined commands in the background, unless one is
// idle or on its way. memory returns the group of its commands.
func (p *pool) ready(memory func() *MemoryGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.coming || len(p.init) == 0 || slices.ContainsFunc(p.idle, func(c *container) bool { return !c.dead() }) {
		return
	}
	p.coming = true
	p.starting.Add(1)
	go func() {
		defer p.starting.Done()
		if f := p.features(); f.noContainer == nil { // the first call leaves its container here
			if c, err := p.take(f.user, nil); err == nil { // the command that needs one reports an error
				_ = c.join(memory()) // as above
				p.put(c)
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.coming = false
	}()
}

// close ends idle containers and waits for their end. Those in use end with their
// command.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.starting.Wait()
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.end()
	}
	for _, c := range idle {
		<-c.gone
	}
}

// layoutTries bounds how often a policy is laid out, when a path in it was gone
// before it was mounted over.
const layoutTries = 5

// start starts a command in a container.
func (p *pool) start(c Command) (Group, error) {
	f := p.features()
	attr := c.attr()
	r := &runRequest{Path: c.Path, Argv: c.Argv, Env: attr.Env, Dir: c.Dir, Tag: children().limitOf(c.Tag), Watch: c.Watch, Listen: c.Serve != nil}
	for i := 1; ; i++ {
		user := f.plainUser
		if c.Policy != nil {
			layout, err := lay(c.Policy, c.Dir, f)
			if err != nil {
				return nil, err
			}
			r.Layout, user = &layout, f.user
		}
		if c.Serve != nil && (r.Layout == nil || r.Layout.Network || !f.Net) {
			return nil, &fs.PathError{Op: "confine", Path: c.Path, Err: missing("there is no network of its own in which something could be served")}
		}
		g, err := p.startOne(user, r, c)
		var bad *flaw
		switch {
		case err == nil:
			return g, nil
		case !errors.As(err, &bad) && c.Policy == nil: // no room for another container
			return startTree(c)
		case !errors.As(err, &bad):
			return nil, &fs.PathError{Op: "start", Path: c.Path, Err: fmt.Errorf("%w: %w", ErrNoContainer, err)}
		case !bad.Confine:
			return nil, bad.Unwrap()
		case c.Policy == nil || bad.Errno != syscall.ENOENT || i == layoutTries:
			return nil, confineError(&fs.PathError{Op: bad.Op, Path: bad.Path, Err: bad.Unwrap()})
		}
	}
}

// confineError returns err as an *fs.PathError with a step.
func confineError(err error) *fs.PathError {
	var pe *fs.PathError
	if !errors.As(err, &pe) {
		return &fs.PathError{Op: "confine", Err: err}
	}
	if pe.Op == "" {
		pe.Op = "confine"
	}
	return pe
}

// startOne takes a container and starts a command in it. An idle container may have
// been killed from outside: then another is taken.
func (p *pool) startOne(user bool, r *runRequest, cmd Command) (*containerGroup, error) {
	var limits *sandbox.Limits
	if r.Layout != nil {
		limits = &r.Layout.Limits
	}
	files := make([]int, len(cmd.Files))
	for i, fd := range cmd.Files {
		files[i] = int(fd)
	}
	if r.Watch != "" {
		files = append(files, int(cmd.Record))
	}
	for {
		c, err := p.take(user, limits)
		if err != nil {
			return nil, err
		}
		used := c.used
		c.used = true
		if limits != nil {
			c.limits = limits
		}
		children().begin(cmd.Tag)
		inner := 0
		if err = c.join(cmd.Memory); err == nil {
			inner, err = c.launch(r, files, cmd.Serve)
		}
		if err == nil {
			g := &containerGroup{box: c, pool: p, tag: cmd.Tag, inner: inner, over: make(chan struct{}),
				leader: Process{Command: shown(strings.Join(cmd.Argv, " "))}}
			go g.watch()
			return g, nil
		}
		children().settled(cmd.Tag)
		var f *flaw
		if errors.As(err, &f) {
			p.put(c)
			return nil, err
		}
		c.end()
		<-c.gone
		if !used {
			return nil, err
		}
	}
}
