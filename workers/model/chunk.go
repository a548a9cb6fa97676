package model

import (
	"bytes"

	openai "github.com/sashabaranov/go-openai"
)

// chunk is what one event of a stream says, or one whole completion. Its slices
// alias the event and are valid until the next decode.
type chunk struct {
	cur cursor

	model     []byte
	text      []byte
	reasoning []byte
	calls     []callDelta
	finish    []byte
	whole     bool   // a choice with a message instead of a delta
	choices   bool   // there was a choice
	isError   bool   // the event calls itself an error
	fault     []byte // an error object or text, anywhere in the event
	hasUsage  bool
	usage     openai.Usage
	cost      *float64
}

// callDelta is a piece of a tool call.
type callDelta struct {
	index    int
	hasIndex bool
	id       []byte
	name     []byte
	args     []byte
	extra    []byte // as it is written
}

// What decode found out about a text.
type verdict int

const (
	whole verdict = iota
	tooShort
	malformed
)

// decode fills the chunk from data. Only after the answer whole do its fields
// mean anything, so that a text that continues on another line is not taken
// twice.
func (k *chunk) decode(data []byte) verdict {
	cur, calls := k.cur, k.calls[:0]
	*k = chunk{cur: cur, calls: calls}
	c := &k.cur
	c.reset(data)
	if c.peek() != '{' {
		if c.peek() == 0 {
			return tooShort
		}
		return malformed
	}
	c.open('{')
	for n := 0; ; n++ {
		key, ok := c.key(n)
		if !ok {
			break
		}
		k.top(string(key))
	}
	switch {
	case c.short:
		return tooShort
	case c.bad, c.peek() != 0:
		return malformed
	}
	if k.isError && k.fault == nil && !k.choices {
		k.fault = data
	}
	return whole
}

func (k *chunk) top(key string) {
	c := &k.cur
	switch key {
	case "choices":
		if !c.open('[') {
			return
		}
		for n := 0; c.elem(n); n++ {
			k.choice()
		}
	case "model":
		k.model, _ = c.str()
	case "usage":
		k.takeUsage()
	case "x_groq":
		if c.open('{') {
			for n := 0; ; n++ {
				key, ok := c.key(n)
				if !ok {
					return
				}
				k.wrapped(string(key))
			}
		}
	case "error":
		k.takeFault(c.raw())
	case "object":
		o, _ := c.str()
		k.isError = string(o) == "error"
	default:
		c.skip()
	}
}

// wrapped reads what Groq puts beside the choices.
func (k *chunk) wrapped(key string) {
	if key == "usage" || key == "error" {
		k.top(key)
		return
	}
	k.cur.skip()
}

// takeFault remembers an error unless it is one of the ways to say that there
// is none.
func (k *chunk) takeFault(raw []byte) {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "{}", `""`, "false", "[]", "0":
	default:
		k.fault = raw
	}
}

// choice reads one element of choices. Only the first choice counts; Ralph
// never asks for more.
func (k *chunk) choice() {
	c := &k.cur
	if !c.open('{') {
		return
	}
	first, from := true, *k
	for n := 0; ; n++ {
		key, ok := c.key(n)
		if !ok {
			break
		}
		switch string(key) {
		case "index":
			i, ok := c.num()
			first = !ok || i == 0
		case "delta":
			k.delta()
		case "message":
			k.whole = k.delta() || k.whole
		case "finish_reason":
			k.finish, _ = c.str()
		case "text":
			k.piece(&k.text)
		case "error":
			k.takeFault(c.raw())
		default:
			c.skip()
		}
	}
	if first {
		k.choices = true
		return
	}
	from.cur, from.calls = k.cur, k.calls[:len(from.calls)]
	*k = from
}

// delta reads a delta or a message; it answers false when there is none.
func (k *chunk) delta() bool {
	c := &k.cur
	if !c.open('{') {
		return false
	}
	for n := 0; ; n++ {
		key, ok := c.key(n)
		if !ok {
			return true
		}
		switch string(key) {
		case "content", "refusal":
			k.piece(&k.text)
		case "reasoning", "reasoning_content":
			// Some servers send the same text under both names.
			if len(k.reasoning) > 0 {
				c.skip()
				continue
			}
			k.piece(&k.reasoning)
		case "tool_calls":
			k.toolCalls()
		case "function_call":
			var d callDelta
			if k.function(&d) {
				k.calls = append(k.calls, d)
			}
		default:
			c.skip()
		}
	}
}

// piece appends a text that may be a string or a list of parts.
func (k *chunk) piece(to *[]byte) {
	c := &k.cur
	switch c.peek() {
	case '"':
		s := c.text()
		if len(*to) == 0 {
			*to = s
		} else {
			*to = append(append([]byte(nil), *to...), s...)
		}
	case '[':
		c.open('[')
		for n := 0; c.elem(n); n++ {
			k.part(to)
		}
	default:
		c.skip()
	}
}

// part reads one part of a list: {"type":"text","text":…} or, for a model that
// thinks aloud within its content, {"type":"thinking","thinking":[…]}.
func (k *chunk) part(to *[]byte) {
	c := &k.cur
	if c.peek() == '"' {
		k.piece(to)
		return
	}
	if !c.open('{') {
		return
	}
	for n := 0; ; n++ {
		key, ok := c.key(n)
		if !ok {
			return
		}
		switch string(key) {
		case "text":
			k.piece(to)
		case "thinking":
			k.thinking()
		default:
			c.skip()
		}
	}
}

func (k *chunk) thinking() {
	c := &k.cur
	if c.peek() == '"' {
		k.piece(&k.reasoning)
		return
	}
	if !c.open('[') {
		return
	}
	for n := 0; c.elem(n); n++ {
		if !c.open('{') {
			continue
		}
		for m := 0; ; m++ {
			key, ok := c.key(m)
			if !ok {
				break
			}
			if string(key) == "text" {
				k.piece(&k.reasoning)
			} else {
				c.skip()
			}
		}
	}
}

func (k *chunk) toolCalls() {
	c := &k.cur
	if !c.open('[') {
		return
	}
	for n := 0; c.elem(n); n++ {
		if !c.open('{') {
			continue
		}
		var d callDelta
		for m := 0; ; m++ {
			key, ok := c.key(m)
			if !ok {
				break
			}
			switch string(key) {
			case "index":
				d.index, d.hasIndex = c.num()
			case "id":
				d.id = c.scalar()
			case "function":
				k.function(&d)
			case "name": // a flat call, as some local servers send it
				d.name, _ = c.str()
			case "arguments":
				d.args = c.scalar()
			case "extra_content":
				d.extra = c.raw()
			default:
				c.skip()
			}
		}
		k.calls = append(k.calls, d)
	}
}

func (k *chunk) function(d *callDelta) bool {
	c := &k.cur
	if !c.open('{') {
		return false
	}
	for n := 0; ; n++ {
		key, ok := c.key(n)
		if !ok {
			return true
		}
		switch string(key) {
		case "name":
			d.name, _ = c.str()
		case "arguments":
			d.args = c.scalar()
		default:
			c.skip()
		}
	}
}

// scalar returns a string's text and any other value as it is written, null as
// nothing: arguments that were sent as an object become its text.
func (c *cursor) scalar() []byte {
	if c.peek() == '"' {
		return c.text()
	}
	raw := c.raw()
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// takeUsage reads a usage object in the dialects that are about.
func (k *chunk) takeUsage() {
	c := &k.cur
	if !c.open('{') {
		return
	}
	u := openai.Usage{}
	for n := 0; ; n++ {
		key, ok := c.key(n)
		if !ok {
			break
		}
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			u.PromptTokens, _ = c.num()
		case "completion_tokens", "output_tokens":
			u.CompletionTokens, _ = c.num()
		case "total_tokens":
			u.TotalTokens, _ = c.num()
		case "prompt_tokens_details":
			u.PromptTokensDetails = &openai.PromptTokensDetails{CachedTokens: c.detail("cached_tokens")}
		case "prompt_cache_hit_tokens":
			hit, _ := c.num()
			if u.PromptTokensDetails == nil {
				u.PromptTokensDetails = &openai.PromptTokensDetails{CachedTokens: hit}
			}
		case "completion_tokens_details":
			u.CompletionTokensDetails = &openai.CompletionTokensDetails{ReasoningTokens: c.detail("reasoning_tokens")}
		case "cost":
			if f, ok := c.float(); ok && f >= 0 {
				k.cost = &f
			}
		default:
			c.skip()
		}
	}
	if u.PromptTokens > 0 || u.CompletionTokens > 0 {
		k.usage, k.hasUsage = u, true
	}
}

// detail reads one number out of an object.
func (c *cursor) detail(want string) int {
	if !c.open('{') {
		return 0
	}
	v := 0
	for n := 0; ; n++ {
		key, ok := c.key(n)
		if !ok {
			return v
		}
		if string(key) == want {
			v, _ = c.num()
		} else {
			c.skip()
		}
	}
}
