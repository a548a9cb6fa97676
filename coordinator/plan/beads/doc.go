// Package beads is the way to bd, the issue tracker, and to bv, its viewer. It
// owns what is known of their two dialects (0.x over SQLite and issues.jsonl,
// 1.x over Dolt): how they are called, what proves that a call has done what it
// was asked, and how their data is read as one snapshot.
//
// It refuses to believe exit codes: bd 0.x ends with 0 after a lost claim, a
// refused close and an unknown id. A call has succeeded when its JSON shows the
// issue in the state that was asked for, and nothing else. It never runs bd sync,
// bd init or bd --no-db, never starts a daemon, never runs bv inside a
// repository, and uses no shell.
//
//	c, err := beads.Open(beads.Options{Root: root, Proc: runner, Environ: env})
//	s, err := c.Snapshot(ctx)
//	err = c.Claim(ctx, "demo-3", "ralph/cart_api")
//	err = c.Close(ctx, "demo-3", "ralph 1a2b3c4", "ralph/cart_api")
package beads
