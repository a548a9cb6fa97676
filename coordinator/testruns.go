package coordinator

import (
	"slices"
	"strings"

	"ralph/memory/project"
	"ralph/memory/session/folder"
	"ralph/workers/agent"
)

// testCommands returns the project's own test commands.
func (c *Coordinator) testCommands() (list []string) {
	p, err := project.Detect(c.closing, c.opt.Root)
	if err != nil {
		return nil // the start said so
	}
	for _, x := range p.Commands {
		if x.Kind == "test" {
			list = append(list, x.Text)
		}
	}
	return list
}

// tested keeps the result of a command by which an agent ran the tests or a check.
func (t *chronicle) tested(command string, e agent.Event) {
	if e.ExitCode == nil || !t.tests(command) {
		return
	}
	target := 0.0
	command = head(strings.TrimSpace(command), maxToldBytes)
	t.files.Measure(folder.Metric{Name: "test_exit_code", Value: float64(*e.ExitCode), Unit: "exit code", Target: &target, Source: command, MeasuredAt: e.Time})
	t.validates(true, command)
}

// tests reports whether a command runs a check of the session or the project's tests,
// or some of them.
func (t *chronicle) tests(command string) bool {
	command = strings.TrimSpace(command)
	if slices.Contains(t.session.Meta().Context.ValidationsPlanned, command) {
		return true
	}
	if _, rest, ok := strings.Cut(command, " && "); ok && strings.HasPrefix(command, "cd ") {
		command = strings.TrimSpace(rest)
	}
	command = strings.TrimSpace(strings.TrimSuffix(command, "2>&1"))
	if strings.ContainsAny(command, "|&;<>\n`$") { // the exit code may be that of another program
		return false
	}
	words := strings.Fields(command)
	return slices.ContainsFunc(t.known(words), func(test string) bool {
		begin := program(test)
		return command == test || len(begin) > 0 && len(words) >= len(begin) && slices.Equal(words[:len(begin)], begin)
	})
}

// known are the project's test commands, which are looked for only when the words
// could be one.
func (t *chronicle) known(words []string) []string {
	if t.testCommands == nil || !slices.ContainsFunc(words[:min(len(words), 4)], func(w string) bool {
		return slices.ContainsFunc([]string{"test", "check", "spec", "unit"}, func(part string) bool { return strings.Contains(strings.ToLower(w), part) })
	}) {
		return nil
	}
	return t.testCommands()
}

// program is a test command without the options and places at its end.
func program(command string) []string {
	words := strings.Fields(command)
	for n := len(words); n > 0; n-- {
		if w := words[n-1]; !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, ".") && !strings.ContainsAny(w, "/*") {
			return words[:n]
		}
	}
	return nil
}
