// Package publish keeps the commands of the coordinator off the user's
// repository. A command sees the git directory through an overlay mount whose
// upper layer, made here, takes all that it writes. After the command has ended
// Publish reads the upper layer, which is hostile input: it takes new objects
// over after git has verified them strictly, moves refs in one transaction that
// demands their old values, then HEAD, the index and the state of a merge or
// rebase, by list. Configuration, hooks, attributes, alternates, grafts,
// replacements and shallow boundaries are never taken over.
//
// What the user changed meanwhile wins; what the command wanted is kept under
// refs/ralph/late/. Old values that no ref would hold any more are kept under
// refs/ralph/dropped/. A journal in the directory of the layer lets Recover
// finish what a killed process has begun.
//
//	h, err := publish.Open(publish.Options{Proc: runner, Git: loc, Root: root, Dirs: dirs})
//	c, err := h.Begin()
//	// run the command with c.Mount() in place
//	report, err := c.Publish(ctx)
package publish
