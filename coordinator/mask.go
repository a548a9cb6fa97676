package coordinator

import (
	"encoding/json"
	"slices"

	"ralph/coordinator/result"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// mask takes secrets out of events. What a stream brings piece by piece is held
// back from where a secret may have begun that the next piece goes on with. It is
// not safe for concurrent use.
type mask struct {
	redactor *text.Redactor
	held     *agent.Event // of a stream
}

// apply returns the events to show instead of e.
func (m *mask) apply(e agent.Event) []agent.Event {
	var out []agent.Event
	stream := !journaled(e.Type)
	if m.held != nil {
		if stream && e.Type == m.held.Type && e.Agent == m.held.Agent && e.Turn == m.held.Turn {
			e.Text = m.held.Text + e.Text
		} else {
			out = append(out, m.event(*m.held))
		}
		m.held = nil
	}
	if stream {
		if cut := m.redactor.Open(e.Text); cut < len(e.Text) {
			rest := e
			rest.Text = e.Text[cut:]
			m.held, e.Text = &rest, e.Text[:cut]
		}
		if e.Text == "" {
			return out
		}
	}
	return append(out, m.event(e))
}

func (m *mask) event(e agent.Event) agent.Event {
	for _, text := range []*string{&e.Text, &e.Output, &e.Reason, &e.Rule, &e.Tool} {
		*text = m.redactor.String(*text)
	}
	if len(e.Args) > 0 {
		e.Args = json.RawMessage(m.redactor.String(string(e.Args)))
	}
	return e
}

// masked takes secrets out of what is told about a piece of work.
func (c *Coordinator) masked(o result.Outcome) result.Outcome {
	redact := c.redactor.String
	o.Reason, o.Answer = redact(o.Reason), redact(o.Answer)
	if o.Structured != nil {
		o.Structured = json.RawMessage(redact(string(o.Structured)))
	}
	o.Commands = slices.Clone(o.Commands)
	for i := range o.Commands {
		o.Commands[i].Command = redact(o.Commands[i].Command)
	}
	o.Denials = slices.Clone(o.Denials)
	for i, d := range o.Denials {
		o.Denials[i].Args, o.Denials[i].Rule = json.RawMessage(redact(string(d.Args))), redact(d.Rule)
	}
	if o.Check != nil {
		check := *o.Check
		check.Command = redact(check.Command)
		o.Check = &check
	}
	if o.Failure != nil {
		failure := *o.Failure
		failure.Message, failure.Hint = redact(failure.Message), redact(failure.Hint)
		o.Failure = &failure
	}
	return o
}
