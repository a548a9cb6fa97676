package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/plan/graph"
	"ralph/memory/text"
)

// Graph returns the tasks with what they wait for. Beads-bv ranks by structure,
// all others by priority first.
func (p *Plan) Graph() *graph.Graph {
	if p.Tracker == "beads-bv" {
		return graph.New(p.Nodes(), graph.ByStructure)
	}
	return graph.New(p.Nodes())
}

// Nodes returns the tasks as the graph sees them, in the order of Tasks, for
// whoever knows more about them than the plan does.
//
// A task waits for what its epics wait for. Whatever waits for an epic waits
// for all tasks of it; in beads for the epic itself, which is closed there. A
// task that is blocked is picked when it waits for others in the plan, since it
// is ready when they are done, and never otherwise.
func (p *Plan) Nodes() []graph.Node {
	now := time.Now()
	f := p.family()
	nodes := make([]graph.Node, len(p.Tasks))
	for i := range p.Tasks {
		t := &p.Tasks[i]
		n := graph.Node{
			ID: t.ID, After: f.after(t), Priority: t.Priority, Score: t.Score,
			Done: t.Status == Done, Out: t.Status == Failed || t.Status == Skipped,
		}
		switch t.Status {
		case Pending, Interrupted:
			n.Pick = true
		case Blocked:
			n.Pick = len(t.After) > 0 && !p.beads()
		}
		n.Pick = n.Pick && t.Kind != "epic" && !t.DeferUntil.After(now)
		if t.Kind == "epic" && !p.beads() && f.awaited[t.ID] {
			n.After = append(slices.Clone(n.After), f.members(t.ID)...)
			n.Done = n.Done || f.done(t.ID)
		}
		nodes[i] = n
	}
	return nodes
}

func (p *Plan) beads() bool { return strings.HasPrefix(p.Tracker, "beads") }

// family is who belongs to which epic.
type family struct {
	p        *Plan
	at       map[string]int
	children map[string][]int
	awaited  map[string]bool // epics that a task waits for
}

func (p *Plan) family() family {
	f := family{p: p, at: make(map[string]int, len(p.Tasks)), children: map[string][]int{}, awaited: map[string]bool{}}
	for i := range p.Tasks {
		f.at[p.Tasks[i].ID] = i
		if e := p.Tasks[i].Epic; e != "" {
			f.children[e] = append(f.children[e], i)
		}
	}
	if len(f.children) == 0 {
		return f
	}
	for i := range p.Tasks {
		for _, id := range p.Tasks[i].After {
			if k, ok := f.at[id]; ok && p.Tasks[k].Kind == "epic" {
				f.awaited[id] = true
			}
		}
	}
	return f
}

// maxNested bounds how deep epics may be in each other.
const maxNested = 20

// after is what a task waits for: what it names itself, and what the epics
// above it name, but for tasks of those epics.
func (f family) after(t *Task) []string {
	if t.Epic == "" {
		return t.After
	}
	out := t.After
	owned := false
	for epic, depth := t.Epic, 0; epic != "" && depth < maxNested; depth++ {
		i, ok := f.at[epic]
		if !ok {
			break
		}
		for _, id := range f.p.Tasks[i].After {
			if id == t.ID || slices.Contains(out, id) || f.within(id, epic) {
				continue
			}
			if !owned {
				out, owned = slices.Clone(out), true
			}
			out = append(out, id)
		}
		epic = f.p.Tasks[i].Epic
	}
	return out
}

// within reports whether a task belongs to an epic or is it.
func (f family) within(id, epic string) bool {
	for depth := 0; depth < maxNested; depth++ {
		if id == epic {
			return true
		}
		i, ok := f.at[id]
		if !ok || f.p.Tasks[i].Epic == "" {
			return false
		}
		id = f.p.Tasks[i].Epic
	}
	return false
}

func (f family) members(epic string) []string {
	var ids []string
	for _, i := range f.children[epic] {
		if id := f.p.Tasks[i].ID; id != epic {
			ids = append(ids, id)
		}
	}
	return ids
}

// done reports whether an epic has tasks and all are done.
func (f family) done(epic string) bool { return f.allDone(epic, 0) }

func (f family) allDone(epic string, depth int) bool {
	for _, i := range f.children[epic] {
		t := &f.p.Tasks[i]
		if t.Status == Done {
			continue
		}
		if t.Kind != "epic" || depth > maxNested || !f.allDone(t.ID, depth+1) {
			return false
		}
	}
	return len(f.children[epic]) > 0
}

// Within returns the ids of all tasks that belong to the epics, children of
// children too, without the epics themselves; without epics all. An epic that
// the plan does not have is an error that names those it has.
func (p *Plan) Within(epics []string) (ids map[string]bool, err error) {
	ids = make(map[string]bool, len(p.Tasks))
	if len(epics) == 0 {
		for i := range p.Tasks {
			ids[p.Tasks[i].ID] = true
		}
		return ids, nil
	}
	f := p.family()
	known := p.epics(f)
	for _, e := range epics {
		i := slices.Index(known, e)
		if i < 0 {
			i = slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, e) })
		}
		if i < 0 {
			return nil, p.noEpic(e, known)
		}
		f.collect(known[i], ids)
	}
	return ids, nil
}

// epics are the ids by which tasks can be chosen, in the order of the plan.
func (p *Plan) epics(f family) []string {
	var known []string
	seen := map[string]bool{}
	add := func(id string) {
		if id != "" && !seen[id] {
			seen[id] = true
			known = append(known, id)
		}
	}
	for i := range p.Tasks {
		if t := &p.Tasks[i]; t.Kind == "epic" || len(f.children[t.ID]) > 0 {
			add(t.ID)
		}
		add(p.Tasks[i].Epic)
	}
	return known
}

func (p *Plan) noEpic(epic string, known []string) error {
	e := &Problems{Op: "choose epics of plan", Path: p.Path, List: []Problem{{Text: fmt.Sprintf("there is no epic %q", epic)}}}
	switch n := len(known); {
	case n == 0:
		e.Hint = "this plan has no epics: leave out --epic"
	default:
		e.Hint = "the epics are " + strings.Join(known[:min(n, 20)], ", ")
		if guess := text.Closest(epic, known); guess != "" {
			e.Hint = fmt.Sprintf("did you mean %q? ", guess) + e.Hint
		}
	}
	return e
}

// collect puts in the tasks below an epic. What is in is not followed again, so
// that epics which name each other end too.
func (f family) collect(epic string, ids map[string]bool) {
	for _, i := range f.children[epic] {
		if id := f.p.Tasks[i].ID; !ids[id] {
			ids[id] = true
			f.collect(id, ids)
		}
	}
}
