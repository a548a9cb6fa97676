package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	openai "github.com/sashabaranov/go-openai"

	"ralph/memory/text"
	"ralph/workers/agent"
)

// maxCachedBytes bounds the encoded transcripts that are kept; the least
// recently used go first.
const maxCachedBytes = 64 << 20

// encoder turns transcripts into JSON, each message once: a request is the
// bytes of the one before plus the new messages. It is safe for concurrent use.
// Bytes that were handed out are never written again.
type encoder struct {
	mu    sync.Mutex
	convs map[string]*conversation // by agent
	tools []toolSet
	clock int64
	bytes int
}

// conversation is the encoded transcript of one agent as it was last sent.
type conversation struct {
	msgs []agent.Message
	ends []int // ends[i] is where message i ends in buf
	buf  []byte
	style
	used int64
}

// style is what messages hold beyond what every endpoint takes.
type style struct {
	echo    bool // reasoning goes back to the endpoint
	names   bool // a tool's message names the tool
	noExtra bool // what was attached to calls stays here
}

// toolSet is a list of tools with its encoding.
type toolSet struct {
	tools []agent.Tool
	enc   []byte
}

// messages returns the elements of the messages array, separated by commas.
func (e *encoder) messages(name string, msgs []agent.Message, how style) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.convs == nil {
		e.convs = make(map[string]*conversation)
	}
	c := e.convs[name]
	if c == nil || c.style != how {
		if c != nil {
			e.bytes -= cap(c.buf)
		}
		c = &conversation{style: how}
		e.convs[name] = c
	}
	e.clock++
	c.used = e.clock
	e.bytes -= cap(c.buf)
	c.extend(msgs)
	e.bytes += cap(c.buf)
	buf := c.buf
	e.evict(name)
	return buf[:len(buf):len(buf)]
}

// forget drops the transcript of an agent.
func (e *encoder) forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.convs[name]; c != nil {
		e.bytes -= cap(c.buf)
		delete(e.convs, name)
	}
}

// evict drops the least recently used transcripts but the one in use.
func (e *encoder) evict(keep string) {
	for e.bytes > maxCachedBytes && len(e.convs) > 1 {
		oldest := ""
		for name, c := range e.convs {
			if name != keep && (oldest == "" || c.used < e.convs[oldest].used) {
				oldest = name
			}
		}
		e.bytes -= cap(e.convs[oldest].buf)
		delete(e.convs, oldest)
	}
}

// extend makes buf the encoding of msgs. When msgs continues what is there, new
// bytes go behind the old ones, which requests in flight may be reading;
// otherwise the common part is copied to a new place.
func (c *conversation) extend(msgs []agent.Message) {
	n := 0
	for n < len(msgs) && n < len(c.msgs) && sameMessage(&msgs[n], &c.msgs[n]) {
		n++
	}
	if n < len(c.msgs) {
		at := 0
		if n > 0 {
			at = c.ends[n-1]
		}
		c.buf = append(make([]byte, 0, 2*at+512), c.buf[:at]...)
		c.msgs = append([]agent.Message(nil), c.msgs[:n]...)
		c.ends = append([]int(nil), c.ends[:n]...)
	}
	for i := n; i < len(msgs); i++ {
		if len(c.buf) > 0 {
			c.buf = append(c.buf, ',')
		}
		tool := ""
		if c.names {
			tool = toolOf(msgs[:i], msgs[i].CallID)
		}
		c.buf = appendMessage(c.buf, &msgs[i], c.style, tool)
		c.msgs = append(c.msgs, msgs[i])
		c.ends = append(c.ends, len(c.buf))
	}
}

// sameMessage compares what is encoded. Strings that share memory compare in
// constant time.
func sameMessage(a, b *agent.Message) bool {
	if a.Role != b.Role || a.CallID != b.CallID || a.Text != b.Text || a.Reasoning != b.Reasoning || len(a.Calls) != len(b.Calls) {
		return false
	}
	for i := range a.Calls {
		x, y := &a.Calls[i], &b.Calls[i]
		if x.ID != y.ID || x.Name != y.Name || x.Args != y.Args || !bytes.Equal(x.Extra, y.Extra) {
			return false
		}
	}
	return true
}

// toolOf is the name of the tool that was called with an id; its message stands
// before the answers.
func toolOf(before []agent.Message, id string) string {
	for i := len(before) - 1; i >= 0 && id != ""; i-- {
		for _, c := range before[i].Calls {
			if c.ID == id {
				return c.Name
			}
		}
	}
	return ""
}

// appendMessage appends one message; tool is the name that it shall bear.
func appendMessage(b []byte, m *agent.Message, how style, tool string) []byte {
	b = append(b, `{"role":`...)
	b = appendString(b, string(m.Role))
	b = append(b, `,"content":`...)
	if m.Text == "" && len(m.Calls) > 0 {
		b = append(b, "null"...)
	} else {
		b = appendString(b, m.Text)
	}
	if how.echo && m.Role == agent.RoleAssistant {
		b = append(b, `,"reasoning_content":`...)
		b = appendString(b, m.Reasoning)
	}
	if tool != "" {
		b = append(b, `,"name":`...)
		b = appendString(b, wireName(tool))
	}
	if m.CallID != "" {
		b = append(b, `,"tool_call_id":`...)
		b = appendString(b, m.CallID)
	}
	for i, c := range m.Calls {
		if i == 0 {
			b = append(b, `,"tool_calls":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendString(b, c.ID)
		b = append(b, `,"type":"function","function":{"name":`...)
		b = appendString(b, wireName(c.Name))
		b = append(b, `,"arguments":`...)
		b = appendString(b, wireArgs(c.Args))
		b = append(b, '}')
		// The protocol has no such member: where there is nothing to give back, it
		// does not appear.
		if len(c.Extra) > 0 && !how.noExtra {
			b = append(append(b, `,"extra_content":`...), c.Extra...)
		}
		b = append(b, '}')
	}
	if len(m.Calls) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// wireName makes a name that a model invented acceptable to endpoints, which
// check the pattern of names also in the history.
func wireName(name string) string {
	fine := name != "" && len(name) <= 64
	for i := 0; fine && i < len(name); i++ {
		fine = nameByte(name[i])
	}
	if fine {
		return name
	}
	var out []byte
	for i := 0; i < len(name) && len(out) < 64; i++ {
		if nameByte(name[i]) {
			out = append(out, name[i])
		} else {
			out = append(out, '_')
		}
	}
	if len(out) == 0 {
		return "unknown"
	}
	return string(out)
}

func nameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-'
}

// wireArgs makes arguments acceptable to endpoints that decode those of the
// history: what is no JSON object is wrapped into one, so that the model sees
// what it wrote.
func wireArgs(args string) string {
	if args == "" {
		return "{}"
	}
	if isObject([]byte(args)) {
		return args
	}
	return string(append(appendString([]byte(`{"invalid_arguments":`), args), '}'))
}

// isObject says whether a text is one JSON object.
func isObject(text []byte) bool {
	var c cursor
	c.reset(text)
	return c.peek() == '{' && json.Valid(text)
}

// appendString appends s as a JSON string. Only what JSON demands is escaped;
// bytes that are no UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		ch := s[i]
		if ch >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		if ch >= ' ' && ch != '"' && ch != '\\' {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch ch {
		case '"', '\\':
			b = append(b, '\\', ch)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[ch>>4], hex[ch&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// maxToolSets bounds the encoded lists of tools that are kept.
const maxToolSets = 8

// toolList returns the tools array, nil when there are no tools.
func (e *encoder) toolList(tools []agent.Tool) ([]byte, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.tools {
		if sameTools(e.tools[i].tools, tools) {
			return e.tools[i].enc, nil
		}
	}
	enc, err := encodeTools(tools)
	if err != nil {
		return nil, err
	}
	if len(e.tools) == maxToolSets {
		e.tools = append(e.tools[:0], e.tools[1:]...)
	}
	e.tools = append(e.tools, toolSet{tools: append([]agent.Tool(nil), tools...), enc: enc})
	return enc, nil
}

func sameTools(a, b []agent.Tool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Description != b[i].Description || !bytes.Equal(a[i].Schema, b[i].Schema) {
			return false
		}
	}
	return true
}

func encodeTools(tools []agent.Tool) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i, t := range tools {
		b.WriteString([]string{"[", ","}[min(i, 1)])
		b.WriteString(`{"type":"` + string(openai.ToolTypeFunction) + `","function":`)
		schema := t.Schema
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		def := openai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: schema}
		if err := enc.Encode(def); err != nil {
			return nil, fmt.Errorf("encode tool %q: %w", t.Name, err)
		}
		b.Truncate(b.Len() - 1) // the encoder ends with a newline
		b.WriteByte('}')
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

// payload is the body of a request: the envelope with the tools, the messages,
// the end. Its parts are shared with other requests and never written.
type payload struct {
	extra    []byte // more members, each with a comma in front
	tools    []byte
	messages []byte
}

// splice puts the payload into the envelope that go-openai encoded. Messages
// come last, so that a longer transcript changes only the end of the body.
func (p *payload) splice(envelope []byte) (body func() io.ReadCloser, size int64, err error) {
	before, after, ok := bytes.Cut(bytes.TrimRight(envelope, "\n"), []byte(`"messages":null,`))
	if !ok || !bytes.HasSuffix(after, []byte{'}'}) {
		return nil, 0, fmt.Errorf("encode request: unexpected envelope %q", text.Clip(string(envelope), 200))
	}
	const toolsAre, messagesAre, end = `,"tools":`, `,"messages":[`, "]}"
	head := make([]byte, 0, len(before)+len(after)+len(p.extra)+len(toolsAre))
	head = append(append(append(head, before...), after[:len(after)-1]...), p.extra...)
	if len(p.tools) > 0 {
		head = append(head, toolsAre...)
	}
	tail := []byte(messagesAre)
	body = func() io.ReadCloser {
		return io.NopCloser(io.MultiReader(bytes.NewReader(head), bytes.NewReader(p.tools), bytes.NewReader(tail), bytes.NewReader(p.messages), strings.NewReader(end)))
	}
	return body, int64(len(head) + len(p.tools) + len(tail) + len(p.messages) + len(end)), nil
}
