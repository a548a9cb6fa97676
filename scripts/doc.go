// Package scripts is the face of Ralph for scripts and for one-shot use: it
// owns the command tree, the flags, the result document (ralph.result/1), the
// event stream, and the exit codes.
//
// Standard output carries the answer, one result document or the events, and
// nothing else, ever; progress, warnings and errors go to standard error. A
// result is emitted on every exit path, also after a bad flag, a signal or a
// panic. The package refuses to render Markdown, to write state files (it asks
// the coordinator), and to know the other face: the chat comes as a function.
//
// Example:
//
//	app := scripts.App{Version: "1.0.0", Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
//		Getenv: os.Getenv, Environ: os.Environ(), Dir: dir, Chat: shell}
//	os.Exit(scripts.Main(ctx, app, []string{"--json", "make the tests pass"}))
package scripts
