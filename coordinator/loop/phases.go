package loop

import (
	"context"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/plan"
	"ralph/memory/feature"
	"ralph/memory/session/folder"
)

// failedRun is how a run ends that gave up.
const failedRun = feature.Failed

// How a phase stands.
const (
	phasePending = "pending"
	phaseRunning = "in_progress"
	phaseDone    = "completed"
	phaseFailed  = "failed"
	phaseSkipped = "skipped"
)

// The phases of a run whose plan has none of its own.
const (
	planning       = "planning"
	implementation = "implementation"
	e2eTesting     = "e2e_testing"
	verification   = "verification"
	prReview       = "pr_review"
)

// phase is a stage of the run.
type phase struct {
	id, name   string
	status     string
	tasks      []string
	start, end *time.Time
}

// layPhases says which tasks belong to which phase: by the list of the phase, then
// by what the task says; the others to the implementation, or to the first phase.
func (e *engine) layPhases() {
	was := e.phases
	var list []phase
	for _, p := range e.p.Phases {
		list = append(list, phase{id: first(p.ID, p.Name), name: first(p.Name, p.ID), tasks: slices.Clone(p.Tasks)})
	}
	e.own = len(list) > 0
	rest := 0
	if !e.own {
		for _, id := range plan.DefaultPhases() {
			list = append(list, phase{id: id, name: id})
		}
		rest = 1
	}
	e.phaseAt = make(map[string]int, len(e.p.Tasks))
	for i := range list {
		for _, id := range list[i].tasks {
			e.phaseAt[id] = i
		}
		list[i].tasks = nil
	}
	for i := range e.p.Tasks {
		t := &e.p.Tasks[i]
		at, known := e.phaseAt[t.ID]
		if !known {
			at = slices.IndexFunc(list, func(p phase) bool {
				return t.Phase != "" && (strings.EqualFold(p.id, t.Phase) || strings.EqualFold(p.name, t.Phase))
			})
			if at < 0 {
				at = rest
			}
			e.phaseAt[t.ID] = at
		}
		if e.scope[t.ID] {
			list[at].tasks = append(list[at].tasks, t.ID)
		}
	}
	if was == nil && e.o.Resume != nil {
		for _, p := range e.o.Resume.Phases {
			was = append(was, phase{id: p.ID, status: p.Status, start: p.StartedAt, end: p.EndedAt})
		}
	}
	for i := range list {
		list[i].status = phasePending
		if k := slices.IndexFunc(was, func(p phase) bool { return p.id == list[i].id }); k >= 0 {
			list[i].status, list[i].start, list[i].end = was[k].status, was[k].start, was[k].end
		}
	}
	e.phases = list
}

// phaseOf is the phase that a task belongs to.
func (e *engine) phaseOf(t *plan.Task) string {
	if at, ok := e.phaseAt[t.ID]; ok && at < len(e.phases) {
		return e.phases[at].id
	}
	return ""
}

// phaseNow is the phase that is worked on: the first that goes on, else the last
// that did.
func (e *engine) phaseNow() string {
	last := ""
	for _, p := range e.phases {
		switch p.status {
		case phaseRunning:
			return p.id
		case phaseDone, phaseFailed:
			last = p.id
		}
	}
	return last
}

// advance moves the phases on, with the gates and milestones on the way.
func (e *engine) advance(ctx context.Context) {
	for i := range e.phases {
		p := &e.phases[i]
		if !e.own && (p.id == planning || p.id == e2eTesting && len(p.tasks) == 0) {
			e.ownPhase(p)
			continue
		}
		if len(p.tasks) == 0 || p.status == phaseSkipped {
			continue
		}
		open, began, lost := 0, false, false
		for _, id := range p.tasks {
			s := e.stands[id]
			if s.Open() {
				open++
			}
			began = began || e.at[id] != nil || !s.Open()
			lost = lost || s == plan.Failed || s == plan.Skipped && e.s.known(id).Over != ""
		}
		switch {
		case open > 0 && p.status == phasePending && (began || e.reachedPhase(i)):
			e.enter(p)
		case open > 0 && (p.status == phaseDone || p.status == phaseFailed): // tasks were added or opened again
			p.end = nil
			e.enter(p)
		case open == 0 && p.status != phaseDone && p.status != phaseFailed:
			if p.status == phasePending {
				e.enter(p)
			}
			if e.unread == nil && e.examine(ctx, func(g plan.Gate) bool { return g.Phase != "" && e.isPhase(g.Phase, p) }) {
				e.leavePhase(p, lost)
			}
		}
	}
	if ctx.Err() == nil {
		e.examine(ctx, func(g plan.Gate) bool { return g.Phase == "" && g.Task != "" && e.stands[g.Task] == plan.Done })
	}
	e.milestones()
	e.percent()
}

func (e *engine) isPhase(name string, p *phase) bool {
	return strings.EqualFold(name, p.id) || strings.EqualFold(name, p.name)
}

// ownPhase moves a phase on that has no tasks: the planning lasts until the plan
// is approved.
func (e *engine) ownPhase(p *phase) {
	switch {
	case p.id != planning:
	case p.status == phasePending:
		e.enter(p)
	case p.status == phaseRunning && e.s.Approved:
		e.leavePhase(p, false)
	}
}

// reachedPhase says that nothing of the phases before is open.
func (e *engine) reachedPhase(at int) bool {
	for i := range at {
		p := &e.phases[i]
		if p.id == planning && !e.own && !e.s.Approved {
			return false
		}
		if slices.ContainsFunc(p.tasks, func(id string) bool { return e.stands[id].Open() }) {
			return false
		}
	}
	return true
}

// enter begins a phase.
func (e *engine) enter(p *phase) {
	now := e.now()
	if p.status = phaseRunning; p.start == nil {
		p.start = &now
	}
	if e.s.Entered == nil {
		e.s.Entered = map[string]time.Duration{}
	}
	e.s.Entered[p.id], e.dirty = e.worked(), true
	e.o.Files.Log(folder.Event{Type: folder.PhaseStart, Details: map[string]any{"phase": p.id, "name": p.name, "tasks": len(p.tasks)}})
}

// leavePhase ends a phase. It took as long as the run worked meanwhile: neither a
// pause nor the time in which no Ralph was there counts.
func (e *engine) leavePhase(p *phase, lost bool) {
	now := e.now()
	result := phaseDone
	if lost {
		result = phaseFailed
	}
	p.status, p.end, e.dirty = result, &now, true
	took := e.worked()
	if since, ok := e.s.Entered[p.id]; ok {
		took = max(0, took-since)
	} else if p.start != nil { // an older Ralph began it
		took = min(took, now.Sub(*p.start))
	}
	e.o.Files.Log(folder.Event{Type: folder.PhaseComplete, Result: result, Duration: took, Details: map[string]any{"phase": p.id, "name": p.name, "tasks": len(p.tasks)}})
}

// percent tells the files how far the phase is.
func (e *engine) percent() {
	now := e.phaseNow()
	at := slices.IndexFunc(e.phases, func(p phase) bool { return p.id == now })
	if at < 0 {
		return
	}
	p, over := &e.phases[at], 0
	for _, id := range p.tasks {
		if !e.stands[id].Open() {
			over++
		}
	}
	part := 0.0
	switch {
	case len(p.tasks) > 0:
		part = 100 * float64(over) / float64(len(p.tasks))
	case p.status == phaseDone:
		part = 100
	}
	if e.shown.phase != now || e.shown.part != part {
		e.shown.phase, e.shown.part = now, part
		e.o.Files.Phase(at+1, p.name, part)
	}
}

// byPhase puts the tasks of earlier phases first, and holds those back whose phase
// comes after one with a gate that is not passed yet.
func (e *engine) byPhase(ids []string) []string {
	barrier := len(e.phases)
	for _, g := range e.gates {
		if g.Phase == "" {
			continue
		}
		at := slices.IndexFunc(e.phases, func(p phase) bool { return e.isPhase(g.Phase, &p) })
		if state := e.s.Gates[g.Name]; at >= 0 && len(e.phases[at].tasks) > 0 && state != gatePassed && state != gateAccepted {
			barrier = min(barrier, at)
		}
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return e.phaseAt[id] > barrier })
	slices.SortStableFunc(ids, func(a, b string) int { return e.phaseAt[a] - e.phaseAt[b] })
	return ids
}

// conclude moves the phases to their end, once no task is left: the gates of the
// whole run. It says whether they let it through.
func (e *engine) conclude(ctx context.Context) bool {
	through := e.examine(ctx, func(plan.Gate) bool { return true })
	if ctx.Err() != nil || !through {
		return false
	}
	for i := range e.phases {
		p := &e.phases[i]
		if e.own || len(p.tasks) > 0 || p.status != phasePending {
			continue
		}
		if p.id == verification && len(e.gates) > 0 {
			e.enter(p)
			e.leavePhase(p, false)
			continue
		}
		p.status, e.dirty = phaseSkipped, true
	}
	e.milestones()
	e.percent()
	return true
}
