package coordinator

import (
	"time"

	"ralph/coordinator/result"
	"ralph/workers/agent"
	"ralph/workers/git"
)

// Totals sums up a session.
type Totals struct {
	Turns        int
	Usage        agent.Usage
	CostUSD      *float64 // nil: not known
	FilesChanged []git.FileChange
	Commits      []string
	Started      time.Time
	// Findings is how much Options.Lessons found in the session when it was closed.
	Findings int

	costUnknown bool // some usage had no price
}

// foundAt notes how many lessons the report of the session holds.
func (c *Coordinator) foundAt(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.totals.Findings = n
}

// add adds what a run brought. A run that used nothing says nothing about the
// cost.
func (t *Totals) add(o result.Outcome) {
	t.Turns++
	t.spend(agent.Spent{Usage: o.Usage, CostUSD: o.CostUSD})
	t.FilesChanged = mergeChanges(t.FilesChanged, o.FilesChanged)
	t.Commits = append(t.Commits, o.Commits...)
}

// spend adds what was used beside the runs.
func (t *Totals) spend(s agent.Spent) {
	t.Usage = t.Usage.Add(s.Usage)
	switch {
	case s.CostUSD != nil:
		sum := *s.CostUSD
		if t.CostUSD != nil {
			sum += *t.CostUSD
		}
		t.CostUSD = &sum
	case s.Usage.Total > 0:
		t.costUnknown = true
	}
	if t.costUnknown {
		t.CostUSD = nil
	}
}

// mergeChanges adds up changes by path, in the order in which they first came.
func mergeChanges(have, more []git.FileChange) []git.FileChange {
	out := append([]git.FileChange(nil), have...)
	for _, m := range more {
		i := 0
		for i < len(out) && out[i].Path != m.Path {
			i++
		}
		if i == len(out) {
			out = append(out, m)
			continue
		}
		out[i].Added, out[i].Removed = addLines(out[i].Added, m.Added), addLines(out[i].Removed, m.Removed)
		out[i].Kind = mergeKinds(out[i].Kind, m.Kind)
	}
	return out
}

// takenBack are the changes that are left of have after an undo, whose own changes
// are back: what it took out again is gone.
func takenBack(have, back []git.FileChange) []git.FileChange {
	out := append([]git.FileChange(nil), have...)
	for _, b := range back {
		i := 0
		for i < len(out) && out[i].Path != b.Path && (b.OldPath == "" || out[i].Path != b.OldPath) {
			i++
		}
		if i == len(out) {
			continue // of an earlier session
		}
		f := &out[i]
		counted := min(f.Added, f.Removed, b.Added, b.Removed) >= 0 // else it is binary
		if counted {
			f.Added, f.Removed = max(0, f.Added-b.Removed), max(0, f.Removed-b.Added)
		}
		made, gone := f.Kind == git.Added && b.Kind == git.Deleted, f.Kind == git.Deleted && b.Kind == git.Added
		if made || gone || counted && f.Added+f.Removed == 0 {
			out = append(out[:i], out[i+1:]...)
		}
	}
	return out
}

// addLines adds counts of lines, of which -1 stands for a binary file.
func addLines(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

func mergeKinds(first, then git.Kind) git.Kind {
	switch {
	case first == git.Added && then != git.Deleted:
		return git.Added
	case first == git.Deleted && then == git.Added:
		return git.Modified
	}
	return then
}
