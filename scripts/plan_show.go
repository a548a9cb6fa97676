package scripts

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"ralph/coordinator/plan"
	"ralph/coordinator/prompt/work"
	"ralph/memory/text"
)

func (inv *invocation) showPlan(c *cobra.Command) error {
	v, err := inv.viewPlan(c)
	if err != nil {
		return err
	}
	inv.markForeign()
	if inv.form != outputText {
		d := inv.planDocument("show", v)
		next, why := v.nextTask()
		d.Next, d.Reason = next, why
		for i := range v.Tasks {
			d.Tasks = append(d.Tasks, v.task(&v.Tasks[i]))
		}
		d.Phases, d.Milestones, d.Gates, d.Triggers = v.Phases, v.Milestones, v.Gates, v.Triggers
		return inv.out.printJSON(d)
	}
	s := inv.newSheet()
	s.head(v)
	for _, g := range v.groups() {
		if g.title != "" {
			s.title(text.VisibleLine(g.title))
		} else {
			s.line("")
		}
		s.tasks(v, g.tasks)
	}
	if len(v.Gates) > 0 {
		s.title("Quality gates")
		for _, g := range v.Gates {
			content := g.Name
			for _, x := range nonEmpty(g.Condition, g.Check) {
				if !strings.Contains(content, x) {
					content += "; " + x
				}
			}
			s.prose(plainPaint, content, 2, 2)
		}
	}
	if len(v.Milestones) > 0 {
		s.title("Milestones")
		for _, m := range v.Milestones {
			s.prose(plainPaint, strings.Join(nonEmpty(m.Name, m.Target), ", ")+": "+ids(m.Tasks, 20), 2, 2)
		}
	}
	return inv.out.print(s.b.String())
}

func nonEmpty(list ...string) []string {
	var out []string
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// head tells which plan it is and how far it is.
func (s *sheet) head(v *planView) {
	name := text.VisibleLine(v.Name)
	where := text.VisibleLine(v.Path) + " (" + v.Tracker + ")"
	if name == "" {
		s.line(s.in(boldPaint, where))
	} else {
		s.line(s.in(boldPaint, runewidth.Truncate(name, max(20, s.columns-runewidth.StringWidth(where)-2), "…")) + "  " + s.in(dimPaint, where))
	}
	if v.Description != "" {
		first, _, _ := strings.Cut(strings.TrimSpace(v.Description), "\n\n")
		s.prose(dimPaint, first, 0, 3)
	}
	n := v.counts()
	parts := []string{s.in(green, fmt.Sprintf("%d of %d done", n.Done, n.Total))}
	for _, x := range []struct {
		n    int
		word string
		p    paint
	}{{n.InProgress, "in progress", yellow}, {n.Interrupted, "interrupted", yellow}, {n.Ready, "ready", cyan}, {n.Waiting, "waiting", plainPaint},
		{n.Failed, "failed", red}, {n.Skipped, "skipped", dimPaint}} {
		if x.n > 0 {
			parts = append(parts, s.in(x.p, fmt.Sprintf("%d %s", x.n, x.word)))
		}
	}
	s.line(strings.Join(parts, ", "))
}

// taskGroup is some tasks under a title.
type taskGroup struct {
	title string
	tasks []*plan.Task
}

// groups are the tasks that are meant: by phase where the plan has phases of its
// own, else by epic, in the order of the plan.
func (v *planView) groups() []taskGroup {
	titles := map[string]string{}
	byPhase := len(v.Phases) > 0
	for _, p := range v.Phases {
		titles[p.ID] = strings.Join(nonEmpty(p.ID, p.Name), "  ")
	}
	key := func(t *plan.Task) string { return t.Phase }
	if !byPhase {
		key = func(t *plan.Task) string { return t.Epic }
		for _, t := range v.Tasks {
			if t.Kind == "epic" {
				titles[t.ID] = t.ID + "  " + t.Title
			}
		}
	}
	var out []taskGroup
	at := map[string]int{}
	for i := range v.Tasks {
		t := &v.Tasks[i]
		if !v.meant[t.ID] || t.Kind == "epic" {
			continue
		}
		k := key(t)
		if _, ok := at[k]; !ok {
			title := titles[k]
			if title == "" {
				title = k
			}
			at[k] = len(out)
			out = append(out, taskGroup{title: title})
		}
		g := &out[at[k]]
		g.tasks = append(g.tasks, t)
	}
	if len(out) > 1 && at[""] < len(out) && out[at[""]].title == "" {
		if i, ok := at[""]; ok && i > 0 {
			out[i].title = "Others"
		}
	}
	return out
}

// tasks writes a table: how each stands, its id, its priority, its title, what it
// waits for.
func (s *sheet) tasks(v *planView, list []*plan.Task) {
	var words, names []string
	for _, t := range list {
		words = append(words, v.standing(t))
		names = append(names, text.VisibleLine(t.ID))
	}
	w0, w1 := widest(words, 12), widest(names, 20)
	for i, t := range list {
		head := "  " + s.in(colourOf(words[i]), pad(words[i], w0)) + "  " + pad(names[i], w1) + "  " + s.in(dimPaint, pad(fmt.Sprintf("P%d", t.Priority), 3)) + " "
		room := s.columns - (2 + w0 + 2 + w1 + 2 + 3 + 1)
		after := ""
		if r := v.ranks[t.ID]; len(r.BlockedBy) > 0 && t.Status.Open() {
			after = "← " + ids(r.BlockedBy, 3)
		} else if t.Status == plan.InProgress && t.Assignee != "" {
			after = "by " + text.VisibleLine(t.Assignee)
		}
		title := text.VisibleLine(strings.Join(strings.Fields(t.Title), " "))
		if after == "" {
			s.line(head + runewidth.Truncate(title, room, "…"))
			continue
		}
		w2 := min(runewidth.StringWidth(after), max(room/3, room-runewidth.StringWidth(title)-2))
		s.line(head + pad(title, room-w2-2) + "  " + s.in(dimPaint, runewidth.Truncate(after, w2, "…")))
	}
}

func colourOf(standing string) paint {
	switch standing {
	case "done":
		return green
	case "ready":
		return cyan
	case "in_progress", "interrupted":
		return yellow
	case "failed":
		return red
	}
	return dimPaint
}

// nextTask is the task whose turn it is, or why there is none.
func (v *planView) nextTask() (*planTask, string) {
	for _, r := range v.order {
		if t, ok := v.Find(r.ID); ok && r.Ready {
			x := v.task(t)
			return &x, ""
		}
	}
	n := v.counts()
	switch {
	case n.Total == 0:
		return nil, "no task is meant by --epic and --select"
	case n.Done == n.Total:
		return nil, "all tasks are done"
	case n.InProgress > 0:
		return nil, fmt.Sprintf("what is left waits for %s in progress", text.Count(n.InProgress, "task"))
	case n.Waiting > 0:
		return nil, "what is left waits for tasks that failed, were skipped, are blocked or not meant"
	}
	return nil, "nothing that is left can be worked: it failed, was skipped, or is blocked"
}

func (inv *invocation) nextInPlan(c *cobra.Command) error {
	v, err := inv.viewPlan(c)
	if err != nil {
		return err
	}
	inv.markForeign()
	next, why := v.nextTask()
	var then []planTask
	for _, r := range v.order {
		if t, ok := v.Find(r.ID); ok && r.Ready && r.ID != next.ID && len(then) < 5 {
			then = append(then, v.task(t))
		}
	}
	if inv.form != outputText {
		d := inv.planDocument("next", v)
		d.Next, d.Reason, d.Then = next, why, then
		return inv.out.printJSON(d)
	}
	s := inv.newSheet()
	if next == nil {
		s.line(why)
		return inv.out.print(s.b.String())
	}
	s.line(s.in(boldPaint, text.VisibleLine(next.ID)) + "  " + runewidth.Truncate(text.VisibleLine(strings.Join(strings.Fields(next.Title), " ")), max(20, s.columns-runewidth.StringWidth(text.VisibleLine(next.ID))-2), "…"))
	s.prose(dimPaint, next.Description, 2, 4)
	for _, x := range next.Criteria {
		box := "[ ] "
		if x.Done {
			box = "[x] "
		}
		s.prose(plainPaint, box+x.Text, 2, 2)
	}
	if next.Check != "" {
		s.prose(plainPaint, "check: "+next.Check, 2, 2)
	}
	s.title("Why")
	s.why(next)
	if len(then) > 0 {
		s.title("Ready too")
		var list []*plan.Task
		for i := range then {
			list = append(list, &then[i].Task)
		}
		s.tasks(v, list)
	}
	return inv.out.print(s.b.String())
}

func (s *sheet) why(t *planTask) {
	for _, r := range t.Rank.Reasons {
		s.prose(plainPaint, r, 2, 3)
	}
	if len(t.Rank.Reasons) == 0 {
		s.line(fmt.Sprintf("  it is ready, with priority %d", t.Priority))
	}
}

func (inv *invocation) graphPlan(c *cobra.Command) error {
	v, err := inv.viewPlan(c)
	if err != nil {
		return err
	}
	if inv.form != outputText {
		d := inv.planDocument("graph", v)
		next, why := v.nextTask()
		d.Next, d.Reason = next, why
		d.Graph = v.whole()
		return inv.out.printJSON(d)
	}
	s := inv.newSheet()
	s.head(v)
	if path := v.graph.Critical(); len(path) > 1 {
		s.title(fmt.Sprintf("Critical path (%s)", text.Count(len(path), "task")))
		s.prose(plainPaint, strings.Join(path, " → "), 2, 6)
	}
	if layers := v.graph.Layers(); len(layers) > 0 {
		s.title("Side by side")
		for i, l := range layers {
			if i == 30 {
				s.line(fmt.Sprintf("  … %d more steps", len(layers)-i))
				break
			}
			s.prose(plainPaint, fmt.Sprintf("%d.  %s", i+1, ids(l, 40)), 2, 4)
		}
	}
	for _, cycle := range v.graph.Cycles() {
		s.prose(red, "cycle: "+strings.Join(cycle, " → "), 2, 6)
	}
	s.weights(v)
	return inv.out.print(s.b.String())
}

// weights is the table of what each open task counts.
func (s *sheet) weights(v *planView) {
	var names []string
	for _, r := range v.order {
		names = append(names, text.VisibleLine(r.ID))
	}
	if len(names) == 0 {
		s.line("")
		s.line("nothing is left to be worked")
		return
	}
	s.title("What counts")
	w := max(4, widest(names, 20))
	s.line(s.in(dimPaint, "  "+pad("TASK", w)+"  P   RANK  DEPTH  SLACK  BEHIND  UNBLOCKS AT ONCE"))
	for i, r := range v.order {
		t, ok := v.Find(r.ID)
		if !ok || t.Kind == "epic" {
			continue
		}
		mark := " "
		if r.Critical {
			mark = "*"
		}
		p := plainPaint
		if r.Ready {
			p = cyan
		}
		head := fmt.Sprintf("%s %s  %-2d %5.3f  %5d  %5d  %6d  ", mark, s.in(p, pad(names[i], w)), t.Priority, r.PageRank, r.Depth, r.Slack, r.Transitive)
		rest := "-"
		if len(r.Unblocks) > 0 {
			rest = ids(r.Unblocks, 8)
		}
		s.line(head + runewidth.Truncate(rest, max(10, s.columns-(2+w+2+2+1+5+2+5+2+5+2+6+2)), "…"))
	}
	s.line(s.in(dimPaint, "  * on the critical path; the ready ones stand first, in the order of work"))
}

// checkPlan prints all faults. The answer is the list: it goes to standard output
// with exit code 3.
func (inv *invocation) checkPlan(c *cobra.Command) error {
	if err := inv.load(c); err != nil {
		return err
	}
	inv.out.resultFile = ""
	v, err := inv.readPlan(c.Context())
	var faults []plan.Problem
	hint := ""
	if err == nil {
		faults = conditions(v.Plan)
		hint = "mend what is named, then check it again"
		if perr := work.CheckTemplate(inv.promptFlag()); perr != nil {
			return promptFault(perr)
		}
	} else {
		var p *plan.Problems
		if !errors.As(err, &p) || len(p.List) == 0 {
			return planFault(err)
		}
		faults, hint = p.List, p.Hint
	}
	if inv.form != outputText {
		d := inv.planDocument("check", v)
		d.OK, d.Problems, d.Hint = len(faults) == 0, emptyList(faults), hint
		if d.OK {
			d.Hint = ""
		}
		if err := inv.out.printJSON(d); err != nil {
			return err
		}
	} else if err := inv.out.print(inv.checked(v, faults)); err != nil {
		return err
	}
	if len(faults) > 0 {
		inv.code = 3
		path := faults[0].File
		explain(inv.Stderr, fmt.Sprintf("the plan cannot be used: %s in %s", text.Count(len(faults), "fault"), path), hint)
	}
	return nil
}

func (inv *invocation) checked(v *planView, faults []plan.Problem) string {
	s := inv.newSheet()
	for _, l := range problemLines(faults) {
		s.b.WriteString(s.in(red, text.VisibleLine(l)) + "\n")
	}
	if v == nil {
		return s.b.String()
	}
	for _, l := range problemLines(v.Warnings) {
		s.b.WriteString(s.in(yellow, "warning: "+text.VisibleLine(l)) + "\n")
	}
	if len(faults) == 0 {
		n := v.counts()
		s.line(s.in(green, "ok") + fmt.Sprintf(": %s (%s), %s, %d done, %d ready", text.VisibleLine(v.Path), v.Tracker, text.Count(n.Total, "task"), n.Done, n.Ready))
	}
	return s.b.String()
}
