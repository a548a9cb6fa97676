package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ralph/memory/history"
	"ralph/workers/agent"
	"ralph/workers/model"
)

// compactTo is how full the window may be after a compaction, so that the next
// one is not due at once.
const compactTo = 0.6

// window is the model's window: how large it is thought to be, and how many
// tokens a text takes there. It is a Model itself, which learns from what the
// endpoint reports for each request that passes.
type window struct {
	agent.Model
	estimate  *history.Estimate
	maxTokens int
	task      string // what this run is about
}

// cutOff tells the model why a reply of its own breaks off.
const cutOff = "\n\n(stopped here, before the reply was complete; the user saw this much)"

// marked says in each reply that was cut off that it was; the transcript itself
// keeps the model's words alone.
func marked(transcript []agent.Message) []agent.Message {
	if !slices.ContainsFunc(transcript, func(m agent.Message) bool { return m.Partial }) {
		return transcript
	}
	out := slices.Clone(transcript)
	for i := range out {
		if out[i].Partial {
			out[i].Text += cutOff
		}
	}
	return out
}

// Complete asks the model and learns how many tokens the request was.
func (w window) Complete(ctx context.Context, req agent.Request, sink func(agent.Delta)) (agent.Reply, error) {
	req.Messages = marked(req.Messages)
	reply, err := w.Model.Complete(ctx, req, sink)
	if err == nil && !reply.Usage.Estimated {
		w.estimate.Learn(requestBytes(req), reply.Usage.Input)
	}
	return reply, err
}

// compact leaves out what the model can best do without: old tool results
// first, then the oldest exchanges. The system prompt, the task of this run and
// the last message stay. The transcript that came in has just been refused, so
// the result is smaller than it whatever the window was thought to be; it is not
// changed itself.
func (w window) compact(_ context.Context, transcript []agent.Message) ([]agent.Message, error) {
	entries := make([]history.Entry, len(transcript))
	refused := 0
	for i, m := range transcript {
		pinned := m.Role == agent.RoleSystem || m.Role == agent.RoleUser && m.Text == w.task || i == len(transcript)-1
		entries[i] = history.Entry{Kind: kindOf(m), Bytes: messageBytes(m), Pinned: pinned}
		refused += w.estimate.Tokens(entries[i].Bytes)
	}
	budget := int(float64(min(w.maxTokens, refused)) * compactTo)
	out := make([]agent.Message, 0, len(transcript))
	elided, dropped := 0, 0
	for i, action := range history.Plan(entries, w.estimate.Tokens, budget) {
		m := transcript[i]
		switch action {
		case history.Drop:
			dropped++
			continue
		case history.Elide:
			elided++
			m.Text = fmt.Sprintf("(left out to make room: %d bytes of an old result)", len(m.Text))
		}
		out = append(out, m)
	}
	if elided+dropped == 0 {
		return nil, agent.ErrNoCompaction
	}
	return out, nil
}

func kindOf(m agent.Message) history.Kind {
	switch m.Role {
	case agent.RoleSystem:
		return history.KindSystem
	case agent.RoleAssistant:
		return history.KindAssistant
	case agent.RoleTool:
		return history.KindTool
	}
	return history.KindUser
}

// envelopeBytes is about what a message costs beside its text.
const envelopeBytes = 30

func messageBytes(m agent.Message) int {
	n := envelopeBytes + len(m.Text)
	for _, c := range m.Calls {
		n += envelopeBytes + len(c.Name) + len(c.Args)
	}
	return n
}

func requestBytes(req agent.Request) int {
	n := len(req.Schema)
	for _, m := range req.Messages {
		n += messageBytes(m)
	}
	for _, t := range req.Tools {
		n += envelopeBytes + len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

// overflow reports whether an error means that the request did not fit the
// model's window.
func overflow(err error) bool {
	var e *model.Error
	return errors.As(err, &e) && e.Kind == model.KindContextLength
}
