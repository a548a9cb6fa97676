package coordinator

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/policy"
	"ralph/memory"
	"ralph/memory/durable"
	"ralph/memory/markdown"
	"ralph/memory/session"
)

// Standing says in a few short lines how things stand at the start of a
// session: how commands run, what is open, how long the conversation is that
// goes on, and what is to be warned of. A warning that it tells is not emitted
// again.
func (c *Coordinator) Standing() []string {
	lines := []string{c.rights()}
	open := 0
	if data, err := durable.ReadFile(c.opt.FS, filepath.Join(c.opt.Root, memory.TasksFile), maxStateBytes); err == nil {
		for _, t := range markdown.Parse(data).Tasks() {
			if t.Status.Open() {
				open++
			}
		}
	}
	if open > 0 {
		lines = append(lines, count(open, "open task"))
	}
	if s := c.opt.Situation; s != nil && s.Verdict != "" {
		lines = append(lines, c.taken(*s)...)
	} else if line := c.conversation(); line != "" {
		lines = append(lines, line)
	}
	for _, w := range c.untold() {
		lines = append(lines, "note: "+w)
	}
	return lines
}

// rights says how commands run.
func (c *Coordinator) rights() string {
	if c.cfg.Sandbox == string(policy.SandboxOff) {
		return "commands run unsandboxed and unasked (--sandbox off)"
	}
	held := c.confined()
	text := "sandbox: " + c.cfg.Sandbox + " (" + held.String() + ")"
	if !held.Complete {
		text += "; each command asks first"
	}
	return text
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
		if err != nil || last.ID == id {
			return "session " + id
		}
		how := "was cut off"
		if end := last.Meta.EndTime; end != nil {
			how = "ended " + ago(c.now().Sub(*end))
		}
		return fmt.Sprintf("session %s; to go on with %s, which %s: ralph chat --resume %s", id, last.ID, how, last.ID)
	}
	line := fmt.Sprintf("session %s goes on after %s", id, count(len(history), "message"))
	for _, m := range slices.Backward(history) {
		if text, ok := said(m); ok {
			text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
			return line + "; you said last: " + clipRunes(text, maxQuote)
		}
	}
	return line
}

// maxQuote bounds a message that is quoted in a line, in characters.
const maxQuote = 60

func clipRunes(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

// ago says how long ago something was, roughly.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return count(int(d.Minutes()), "minute") + " ago"
	case d < 48*time.Hour:
		return count(int(d.Hours()), "hour") + " ago"
	}
	return count(int(d.Hours())/24, "day") + " ago"
}
