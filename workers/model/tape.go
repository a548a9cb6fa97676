package model

import (
	"fmt"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"

	"ralph/memory/text"
	"ralph/workers/agent"
)

// maxDiffBytes bounds the diff of a mismatch.
const maxDiffBytes = 16 << 10

// tapeAgent is what a cassette holds of one agent, and how far it is played.
type tapeAgent struct {
	exchanges []*entry
	results   map[string]*resultNote // by call
	ids       map[string]bool        // of the calls in the replies; true once Tool saw it
	next      int

	// expected is the recorded transcript up to and with the last reply. raw is
	// the last request as it came, seen the same as a cassette would have it.
	expected []wireMessage
	raw      []wireMessage
	seen     []wireMessage
	tools    *toolsNote
}

// wireMessage is a message as requests carry it.
type wireMessage struct {
	role   string
	text   string
	calls  []wireCall
	callID string
}

type wireCall struct{ id, name, args string }

func (m *wireMessage) equal(o *wireMessage) bool {
	return m.role == o.role && m.text == o.text && m.callID == o.callID && slices.Equal(m.calls, o.calls)
}

// veiled is a message of this run as a cassette would have it.
func (m wireMessage) veiled(v *veil) wireMessage {
	m.text = v.write(m.text)
	m.calls = slices.Clone(m.calls)
	for i := range m.calls {
		m.calls[i].args = v.write(m.calls[i].args)
	}
	return m
}

// masked is a message with its volatile parts replaced.
func (m wireMessage) masked(v *veil) wireMessage {
	m.text = v.same(m.text)
	m.calls = slices.Clone(m.calls)
	for i := range m.calls {
		m.calls[i].args = v.same(m.calls[i].args)
	}
	return m
}

// add takes in an entry of the cassette.
func (a *tapeAgent) add(e *entry) error {
	if e.Result != nil {
		a.results[e.Result.Call] = e.Result
		return nil
	}
	// A tool message without text stands for the result recorded before it.
	for i := range e.Request {
		s := &e.Request[i]
		if s.Tool == nil || s.Text != nil {
			continue
		}
		n := a.results[*s.Tool]
		if n == nil {
			return fmt.Errorf("request[%d]: tool %q has no text, and no result was recorded before", i, *s.Tool)
		}
		text := n.result().Answer()
		s.Text = &text
	}
	for _, c := range e.Reply.Calls {
		if _, used := a.ids[c.ID]; used {
			return fmt.Errorf("reply: the id %q is used twice", c.ID)
		}
		a.ids[c.ID] = false
	}
	a.exchanges = append(a.exchanges, e)
	return nil
}

// message is what was recorded as said, in the form of the wire. A system
// prompt is a digest.
func (s *said) message() wireMessage {
	switch {
	case s.System != nil:
		return wireMessage{role: string(agent.RoleSystem), text: *s.System}
	case s.User != nil:
		return wireMessage{role: string(agent.RoleUser), text: *s.User}
	case s.Tool != nil:
		return wireMessage{role: string(agent.RoleTool), text: *s.Text, callID: *s.Tool}
	}
	return wireMessage{role: string(agent.RoleAssistant), text: *s.Assistant, calls: wireCalls(s.Calls)}
}

func wireCalls(notes []callNote) []wireCall {
	var calls []wireCall
	for i := range notes {
		args, err := notes[i].args()
		if err != nil {
			continue // parseCassette has refused it
		}
		calls = append(calls, wireCall{notes[i].ID, wireName(notes[i].Name), compact(wireArgs(args))})
	}
	return calls
}

// compare checks a request against the next exchange. An empty diff means that
// it is the recorded one; the agent then remembers it.
func (a *tapeAgent) compare(asked *wireRequest, v *veil, strict []string) (diff string, warnings []string) {
	known := a.known(asked.messages)
	messages := slices.Clone(a.seen[:known])
	for _, m := range asked.messages[known:] {
		messages = append(messages, m.veiled(v))
	}
	seen := messages
	if a.next >= len(a.exchanges) {
		return fmt.Sprintf("no more than %d requests were recorded; this one says:\n%s", len(a.exchanges), render(messages[known:], v)), nil
	}
	e := a.exchanges[a.next]
	keep := len(a.expected)
	if e.Keep != nil {
		keep = min(*e.Keep, keep)
	}
	expected := slices.Clone(a.expected[:keep])
	for i := range e.Request {
		expected = append(expected, e.Request[i].message())
	}
	if !slices.ContainsFunc(expected, func(m wireMessage) bool { return m.role == string(agent.RoleSystem) }) {
		// A cassette that never mentions the system prompt does not care.
		lead := leading(messages)
		messages, known = messages[lead:], max(known-lead, 0)
	}
	prompt, rest := differ(expected, messages, min(known, keep), v)
	if prompt != "" && slices.Contains(strict, "system") && rest == "" {
		rest = prompt
	}
	tools := e.Tools
	if tools == nil {
		tools = a.tools
	}
	note := toolsDiffer(tools, &asked.tools)
	if note != "" && rest == "" && slices.Contains(strict, "tools") {
		rest = note + "\n"
	}
	if rest != "" {
		return rest, nil
	}
	if prompt != "" {
		warnings = append(warnings, "the system prompt is not the recorded one")
	}
	if note != "" {
		warnings = append(warnings, note)
	}
	a.raw, a.seen = asked.messages, seen
	a.tools = tools
	a.expected = append(expected, added(e.Reply)...)
	return "", warnings
}

// known is how many messages at the front were compared in an earlier request.
func (a *tapeAgent) known(messages []wireMessage) int {
	n := 0
	for n < len(messages) && n < len(a.raw) && messages[n].equal(&a.raw[n]) {
		n++
	}
	return n
}

// leading is how many system messages stand at the front.
func leading(messages []wireMessage) int {
	n := 0
	for n < len(messages) && messages[n].role == string(agent.RoleSystem) {
		n++
	}
	return n
}

// differ compares two transcripts from message known on: the system prompt,
// which is the system messages at the front, and the rest.
func differ(expected, asked []wireMessage, known int, v *veil) (prompt, rest string) {
	for i := known; i < min(len(expected), len(asked)); i++ {
		x, y := expected[i].masked(v), asked[i].masked(v)
		if x.role == string(agent.RoleSystem) && y.role == x.role && strings.HasPrefix(x.text, "sha256:") {
			y.text = digest(y.text)
		}
		if x.equal(&y) {
			continue
		}
		if i < leading(expected) && i < leading(asked) {
			prompt = udiff.Unified("recorded", "asked", x.text+"\n", y.text+"\n")
			continue
		}
		from := max(i-1, 0)
		return prompt, udiff.Unified("recorded", "asked", render(expected[from:], v), render(asked[from:], v))
	}
	if len(expected) != len(asked) {
		from := max(min(len(expected), len(asked))-1, 0)
		return prompt, udiff.Unified("recorded", "asked", render(expected[from:], v), render(asked[from:], v))
	}
	return prompt, ""
}

// render shows messages for a diff.
func render(messages []wireMessage, v *veil) string {
	var b strings.Builder
	for _, m := range messages {
		if m = m.masked(v); m.role == string(agent.RoleSystem) && !strings.HasPrefix(m.text, "sha256:") {
			m.text = digest(m.text)
		}
		b.WriteString(m.role)
		if m.callID != "" {
			b.WriteString(" " + m.callID)
		}
		b.WriteString(":\n")
		if m.text != "" {
			b.WriteString("  " + strings.ReplaceAll(m.text, "\n", "\n  ") + "\n")
		}
		for _, c := range m.calls {
			fmt.Fprintf(&b, "  call %s %s %s\n", c.id, c.name, c.args)
		}
	}
	return b.String()
}

// toolsDiffer says how the tools of a request differ from the recorded ones.
func toolsDiffer(recorded, asked *toolsNote) string {
	if recorded == nil || recorded.Digest == asked.Digest {
		return ""
	}
	var added, gone []string
	for _, n := range asked.Names {
		if !slices.Contains(recorded.Names, n) {
			added = append(added, n)
		}
	}
	for _, n := range recorded.Names {
		if !slices.Contains(asked.Names, n) {
			gone = append(gone, n)
		}
	}
	switch {
	case len(added) > 0 && len(gone) > 0:
		return "the tools are not the recorded ones: new " + strings.Join(added, ", ") + "; missing " + strings.Join(gone, ", ")
	case len(added) > 0:
		return "the tools are not the recorded ones: new " + strings.Join(added, ", ")
	case len(gone) > 0:
		return "the tools are not the recorded ones: missing " + strings.Join(gone, ", ")
	}
	return "the descriptions or schemas of the tools are not the recorded ones"
}

// added is what a reply adds to the transcript.
func added(n *replyNote) []wireMessage {
	if n.Error != nil || n.Hold {
		return nil
	}
	return []wireMessage{{role: string(agent.RoleAssistant), text: n.Text, calls: wireCalls(n.Calls)}}
}

// callID finds the call of the last reply that call is, and marks it as seen.
func (a *tapeAgent) callID(call agent.Call, v *veil) string {
	if call.ID == "" && a.next > 0 {
		args := compact(v.write(call.Args))
		for _, c := range wireCalls(a.exchanges[a.next-1].Reply.Calls) {
			if !a.ids[c.id] && c.name == wireName(call.Name) && c.args == args {
				call.ID = c.id
				break
			}
		}
	}
	if _, ok := a.ids[call.ID]; ok {
		a.ids[call.ID] = true
	}
	return call.ID
}

// Tool compares the result of a call with the recorded one, when that is marked
// exact. Other results are compared when the model is told of them. A result
// that differs is a *MismatchError. A call without an ID is the first of its
// name and arguments in the agent's last reply that was not seen yet.
func (r *Replay) Tool(name string, call agent.Call, res agent.Result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.agents[name]
	if a == nil {
		return nil
	}
	n := a.results[a.callID(call, &r.veil)]
	if n == nil || !n.Exact {
		return nil
	}
	show := func(head, content, denied string, failed bool) string {
		return fmt.Sprintf("%s\nfailed: %v\ndenied: %s\n%s\n%s\n", call.Name, failed, denied, r.veil.same(head), r.veil.same(content))
	}
	was := show(n.Head, n.Text, n.Denied, n.Failed)
	is := show(r.veil.write(res.Head), r.veil.write(res.Text), r.veil.write(res.Denied), res.Failed)
	if was == is {
		return nil
	}
	return &MismatchError{Agent: name, Exchange: a.next, Diff: text.Clip(udiff.Unified("recorded result", "result", was, is), maxDiffBytes)}
}
