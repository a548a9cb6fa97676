// Package lives holds the tests that run the program on whole plans, kill it,
// edit the plan by hand and go on, and then compare all that is left: the plan,
// the files, the commits, the session's files and what the program said. It has no
// code of the program's own, and nothing imports it.
//
//	RALPH_TEST_SWEEP=1 RALPH_TEST_SEED=7 go test -run TestRandomRuns/yaml ./scripts/lives
package lives
