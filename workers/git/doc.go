// Package git runs the user's git without letting a repository run anything. It
// owns the one way to start git: arguments only, a scrubbed environment, and
// overrides for all that a repository can configure to be executed (fsmonitor,
// hooks, pager, editor, external diff, textconv, filters, signing, credential
// helpers, transports). Paths and revisions are checked, paths are literal, and
// lists are parsed NUL-separated.
//
// It owns checkpoints too: the state of all files, recorded in a repository of
// Ralph's own outside of the project, which stands alone and which no command sees;
// the user's objects, refs, index, stash and status are never touched by them.
//
// It refuses the network, and everything that would rewrite what the user has:
// no push, no reset, no checkout, no clean.
//
//	loc, err := git.Find(".")
//	repo := git.Open(runner, loc)
//	changes, err := repo.Status(ctx)
package git
