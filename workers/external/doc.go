// Package external runs other agents' command lines (claude, codex, gemini,
// opencode, pi, and any command of the user's) for one task each, and says what
// came of it. Such a program is data: an Adapter names the arguments, how the
// prompt gets in, the form of what comes out, the variables it may have, and the
// messages that mean a quota is used up.
//
// An outcome is never taken from the exit code alone: some of these programs exit
// with 0 when the model could not be reached or every tool was denied. What counts
// is the closing event of the stream together with the exit; the promise that the
// task is complete counts in the final text of the assistant only, never in a
// tool's result, a quoted file or an echo of the prompt. Whether the work is any
// good is not known here: the caller looks at the tree and runs the checks.
//
// It refuses to start anything but through proc, to give a program the user's
// whole environment, to keep a stream in memory, and to approve what the program
// would ask for: no adapter here switches a program's own safety off.
//
//	all, err := external.Adapters(nil)
//	a, err := external.Find(all, "codex")
//	res := external.Run(ctx, external.Request{Adapter: a, Prompt: text, Dir: tree, Environ: os.Environ(), Start: runner.Run})
//	if res.Declared { … } else if res.Quota { wait(res.RetryAfter) }
package external
