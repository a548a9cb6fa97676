package scripts

import (
	"fmt"
	"slices"
	"strings"

	"ralph/coordinator/plan"
	"ralph/coordinator/policy"
	"ralph/workers/exec/acts"
)

// actingTasks names the open tasks of a plan that speak of files which programs run or
// obey by themselves, and which no rule lets agents write; "" for none. It is for a
// person to decide before the start, so a name that is meant otherwise does no harm.
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
		name, class := actingName(&tasks[i])
		r := policy.Request{Tool: "write_file", Path: name, Writes: true, Guarded: acts.Why(class), Acts: class, Exists: true}
		if class == "" || rules.Decide(r).Effect == policy.Allow {
			continue
		}
		told = append(told, fmt.Sprintf("%s (%s)", tasks[i].ID, name))
		if !slices.Contains(classes, class) {
			classes = append(classes, class)
		}
	}
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
	return fmt.Sprintf("tasks about files that programs run or obey by themselves: %s%s. Agents' commands cannot write them; to let them: --allow '%s'", strings.Join(told, ", "), more, strings.Join(classes, " || "))
}

// actingName returns the first name that acts in the texts of a task, with its class.
func actingName(t *plan.Task) (name, class string) {
	texts := append([]string{t.Title, t.Description, t.Prompt, t.Notes}, t.Outputs...)
	for _, c := range t.Criteria {
		texts = append(texts, c.Text)
	}
	for _, text := range texts {
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`()[]{}<>,;:|*!?", r) }) {
			word = strings.TrimRight(strings.TrimPrefix(word, "./"), "./")
			if !strings.ContainsAny(word, "./") && !strings.HasSuffix(word, "file") {
				continue // a word of the language
			}
			if n, ok := (acts.Rules{}).Match(word); ok {
				return word, n.Class
			}
		}
	}
	return "", ""
}
