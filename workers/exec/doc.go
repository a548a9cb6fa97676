// Package exec is the only package of Ralph that starts processes. It owns their
// sessions, their time, their output and their end: when Run returns, nothing that
// the command started is running, however it tried to get away (cmd &, setsid,
// double forks, process substitution, a cleared environment).
//
// On Linux a command runs, where the kernel allows it, in a container: a pid
// namespace whose first process is this program executed again (see Init). That
// process is ordinary Go. It gives a thread of its own the mounts, the Landlock
// rules, the filter of system calls and the capabilities of the command, starts the
// command from that thread, reaps, and reports when nothing is left; then the
// container takes the next command. It ends with a hard stop and with Ralph, also
// when Ralph is killed, and the kernel ends everything in the namespace with it
// before it reports its death: this is the proof of rest. Ready makes a container
// ahead of its use.
//
// Where there are no namespaces a command is the leader of its own session and
// Ralph is the subreaper of all orphans; an orphan is told from another command's
// by tag, session and ancestry, ended by pid and start time, and the absence of
// survivors is read from the kernel. What is left by a Ralph that was killed is
// swept by the next one.
//
// By either method each process carries the tag of its command in its environment
// and in a resource limit that its descendants inherit, so that Leaks finds in the
// process table what no list of ours knows. On other systems the command's process
// group is ended. A Tool, such as git, is started directly.
//
// A command with a Confinement is held to it by the kernel, by as many layers as
// the system has (see Layers): namespaces of its own, also for root, a view of the
// files in which only what it may change can be changed, Landlock, a filter of
// system calls, no privileges and limits. Landlock is a second wall around what may
// be changed, not within it: what is protected below a place that may be changed,
// or shown below /tmp, is held by its read-only mount alone.
//
// The package knows nothing of what it runs: no shell is added, no output is
// parsed, no non-zero exit is an error.
//
//	func main() { exec.Init(); … }
//
//	r := exec.New(exec.Options{Init: exec.Self()})
//	defer r.Close(ctx)
//	res, err := r.Run(ctx, exec.Spec{Argv: []string{"go", "test", "./..."}, Dir: root, Timeout: time.Minute})
//	fmt.Println(res.ExitCode, res.Stdout)
package exec
