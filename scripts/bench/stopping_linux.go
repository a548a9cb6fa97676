package main

// stopping is what the measurements of stops and urgent messages need.
type stopping struct {
	stopRuns int
	scan     *scanner
	environ  []string // more of the environment of a Ralph
	named    int      // survivors that were printed
}

// rest ends what a part that failed has left behind.
func (l *lab) rest() error {
	if l.scan == nil {
		return nil
	}
	return l.scan.clear()
}
