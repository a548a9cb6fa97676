// Package crew is the coordinator's children: agents that work side by side, each
// in a tree of its own, and whose work is merged when it is checked.
//
// It owns their ids, their order (who waits for whose work), their journals, what
// they are told and what came of them, and the way of their work into the user's
// tree: commit, checks, merge, and an agent that resolves what does not fit. It
// refuses to know the model, the tools and the human: a coordinator equips each
// agent. What a child says is data: it is handed on in a fence, and asks for
// nothing.
//
// Nothing of a child is lost: one that was stopped, or cut off with Ralph, has its
// work committed on its branch and its conversation in its journal, and goes on
// with Resume, also in another process.
//
// Where things are: crew.go asks for agents and begins them, work.go is the life
// of one, merge.go its way home, keep.go its journal, view.go what others see.
//
//	crew := crew.New(crew.Options{Pool: pool, Trees: trees, Equip: equip, …})
//	crew.Begin(ctx)
//	ids, err := crew.Spawn(ctx, "ralph", []tools.SpawnAgent{{Name: "fix_login", Task: "…"}})
//	more, err := crew.Await(ctx, "ralph", came)
//	for _, m := range crew.News("ralph") { … }
package crew
