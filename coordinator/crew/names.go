package crew

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"ralph/workers/tools"
)

const (
	// maxName bounds an id: it is a directory, a branch and a word in a prompt.
	maxName = 40
	// nameWords of a task name it when nobody else does.
	nameWords = 4
	maxLabel  = 80
)

// nameFor is what an agent is called: by its name, or the first words of its
// task, as a word of [a-z0-9_].
func nameFor(s tools.SpawnAgent) string {
	text := s.Name
	if text == "" {
		words := strings.FieldsFunc(s.Task, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		text = strings.Join(words[:min(len(words), nameWords)], "_")
	}
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	name := strings.Trim(b.String(), "_")
	if len(name) > maxName {
		name = strings.Trim(name[:maxName], "_")
	}
	if name == "" {
		return "agent"
	}
	return name
}

// freeName is name, or name_1 and so on when it is taken.
func freeName(name string, taken map[string]bool) string {
	free := name
	for i := 1; taken[free]; i++ {
		free = fmt.Sprintf("%s_%d", name, i)
	}
	return free
}

// taken are the names that an agent cannot have: of the others, of trees that
// earlier ones left, and those that mean something else.
func (c *Crew) taken(ctx context.Context) map[string]bool {
	taken := map[string]bool{c.o.Top: true, "ask": true, "all": true}
	if c.o.Trees != nil {
		if list, err := c.o.Trees.List(ctx); err == nil {
			for _, t := range list {
				taken[t.Agent] = true
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		taken[m.ID] = true
	}
	return taken
}

// label is a task in a few words.
func label(task string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(task), "\n")
	if r := []rune(line); len(r) > maxLabel {
		return string(r[:maxLabel-1]) + "…"
	}
	return line
}

// circleIn names a circle of agents that wait for each other, "" for none. An
// agent waits for those that it needs, and for the end of its own children.
func circleIn(list, others []*member) string {
	after := map[string][]string{}
	for _, m := range slices.Concat(list, others) {
		if m.settled() {
			continue
		}
		after[m.ID] = append(after[m.ID], m.After...)
		after[m.Parent] = append(after[m.Parent], m.ID)
	}
	const open, closed = 1, 2
	state := map[string]int{}
	var path []string
	var walk func(id string) string
	walk = func(id string) string {
		switch state[id] {
		case closed:
			return ""
		case open:
			return strings.Join(append(path[slices.Index(path, id):], id), " → ")
		}
		state[id] = open
		path = append(path, id)
		for _, next := range after[id] {
			if circle := walk(next); circle != "" {
				return circle
			}
		}
		path = path[:len(path)-1]
		state[id] = closed
		return ""
	}
	for _, m := range list {
		if circle := walk(m.ID); circle != "" {
			return circle
		}
	}
	return ""
}
