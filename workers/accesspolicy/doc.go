// Package accesspolicy says what a command of an agent may touch, and sees to it:
// the agent's tree, the parts of git that a commit needs, a temp directory and
// the build caches of the project can be written; the user's secrets are out of
// sight and out of the environment; there is no network but a loopback of the
// command's own. The kernel holds the commands to it (see sandbox.Policy).
//
// Names through which a project could have something run elsewhere, later and
// with the user's rights (git's configuration and hooks, editor settings, CI
// files, start-up files of shells) are protected: existing ones are read-only,
// and what appears under such a name is taken away after the command, put into
// .ralph/quarantine and reported.
//
// It refuses to decide what may leave the sandbox, which is the policy's, and it
// never runs a command unconfined unless it is told to.
//
//	s, err := sandbox.Open(sandbox.Options{Proc: runner, Root: root, Project: root, Git: &loc, Agent: "main", Getenv: os.Getenv, Environ: os.Environ()})
//	defer s.Close()
//	res, rep, err := s.Run(ctx, exec.Spec{Argv: []string{"bash", "-c", "go test ./..."}, Dir: root}, accesspolicy.Call{})
//	// rep.Denied: "the network is off …", rep.Reverted: ".vscode (…) was taken away …"
package accesspolicy
