// Package desk is what a person does beside the model: commands of their own,
// checks, a look at the settings, files that they mention.
//
// It owns the shapes of what comes of that, the reading of mentions and the
// choice of an editor. It refuses to run anything and to read a file itself.
//
//	for _, m := range desk.Mentions("see @main.go and @\"a b.go\".") {
//		fmt.Println(m) // main.go, a b.go
//	}
package desk

import (
	"errors"
	"time"
)

// ErrNoCheck says that no check was named, configured or found in the project.
var ErrNoCheck = errors.New("there is no check")

// UserCommand is a command that the user ran, and what came of it.
type UserCommand struct {
	Command  string        `json:"command"`
	ExitCode int           `json:"exit_code"` // 128+n when signal n killed it
	Duration time.Duration `json:"duration_ns"`
	// Output is its beginning and, when it was longer than what is kept, its end,
	// with a line in between that says so.
	Output       string `json:"output"`
	OmittedBytes int64  `json:"omitted_bytes,omitempty"`
	// Stopped says that the user ended it, or a stop of everything did.
	Stopped bool `json:"stopped,omitempty"`
}

// CheckReport is what came of checks, in the order in which they ran. After one
// that failed the others run all the same.
type CheckReport struct {
	Runs []CheckRun `json:"runs"`
}

// OK says that there were checks and that all of them passed.
func (r CheckReport) OK() bool {
	for _, run := range r.Runs {
		if run.ExitCode != 0 || run.NotRun != "" {
			return false
		}
	}
	return len(r.Runs) > 0
}

// CheckRun is one check that ran.
type CheckRun struct {
	Command  string        `json:"command"`
	ExitCode int           `json:"exit_code"` // 124 when its time was over
	TimedOut bool          `json:"timed_out,omitempty"`
	Duration time.Duration `json:"duration_ns"`
	// Output is bounded: its beginning and its end.
	Output string `json:"output"`
	// NotRun says why it was left out: a rule, or the user, did not allow it.
	NotRun string `json:"not_run,omitempty"`
}

// Setting is one setting as it is in force.
type Setting struct {
	Name   string `json:"name"`   // of the key in YAML: "max_agents"
	Value  string `json:"value"`  // a secret is masked
	Origin string `json:"origin"` // "default", "flag --model", "env RALPH_MODEL", "user config FILE:3"
	Help   string `json:"help"`
}
