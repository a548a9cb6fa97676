//go:build race && linux

package exec

// raced is whether the race detector is on, which needs more memory than any bound.
const raced = true
