package scripts

import (
	"slices"
	"strings"

	"ralph/memory/near"
)

// later lists the words that are commands of Ralph, though not of this
// version. They are never taken for a task, so that a script does not change
// its meaning when they come.
func later() []string {
	return []string{
		"monitor", "logs",
		"report", "analyze", "insights", "compare", "init",
	}
}

// guardTask refuses words that were most likely meant as a command. known are
// the commands with the words that they take.
func guardTask(words []string, known map[string][]string) error {
	first := words[0]
	asTask := "ralph -- " + strings.Join(words, " ")
	if slices.Contains(later(), first) {
		return usage("to pass it as a task: "+asTask, "this version has no command %q yet", first)
	}
	// A word that comes with a flag, or with what the command takes, was meant
	// as a command too: task text does not begin like that.
	lone := len(words) == 1 || strings.HasPrefix(words[1], "-")
	names := later()
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	best := nearest(first, names)
	if best == "" || strings.ContainsAny(first, " \t\n") {
		return nil
	}
	if !lone && !(len(words) == 2 && slices.Contains(known[best], words[1])) {
		return nil
	}
	if slices.Contains(later(), best) {
		return usage("to pass it as a task: "+asTask,
			"unknown command %q; the nearest is %q, which this version does not have yet", first, best)
	}
	return usage("to pass it as a task: "+asTask, "unknown command %q; did you mean %q?", first, "ralph "+best)
}

// nearest returns the candidate that word is most likely a slip of, or "": one
// slip of the keyboard away, two between longer words, or begun by it.
func nearest(word string, candidates []string) string {
	word = strings.ToLower(word)
	best, at := "", 3
	for _, c := range candidates {
		// Two slips make another word of a short one: hello is not help.
		allowed := 1
		if min(len(word), len(c)) >= 6 {
			allowed = 2
		}
		if d := near.Distance(word, c); d <= allowed && d < at {
			best, at = c, d
		}
	}
	if best != "" || len(word) < 3 {
		return best
	}
	for _, c := range candidates {
		if strings.HasPrefix(c, word) {
			return c
		}
	}
	return ""
}
