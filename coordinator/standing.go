package coordinator

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"ralph/coordinator/policy"
	"ralph/coordinator/recovery"
	"ralph/coordinator/transcript"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/markdown"
	"ralph/memory/session"
	"ralph/memory/text"
)

// Standing says in a few short lines how things stand at the start of a
// session: how commands run, what is open, how long the conversation is that
// goes on, and what is to be warned of: those begin with "note: ", and a line that
// matters less than the others with "aside: ". A warning that it tells is not
// emitted again.
func (c *Coordinator) Standing() []string {
	lines := []string{c.rights()}
	if s := c.opt.Recovery; s != nil && s.Verdict != "" && c.cfg.Sandbox != string(policy.SandboxOff) && c.confined().Complete {
		lines[0] = "aside: " + lines[0] // as ever; what was cut off comes first
	}
	if data, err := durable.ReadFile(c.opt.FS, filepath.Join(c.opt.Root, memory.TasksFile), maxStateBytes); err == nil {
		if line := openLine(markdown.Parse(data).Tasks()); line != "" {
			if s := c.opt.Recovery; s != nil && len(s.Tasks) > 0 {
				line = "aside: " + line // those that matter are named
			}
			lines = append(lines, line)
		}
	}
	if s := c.opt.Recovery; s != nil && s.Verdict != "" {
		lines = append(lines, c.taken(*s)...)
	} else if line := c.conversation(); line != "" {
		lines = append(lines, line)
	}
	for _, w := range c.untold() {
		lines = append(lines, "note: "+w)
	}
	return lines
}

// openLine says what is open, by its status, and what would come next; "" when
// nothing is.
func openLine(tasks []markdown.Task) string {
	closed, counts, open := map[string]bool{}, map[markdown.Status]int{}, 0
	for _, t := range tasks {
		if t.Status.Open() {
			open++
			counts[t.Status]++
		} else {
			closed[t.ID] = true
		}
	}
	var parts []string
	var next *markdown.Task
	for _, st := range []markdown.Status{markdown.InProgress, markdown.Interrupted, markdown.Pending, markdown.Blocked, markdown.Failed} {
		if n := counts[st]; n > 0 && n < open {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(st), "_", " ")))
		}
		for i, t := range tasks {
			ready := st != markdown.Blocked && st != markdown.Failed && t.Status == st && !slices.ContainsFunc(t.After, func(id string) bool { return !closed[id] })
			if ready && next == nil {
				next = &tasks[i]
			}
		}
	}
	if open == 0 {
		return ""
	}
	line := text.Count(open, "open task")
	if len(parts) > 0 {
		line += " (" + strings.Join(parts, ", ") + ")"
	}
	if next != nil {
		id := ""
		if next.Explicit {
			id = next.ID + " "
		}
		line += "; next: " + id + text.ClipRunes(next.Title, maxQuote)
	}
	return line
}

// rights says how commands run.
func (c *Coordinator) rights() string {
	if c.cfg.Sandbox == string(policy.SandboxOff) {
		return "commands run unsandboxed and unasked (--sandbox off)"
	}
	held := c.confined()
	if held.Complete {
		return "sandbox: " + c.cfg.Sandbox // `ralph doctor` tells of what it is made
	}
	return "sandbox: " + c.cfg.Sandbox + " (" + held.String() + "); each command asks first"
}

// conversation says which conversation goes on, or which one could.
func (c *Coordinator) conversation() string {
	id := c.SessionID()
	if id == "" {
		return ""
	}
	history := c.History()
	if len(history) == 0 {
		last, err := session.Last(c.opt.FS, c.stateDir())
		if err != nil || last.ID == id || session.Empty(c.opt.FS, filepath.Join(c.stateDir(), "sessions", last.Dir)) {
			return "session " + id
		}
		how := "was cut off"
		switch end := last.Meta.EndTime; {
		case end != nil:
			how = fmt.Sprintf("ended %s (%s)", text.Ago(c.now().Sub(*end)), last.Meta.Standing())
		case last.Meta.Status == session.Paused && !strings.HasPrefix(last.Meta.ExitReason, recovery.CutOff):
			how = "was left unfinished (" + last.Meta.Standing() + ")"
		}
		name := ""
		if n := strings.TrimSpace(last.Meta.SessionName); n != "" {
			name = fmt.Sprintf(" (%s)", text.ClipRunes(n, maxQuote/2))
		}
		return fmt.Sprintf("session %s; to go on with %s%s, which %s: /sessions switch %s", id, last.ID, name, how, last.ID)
	}
	line := fmt.Sprintf("session %s goes on after %s", id, text.Count(len(history), "message"))
	for _, m := range slices.Backward(history) {
		if content, ok := transcript.Said(m); ok {
			content, _, _ = strings.Cut(strings.TrimSpace(content), "\n")
			return line + "; you said last: " + text.ClipRunes(content, maxQuote)
		}
	}
	return line
}

// maxQuote bounds a message that is quoted in a line, in characters.
const maxQuote = 60
