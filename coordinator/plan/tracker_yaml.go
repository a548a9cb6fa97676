package plan

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"ralph/coordinator/plan/tree"
)

// loopForm is RALPH-LOOP-PLAN.yaml, which may be written in JSON.
func loopForm() form {
	return form{
		name: "yaml", noun: "task", parse: parseLoop, read: readLoop, change: changeLoopTask,
		hint: "put it right and check it with: ralph plan check",
	}
}

// parseLoop reads JSON where the text is some, since that can be changed in
// place in any layout.
func parseLoop(data []byte) (*tree.Tree, []tree.Fault) {
	if head := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n"); len(head) > 0 && (head[0] == '{' || head[0] == '[') {
		t, faults := tree.JSON(data)
		if t != nil {
			return t, faults
		}
		// A flow mapping of YAML begins like JSON.
		if y, other := tree.YAML(data); y != nil && len(other) == 0 {
			return y, nil
		}
		return nil, faults
	}
	return tree.YAML(data)
}

func loopField(key string) string {
	switch key {
	case "name", "description", "branch", "tasks", "phases", "milestones", "quality_gates", "circuit_breaker", "decision_engine", "error_recovery":
		return key
	case "project", "plan_name", "title":
		return "name"
	case "goal", "overview":
		return "description"
	case "branch_name", "branchName":
		return "branch"
	case "gates", "qualityGates":
		return "quality_gates"
	}
	return ""
}

func loopKeys() []string {
	return []string{"name", "description", "tasks", "phases", "milestones", "quality_gates", "circuit_breaker", "decision_engine", "error_recovery"}
}

func loopTaskField(key string) string {
	switch key {
	case "task_id", "name", "phase", "description", "acceptance_criteria", "dependencies", "estimated_effort", "priority_score", "priority",
		"input_artifacts", "output_artifacts", "prompts", "success_metrics", "error_handling",
		"status", "result", "assignee", "notes", "labels", "epic", "check", "clean", "agent", "type":
		return key
	case "id":
		return "task_id"
	case "title":
		return "name"
	case "depends_on", "dependsOn", "after":
		return "dependencies"
	case "effort", "estimate":
		return "estimated_effort"
	case "inputs":
		return "input_artifacts"
	case "outputs":
		return "output_artifacts"
	case "tags":
		return "labels"
	case "parent":
		return "epic"
	case "verification_command", "test_command":
		return "check"
	case "kind":
		return "type"
	}
	return ""
}

func loopTaskKeys() []string {
	return []string{"task_id", "name", "phase", "description", "acceptance_criteria", "dependencies", "estimated_effort", "priority_score",
		"input_artifacts", "output_artifacts", "prompts", "success_metrics", "error_handling", "status", "check", "depends_on"}
}

// loopRead is one reading of a loop plan.
type loopRead struct {
	*reader
	p     *Plan
	nodes []*tree.Node
	deps  []*tree.Node
	score []*tree.Node // where each task's priority_score stands
}

func readLoop(r *reader, t *tree.Tree) (*Plan, []*tree.Node) {
	root := t.Root
	if root.Kind == tree.Map && len(root.Pairs) == 1 && root.Pairs[0].Value.Kind == tree.Map && loopField(root.Pairs[0].Key) == "" {
		r.warn(root.Line, "", "the plan is read from the object under %q", clip(root.Pairs[0].Key))
		root = root.Pairs[0].Value
	}
	l := &loopRead{reader: r, p: &Plan{}}
	if root.Kind != tree.Map {
		r.fault(root.Line, root.Column, "", "a loop plan is an object with tasks, not %s", root.Kind)
		return l.p, nil
	}
	o := r.object(root, "the plan", loopField, loopKeys())
	l.p.Name, l.p.Description, l.p.Branch = o.text("name"), o.text("description"), o.text("branch")
	l.phases(&o)
	switch n := o.get("tasks"); {
	case n != nil && (n.Kind == tree.List || n.Kind == tree.Map):
		l.tasks(n, "")
	case n != nil:
		o.fault(n, "tasks must be a list, not %s", n.Kind)
	case len(l.p.Tasks) == 0 && o.pair("tasks") == nil:
		r.fault(root.Line, root.Column, "", "the plan has no tasks")
	}
	l.scale()
	l.p.epicsByUse()
	l.check(l.p, func(i int, dep string) int { return dependencyLine(l.deps[i], dep) })
	l.unreadKeys(l.p, l.nodes, loopTaskField)
	l.otherLists(root, "tasks", func(key string, _ *tree.Node) bool { return loopField(key) != "" })
	l.phaseNames()
	l.milestones(o.get("milestones"))
	readGates(r, o.get("quality_gates"), l.p)
	l.breaker(o.get("circuit_breaker"))
	l.decisions(o.get("decision_engine"))
	l.recovery(o.get("error_recovery"))
	return l.p, l.nodes
}

// phases reads the plan's own phases, which may hold their tasks.
func (l *loopRead) phases(top *object) {
	n := top.get("phases")
	if n == nil {
		return
	}
	if n.Kind != tree.List {
		top.fault(n, "phases must be a list, not %s", n.Kind)
		return
	}
	for i, item := range n.Items {
		if item.Kind == tree.String || item.Kind == tree.Number {
			l.p.Phases = append(l.p.Phases, Phase{ID: item.Text, Name: item.Text, Line: item.Line})
			continue
		}
		if item.Kind != tree.Map {
			l.fault(item.Line, 0, "", "phase %d must be an object, not %s", i+1, item.Kind)
			continue
		}
		o := l.object(item, fmt.Sprintf("phase %d", i+1), func(key string) string {
			switch key {
			case "id", "name", "description", "tasks":
				return key
			case "phase_id", "phase":
				return "id"
			case "title":
				return "name"
			}
			return ""
		}, nil)
		ph := Phase{ID: o.text("id"), Name: o.text("name"), Description: o.text("description"), Line: item.Line}
		if ph.ID == "" {
			ph.ID = ph.Name
		}
		if ph.Name == "" {
			ph.Name = ph.ID
		}
		if ph.ID == "" {
			o.fault(item, "has neither id nor name")
			continue
		}
		for k := range l.p.Phases {
			if l.p.Phases[k].ID == ph.ID {
				o.fault(item, "the id %q is there twice (first on line %d)", clip(ph.ID), l.p.Phases[k].Line)
			}
		}
		tasks := o.get("tasks")
		switch {
		case tasks == nil:
		case tasks.Kind == tree.List && len(tasks.Items) > 0 && tasks.Items[0].Kind == tree.Map:
			l.tasks(tasks, ph.ID)
		default:
			ph.Tasks = o.list("tasks", true)
		}
		l.p.Phases = append(l.p.Phases, ph)
	}
}

// tasks reads a list of tasks, or an object of them by id.
func (l *loopRead) tasks(n *tree.Node, phase string) {
	if n.Kind == tree.Map {
		l.warn(n.Line, "", "tasks is an object and read as a list, its keys as ids")
		for i, p := range n.Pairs {
			l.task(p.Value, i, phase, p.Key)
		}
		return
	}
	for i, item := range n.Items {
		l.task(item, i, phase, "")
	}
}

func (l *loopRead) task(n *tree.Node, i int, phase, id string) {
	if n.Kind != tree.Map {
		l.fault(n.Line, n.Column, "", "task %d must be an object, not %s", i+1, n.Kind)
		return
	}
	who := l.who(n, i, loopTaskField, "task_id")
	if id != "" {
		who = "task " + clip(id)
	}
	o := l.object(n, who, loopTaskField, loopTaskKeys())
	t := Task{ID: id, Phase: phase, File: l.file, Line: n.Line}
	if own := o.readID("task_id"); own != "" {
		t.ID = own
	}
	o.id = t.ID
	if p := o.pair("task_id"); t.ID == "" && (p == nil || p.Value.Kind == tree.Null) {
		o.fault(n, "has no task_id")
	}
	if n.Shared() {
		o.fault(n, "stands behind an alias or a merge (&, *, <<): its status could not be written without changing another; write it out")
	}
	if t.Title = strings.TrimSpace(o.text("name")); t.Title == "" && !o.broken("name") {
		o.fault(n, "has no name")
	}
	if own := o.text("phase"); own != "" {
		t.Phase = own
	}
	t.Description, t.Criteria = o.text("description"), o.criteria("acceptance_criteria")
	t.After = dedupe(o.list("dependencies", true, "task_id", "id"))
	t.Effort, t.Labels, t.Epic = o.text("estimated_effort"), o.list("labels", true), strings.TrimSpace(o.text("epic"))
	t.Inputs, t.Outputs = o.list("input_artifacts", false, "path", "file", "name"), o.list("output_artifacts", false, "path", "file", "name")
	t.Metrics = o.list("success_metrics", false)
	t.Check, t.Agent, t.Kind = o.text("check"), o.text("agent"), o.kind("type")
	t.Clean = o.yes("clean")
	t.Notes, t.Result, t.Assignee = o.text("notes"), o.text("result"), o.text("assignee")
	t.Status, _ = o.status("status")
	if p := passesPair(n); p != nil && p.Value.Text == "true" && t.Status != Done {
		o.warn(p.Value, "the key %q does not say that it is done; write \"status: completed\"", clip(p.Key))
	}
	t.Priority = o.priority("priority")
	if v := o.number("priority_score", 0, 100); v != nil {
		t.Score = *v
	}
	l.prompts(&o, &t)
	l.onFailure(&o, &t)
	l.p.Tasks, l.nodes, l.deps = append(l.p.Tasks, t), append(l.nodes, n), append(l.deps, o.get("dependencies"))
	l.score = append(l.score, o.get("priority_score"))
}

// prompts reads prompts{system,task}; a text is the task's.
func (l *loopRead) prompts(o *object, t *Task) {
	n := o.get("prompts")
	switch {
	case n == nil:
	case n.Kind == tree.String:
		t.Prompt = n.Text
	case n.Kind == tree.Map:
		in := l.object(n, o.who+": prompts", func(key string) string {
			switch key {
			case "system", "task":
				return key
			case "user":
				return "task"
			}
			return ""
		}, []string{"system", "task"})
		t.System, t.Prompt = in.text("system"), in.text("task")
	default:
		o.fault(n, "prompts must be an object with system and task, not %s", n.Kind)
	}
}

// strategies are what may be done about a failure.
func strategies() []string { return []string{"retry", "skip", "abort", "alternative", "escalate"} }

// onFailure reads error_handling{on_failure,fallback_strategy}; a word is
// on_failure.
func (l *loopRead) onFailure(o *object, t *Task) {
	n := o.get("error_handling")
	switch {
	case n == nil:
	case n.Kind == tree.String:
		t.OnFailure = o.word("error_handling", strategies()...)
	case n.Kind == tree.Map:
		in := l.object(n, o.who+": error_handling", func(key string) string {
			switch key {
			case "on_failure", "fallback_strategy":
				return key
			case "fallback":
				return "fallback_strategy"
			}
			return ""
		}, []string{"on_failure", "fallback_strategy"})
		in.id = t.ID
		t.OnFailure, t.Fallback = in.word("on_failure", strategies()...), in.text("fallback_strategy")
	default:
		o.fault(n, "error_handling must be an object with on_failure, not %s", n.Kind)
	}
}

// scale makes priorities of the scores, by fifths of the plan's own scale: to
// 1, to 10 or to 100.
func (l *loopRead) scale() {
	most, first := 0.0, (*tree.Node)(nil)
	for i, n := range l.score {
		if n != nil && l.p.Tasks[i].Score > most {
			most, first = l.p.Tasks[i].Score, n
		}
	}
	scale := 1.0
	for scale < most {
		scale *= 10
	}
	if scale > 1 {
		l.warn(first.Line, "", "priority_score is read on a scale from 0 to %v", scale)
	}
	for i, n := range l.score {
		if n == nil {
			continue
		}
		if t := &l.p.Tasks[i]; n.Kind == tree.Number {
			t.Priority = min(4, max(0, 5-int(math.Ceil(t.Score/scale*5-1e-9))))
		}
	}
}

// phaseNames checks the phases that tasks name and those that name tasks.
func (l *loopRead) phaseNames() {
	if len(l.p.Phases) == 0 {
		return
	}
	byName := map[string]string{}
	for _, ph := range l.p.Phases {
		byName[strings.ToLower(ph.Name)] = ph.ID
	}
	for _, ph := range l.p.Phases {
		byName[strings.ToLower(ph.ID)] = ph.ID
		for _, id := range ph.Tasks {
			i, ok := l.p.index[id]
			switch {
			case !ok:
				l.fault(ph.Line, 0, "", "phase %s: has task %q, which does not exist", clip(ph.ID), clip(id))
			case l.p.Tasks[i].Phase == "":
				l.p.Tasks[i].Phase = ph.ID
			}
		}
	}
	for i := range l.p.Tasks {
		t := &l.p.Tasks[i]
		if t.Phase == "" {
			continue
		}
		id, ok := byName[strings.ToLower(strings.TrimSpace(t.Phase))]
		if !ok {
			l.fault(t.Line, 0, t.ID, "task %s: is in phase %q, which does not exist", clip(t.ID), clip(t.Phase))
			continue
		}
		t.Phase = id
	}
	for k := range l.p.Phases {
		ph := &l.p.Phases[k]
		ph.Tasks = nil
		for i := range l.p.Tasks {
			if l.p.Tasks[i].Phase == ph.ID {
				ph.Tasks = append(ph.Tasks, l.p.Tasks[i].ID)
			}
		}
	}
}

func changeLoopTask(t *Task, n *tree.Node, m Mark) ([]tree.Change, error) {
	word := map[Status]string{
		Pending: "pending", InProgress: "in_progress", Interrupted: "paused", Blocked: "blocked", Done: "completed", Failed: "failed", Skipped: "skipped",
	}[m.Status]
	if m.Status == InProgress {
		if err := claim(t, m.Actor); err != nil {
			return nil, err
		}
	}
	var changes []tree.Change
	old := n.Get("status")
	have, ok := Pending, old == nil
	if old != nil && old.Kind == tree.String {
		have, ok = statusOf(old.Text)
	}
	if !ok || have != m.Status {
		changes = append(changes, tree.Change{Key: "status", Value: word})
	}
	// A plan may give tasks to people by the same key: only what we put there
	// is taken away.
	switch who := n.Get("assignee"); {
	case m.Status == InProgress && m.Actor != "":
		changes = append(changes, tree.Change{Key: "assignee", Value: oneLine(m.Actor)})
	case m.Status != InProgress && t.Status == InProgress && who != nil && who.Text != "" && who.Kind == tree.String:
		changes = append(changes, tree.Change{Key: "assignee", Value: ""})
	}
	result, notes := oneLine(m.Result), addNote(t.Notes, m.Note)
	if m.Back != nil {
		result, notes = m.Back.Result, m.Back.Notes
	}
	if result != "" || m.Back != nil && t.Result != "" {
		changes = append(changes, tree.Change{Key: "result", Value: result})
	}
	if notes != t.Notes {
		changes = append(changes, tree.Change{Key: "notes", Value: notes})
	}
	return changes, nil
}

// quoteWord is a value as an expression has it.
func quoteWord(n *tree.Node) string {
	if n.Kind == tree.String {
		if _, err := strconv.ParseFloat(n.Text, 64); err == nil {
			return n.Text
		}
		return strconv.Quote(n.Text)
	}
	return n.Text
}
