// Package buildcache keeps the build caches of a project so that nothing an agent
// runs can reach what a check reads.
//
// A Store holds one immutable layer. Each agent and each check works with a Cache
// of its own: an overlay over the layer, or a copy of it, that is removed with it.
// The layer is replaced as a whole, by a rename, with what a fill has written: the
// run of a check in a fresh checkout of the commit with which the user began. The
// Cache of a check is never kept, also when the check passes, because a check runs
// what the agent wrote: a test that passes can put an entry into the cache that
// makes the next, broken tree pass.
//
// It refuses to know tools and to mount anything.
//
//	s, err := buildcache.Open(dir)
//	c, err := s.New(true)
//	defer c.Close()
//	// mount an overlay of c.Lower, c.Upper and c.Work at c.Path, run commands
package buildcache
