package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ralph/coordinator/plan/tree"
	"ralph/memory/text"
)

// milestones reads the milestones, names or objects.
func (l *loopRead) milestones(n *tree.Node) {
	if n == nil {
		return
	}
	if n.Kind != tree.List {
		l.fault(n.Line, 0, "", "milestones must be a list, not %s", n.Kind)
		return
	}
	for i, item := range n.Items {
		if item.Kind == tree.String {
			m := Milestone{Name: item.Text, Line: item.Line}
			l.reachable(m)
			l.p.Milestones = append(l.p.Milestones, m)
			continue
		}
		if item.Kind != tree.Map {
			l.fault(item.Line, 0, "", "milestone %d must be an object, not %s", i+1, item.Kind)
			continue
		}
		o := l.object(item, fmt.Sprintf("milestone %d", i+1), func(key string) string {
			switch key {
			case "name", "target", "tasks":
				return key
			case "milestone", "title", "milestone_name":
				return "name"
			case "target_date", "due", "description", "criteria":
				return "target"
			case "required_tasks", "task_ids":
				return "tasks"
			}
			return ""
		}, nil)
		m := Milestone{Name: o.text("name"), Target: o.text("target"), Tasks: o.list("tasks", true, "task_id", "id"), Line: item.Line}
		if m.Name == "" {
			o.fault(item, "has no name")
		}
		for _, id := range m.Tasks {
			if _, ok := l.p.index[id]; !ok {
				l.fault(dependencyLine(o.get("tasks"), id), 0, "", "milestone %s: has task %q, which does not exist", clip(m.Name), clip(id))
			}
		}
		l.reachable(m)
		l.p.Milestones = append(l.p.Milestones, m)
	}
}

// OfPhase reports whether a milestone without tasks is reached with a phase: the
// phase has its name or target, whatever word for the end follows there.
func (m Milestone) OfPhase(id, name string) bool {
	for _, text := range []string{m.Name, m.Target} {
		for _, end := range []string{"", " complete", " completed", " done", " finished"} {
			if n := len(text) - len(end); n > 0 && strings.EqualFold(text[n:], end) && (strings.EqualFold(text[:n], id) || strings.EqualFold(text[:n], name)) {
				return true
			}
		}
	}
	return false
}

// reachable warns of a milestone that is never reached.
func (l *loopRead) reachable(m Milestone) {
	if why := l.unreachable(m); why != "" {
		l.warn(m.Line, "", "milestone %s: nothing can reach it: %s", clip(m.Name), why)
	}
}

// unreachable says why a milestone is never reached, "" when it can be.
func (l *loopRead) unreachable(m Milestone) string {
	for _, id := range m.Tasks {
		t, ok := l.p.Find(id)
		if !ok {
			continue // a fault already
		}
		if why := t.never(); why != "" {
			return why
		}
		for _, on := range t.After {
			if b, ok := l.p.Find(on); ok && b.never() != "" {
				return fmt.Sprintf("task %s waits for it, and %s", clip(id), b.never())
			}
		}
	}
	return ""
}

// never says why a task is not done and will not be, "" when it can be.
func (t *Task) never() string {
	switch {
	case t.Status == Skipped || t.Status == Failed:
		return fmt.Sprintf("task %s is %s", clip(t.ID), t.Status)
	case t.Kind == "epic" && t.Status.Open():
		return fmt.Sprintf("%s is an epic, which is never worked", clip(t.ID))
	}
	return ""
}

func gateField(key string) string {
	switch key {
	case "name", "condition", "metric", "operator", "threshold", "phase", "task", "check", "clean":
		return key
	case "gate", "title", "id":
		return "name"
	case "expression", "expr":
		return "condition"
	case "op", "comparison":
		return "operator"
	case "value", "target":
		return "threshold"
	case "command", "run":
		return "check"
	case "task_id":
		return "task"
	}
	return ""
}

// readGates reads quality gates: a list of objects or of commands, or an object
// of conditions by name.
func readGates(r *reader, n *tree.Node, p *Plan) {
	if n == nil {
		return
	}
	switch n.Kind {
	case tree.List:
		for i, item := range n.Items {
			readGate(r, item, fmt.Sprintf("quality gate %d", i+1), "", p)
		}
	case tree.Map:
		for _, pair := range n.Pairs {
			if v := pair.Value; v.Kind == tree.String {
				p.Gates = append(p.Gates, Gate{Name: pair.Key, Condition: strings.TrimSpace(v.Text), Line: pair.Line})
				continue
			}
			readGate(r, pair.Value, "quality gate "+clip(pair.Key), pair.Key, p)
		}
	default:
		r.fault(n.Line, 0, "", "quality gates must be a list, not %s", n.Kind)
	}
}

func readGate(r *reader, n *tree.Node, who, name string, p *Plan) {
	if n.Kind == tree.String && name == "" {
		p.Gates = append(p.Gates, Gate{Name: n.Text, Check: n.Text, Line: n.Line})
		return
	}
	if n.Kind != tree.Map {
		r.fault(n.Line, 0, "", "%s must be an object, not %s", who, n.Kind)
		return
	}
	o := r.object(n, who, gateField, []string{"name", "condition", "metric", "operator", "threshold", "phase", "task", "check", "clean"})
	g := Gate{
		Name: o.text("name"), Condition: strings.TrimSpace(o.text("condition")), Metric: o.text("metric"),
		Phase: o.text("phase"), Task: o.text("task"), Check: o.text("check"), Clean: o.yes("clean"), Line: n.Line,
	}
	if g.Name == "" {
		g.Name = name
	}
	if g.Metric != "" || o.get("operator") != nil || o.get("threshold") != nil {
		o.compare(&g)
	}
	if g.Condition == "" && g.Check == "" && o.get("metric") == nil && o.get("threshold") == nil {
		o.fault(n, "has neither a condition nor metric, operator and threshold nor a check")
	}
	if _, known := p.index[g.Task]; g.Task != "" && !known {
		o.fault(o.get("task"), "is for task %q, which does not exist", clip(g.Task))
	}
	if g.Phase != "" && len(p.Phases) > 0 && !slices.ContainsFunc(p.Phases, func(ph Phase) bool { return ph.ID == g.Phase || ph.Name == g.Phase }) {
		o.fault(o.get("phase"), "is for phase %q, which does not exist", clip(g.Phase))
	}
	if g.Name == "" {
		g.Name = g.Condition + g.Check
	}
	p.Gates = append(p.Gates, g)
}

// compare makes a condition of metric, operator and threshold.
func (o *object) compare(g *Gate) {
	limit := o.get("threshold")
	word := strings.TrimSpace(o.text("operator"))
	switch {
	case g.Condition != "":
		o.fault(o.n, "has a condition and a metric with its threshold: keep one")
		return
	case g.Metric == "":
		o.fault(o.n, "has a threshold but no metric")
		return
	case limit == nil:
		o.fault(o.n, "has a metric but no threshold")
		return
	case limit.Kind == tree.List || limit.Kind == tree.Map:
		o.fault(limit, "threshold must be a number, not %s", limit.Kind)
		return
	}
	op, ok := operatorOf(word)
	if !ok {
		at := o.get("operator")
		if at == nil {
			at = o.n
		}
		o.fault(at, "operator is %q; it must be one of >=, >, <=, <, ==, !=", clip(word))
		return
	}
	g.Operator = op
	g.Threshold, _ = strconv.ParseFloat(limit.Text, 64)
	g.Condition = strings.TrimSpace(g.Metric) + " " + op + " " + quoteWord(limit)
}

// operatorOf reads an operator, a sign or its name; without one a metric must reach
// its threshold.
func operatorOf(word string) (string, bool) {
	words := strings.FieldsFunc(strings.ToLower(word), func(r rune) bool { return r == '_' || r == '-' || r == ' ' || r == '\t' })
	switch strings.Join(words, " ") {
	case ">=", "", "gte", "ge", "≥", "=>", "at least", "min", "minimum", "greater than or equal", "greater or equal":
		return ">=", true
	case ">", "gt", "greater than", "greater", "above", "more than":
		return ">", true
	case "<=", "lte", "le", "≤", "=<", "at most", "max", "maximum", "less than or equal", "less or equal":
		return "<=", true
	case "<", "lt", "less than", "less", "below":
		return "<", true
	case "==", "=", "eq", "equals", "equal", "equal to":
		return "==", true
	case "!=", "≠", "ne", "not equal", "not equals":
		return "!=", true
	}
	return "", false
}

// breaker reads circuit_breaker.triggers.
func (l *loopRead) breaker(n *tree.Node) {
	if n == nil {
		return
	}
	list := n
	if n.Kind == tree.Map {
		if list = n.Get("triggers"); list == nil || list.Kind == tree.Null {
			return
		}
	}
	if list.Kind != tree.List {
		l.fault(list.Line, 0, "", "circuit_breaker must have a list of triggers, not %s", list.Kind)
		return
	}
	for i, item := range list.Items {
		who := fmt.Sprintf("trigger %d", i+1)
		if item.Kind != tree.Map {
			l.fault(item.Line, 0, "", "%s must be an object with condition and action, not %s", who, item.Kind)
			continue
		}
		o := l.object(item, who, func(key string) string {
			switch key {
			case "condition", "action":
				return key
			}
			return ""
		}, []string{"condition", "action"})
		t := Trigger{Condition: strings.TrimSpace(o.text("condition")), Line: item.Line}
		t.Action = o.word("action", "pause_and_request_help", "pause_and_review", "alert_and_continue", "adjust_prompt_and_retry", "pause_and_review_methodology")
		if t.Condition == "" {
			o.fault(item, "has no condition")
		}
		if o.get("action") == nil {
			o.fault(item, "has no action")
		}
		l.p.Triggers = append(l.p.Triggers, t)
	}
}

// decisions reads decision_engine.
func (l *loopRead) decisions(n *tree.Node) {
	if n == nil {
		return
	}
	if n.Kind != tree.Map {
		l.fault(n.Line, 0, "", "decision_engine must be an object, not %s", n.Kind)
		return
	}
	known := []string{"risk_tolerance", "confidence_threshold", "learning_rate", "human_intervention"}
	for i := range n.Pairs {
		if p := &n.Pairs[i]; !slices.Contains(known, p.Key) {
			if l.seen == nil {
				l.seen = map[string]bool{}
			}
			l.seen[p.Key] = true
			content := ""
			if guess := text.Closest(p.Key, known); guess != "" {
				content = fmt.Sprintf("; was %q meant?", guess)
			}
			l.warn(p.Line, "", "decision_engine: the key %q is not used%s (it has %s)", clip(p.Key), content, strings.Join(known, ", "))
		}
	}
	o := l.object(n, "decision_engine", func(key string) string {
		if slices.Contains(known, key) {
			return key
		}
		return ""
	}, known)
	d := &l.p.Decision
	d.RiskTolerance, d.ConfidenceThreshold, d.LearningRate = o.number("risk_tolerance", 0, 1), o.number("confidence_threshold", 0, 1), o.number("learning_rate", 0, 1)
	d.HumanIntervention = o.word("human_intervention", "never", "ask_first", "on_error", "on_low_confidence", "always")
}

// recovery reads error_recovery: a strategy for each kind of error, as a word or
// an object.
func (l *loopRead) recovery(n *tree.Node) {
	if n == nil {
		return
	}
	kinds := []string{"validation", "execution", "resource", "permission", "network", "dependency", "unknown", "default"}
	set := func(at *tree.Node, kind string, value *tree.Node) {
		kind = strings.TrimSuffix(strings.ToLower(kind), "_error")
		if !slices.Contains(kinds, kind) {
			l.warn(at.Line, "", "error_recovery: %q is no kind of error and not used; the kinds are %s", clip(kind), strings.Join(kinds, ", "))
			return
		}
		if value != nil && value.Kind == tree.Map {
			value = value.Get("strategy")
		}
		o := object{r: l.reader, n: at, who: "error_recovery"}
		if value == nil {
			o.fault(at, "%s has no strategy", kind)
			return
		}
		o.fields = []fieldPair{{kind, &tree.Pair{Key: kind, Value: value}}}
		if w := o.word(kind, strategies()...); w != "" {
			if l.p.Strategies == nil {
				l.p.Strategies = map[string]string{}
			}
			l.p.Strategies[kind] = w
		}
	}
	switch n.Kind {
	case tree.Map:
		pairs := n.Pairs
		if in := n.Get("strategies"); in != nil && in.Kind == tree.Map {
			pairs = in.Pairs
		}
		for _, p := range pairs {
			set(&tree.Node{Line: p.Line}, p.Key, p.Value)
		}
	case tree.List:
		for _, item := range n.Items {
			kind := item.Get("error_type")
			if kind == nil {
				kind = item.Get("kind")
			}
			if kind == nil {
				l.fault(item.Line, 0, "", "error_recovery: an entry has no error_type")
				continue
			}
			set(item, kind.Text, item.Get("strategy"))
		}
	default:
		l.fault(n.Line, 0, "", "error_recovery must be an object, not %s", n.Kind)
	}
}
