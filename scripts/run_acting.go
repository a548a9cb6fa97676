package scripts

import (
	"fmt"
	"slices"
	"strings"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy"
	"ralph/workers/exec/acts"
)

// actingTasks names the open tasks of a plan whose texts name files which programs run or
// obey by themselves, and which no rule lets agents change; "" for none. A person decides
// before the start, so a name that is meant otherwise does no harm.
func (inv *invocation) actingTasks(tasks []plan.Task) string {
	rules, err := policy.Compile(policy.Rules{Allow: inv.cfg.Allow, Deny: inv.cfg.Deny, Sandbox: policy.Sandbox(inv.cfg.Sandbox), Confined: true})
	if err != nil {
		return "" // the run itself refuses the rule
	}
	var told, classes []string
	for i := range tasks {
		if tasks[i].Status == plan.Done || tasks[i].Status == plan.Skipped {
			continue
		}
		var names []string
		for name, class := range actingNames(&tasks[i]) {
			r := policy.Request{Tool: "write", Path: name, Writes: true, Guarded: acts.Why(class), Acts: class, Exists: true}
			if rules.Decide(r).Effect == policy.Allow {
				continue
			}
			names = append(names, name)
			if !slices.Contains(classes, class) {
				classes = append(classes, class)
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			told = append(told, fmt.Sprintf("%s (%s)", tasks[i].ID, strings.Join(names, ", ")))
		}
	}
	slices.Sort(classes)
	if len(told) == 0 {
		return ""
	}
	const most = 5
	more := ""
	if len(told) > most {
		told, more = told[:most], fmt.Sprintf(" and %d more", len(told)-most)
	}
	for i, class := range classes {
		classes[i] = fmt.Sprintf("acts == %q", class)
	}
	return fmt.Sprintf("tasks about files that programs run or obey by themselves: %s%s. What commands of agents make of such files is refused, or left out when it is merged; to allow it: --allow '%s'", strings.Join(told, ", "), more, strings.Join(classes, " || "))
}

// actingNames returns the names that act in the texts of a task, with their classes.
func actingNames(t *plan.Task) map[string]string {
	texts := append([]string{t.Title, t.Description, t.Prompt, t.Notes}, t.Outputs...)
	for _, c := range t.Criteria {
		texts = append(texts, c.Text)
	}
	found := map[string]string{}
	for _, text := range texts {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`()[]{}<>,;:|*!?", r) }) {
			word = strings.TrimRight(strings.TrimPrefix(word, "./"), "./")
			if !strings.ContainsAny(word, "./") && !strings.HasSuffix(word, "file") {
				continue // a word of the language
			}
			if n, ok := (acts.Rules{}).Match(word); ok {
				found[word] = n.Class
			}
		}
	}
	return found
}
