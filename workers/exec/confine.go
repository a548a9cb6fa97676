package exec

// Layer is one of the means by which commands are confined.
type Layer struct {
	// Name of it, such as "network namespace".
	Name string
	// Active says that it was tried and holds.
	Active bool
	// Detail says what it holds, or why it is not there.
	Detail string
}

// Layers are the means by which a sandbox.Policy is really applied here, whether they
// work or not, in the order in which they matter. They are tried out once, by
// the first call, which takes some milliseconds. Elsewhere than on Linux none
// is active.
func (r *Runner) Layers() []Layer { return r.layers() }
