package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"ralph/workers/agent"
)

// errReplyTooLong refuses a reply beyond maxReplyBytes.
var errReplyTooLong = errors.New("the reply is longer than 16 MiB")

// maxExtraBytes bounds what an endpoint may attach to one call. A signature has
// some kilobytes; what is longer is not kept.
const maxExtraBytes = 256 << 10

// draft is a reply while it is put together.
type draft struct {
	text, reasoning runes
	calls           []*draftCall
	argBytes        int
	extraBytes      int
	model           string
	finish          string
	usage           *openai.Usage
	cost            *float64
	// told says that the usage came with the finish reason or after it: nothing
	// more can follow that matters.
	told bool
}

// draftCall is one tool call while its pieces come in.
type draftCall struct {
	index int
	id    string
	name  string
	args  strings.Builder
	extra json.RawMessage
}

// add takes in a whole chunk.
func (d *draft) add(k *chunk) error {
	if d.model == "" && len(k.model) > 0 {
		d.model = string(k.model)
	}
	if len(k.reasoning) > 0 {
		d.reasoning.add(k.reasoning)
	}
	if len(k.text) > 0 {
		d.text.add(k.text)
	}
	for i := range k.calls {
		d.call(&k.calls[i])
	}
	switch f := string(k.finish); {
	case f != "" && f != "null":
		d.finish = f
	case k.whole && d.finish == "":
		d.finish = "stop"
	}
	if k.hasUsage {
		u := k.usage
		d.usage = &u
		d.told = d.finish != ""
	}
	if k.cost != nil {
		d.cost = k.cost
	}
	if d.text.len()+d.reasoning.len()+d.argBytes+d.extraBytes > maxReplyBytes {
		return errReplyTooLong
	}
	return nil
}

// call takes in a piece of a tool call.
func (d *draft) call(p *callDelta) {
	c := d.find(p)
	if c == nil {
		c = &draftCall{index: -1}
		if p.hasIndex {
			c.index = p.index
		}
		d.calls = append(d.calls, c)
	}
	if c.id == "" {
		c.id = string(p.id)
	}
	if name := string(p.name); name != "" && name != c.name {
		c.name += name
	}
	c.args.Write(p.args)
	d.argBytes += len(p.args)
	c.attach(p.extra)
	d.extraBytes += len(p.extra)
}

// attach keeps what the endpoint attached to the call. It comes whole, with any
// piece of the call; a later one counts instead of an earlier one.
func (c *draftCall) attach(extra []byte) {
	switch {
	case len(extra) > maxExtraBytes, string(extra) == "{}", !isObject(extra):
	default:
		c.extra = bytes.ToValidUTF8(extra, []byte("\uFFFD"))
	}
}

// find returns the call that a piece continues, nil when it begins a new one.
// The index alone does not tell: some servers send 0 for every call, with or
// without ids, and some repeat id and name with every piece.
func (d *draft) find(p *callDelta) *draftCall {
	c := d.candidate(p)
	if c == nil {
		return nil
	}
	named := len(p.name) > 0 && c.name != ""
	switch {
	case len(p.id) > 0 && c.id != "" && c.id != string(p.id):
		// Another id begins another call, unless the piece can only be the rest
		// of arguments that are not whole: some servers number their pieces.
		if len(p.name) == 0 && p.hasIndex && c.args.Len() > 0 && !c.whole() {
			return c
		}
		return nil
	case named && begins(p.args) && c.whole():
		return nil
	case named && c.name != string(p.name) && (len(p.args) > 0 || c.args.Len() > 0):
		return nil
	}
	return c
}

// candidate returns the latest call with the index of p, or, when the piece has
// none, the one with its id, or the latest of all.
func (d *draft) candidate(p *callDelta) *draftCall {
	for i := len(d.calls) - 1; i >= 0; i-- {
		c := d.calls[i]
		switch {
		case p.hasIndex && c.index == p.index:
			return c
		case !p.hasIndex && len(p.id) > 0 && c.id == string(p.id):
			return c
		case !p.hasIndex && len(p.id) == 0:
			return c
		}
	}
	return nil
}

// begins says whether args can be the start of arguments.
func begins(args []byte) bool { return len(args) == 0 || args[0] == '{' }

// whole says whether the arguments are whole already. Looking at the last byte
// first keeps a long call in many pieces from being checked over and over.
func (c *draftCall) whole() bool {
	s := strings.TrimRight(c.args.String(), " \t\r\n")
	return strings.HasSuffix(s, "}") && json.Valid([]byte(s))
}

// message makes the message of a whole reply. The ids of its calls are unique
// within the transcript: an empty or repeated one is replaced by one that is
// the same whenever the same reply comes at the same place.
func (d *draft) message(transcript []agent.Message) agent.Message {
	m := agent.Message{Role: agent.RoleAssistant, Text: d.text.String(), Reasoning: d.reasoning.String()}
	if len(d.calls) == 0 {
		return m
	}
	used := make(map[string]bool)
	for i := range transcript {
		for _, c := range transcript[i].Calls {
			used[c.ID] = true
		}
	}
	for n, c := range d.calls {
		id := strings.ToValidUTF8(c.id, "\uFFFD")
		for k := n; id == "" || used[id]; k++ {
			// Nine letters and digits: the strictest rule for ids that is about.
			id = fmt.Sprintf("c%05d%03d", len(transcript)%100000, k)
		}
		used[id] = true
		m.Calls = append(m.Calls, agent.Call{
			ID:    id,
			Name:  strings.ToValidUTF8(c.name, "\uFFFD"),
			Args:  strings.ToValidUTF8(c.args.String(), "\uFFFD"),
			Extra: c.extra,
		})
	}
	return m
}

// partial makes the message of a reply that was cut off.
func (d *draft) partial() agent.Message {
	return agent.Message{Role: agent.RoleAssistant, Text: d.text.String(), Reasoning: d.reasoning.String(), Partial: true}
}

// reason is the finish reason in the protocol's own words. Some servers say
// stop when they mean tool_calls.
func (d *draft) reason() string {
	switch d.finish {
	case "stop", "function_call", "tool_call", "end_turn", "tool_use", "eos", "STOP":
		if len(d.calls) > 0 {
			return string(openai.FinishReasonToolCalls)
		}
		return string(openai.FinishReasonStop)
	case "max_tokens", "MAX_TOKENS":
		return string(openai.FinishReasonLength)
	}
	return d.finish
}

// bytesPerToken is the estimate for text whose tokens nobody counted.
const bytesPerToken = 4

// tokens is the usage that was reported, or an estimate.
func (d *draft) tokens(requestBytes int) agent.Usage {
	if u := d.usage; u != nil {
		out := agent.Usage{Input: u.PromptTokens, Output: u.CompletionTokens, Total: u.TotalTokens}
		if u.PromptTokensDetails != nil {
			out.CachedInput = u.PromptTokensDetails.CachedTokens
		}
		if u.CompletionTokensDetails != nil {
			out.Reasoning = u.CompletionTokensDetails.ReasoningTokens
		}
		if out.Total == 0 {
			out.Total = out.Input + out.Output
		}
		return out
	}
	ceil := func(n int) int { return (n + bytesPerToken - 1) / bytesPerToken }
	u := agent.Usage{
		Input:     ceil(requestBytes),
		Reasoning: ceil(d.reasoning.len()),
		Estimated: true,
	}
	u.Output = u.Reasoning + ceil(d.text.len()+d.argBytes)
	u.Total = u.Input + u.Output
	return u
}
