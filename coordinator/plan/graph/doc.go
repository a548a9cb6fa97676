// Package graph owns what can be said of tasks from their dependencies alone:
// cycles, what is ready, the order, the critical path, what a task unblocks, and
// a ranking that decides what is worked next. It is pure: no files, no clock, no
// chance; the same nodes give the same answers.
//
// The measures of the whole graph (see Whole) are those that bv computes, by its
// conventions: an edge goes from a task to what it depends on, finished tasks
// are part of it, PageRank has damping 0.85, betweenness is not normalised, and
// a chain is as long as it has tasks. What decides (see Rank) looks at the open
// work instead: a chain that is done holds up nobody.
//
// It refuses to know trackers, policies and why a node may not be picked.
//
//	g := graph.New([]graph.Node{
//		{ID: "schema", Done: true},
//		{ID: "api", After: []string{"schema"}, Pick: true},
//		{ID: "page", After: []string{"api"}, Pick: true},
//	})
//	g.Ready()    // ["api"]
//	g.Critical() // ["api" "page"]
package graph
