package accesspolicy

import (
	"ralph/workers/exec"
	"ralph/workers/exec/sandbox"
)

// Writes keeps a record of what commands write. It is safe for concurrent use.
type Writes interface {
	// Began is called before a command starts, and what it returns after its end, with
	// whether Wrote was called with all that the command wrote. read has Wrote called with
	// what the command has begun to write before.
	Began(read func()) (ended func(seen bool))
	// Wrote is called with what began to be written, soon after.
	Wrote([]sandbox.Write)
	// Place is where the record of a command is kept until Wrote was called with it; "" is
	// in memory.
	Place() string
}

// began begins the record of what a command writes.
func (s *Sandbox) began(sp exec.Spec) (ended func(seen bool)) {
	if s.o.Writes == nil {
		return func(bool) {}
	}
	return s.o.Writes.Began(sp.Record.Read)
}
