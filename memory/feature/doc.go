// Package feature owns `.ralph/sessions/FEATURE.json`: the snapshot of an
// autonomous run, from which it goes on at the exact point where it was.
//
// A feature is the name of the work. Its file is written by durable replacement
// at each boundary of the run; who writes it holds the feature's lock, which the
// kernel takes back from a process that dies: a snapshot that says running and
// that nobody holds reads as interrupted, everywhere. A file of that name which
// another tool made is never touched: Open refuses it with ErrForeign. Keys that
// Ralph does not know stay. The package runs nothing, and knows nothing of what
// the loop keeps in the snapshot's run.
//
//	s, err := feature.Open(feature.Options{StateDir: store.StateDir()}, "auth")
//	if snap, found := s.Found(); found && snap.Status.Resumable() { … }
//	err = s.Save(snap)
//	err = s.Close()
package feature
