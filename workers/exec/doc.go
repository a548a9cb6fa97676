// Package exec runs commands. It and its part workers/exec/supervise are the only
// packages of Ralph that start processes. When Run returns, nothing that the command
// started is running, however it tried to get away (cmd &, setsid, double forks,
// process substitution, a cleared environment).
//
// A Runner runs commands in the foreground (Run) and as jobs in the background
// (Start), with a bound of time and of output, and stops all of them at once (Stop,
// Kill, WaitStopped). How processes are started, ended and proven to be gone is the
// part of workers/exec/supervise; what a command may see, write and use is a
// sandbox.Policy, which workers/exec/sandbox applies. Imports go one way: exec,
// supervise, sandbox.
//
// OnTerminal runs a program of the user's on a terminal. Environ and Shell provide
// what commands usually start with.
//
// The package knows nothing of what it runs: it adds no shell, parses no output, and
// takes no non-zero exit for an error. A command that does not start is an *Error with
// a hint for the user. Sizes are in bytes.
//
//	func main() { exec.Init(); … }
//
//	r := exec.New(exec.Options{Init: exec.Self()})
//	defer r.Close(ctx)
//	res, err := r.Run(ctx, exec.Spec{Argv: []string{"go", "test", "./..."}, Dir: root, Timeout: time.Minute})
//	fmt.Println(res.ExitCode, res.Stdout)
package exec
