// Package accesspolicy says what a command of an agent may touch, and sees to it:
// the agent's tree, the parts of git that a commit needs, a temp directory and
// the build caches of the project can be written; the homes are out of sight but for what
// toolchains need (see homeTools), and the user's secrets out of the environment; there is
// no network but a loopback of the command's own. The kernel holds the commands to it (see sandbox.Policy).
//
// Names that act (see package acts) are protected in the user's tree: existing ones are
// read-only, and a command cannot make one (see sandbox.Guard). Where the kernel gives no
// means to that, what appears under such a name is taken away each second and after the
// command, put into .ralph/quarantine and reported. Repositories that commands make are
// made harmless while they run. What was there before is on record until a command ends, for
// the next start after a kill. An agent's own tree is checked when its work is merged.
//
// It refuses to decide what may leave the sandbox, which is the policy's, and it
// never runs a command unconfined unless it is told to.
//
//	s, err := sandbox.Open(sandbox.Options{Proc: runner, Root: root, Project: root, Git: &loc, Agent: "main", Getenv: os.Getenv, Environ: os.Environ()})
//	defer s.Close()
//	res, rep, err := s.Run(ctx, exec.Spec{Argv: []string{"bash", "-c", "go test ./..."}, Dir: root}, accesspolicy.Call{})
//	// rep.Denied: "the network is off …", ".vscode could not be made …"
package accesspolicy
