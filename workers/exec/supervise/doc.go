// Package supervise starts commands and proves that nothing of them is left. It is
// the part of workers/exec that knows processes, namespaces and the process table;
// it knows nothing of output, time limits or jobs.
//
// A Supervisor starts a Command and returns its Group: the leader with everything
// that descends from it, however that tried to get away (cmd &, setsid, double
// forks, a cleared environment). Group.Sweep ends what is left after the leader and
// returns only when the kernel has confirmed the end, or names the survivors.
//
// There are three ways to start a command.
//
//   - In a container, where the kernel allows it: a pid namespace whose first process
//     is this program executed again (see Init). That process is ordinary Go. It gives
//     one of its threads the mounts, Landlock rules, filter and capabilities of the
//     command, forks the command from that thread, reaps, and reports when nothing is
//     left; then the container takes the next command. The first process ends with a
//     hard stop, with its control socket, and by its parent-death signal with this
//     process, and the kernel kills the whole namespace before it reports that death.
//   - As a session of its own, elsewhere: this process is the subreaper of all
//     orphans, attributes them to commands by tag, session and ancestry, kills them by
//     pid and start time, and reads their absence from the process table. What a
//     killed Ralph left is ended by Sweep.
//   - As a tool, for a program of Ralph's own choice such as git: its process group is
//     ended with it.
//
// Every process of a command carries the command's Tag in its environment and in a
// resource limit that descendants inherit, so that Leaks finds what no list knows.
// On systems other than Linux a command's process group is ended, nothing is proven,
// and no command can be confined.
//
// Errors of the confinement are *fs.PathError values that name the step and the
// path; other errors of Start are those of fork and exec. All functions and methods
// are safe for concurrent use unless they state otherwise. Start times are in clock
// ticks since boot.
package supervise
