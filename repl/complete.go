package repl

import (
	"slices"
	"strings"

	"ralph/coordinator/crew"
	"ralph/coordinator/slash"
	"ralph/repl/line"
)

// knows keeps the names of the agents for the completion.
func (s *Shell) knows(list []crew.Agent) {
	words := names(list)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range words {
		if !slices.Contains(s.agentNames, w) {
			s.agentNames = append(s.agentNames, w)
		}
	}
}

// complete completes slash commands, and the names of agents where one is meant;
// it runs on the goroutine that paints.
func (s *Shell) complete(text string) line.Completion {
	s.mu.Lock()
	known, tasks := slices.Clone(s.agentNames), slices.Clone(s.taskIDs)
	s.mu.Unlock()
	from := strings.LastIndexAny(text, " \n\t") + 1
	first, _, more := strings.Cut(text, " ")
	var all []string
	switch {
	case !more && strings.HasPrefix(text, "/"):
		for _, c := range slash.Table() {
			all = append(all, "/"+c.Name+" ")
		}
	case strings.HasPrefix(text[from:], "@") && (from == 0 || strings.Count(text, " ") == 1 && slices.Contains([]string{"/now", "/later"}, first)):
		for _, name := range known {
			all = append(all, "@"+name+": ")
		}
	case first == "/run":
		for _, k := range slash.RunKeys() {
			all = append(all, "--"+k.Flag+" ")
		}
	case first == "/plan" && strings.Count(text, " ") == 1:
		all = planVerbs()
	case first == "/why" && strings.Count(text, " ") == 1:
		all = tasks
	case first == "/agents":
		all = append(known, "merge", "prune")
	case slices.Contains([]string{"/stop", "/resume", "/diff"}, first) && strings.Count(text, " ") == 1:
		all = known
	}
	slices.Sort(all)
	c := line.Completion{From: from}
	for _, w := range all {
		if strings.HasPrefix(w, text[from:]) {
			c.Words = append(c.Words, line.Word{Text: w})
		}
	}
	return c
}
