package plan

import (
	"slices"
	"strings"
)

// detach copies what a run remembers of a plan out of the text that it was read
// from: a title of a task that is done must not keep every version of the file in
// memory.
func (p *Plan) detach() {
	p.Tasks, p.Phases, p.Milestones, p.Gates = slices.Clone(p.Tasks), slices.Clone(p.Phases), slices.Clone(p.Milestones), slices.Clone(p.Gates)
	own := func(texts ...*string) {
		for _, s := range texts {
			*s = strings.Clone(*s)
		}
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		own(&t.ID, &t.Title, &t.Phase, &t.Kind, &t.Check, &t.Agent, &t.Assignee, &t.Result)
	}
	for i := range p.Phases {
		own(&p.Phases[i].ID, &p.Phases[i].Name)
	}
	for i := range p.Milestones {
		own(&p.Milestones[i].Name)
	}
	for i := range p.Gates {
		own(&p.Gates[i].Name, &p.Gates[i].Check)
	}
	own(&p.Name, &p.Path, &p.Branch)
}
