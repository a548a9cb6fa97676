package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/plan"
	"ralph/coordinator/plan/graph"
	"ralph/coordinator/policy/condition"
	"ralph/memory/feature"
)

// notBegun begins the result of a task that was left out because of another one.
// A plan may hold it from an earlier run: such a task is taken up again when what
// it needs is there.
const notBegun = "not begun: "

// epicKind are the tasks that only have children.
const epicKind = "epic"

// beadsByStructure is the tracker whose graph decides before its priorities.
const beadsByStructure = "beads-bv"

// adopt takes a plan as it was read, if its conditions and epics can be.
func (e *engine) adopt(p *plan.Plan) error {
	within, err := epicsOf(p, e.s.Settings.Epics)
	if err != nil {
		return err
	}
	selected, err := selection(e.s.Settings.Select)
	if err != nil {
		return err
	}
	gates, err := gatesOf(p)
	if err != nil {
		return err
	}
	for i, g := range gates {
		gates[i].due = e.s.Gates[g.Name] != ""
	}
	miles := map[string]string{}
	for _, m := range p.Milestones {
		for _, id := range m.Tasks {
			if miles[id] == "" {
				miles[id] = m.Name
			}
		}
	}
	scope := make(map[string]bool, len(p.Tasks))
	for i := range p.Tasks {
		t := &p.Tasks[i]
		in, err := e.wanted(t, within, selected, miles[t.ID])
		if err != nil {
			return err
		}
		if in {
			scope[t.ID] = true
		}
	}
	e.p, e.gates, e.scope, e.stale = p, gates, scope, true
	e.index = indexOf(p)
	e.nodes = p.Nodes()
	e.needs = make(map[string][]string, len(p.Tasks))
	for _, n := range e.nodes {
		e.needs[n.ID] = n.After
	}
	e.layPhases()
	e.remark(p)
	return nil
}

// mostRemarks bounds what is warned about in the plans of a run.
const mostRemarks = 20

// remark tells what is to be warned about in a plan: how it was read, what another
// opinion is. Each is told once, wherever its line has moved to.
func (e *engine) remark(p *plan.Plan) {
	for _, w := range p.Warnings {
		key := w.Task + "\x00" + w.Text
		if e.remarked[key] || len(e.remarked) > mostRemarks {
			continue
		}
		e.remarked[key] = true
		if len(e.remarked) > mostRemarks {
			e.o.Warn("there is more to warn about in the plan: ralph plan check")
			return
		}
		e.o.Warn(w.String())
	}
}

// indexOf finds the tasks of a plan by their ids.
func indexOf(p *plan.Plan) map[string]int {
	index := make(map[string]int, len(p.Tasks))
	for i := range p.Tasks {
		index[p.Tasks[i].ID] = i
	}
	return index
}

// find is a task of the plan.
func (e *engine) find(id string) (*plan.Task, bool) {
	i, ok := e.index[id]
	if !ok {
		return nil, false
	}
	return &e.p.Tasks[i], true
}

func epicsOf(p *plan.Plan, epics []string) (map[string]bool, error) {
	if len(epics) == 0 {
		return nil, nil
	}
	return p.Within(epics)
}

// wanted says whether a task is one of this run. One that the run has worked stays
// one, whatever its status has become.
func (e *engine) wanted(t *plan.Task, within map[string]bool, selected *condition.Condition[condition.Task], milestone string) (bool, error) {
	if t.Kind == epicKind || within != nil && !within[t.ID] {
		return false, nil
	}
	if k := e.s.known(t.ID); selected == nil || k.Attempts > 0 || k.Over != "" {
		return true, nil
	}
	ok, err := selected.Holds(condition.Task{
		ID: t.ID, Title: t.Title, Description: t.Description, Status: string(t.Status), Priority: t.Priority, Score: t.Score, Kind: t.Kind, Epic: t.Epic,
		Phase: t.Phase, Labels: t.Labels, After: t.After, Check: t.Check, Agent: t.Agent, Assignee: t.Assignee, Effort: t.Effort,
		Files: append(slices.Clone(t.Inputs), t.Outputs...), Criteria: len(t.Criteria), Milestone: milestone,
	})
	if err != nil {
		return false, fmt.Errorf("select tasks: %s: %w", t.ID, err)
	}
	return ok, nil
}

// standing is how a task stands, by the plan and by what this run knows.
func (e *engine) standing(t *plan.Task) plan.Status {
	k := e.s.known(t.ID)
	switch {
	case e.at[t.ID] != nil:
		return plan.InProgress
	case k.Over != "":
		return k.Over
	case t.Status == plan.Skipped && leftOut(t), t.Status == plan.Done && k.Ticked:
		return plan.Pending
	}
	return t.Status
}

// leftOut says that an earlier run skipped a task only because of another one.
func leftOut(t *plan.Task) bool {
	return strings.HasPrefix(t.Result, notBegun) || strings.Contains(t.Notes, notBegun)
}

// recount sees how all tasks stand, after a change.
func (e *engine) recount() {
	if !e.stale {
		return
	}
	e.stale, e.dirty = false, true
	n := len(e.p.Tasks)
	stands := make(map[string]plan.Status, n)
	for i := range e.p.Tasks {
		stands[e.p.Tasks[i].ID] = e.standing(&e.p.Tasks[i])
	}
	e.stands = stands
	if !e.dry {
		e.leaveOut()
	}
	e.counts = Counts{}
	e.listed = e.listed[:0]
	nodes := make([]graph.Node, 0, n)
	now := e.now()
	e.deferred = false
	for i := range e.p.Tasks {
		t := &e.p.Tasks[i]
		s := stands[t.ID]
		node := e.nodes[i]
		node.Done = s == plan.Done || t.Kind == epicKind && node.Done
		node.Out, node.Pick = s == plan.Failed || s == plan.Skipped, false
		if e.scope[t.ID] {
			e.counts.add(s)
			e.listed = append(e.listed, feature.Task{ID: t.ID, Title: t.Title, Status: string(s), CompletedInSession: e.s.known(t.ID).Mine})
			node.Pick = e.pickable(t, s, now)
		}
		nodes = append(nodes, node)
	}
	way := graph.ByPriority
	if e.p.Tracker == beadsByStructure {
		way = graph.ByStructure
	}
	e.ranked.rank(nodes, way)
	if !e.dry {
		e.track()
	}
}

func (c *Counts) add(s plan.Status) {
	c.Total++
	switch s {
	case plan.Done:
		c.Done++
	case plan.Failed:
		c.Failed++
	case plan.Skipped:
		c.Skipped++
	default:
		c.Open++
	}
}

// pickable says that a task may be worked once what it needs is done.
func (e *engine) pickable(t *plan.Task, s plan.Status, now time.Time) bool {
	switch s {
	case plan.Pending, plan.Interrupted:
	case plan.Blocked:
		// One that names nothing is blocked by a human; bd's is always a human's.
		if len(t.After) == 0 || strings.HasPrefix(e.p.Tracker, "beads") {
			return false
		}
	default:
		return false // what is in progress and not here is another's
	}
	if t.DeferUntil.After(now) {
		e.deferred = true
		return false
	}
	return t.Assignee == "" || t.Assignee == e.o.Actor || s == plan.Pending
}

// leaveOut skips the tasks that need work which will not come, and takes up those
// again for which it may come after all.
func (e *engine) leaveOut() {
	why := map[string]string{}
	for i := range e.p.Tasks {
		t := &e.p.Tasks[i]
		if !e.scope[t.ID] {
			continue
		}
		k := e.s.known(t.ID)
		mine := k.Over == plan.Skipped && strings.HasPrefix(k.Why, notBegun)
		switch s := e.stands[t.ID]; {
		case mine:
			if e.hopeless(t.ID, why) == "" {
				e.s.task(t.ID).reopen()
				e.stands[t.ID] = plan.Pending
				if t.Status == plan.Skipped {
					e.s.owe(t, e.mark(plan.Pending, ""))
				}
			}
		case s == plan.Pending || s == plan.Interrupted || s == plan.Blocked:
			if text := e.hopeless(t.ID, why); text != "" {
				e.leave(t, text)
			}
		}
	}
}

// hopeless says why what a task needs will not come; "" when it may. A task that
// was left out itself does not count: what it waits for does. known has what was
// found already; a circle, which no plan that was read has, ends there.
func (e *engine) hopeless(id string, known map[string]string) string {
	if text, ok := known[id]; ok {
		return text
	}
	known[id] = ""
	for _, need := range e.needs[id] {
		text := ""
		k := e.s.known(need)
		switch s := e.stands[need]; {
		case s == plan.Failed:
			text = notBegun + "it needs " + need + ", which has failed"
		case s == plan.Skipped && !strings.HasPrefix(k.Why, notBegun):
			text = notBegun + "it needs " + need + ", which was skipped"
		case s != plan.Done && e.hopeless(need, known) != "":
			text = notBegun + "it needs " + need + ", which was not begun either"
		}
		if text != "" {
			known[id] = text
			return text
		}
	}
	return ""
}

// remaining counts the tasks that are neither over nor put off.
func (e *engine) remaining() int {
	n := 0
	for i := range e.p.Tasks {
		t := &e.p.Tasks[i]
		if e.scope[t.ID] && e.stands[t.ID].Open() && !t.DeferUntil.After(e.now()) {
			n++
		}
	}
	return n
}

// room is how many attempts may begin beside those that are under way.
func (e *engine) room() int {
	most := e.o.MaxAgents
	if n := e.s.Settings.Parallel; n > 0 {
		most = min(most, n)
	}
	if n := e.s.Settings.MaxTurns; n > 0 { // each needs a turn at least
		most = min(most, n-e.s.Turns)
	}
	return most - len(e.at)
}

// choose begins the best of what is ready, as long as there is room.
func (e *engine) choose(ctx context.Context) {
	e.wait = nil
	spent := false
	for _, id := range e.byPhase(e.ranked.ready()) {
		if e.room() <= 0 || ctx.Err() != nil || !e.mayBegin() {
			break
		}
		t, _ := e.find(id)
		k := e.s.known(id)
		if e.hindered(t, k) {
			continue
		}
		if most := e.s.Settings.MaxIterations; most > 0 && e.s.Iteration >= most && k.Iteration == 0 {
			spent = true
			continue
		}
		e.begin(ctx, t)
	}
	if spent && len(e.at) == 0 && e.wait == nil && e.end == nil && len(e.questions) == 0 {
		e.end = &ending{status: feature.Paused, limit: limitIterations,
			reason: fmt.Sprintf("%d of %d iterations are used up", e.s.Iteration, e.s.Settings.MaxIterations)}
	}
}

// hindered says that something keeps a task that is ready from being begun now,
// and notes for what comes by itself how long that takes.
func (e *engine) hindered(t *plan.Task, k *taskState) bool {
	now := e.now()
	switch {
	case k.Held != "" || k.Refused != "" || e.questioned(t.ID):
		return true
	case k.NotBefore.After(now):
		e.waitFor("backoff", "", k.NotBefore)
		return true
	}
	who, until := e.worker(t, k)
	if until.After(now) {
		e.waitFor("rate_limit", who, until)
		return true
	}
	return false
}

// waitFor notes what comes first of what is waited for.
func (e *engine) waitFor(what, who string, until time.Time) {
	if e.wait == nil || until.Before(e.wait.Until) {
		e.wait = &Wait{For: what, Agent: who, Until: until}
	}
}

// worker is the agent that is to work a task now: its own or the run's, and the
// fallback in its place when that one may not work or did not get there. until is
// when it may, when none of them may now.
func (e *engine) worker(t *plan.Task, k *taskState) (who string, until time.Time) {
	who = t.Agent
	if who == "" {
		who = e.s.Settings.Agent
	}
	fallback := e.s.Settings.Fallback
	if fallback == "" || fallback == who {
		return who, e.s.Limited[who]
	}
	if k.Other {
		who, fallback = fallback, who
	}
	now := e.now()
	first, second := e.s.Limited[who], e.s.Limited[fallback]
	switch {
	case !first.After(now):
		return who, first
	case !second.After(now) || second.Before(first):
		return fallback, second
	}
	return who, first
}
