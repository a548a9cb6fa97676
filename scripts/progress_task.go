package scripts

import (
	"fmt"
	"strings"
	"time"

	"ralph/coordinator/loop"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// taskBegins shows that an agent begins with a task of a plan, unless it was told
// before that it tries again.
func (p *progress) taskBegins(e agent.Event) {
	try, told := p.tries[e.TaskID]
	delete(p.tries, e.TaskID)
	if told && try == 0 {
		return
	}
	text := oneLine(e.TaskID, 40) + " begins"
	if title := strings.TrimSpace(strings.TrimPrefix(e.Text, e.TaskID)); title != "" {
		text += ": " + oneLine(title, 100)
	}
	if try > 1 {
		text += fmt.Sprintf(", try %d", try)
	}
	who := loop.Row{Title: strings.TrimSpace(strings.TrimPrefix(e.Text, e.TaskID)), Agent: e.Agent}.Who()
	if who != "" {
		text += " (" + oneLine(who, 60) + ")"
	}
	p.line("ralph: %s", text)
}

// taskEnd shows what came of a task of a plan; that it is tried again is told by
// the retry.
func (p *progress) taskEnd(e agent.Event) {
	again := e.Status == "retry" || e.Status == "rate_limited"
	if _, told := p.tries[e.TaskID]; told && again {
		return
	}
	delete(p.tries, e.TaskID)
	content := oneLine(e.TaskID, 40) + " " + strings.ReplaceAll(oneLine(orWord(e.Status, "ended"), 20), "_", " ")
	for _, more := range []string{oneLine(e.Text, 100), oneLine(e.Reason, 160)} {
		if more != "" {
			content += ": " + more
		}
	}
	var facts []string
	if proof := oneLine(e.Output, 80); proof != "" {
		facts = append(facts, proof)
	}
	if e.Attempt > 1 {
		facts = append(facts, text.Count(e.Attempt, "attempt"))
	}
	if took := taskTook(e); took > 0 {
		facts = append(facts, spanText(took))
	}
	if len(facts) > 0 {
		content += " (" + strings.Join(facts, ", ") + ")"
	}
	p.line("ralph: %s", content)
}

// taskTook is how long was worked on a task that is over, else on the attempt that
// has ended.
func taskTook(e agent.Event) time.Duration {
	took := e.WorkedMS
	if e.DurationMS != nil {
		took = max(took, *e.DurationMS)
	}
	return time.Duration(took) * time.Millisecond
}

// retry shows that a request, or a task of a plan, is tried again.
func (p *progress) retry(e agent.Event) {
	text := oneLine(e.TaskID, 40)
	if e.Attempt > 0 {
		text += fmt.Sprintf(" try %d", e.Attempt)
	}
	text = strings.TrimSpace(text) + " failed: " + oneLine(e.Reason, 120)
	if e.TaskID != "" && e.WaitMS == 0 {
		text += "; tried again"
	} else {
		text += "; next in " + spanText(time.Duration(e.WaitMS)*time.Millisecond)
	}
	if e.TaskID != "" {
		p.tries[e.TaskID] = 0
		if e.Ref != "" {
			text += " by " + oneLine(e.Ref, 40)
		}
	}
	p.line("ralph: %s", text)
}
