// Package backup keeps a copy of the git directory of the user's repository where
// commands cannot write. It is for systems on which nothing keeps a command from
// writing to the repository itself: no mount namespace shows it read-only or through
// an overlay, and Landlock cannot leave a directory out of one that may be written.
//
// After a command, End compares the repository with the copy. What the command
// committed stays. Objects that are missing or changed are put back, unless the
// repository is whole without them and still has all that refs, reflogs and the index
// named before, as after a git gc. Refs, HEAD and the index are put back where git
// cannot read them any more. Commits that no ref holds any more are kept under
// refs/ralph/dropped/. What the user commits while a command runs is not in the copy yet.
//
//	b := backup.Open(backup.Options{Proc: runner, Git: loc, Dir: dir})
//	told, err := b.Begin(ctx)
//	// run the command
//	told, err = b.End(ctx)
package backup
