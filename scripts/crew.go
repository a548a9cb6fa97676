package scripts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/crew"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// childrenOf is what the document says of the agents that a run started.
func childrenOf(list []crew.Agent) []Child {
	var out []Child
	for _, a := range list {
		out = append(out, Child{ID: a.ID, Status: string(a.State), Task: a.Task, Turns: a.Turns, Usage: a.Usage, Result: optional(a.Result),
			Partial: a.Cut || a.State == crew.Partial || a.State == crew.Interrupted, Branch: optional(a.Branch), Problem: optional(a.Problem)})
	}
	return out
}

// agentText is an agent in a line: who, how it stands, for how long, what it
// spent, what it does or came to, and how far its work is.
func agentText(a crew.Agent, now time.Time) string {
	until := now
	if !a.Ended.IsZero() {
		until = a.Ended
	}
	words := []string{strings.Repeat("  ", min(max(a.Depth, 0), 8)) + oneLine(a.ID, 40), oneLine(string(a.State), 20)}
	if a.Stalled {
		words = append(words, "(no sign of life for "+ago(a.Beat, now)+")")
	}
	words = append(words, ago(a.Since, until))
	if a.Turns > 0 {
		words = append(words, text.Count(a.Turns, "turn"))
	}
	if a.Usage.Total > 0 {
		words = append(words, countText(a.Usage.Total)+" tok")
	}
	if a.CostUSD != nil {
		words = append(words, fmt.Sprintf("$%.4f", *a.CostUSD))
	}
	content := oneLine(a.Label, 80)
	for _, more := range []string{lastDone(a), landed(a)} {
		if more != "" {
			content = strings.TrimPrefix(content+"; "+more, "; ")
		}
	}
	return strings.TrimRight(strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")+" "+content, " ")
}

// lastDone is the last action of an agent at work, the answer of one that ended.
func lastDone(a crew.Agent) string {
	switch {
	case a.Ended.IsZero() && a.State == crew.Waiting && len(a.After) > 0:
		return "after " + oneLine(strings.Join(a.After, ", "), 60)
	case a.Ended.IsZero():
		return oneLine(a.Doing, 60)
	case a.Problem != "":
		return oneLine(a.Problem, 80)
	}
	return oneLine(firstRow(a.Result), 80)
}

// landed says where the work of an agent is.
func landed(a crew.Agent) string {
	words := []string{oneLine(strings.TrimPrefix(a.Branch, "refs/heads/"), 60)}
	if a.Landing != crew.Unmerged {
		words = append(words, oneLine(string(a.Landing), 20))
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

func firstRow(text string) string {
	row, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return row
}

// helper says that the agent of an event is not the one that was given the task:
// one of its children, mostly.
func (p *progress) helper(e agent.Event) bool {
	if e.Type == agent.EventStart {
		p.main = e.Agent
	}
	return e.Agent != "" && e.Agent != orWord(p.main, mainAgent)
}

// longRetry is the wait before an agent asks its model again that a person should
// know of.
const longRetry = 5 * time.Second

// child shows what a person should know of an agent beside the main one. What it
// says and calls is shown only to those who want to see all.
func (p *progress) child(e agent.Event) {
	who, all := oneLine(e.Agent, 40), p.verbose || p.says
	key := e.Agent + " " + e.CallID
	switch e.Type {
	case agent.EventChildStart:
		p.agents++
		if e.TaskID != "" {
			p.taskBegins(e)
			break
		}
		p.line("ralph: agent %s begins: %s", who, oneLine(e.Text, 100))
	case agent.EventChildEnd:
		if e.TaskID == "" { // else the end of its task tells it
			p.line("ralph: agent %s %s", who, childText(e))
		}
		if !landing(e.Status) {
			p.agents = max(p.agents-1, 0)
		}
	case agent.EventMessage:
		if all && strings.TrimSpace(e.Text) != "" {
			p.line("  %s: %s", who, oneLine(e.Text, 200))
		}
	case agent.EventToolStart:
		p.calls[key] = strings.TrimSpace(e.Tool + " " + subject(e.Args))
	case agent.EventToolEnd:
		what := orWord(p.calls[key], e.Tool)
		delete(p.calls, key)
		if all {
			p.line("  %s: %s: %s", who, oneLine(what, 100), p.verdict(e))
		}
	case agent.EventGate:
		if all {
			p.line("  %s: check %s: %s", who, oneLine(e.Text, 100), p.verdict(e))
		}
	case agent.EventRetry:
		if all || e.WaitMS >= longRetry.Milliseconds() {
			p.line("ralph: agent %s waits %s: %s", who, spanText(time.Duration(e.WaitMS)*time.Millisecond), oneLine(e.Reason, 100))
		}
	case agent.EventCompact, agent.EventTaskStart, agent.EventTaskEnd:
		// its own affair
	case agent.EventPermission:
		if e.Status == "denied" {
			p.line("ralph: agent %s: denied %s: %s (%s)", who, text.Visible(e.Tool), oneLine(e.Text, 120), oneLine(e.Rule, 80))
		}
	case agent.EventUsage:
		if e.Usage != nil {
			p.tokens += e.Usage.Total
		}
	case agent.EventAsk, agent.EventInbox, agent.EventInterrupt:
		p.rare(e)
	}
}

// landing says that the status of a child_end is about its work, and not about
// the agent, which has ended before.
func landing(status string) bool {
	switch crew.Landing(status) {
	case crew.Merged, crew.Held, crew.Conflict:
		return true
	}
	return false
}

// childText says how an agent ended, or what became of its work.
func childText(e agent.Event) string {
	content := orWord(text.VisibleLine(e.Status), "ended")
	if ref := text.VisibleLine(e.Ref); ref != "" && landing(e.Status) {
		content += " " + ref[:min(len(ref), 12)]
	}
	var more []string
	for _, s := range []string{e.Text, e.Reason} {
		if s = oneLine(s, 160); s != "" && !slices.Contains(more, s) {
			more = append(more, s)
		}
	}
	if len(more) > 0 {
		content += ": " + strings.Join(more, "; ")
	}
	return content
}
