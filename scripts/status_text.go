package scripts

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/memory/text"
)

// shownItems bounds the agents, calls and messages that the text of a status
// names each.
const shownItems = 10

// statusReport is a status for a person.
func statusReport(d statusDocument, now time.Time) string {
	var b strings.Builder
	add := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	add("state", "%s", stateText(d, now))
	if d.Foreign {
		add("foreign", "what follows was not written by your Ralph")
	}
	if d.Holder != nil {
		add("holder", "%s", holderText(*d.Holder))
	}
	if d.Task != nil {
		add("task", "%s", oneLine(*d.Task, 120))
	}
	if d.Question != nil && (d.Run == nil || d.Run.Question == nil) {
		add("asks", "%s", questionText(*d.Question, now))
	}
	if a := d.About; a != nil {
		add("session", "%s", strings.Join(nonEmpty(orNothing(d.Session), oneLine(a.Name, 60), "("+aboutSession(*a)+")"), " "))
		add("", "%s", a.Path)
	}
	var about []string
	for _, x := range []struct {
		name  string
		value *string
	}{{"session", d.Session}, {"mode", d.Mode}, {"model", d.Model}} {
		if x.value != nil && !(x.name == "session" && d.About != nil) {
			about = append(about, x.name+" "+oneLine(*x.value, 60))
		}
	}
	if d.Usage != nil && d.Usage.Total > 0 {
		about = append(about, countText(d.Usage.Total)+" tokens")
	}
	if d.CostUSD != nil {
		about = append(about, fmt.Sprintf("$%.4f", *d.CostUSD))
	}
	if len(about) > 0 {
		add("with", "%s", strings.Join(about, ", "))
	}
	items(len(d.Agents), "agents", add, func(i int) string {
		return agentText(d.Agents[i], now)
	})
	items(len(d.Background), "background", add, func(i int) string {
		j := d.Background[i]
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", oneLine(j.ID, 40), ago(j.Since, now), oneLine(j.Command, 80)))
	})
	items(len(d.Queue), "queue", add, func(i int) string {
		m := d.Queue[i]
		return fmt.Sprintf("%s %s (%s) %s", oneLine(m.ID, 40), oneLine(m.Class, 20), ago(m.At, now), oneLine(m.Text, 80))
	})
	if t := d.Tasks; t != (result.TaskCount{}) {
		add("tasks", "%d open, %d done, %d failed, %d skipped", t.Open, t.Done, t.Failed, t.Skipped)
	}
	if d.Run != nil {
		runReport(*d.Run, now, add)
	}
	if d.Last != nil {
		add("last", "%s", lastText(*d.Last))
	}
	if d.About != nil && d.About.Events > 0 {
		lines := d.About.recent()
		items(len(lines), "events", add, func(i int) string { return lines[i] })
	}
	if r := d.Recovery; r != nil {
		add("recovery", "%s", recoveryText(*r))
	}
	return b.String()
}

// questionText is a question that waits for the person at the terminal of the Ralph
// that runs.
func questionText(q permission.Question, now time.Time) string {
	text := oneLine(strings.ReplaceAll(q.Text, "\n", " "), 200)
	if who := strings.TrimSpace(oneLine(q.TaskID, 40) + " " + oneLine(q.Agent, 40)); who != "" && q.Agent != mainAgent {
		text = who + ": " + text
	}
	return text + " (" + strings.Join(nonEmpty("waits for your answer there", ago(q.Asked, now)), ", ") + ")"
}

// aboutSession is the kind of a session and how it stands, in a few words.
func aboutSession(a statusSession) string {
	words := []string{oneLine(a.Kind, 20), oneLine(a.Standing, 20)}
	if a.Archived {
		words = append(words, "archived")
	}
	if a.StartedAt != nil {
		words = append(words, "began "+moment(a.StartedAt))
	}
	return strings.Join(words, ", ")
}

// items adds a line for each of n things, the first with the name.
func items(n int, name string, add func(string, string, ...any), text func(int) string) {
	for i := range n {
		if i == shownItems {
			add(name, "and %d more", n-i)
			return
		}
		add(name, "%s", text(i))
		name = ""
	}
}

func stateText(d statusDocument, now time.Time) string {
	words := []string{oneLine(d.State, 20)}
	if d.Since != nil {
		words = append(words, "for "+ago(*d.Since, now))
	}
	if d.Turn > 0 {
		words = append(words, text.Count(d.Turn, "turn"))
	}
	if d.Tool != nil {
		words = append(words, oneLine(*d.Tool, 80))
	}
	return strings.Join(words, ", ")
}

func holderText(h statusHolder) string {
	text := fmt.Sprintf("pid %d", h.PID)
	if h.Host != nil {
		text += " on " + oneLine(*h.Host, 60)
	}
	if h.Kind != nil {
		text += ", " + oneLine(*h.Kind, 40)
	}
	if h.Since != nil {
		text += ", since " + h.Since.Local().Format("15:04")
	}
	return text
}

func lastText(l statusLast) string {
	text := oneLine(l.Status, 40)
	if l.At != nil {
		text += " " + l.At.Local().Format("2006-01-02 15:04")
	}
	if l.Session != nil {
		text += ", session " + oneLine(*l.Session, 40)
	}
	if l.Reason != nil {
		text += ": " + oneLine(*l.Reason, 120)
	}
	return text
}

func recoveryText(r statusRecovery) string {
	if r.Feature != nil {
		text := fmt.Sprintf("the run %s was at iteration %d", oneLine(*r.Feature, 60), r.Iteration)
		if len(r.Tasks) > 0 {
			text += ", begun and not finished: " + oneLine(strings.Join(r.Tasks, ", "), 100)
		}
		return text + ": ralph resume " + oneLine(*r.Feature, 60)
	}
	if r.Session != nil && r.Verdict == verdictSame {
		return fmt.Sprintf("session %s can go on (%s): ralph resume", oneLine(*r.Session, 40), oneLine(r.Why, 120))
	}
	return oneLine(r.Why, 160)
}

// liveText says in a line how a running Ralph stands.
func liveText(l coordinator.Live, now time.Time) string {
	text := fmt.Sprintf("pid %d, %s, %s", l.PID, oneLine(l.Kind, 20), oneLine(l.State, 20))
	if since := ago(l.Since, now); since != "" {
		text += " for " + since
	}
	if l.Task != "" {
		text += ": " + oneLine(l.Task, 100)
	}
	return text
}

// linesBackward yields the lines of data from the last to the first.
func linesBackward(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			data = bytes.TrimRight(data, "\n")
			i := bytes.LastIndexByte(data, '\n')
			if !yield(data[i+1:]) {
				return
			}
			data = data[:max(i, 0)]
		}
	}
}
