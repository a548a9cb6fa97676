package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"ralph/coordinator/plan/tree"
	"ralph/memory/text"
)

// check notes what is wrong between the tasks of a plan: ids twice, unknown
// dependencies, cycles. at gives the line of a task's dependency, 0 unknown.
func (r *reader) check(p *Plan, at func(task int, dep string) int) {
	if r.links.fit(p) {
		p.index = r.links.index
		r.warnings = append(r.warnings, r.links.warned...)
		return
	}
	warned := len(r.warnings)
	faults := len(r.problems)
	p.index = make(map[string]int, len(p.Tasks))
	folded := make(map[string]int, len(p.Tasks))
	for i := range p.Tasks {
		t := &p.Tasks[i]
		if t.ID == "" {
			continue // told already
		}
		low := strings.ToLower(t.ID)
		if k, twice := folded[low]; twice {
			other := &p.Tasks[k]
			how := "is there twice"
			if other.ID != t.ID {
				how = fmt.Sprintf("differs from %q in case only", other.ID)
			}
			r.fault(t.Line, 0, t.ID, "%s %s: the id %s (first on line %d)", r.noun, clip(t.ID), how, other.Line)
			continue
		}
		folded[low] = i
		p.index[t.ID] = i
	}
	for i := range p.Tasks {
		p.Tasks[i].After = p.apart(p.Tasks[i].After)
		r.checkAfter(p, i, folded, at)
		r.unreadWords(p, i)
	}
	r.checkCycles(p, at)
	if r.links != nil && len(r.problems) == faults {
		r.links.keep(p)
		r.links.warned = slices.Clone(r.warnings[warned:])
	}
}

// apart splits dependencies that are several ids: "US-1/US-2".
func (p *Plan) apart(after []string) []string {
	if !slices.ContainsFunc(after, func(dep string) bool { return strings.ContainsAny(dep, "/,;&+，、； ") }) {
		return after
	}
	out := make([]string, 0, len(after))
	for _, dep := range after {
		ids := strings.FieldsFunc(dep, func(r rune) bool { return strings.ContainsRune("/,;&+，、； ", r) })
		all := len(ids) > 1
		for _, id := range append(ids, dep) {
			_, known := p.index[id]
			all = all && known != (id == dep)
		}
		if !all {
			ids = []string{dep}
		}
		out = append(out, ids...)
	}
	return dedupe(out)
}

// dependencyWords matches words that name what a task waits for, and what follows.
var dependencyWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?i)(?:^|[^\\pL\\pN])(depend(?:s|ent|ing)? (?:up)?on|depends|deps?|dependenc(?:y|ies)|blocked by|requires?|needs?|waits? (?:for|on)|prerequisites?|after|once|follows|abhängig von|nach|依赖于?|después de|après)[\\s:：*_]*[\\[(`\"']*([\\pL\\pN~][\\pL\\pN_.~-]*)")
})

// unreadWords warns of dependencies that stand in the prose of a task and are not read.
func (r *reader) unreadWords(p *Plan, i int) {
	t := &p.Tasks[i]
	for _, m := range dependencyWords().FindAllStringSubmatch(t.Title+"\n"+t.Description, 20) {
		id := strings.TrimRight(m[2], ".-_")
		if _, known := p.index[id]; !known || id == t.ID || slices.Contains(t.After, id) {
			continue
		}
		r.warn(t.Line, t.ID, "%s %s: %q is text and makes it wait for nothing; %s", r.noun, clip(t.ID), clip(strings.ToLower(m[1])+" "+id), r.howAfter(id))
	}
}

// howAfter says how a dependency is written.
func (r *reader) howAfter(id string) string {
	switch r.noun {
	case "story":
		return fmt.Sprintf("write \"dependsOn\": [%q]", id)
	case "issue":
		return "add it with bd dep add"
	}
	return fmt.Sprintf("write \"after: %s\" below it", id)
}

// links are the ids and dependencies of a plan in which nothing was wrong with
// them. Most changes of a plan leave them as they are, and then they are not
// checked again, which takes longer than reading the plan. Who holds them guards
// them.
type links struct {
	ids   []string
	after [][]string
	index map[string]int // shared by the plans that fit

	warned []Problem // of their dependencies
}

func (l *links) keep(p *Plan) {
	*l = links{index: p.index, ids: make([]string, len(p.Tasks)), after: make([][]string, len(p.Tasks))}
	for i := range p.Tasks {
		l.ids[i], l.after[i] = p.Tasks[i].ID, p.Tasks[i].After
	}
}

// fit reports whether the tasks of a plan have the same ids and dependencies, in
// the same order, and the graph is made of nothing else: epics add to it.
func (l *links) fit(p *Plan) bool {
	if l == nil || l.index == nil || len(l.ids) != len(p.Tasks) {
		return false
	}
	for i := range p.Tasks {
		if t := &p.Tasks[i]; t.Epic != "" || t.ID != l.ids[i] || !slices.Equal(t.After, l.after[i]) {
			return false
		}
	}
	return true
}

// checkAfter checks the dependencies of one task.
func (r *reader) checkAfter(p *Plan, i int, folded map[string]int, at func(task int, dep string) int) {
	t := &p.Tasks[i]
	for _, dep := range t.After {
		_, known := p.index[dep]
		if known && dep != t.ID {
			continue
		}
		line := at(i, dep)
		if line == 0 {
			line = t.Line
		}
		if known {
			r.fault(line, 0, t.ID, "%s %s: depends on itself", r.noun, clip(t.ID))
			continue
		}
		r.fault(line, 0, t.ID, "%s %s: depends on %q, which does not exist%s", r.noun, clip(t.ID), clip(dep), r.meant(p, dep, folded))
	}
}

// maxGuessed bounds the plans in which a near id is looked for.
const maxGuessed = 2000

// meant names the task that an unknown dependency was probably meant to be.
func (r *reader) meant(p *Plan, dep string, folded map[string]int) string {
	if i, ok := folded[strings.ToLower(strings.TrimSpace(dep))]; ok {
		return fmt.Sprintf(" (there is %q)", p.Tasks[i].ID)
	}
	bare := strings.TrimLeft(dep, "0")
	if len(p.Tasks) > maxGuessed {
		return ""
	}
	ids := make([]string, 0, len(p.Tasks))
	for i := range p.Tasks {
		if id := p.Tasks[i].ID; id != "" {
			if bare != "" && strings.TrimLeft(id, "0") == bare {
				return fmt.Sprintf(" (there is %q)", id)
			}
			ids = append(ids, id)
		}
	}
	// Ids are near each other by nature: only one that differs in more than a
	// digit is a slip of the finger.
	if guess := text.Closest(dep, ids); len(dep) > 3 && guess != "" && strings.Trim(guess, "0123456789") != strings.Trim(dep, "0123456789") {
		return fmt.Sprintf(" (was %q meant?)", guess)
	}
	return ""
}

// maxCycles bounds how many cycles are named.
const maxCycles = 10

func (r *reader) checkCycles(p *Plan, at func(task int, dep string) int) {
	cycles := p.Graph().Cycles()
	for n, c := range cycles {
		if n == maxCycles {
			r.fault(0, 0, "", "and %d more cycles", len(cycles)-n)
			return
		}
		if len(c) < 2 {
			continue
		}
		first, ok := p.Find(c[0])
		if !ok || len(c) == 2 && slices.Contains(first.After, first.ID) {
			continue // that it depends on itself is told already
		}
		if !slices.Contains(first.After, c[1]) {
			c = slices.Clone(c)
			slices.Reverse(c) // as the plan has it: each one depends on the next
		}
		line := at(p.index[c[0]], c[1])
		if line == 0 {
			line = first.Line
		}
		long := ""
		if len(c) > 20 {
			long = fmt.Sprintf(" (%d tasks)", len(c)-1)
			c = append(append([]string{}, c[:19]...), "…", c[len(c)-1])
		}
		r.fault(line, 0, first.ID, "%s %s: the dependencies go in a circle: %s%s", r.noun, clip(first.ID), clip2(strings.Join(c, " → ")), long)
	}
}

// clip2 is clip for a text that may be long.
func clip2(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// work reports whether there is a task that is no epic.
func (p *Plan) work() bool {
	return slices.ContainsFunc(p.Tasks, func(t Task) bool { return t.Kind != "epic" })
}

// epicsByUse makes epics of the tasks that others name as theirs, where the
// tracker does not say of what kind a task is.
func (p *Plan) epicsByUse() {
	used := map[string]bool{}
	for i := range p.Tasks {
		used[p.Tasks[i].Epic] = true
	}
	for i := range p.Tasks {
		if t := &p.Tasks[i]; t.Kind == "" && used[t.ID] {
			t.Kind = "epic"
		}
	}
}

// dependencyLine finds the line of a dependency in the node that lists them.
func dependencyLine(n *tree.Node, dep string) int {
	if n == nil {
		return 0
	}
	for _, item := range n.Items {
		if item.Text == dep {
			return item.Line
		}
		for _, p := range item.Pairs {
			if p.Value.Text == dep {
				return item.Line
			}
		}
	}
	return n.Line
}
