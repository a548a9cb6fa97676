// Package proc is the only package of Ralph that starts processes. It owns
// their sessions, their time, their output and their end: when Run returns,
// nothing that the command started is running, however it tried to get away
// (cmd &, setsid, double forks, process substitution, a cleared environment).
//
// On Linux a command is the leader of its own session, Ralph is the subreaper
// of all orphans, and each command carries a tag in its environment and in a
// resource limit that its descendants inherit. An orphan is told from another
// command's by tag, session and ancestry, ended by pid and start time, and the
// absence of survivors is read from the kernel, not from a list of ours.
// Elsewhere the command's process group is ended.
//
// It refuses to know what it runs: no shell is added, no output is parsed, no
// non-zero exit is an error.
//
//	r := proc.New(proc.Options{})
//	defer r.Close(ctx)
//	res, err := r.Run(ctx, proc.Spec{Argv: []string{"go", "test", "./..."}, Dir: root, Timeout: time.Minute})
//	fmt.Println(res.ExitCode, res.Stdout)
package proc
