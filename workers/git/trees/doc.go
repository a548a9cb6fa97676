// Package trees gives each agent a worktree and a branch of its own, and brings
// its work back into the user's tree.
//
// An agent begins with the user's present state: a snapshot through an index of
// our own, or HEAD when nothing is uncommitted. Its commits are merged without
// touching any tree into refs/ralph/integration, and then land in the user's tree,
// all or nothing: files are replaced only where the result is what both sides
// want, then the index entries of these paths follow, then the branch. A journal
// makes a landing that was killed end as a whole, forward or back. What cannot
// land is held and waits.
//
// It refuses to reset, check out, clean or stash anything of the user's, to run
// hooks, filters or merge drivers, to remove a lock of the user's git, to pass on
// secrets and Ralph's state, and to remove what is nowhere else. What it knows of
// agents is kept below the state directory, where no agent writes: refs that an
// agent moved are not believed.
//
//	t := trees.OpenTrees(runner, loc, stateDir)
//	tree, err := t.Add(ctx, trees.AddOptions{Agent: "implement_auth"})
//	// … the agent works in tree.Root …
//	work, err := t.Commit(ctx, tree.Agent, "Implement auth")
//	merge, err := t.Merge(ctx, tree.Agent, "Implement auth")
package trees
