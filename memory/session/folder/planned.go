package folder

import "slices"

// Planned lists quality gates that are still to be examined. Those that are known
// stay as they are.
func (f *Folder) Planned(gates ...Gate) {
	if len(gates) > 0 {
		f.track(func(p *progressFileDoc) { p.planned(gates) })
	}
}

// planned lists gates that are still to be examined; those that are known stay.
func (p *progressFileDoc) planned(gates []Gate) {
	for _, g := range gates {
		if !slices.ContainsFunc(p.gates, func(e entry[Gate]) bool { return e.value.Name == p.clean(g.Name) }) {
			g.Passed = nil
			p.gate(g)
		}
	}
}
