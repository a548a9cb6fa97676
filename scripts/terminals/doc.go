// Package terminals holds the real ralph on real terminals: tmux, screen, a plain
// pseudo-terminal and a dumb one. It owns the sessions of a person that types,
// resizes, pastes, suspends and comes back after a kill; what they see is held
// against golden screens. It has tests only, and refuses to look inside the
// program.
//
//	go test ./scripts/terminals
package terminals
