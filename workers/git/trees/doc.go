// Package trees gives each agent a private clone and a branch of its own, and brings
// its work back into the user's tree.
//
// A clone borrows the objects of a snapshot: hard links to the user's, which outlive
// a repack and which the sandbox shows read-only. It has an allow-list of the user's
// configuration. What an agent writes in it reaches the user's repository in two
// ways: Ralph reads the files with an index of its own, and commits that the agent
// made are packed, verified and only then referred to, by one ref that has to be as
// it was. No git runs with what an agent wrote as its repository.
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
// agents is kept below the state directory, where no agent writes, each file with an
// authentication code, so that what a pull or an archive puts there is not believed.
//
//	t := trees.OpenTrees(runner, loc, stateDir, sign)
//	tree, err := t.Add(ctx, trees.AddOptions{Agent: "implement_auth"})
//	// … the agent works in tree.Root …
//	work, err := t.Commit(ctx, tree.Agent, "Implement auth")
//	merge, err := t.Merge(ctx, tree.Agent, "Implement auth")
package trees
