package prompt

import "ralph/coordinator/prompt/work"

// Check is a check that failed.
type Check = work.Check

// Fence puts foreign text into a fence of backticks that is longer than any run
// of them in the text, so that the text cannot end it.
func Fence(name, text string) string { return work.Fence(name, text) }
