package supervise

import (
	"errors"
	"io/fs"
	"os"

	"ralph/workers/exec/sandbox"
)

// features are the means that work here, and the reasons why others do not.
type features struct {
	sandbox.Features
	user        bool  // containers of confined commands have a user namespace
	plainUser   bool  // those of other commands have one
	noContainer error // nil where there are containers
	noMounts    error
	noNet       error
	noLandlock  error
	noFilter    error
	noGuard     error
	noSockets   error
}

// exhausted returns the error of a means that could not be tried out for lack of room; nil
// for none.
func (f features) exhausted() error {
	for _, err := range [...]error{f.noContainer, f.noMounts, f.noNet, f.noLandlock, f.noFilter, f.noGuard} {
		if Exhausted(err) {
			return err
		}
	}
	return nil
}

// sessionFeatures returns the features without containers.
func sessionFeatures() features {
	f := features{Features: sandbox.Features{Landlock: sandbox.Landlock(), Filter: sandbox.Filters()}, noContainer: errNoInit}
	if f.Landlock == 0 {
		f.noLandlock = errors.New("the kernel has no Landlock, or it is turned off")
	}
	if !f.Filter {
		f.noFilter = errors.New("the kernel does not filter system calls of programs for this machine")
	}
	return f
}

// probe tries out everything that a confined command goes through but the start of
// the program. The container of the probe is kept for the first command. Root gets a
// user namespace where that works.
func (p *pool) probe() features {
	f := sessionFeatures()
	var c *container
	for _, user := range [...]bool{true, false} {
		if !user && os.Geteuid() != 0 {
			break
		}
		if c, f.noContainer = startContainer(p.init, user); f.noContainer != nil {
			continue
		}
		if _, f.noContainer = c.launch(&runRequest{}, []int{c.files}, nil); f.noContainer == nil {
			f.user, f.plainUser = user, os.Geteuid() != 0
			break
		}
		c.end()
		<-c.gone
	}
	if f.noContainer != nil {
		return f
	}
	defer func() { p.put(c) }()
	all := f.Features
	all.Mounts, all.Net, all.PIDs = true, true, sandbox.PIDs()
	together := c.tryAgain(all)
	if together == nil {
		f.Features = all
		f.noGuard = c.tryGuard(all)
		if f.Guard = f.noGuard == nil; f.Guard {
			f.noSockets = sandbox.CanList()
			f.Sockets = f.noSockets == nil
		}
		return f
	}
	// Find out which of them fail alone.
	alone := func(set func(*sandbox.Features)) error {
		var x sandbox.Features
		set(&x)
		return c.tryAgain(x)
	}
	if f.noLandlock == nil {
		f.noLandlock = alone(func(x *sandbox.Features) { x.Landlock = all.Landlock })
	}
	if f.noFilter == nil {
		f.noFilter = alone(func(x *sandbox.Features) { x.Filter = true })
	}
	f.PIDs = all.PIDs && alone(func(x *sandbox.Features) { x.PIDs = true }) == nil
	f.noMounts = alone(func(x *sandbox.Features) { x.Mounts = true })
	f.noNet = alone(func(x *sandbox.Features) { x.Net = true })
	if errors.Join(f.noLandlock, f.noFilter, f.noMounts, f.noNet) == nil {
		f.noMounts = together
	}
	f.Mounts, f.Net, f.Filter = f.noMounts == nil, f.noNet == nil, f.noFilter == nil
	if f.noLandlock != nil {
		f.Landlock = 0
	}
	return f
}

// tryAgain tries features. Sockets, which are hidden, may disappear between the
// layout and its mounts: then it tries once more.
func (c *container) tryAgain(x sandbox.Features) (err error) {
	for range layoutTries {
		if c.dead() {
			return errNoReply
		}
		if err = c.try(x); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// tryGuard tries a Guard with features that work.
func (c *container) tryGuard(x sandbox.Features) error {
	const abiRefer = 2 // the first version of Landlock that restricts renames
	if x.Landlock < abiRefer || !x.Filter {
		return errors.New("it needs Landlock of Linux 5.19 or later, and a filter of system calls")
	}
	x.Guard = true
	return c.tryAgain(x)
}

// try applies a policy that allows nothing, without its limits, which would stay
// with the container.
func (c *container) try(x sandbox.Features) error {
	layout, err := sandbox.Lay(sandbox.Policy{Guard: &sandbox.Guard{Root: "/"}}, "", x)
	if err != nil {
		return err
	}
	layout.Limits = sandbox.Limits{}
	_, err = c.launch(&runRequest{Layout: &layout}, []int{c.files}, nil)
	return err
}
