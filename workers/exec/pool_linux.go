package exec

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"syscall"

	"ralph/workers/exec/sandbox"
)

// maxIdle bounds how many containers of a Runner wait for their next command.
const maxIdle = 4

// containers are those of a Runner. The zero value but for init is ready; it is
// safe for concurrent use.
type containers struct {
	init     []string // see Options.Init
	features func() features

	starting sync.WaitGroup // what makes one ready in the background

	mu     sync.Mutex // guards what follows
	idle   []*container
	coming bool // one is being made ready
	closed bool
}

func newContainers(init []string) *containers {
	p := &containers{init: init}
	p.features = sync.OnceValue(p.probe)
	return p
}

// work reports whether there are containers.
func (p *containers) work() bool { return len(p.init) > 0 && p.features().space == nil }

// take returns an idle container, or a new one. limits are those of a confined
// command; nil for one that is not.
func (p *containers) take(user bool, limits *sandbox.Limits) (*container, error) {
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

func (p *containers) pick(user bool, limits *sandbox.Limits) *container {
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
func (p *containers) put(c *container) {
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
// idle or on its way.
func (p *containers) ready() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.coming || len(p.init) == 0 || slices.ContainsFunc(p.idle, func(c *container) bool { return !c.dead() }) {
		return
	}
	p.coming = true
	p.starting.Add(1)
	go func() {
		defer p.starting.Done()
		if f := p.features(); f.space == nil { // the first call leaves its container to us
			if c, err := p.take(f.user, nil); err == nil { // else the command that needs one gives the reason
				p.put(c)
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.coming = false
	}()
}

// close ends the containers that are idle and waits for their end. Those in use
// end with their command.
func (p *containers) close() {
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

// replans is how often a confinement is laid out anew because a place in it was
// gone before it was mounted over.
const replans = 5

// start starts a command in a container.
func (p *containers) start(g tag, path string, argv []string, attr *syscall.ProcAttr, held *sandbox.Policy) (family, error) {
	f := p.features()
	for i := 1; ; i++ {
		r := &runRequest{Path: path, Argv: argv, Env: attr.Env, Dir: attr.Dir, Tag: children().limitOf(g)}
		user := f.plainUser
		if held != nil {
			layout, err := lay(held, attr.Dir, f)
			if err != nil {
				return nil, err
			}
			r.Layout, user = &layout, f.user
		}
		s, err := p.startOne(user, r, attr.Files, g)
		var bad *flaw
		switch {
		case err == nil:
			s.who.Command = shown(strings.Join(argv, " "))
			return s, nil
		case !errors.As(err, &bad) && held == nil: // no room for another container
			return startTree(g, path, argv, attr, nil)
		case !errors.As(err, &bad):
			return nil, &Error{Op: "make namespaces for", Path: path, Err: err, Hint: "the system has no room for another confined command just now; end some programs"}
		case !bad.Confine:
			return nil, bad.Unwrap()
		case held == nil || bad.Errno != syscall.ENOENT || i == replans: // else something is gone that was there a moment ago
			return nil, confineError(&fs.PathError{Op: bad.Op, Path: bad.Path, Err: bad.Unwrap()})
		}
	}
}

// startOne takes a container and starts a command in it. One that was idle may have
// been killed by somebody: then another is taken.
func (p *containers) startOne(user bool, r *runRequest, files []uintptr, g tag) (*space, error) {
	var limits *sandbox.Limits
	if r.Layout != nil {
		limits = &r.Layout.Limits
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
		children().begin(g)
		inner, err := c.launch(r, files)
		if err == nil {
			s := &space{box: c, pool: p, tag: g, inner: inner, over: make(chan struct{})}
			go s.watch()
			return s, nil
		}
		children().settled(g)
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
