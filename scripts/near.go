package scripts

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ralph/memory/text"
)

// guardTask refuses words that were most likely meant as a command. known are
// the commands with the words that they take.
func guardTask(words []string, known map[string][]string) error {
	first := words[0]
	// A word that comes with a flag, or with what the command takes, was meant
	// as a command too: task text does not begin like that.
	lone := len(words) == 1 || strings.HasPrefix(words[1], "-")
	names := make([]string, 0, len(known))
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
	return usage("to pass it as a task: "+taskLine(words), "unknown command %q; did you mean %q?", first, "ralph "+best)
}

// asTask is the end of a hint for words that do not fit a command and may be a task
// that begins like one: report the bug in the parser.
func asTask(c *cobra.Command, args []string) string {
	if len(args) < 2 || c.Parent() == nil || c.Parent().HasParent() {
		return ""
	}
	return "; to pass it as a task: " + taskLine(append([]string{c.Name()}, args...))
}

// taskLine returns the command line that takes words as the text of a task.
func taskLine(words []string) string {
	text := strings.Join(words, " ")
	if len(text) > 60 || strings.ContainsFunc(text, func(r rune) bool { return strings.ContainsRune("'\"`\\$&|;<>()*?#~!", r) || r < ' ' }) {
		text = words[0] + " …" // it has to be quoted again
	}
	return "ralph -- " + text
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
		if d := text.Distance(word, c); d <= allowed && d < at {
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
