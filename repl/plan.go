package repl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ralph/coordinator/loop"
	"ralph/coordinator/plan"
	"ralph/coordinator/plan/graph"
	"ralph/memory/text"
	"ralph/repl/pick"
	"ralph/repl/render"
)

// planVerbs are what /plan can do.
func planVerbs() []string { return []string{"show", "next", "graph", "switch"} }

// planned does /plan.
func (s *Shell) planned(args string) {
	verb, rest, _ := strings.Cut(args, " ")
	rest = strings.TrimSpace(rest)
	show := s.showPlan
	switch verb {
	case "", "show":
	case "next":
		show = s.showNext
	case "graph":
		show = s.showGraph
	case "switch":
		s.switchPlan(rest)
		return
	default:
		hint := "/plan show, /plan next, /plan graph, /plan switch"
		if word := text.Closest(verb, planVerbs()); word != "" {
			hint = "did you mean /plan " + word + "?"
		}
		s.fail(fmt.Sprintf("/plan %s: there is no such thing", verb), hint)
		return
	}
	if rest != "" {
		s.fail("/plan "+verb+" takes nothing more", "/plan switch NAME changes the plan, /why TASK tells about one task")
		return
	}
	s.withPlan(show)
}

// withPlan reads the plan beside the loop.
func (s *Shell) withPlan(show func(*plan.Plan, []graph.Rank)) {
	if s.mind.Plans == nil {
		s.fail("this chat knows no plan", "`ralph plan` shows it")
		return
	}
	now := s.inUse()
	s.aside(func(ctx context.Context) func() {
		p, ranks, err := s.readPlan(ctx, now)
		return func() {
			switch {
			case errors.Is(err, plan.ErrNoPlan):
				s.note("there is no plan: ralph plan create talks one into being, /plan switch FILE takes one that is elsewhere")
				return
			case err != nil:
				s.explain(err)
				return
			}
			s.knowsTasks(p)
			show(p, ranks)
		}
	})
}

// readPlan reads the plan that settings name, or the one that is there, with the ranks
// of its tasks.
func (s *Shell) readPlan(ctx context.Context, now loop.Settings) (*plan.Plan, []graph.Rank, error) {
	if s.mind.Plans == nil {
		return nil, nil, plan.ErrNoPlan
	}
	p, err := s.mind.Plans.Plan(ctx, now)
	if err != nil {
		return nil, nil, err
	}
	return p, p.Graph().Ranks(), nil // which may take a moment
}

// planHead says which plan it is, and how far.
func planHead(p *plan.Plan) string {
	done, all := 0, 0
	for _, t := range p.Tasks {
		if t.Kind == kindEpic {
			continue
		}
		all++
		if t.Status == plan.Done {
			done++
		}
	}
	content := p.Path
	if content == "" {
		content = p.Tracker
	} else if p.Tracker != "" {
		content += " (" + p.Tracker + ")"
	}
	if p.Name != "" {
		content += ", " + p.Name
	}
	return fmt.Sprintf("%s: %d of %s done", content, done, text.Count(all, "task"))
}

// kindEpic is the kind of a task that only holds others.
const kindEpic = "epic"

// showPlan lists the tasks: those at work, then what can be worked, in that order,
// what waits, and what is over.
func (s *Shell) showPlan(p *plan.Plan, ranks []graph.Rank) {
	place := map[string]int{}
	for i, r := range ranks {
		place[r.ID] = i + 1
	}
	weight := func(t plan.Task) int {
		switch {
		case t.Status == plan.InProgress:
			return 0
		case !t.Status.Open():
			return len(ranks) + 2
		case place[t.ID] == 0:
			return len(ranks) + 1
		}
		return place[t.ID]
	}
	tasks := slices.DeleteFunc(slices.Clone(p.Tasks), func(t plan.Task) bool { return t.Kind == kindEpic })
	slices.SortStableFunc(tasks, func(a, b plan.Task) int { return weight(a) - weight(b) })
	s.note(planHead(p))
	var table [][]string
	for i, t := range tasks {
		if i == shownTasks {
			table = append(table, []string{"", "", fmt.Sprintf("and %d more; `ralph plan show` lists all", len(tasks)-i)})
			break
		}
		text := t.Title
		if open := blockers(ranks, t.ID); len(open) > 0 {
			text += " (after " + strings.Join(open, ", ") + ")"
		}
		if t.Result != "" {
			text += " · " + render.Brief(t.Result)
		}
		table = append(table, []string{string(t.Status), t.ID, text})
	}
	if len(table) > 0 {
		s.rows(table)
	}
	s.warnOf(p)
}

// blockers are what a task waits for.
func blockers(ranks []graph.Rank, id string) []string {
	i := slices.IndexFunc(ranks, func(r graph.Rank) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return ranks[i].BlockedBy
}

// shownWarnings bounds what is told of a plan's oddities.
const shownWarnings = 3

func (s *Shell) warnOf(p *plan.Plan) {
	for i, w := range p.Warnings {
		if i == shownWarnings {
			s.note(fmt.Sprintf("and %d more warnings; `ralph plan check` lists them", len(p.Warnings)-i))
			return
		}
		s.ink.say(func(r *render.Renderer) string { return r.Warning(w.String()) })
	}
}

// title is what a task is called.
func title(p *plan.Plan, id string) string {
	if t, ok := p.Find(id); ok {
		return strings.TrimSpace(id + " " + t.Title)
	}
	return id
}

// showNext tells which task would be taken now, and why.
func (s *Shell) showNext(p *plan.Plan, ranks []graph.Rank) {
	free := func(r graph.Rank) bool {
		t, ok := p.Find(r.ID)
		return r.Ready && ok && t.Status != plan.InProgress
	}
	i := slices.IndexFunc(ranks, free)
	if i < 0 {
		s.note(planHead(p) + "; nothing can be taken now")
		for _, r := range ranks[:min(len(ranks), shownWarnings)] {
			if len(r.BlockedBy) > 0 {
				s.note(r.ID + " waits for " + strings.Join(r.BlockedBy, ", "))
			}
		}
		return
	}
	next := ranks[i]
	rows := [][]string{{"next", title(p, next.ID)}}
	for _, why := range next.Reasons {
		rows = append(rows, []string{"why", why})
	}
	var then []string
	for _, r := range ranks[i+1:] {
		if free(r) && len(then) < 5 {
			then = append(then, r.ID)
		}
	}
	if len(then) > 0 {
		rows = append(rows, []string{"ready too", strings.Join(then, ", ")})
	}
	s.rows(append(rows, []string{"more", "/why " + next.ID + " shows the sum, /plan graph the whole order"}))
}

// showGraph tells the order of what is open, and why.
func (s *Shell) showGraph(p *plan.Plan, ranks []graph.Rank) {
	s.note(planHead(p))
	if path := p.Graph().Critical(); len(path) > 1 {
		s.note("the longest chain: " + strings.Join(path, " → "))
	}
	for _, circle := range p.Graph().Cycles() {
		s.ink.say(func(r *render.Renderer) string { return r.Warning("a circle: " + strings.Join(circle, " → ")) })
	}
	var table [][]string
	working := func(r graph.Rank) int {
		if t, ok := p.Find(r.ID); ok && t.Status == plan.InProgress {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(ranks, func(a, b graph.Rank) int { return working(a) - working(b) })
	for _, r := range ranks {
		t, ok := p.Find(r.ID)
		if !ok || t.Kind == kindEpic || !t.Status.Open() {
			continue
		}
		table = append(table, []string{fmt.Sprint(len(table) + 1), r.ID, when(t, r), standsWhere(r)})
	}
	if len(table) == 0 {
		s.note("nothing is open")
		return
	}
	if n := len(table) - shownTasks; n > 0 {
		table = append(table[:shownTasks], []string{"", "", "", fmt.Sprintf("and %d more; `ralph plan graph` lists all", n)})
	}
	s.rows(table)
}

// when says when a task can be worked.
func when(t *plan.Task, r graph.Rank) string {
	text := "waits"
	switch {
	case t.Status == plan.InProgress:
		text = "at work"
	case r.Ready:
		text = "ready"
	}
	if r.Critical {
		text += ", critical"
	}
	return text
}

// standsWhere is what a task waits for, what waits for it, and why it has its place.
func standsWhere(r graph.Rank) string {
	var about []string
	if len(r.BlockedBy) > 0 {
		about = append(about, "after "+strings.Join(r.BlockedBy, ", "))
	}
	if len(r.Unblocks) > 0 {
		about = append(about, "makes ready "+strings.Join(r.Unblocks, ", "))
	}
	return strings.Join(append(about, r.Reasons[:min(len(r.Reasons), 2)]...), "; ")
}

// why does /why.
func (s *Shell) why(task string) {
	switch {
	case s.mind.Plans == nil:
		s.fail("this chat knows no plan", "`ralph plan` shows it")
	case task == "" && s.sequential:
		s.aside(func(context.Context) func() { return s.becauseOf("") })
	case task == "":
		s.whyPicked()
	default:
		s.aside(func(context.Context) func() { return s.becauseOf(task) })
	}
}

// whyPicked lets the user pick the task.
func (s *Shell) whyPicked() {
	now := s.inUse()
	s.offering("tasks", func(ctx context.Context, pickOne picker) func() {
		p, err := s.mind.Plans.Plan(ctx, now)
		var items []pick.Item
		if err == nil {
			items = taskItems(p)
		}
		if len(items) == 0 { // what was decided without a plan
			if _, nothing := s.mind.Plans.Why(""); nothing != nil && err != nil {
				return func() { s.explain(err) }
			}
			return s.becauseOf("")
		}
		task, err := pickOne("why task", items)
		switch {
		case err != nil && cancelled(err):
			return nil
		case err != nil:
			return func() { s.explain(err) }
		}
		return s.becauseOf(task)
	})
}

// becauseOf tells what was decided about a task. It works beside the loop.
func (s *Shell) becauseOf(task string) func() {
	text, err := s.mind.Plans.Why(task)
	return func() {
		switch {
		case errors.Is(err, plan.ErrNoTask):
			s.noTask(task)
		case err != nil:
			s.explain(err)
		case strings.TrimSpace(text) == "":
			s.note("nothing was decided about " + task + " yet; /plan graph shows its place")
		default:
			s.ink.say(func(r *render.Renderer) string { return r.Facts("why "+task, text) })
		}
	}
}

// noTask says that there is no such task, and which may have been meant.
func (s *Shell) noTask(task string) {
	s.mu.Lock()
	known := slices.Clone(s.taskIDs)
	s.mu.Unlock()
	hint := "/plan lists the tasks; /why alone lets you pick one"
	if best := text.Closest(task, known); best != "" {
		hint = "did you mean /why " + best + "?"
	}
	s.fail(fmt.Sprintf("there is no task %q in the plan", task), hint)
}

// knowsTasks keeps the ids of the open tasks for the completion.
func (s *Shell) knowsTasks(p *plan.Plan) {
	var ids []string
	for _, t := range p.Tasks {
		if t.Status.Open() {
			ids = append(ids, t.ID)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taskIDs = ids
}
