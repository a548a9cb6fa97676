package external

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ralph/memory/text"
	"ralph/workers/agent"
)

// maxOpen bounds the calls that are known to be open, and the denied ones listed.
const maxOpen = 1000

// failure is what a stream says of an error.
type failure struct {
	// status is that of HTTP, 0 if not told.
	status int
	text   string
	// after is when to try again, 0 if not told.
	after time.Duration
}

// state is what a stream has said so far.
type state struct {
	emit  func(agent.Event)
	plain bool // the stream is text, without events

	// buf is the text of the assistant since its last call of a tool; cut says
	// that its beginning is left out, said that it was emitted.
	buf  []byte
	cut  bool
	said bool

	// closed says that the closing event has come; failure that it was none of a
	// success. trouble is the last error that ended nothing so far.
	closed  bool
	failure *failure
	trouble *failure

	// progress counts what shows that the model answers.
	progress int

	open    map[string]string // calls by id, the name of the tool
	ok      int               // calls that succeeded
	calls   int
	bad     int
	denied  []string
	turns   int
	usage   agent.Usage
	cost    *float64
	session string
	model   string
	events  int
	warned  []string
}

// final is the final text, if nothing else comes.
func (s *state) final() string { return string(s.buf) }

// say replaces the final text.
func (s *state) say(text string) {
	s.buf, s.cut, s.said = s.buf[:0], false, false
	s.more(text)
}

// more adds to the final text.
func (s *state) more(text string) {
	s.said = false
	s.progress++
	s.buf = append(s.buf, text...)
	if len(s.buf) > 2*maxFinal {
		s.shorten()
	}
}

func (s *state) shorten() {
	at := len(s.buf) - maxFinal
	if at <= 0 {
		return
	}
	for at < len(s.buf) && !utf8.RuneStart(s.buf[at]) {
		at++
	}
	s.buf, s.cut = append([]byte(nil), s.buf[at:]...), true
}

// speak emits the text that has come together.
func (s *state) speak() {
	if s.said || len(bytes.TrimSpace(s.buf)) == 0 {
		return
	}
	s.said = true
	s.shorten()
	s.emit(agent.Event{Type: agent.EventMessage, Text: s.final()})
}

// call is the beginning of a call: what the assistant said before it was not its
// last word.
func (s *state) call(id, tool string, args json.RawMessage) {
	s.speak()
	s.say("")
	s.closed, s.failure = false, nil
	s.calls++
	if len(s.open) < maxOpen {
		s.open[id] = tool
	}
	if len(args) > maxOutput || !json.Valid(args) {
		args = nil
	}
	s.emit(agent.Event{Type: agent.EventToolStart, CallID: id, Tool: tool, Args: args})
}

// answer is the end of a call.
func (s *state) answer(id string, ok bool, output string, exit *int) {
	tool, known := s.open[id]
	if !known {
		return
	}
	delete(s.open, id)
	s.progress++
	if ok {
		s.ok++
	} else {
		s.bad++
	}
	s.emit(agent.Event{Type: agent.EventToolEnd, CallID: id, Tool: tool, OK: &ok, Output: text.Clip(output, maxOutput), ExitCode: exit})
}

// deny notes a call that the program's own permissions refused.
func (s *state) deny(tool, what string) {
	if len(s.denied) >= maxOpen {
		return
	}
	if what = text.Clip(text.OneLine(what), 200); what != "" {
		tool += ": " + what
	}
	s.denied = append(s.denied, tool)
}

// retry is the program's own new attempt.
func (s *state) retry(f failure, attempt int, wait time.Duration) {
	s.trouble = &f
	s.emit(agent.Event{Type: agent.EventRetry, Attempt: attempt, WaitMS: wait.Milliseconds(), Reason: text.Clip(text.OneLine(f.text), 500)})
}

// end is the closing event.
func (s *state) end(f *failure) {
	s.speak()
	s.closed, s.failure = true, f
}

func (s *state) warn(content string) {
	if content = text.Clip(text.OneLine(content), 500); content != "" && len(s.warned) < 20 && !slices.Contains(s.warned, content) {
		s.warned = append(s.warned, content)
		s.emit(agent.Event{Type: agent.EventWarning, Text: content})
	}
}

func (s *state) spend(u agent.Usage, cost *float64) {
	s.usage = s.usage.Add(u)
	if cost != nil {
		sum := *cost
		if s.cost != nil {
			sum += *s.cost
		}
		s.cost = &sum
	}
}

// finish ends what the stream has left open.
func (s *state) finish() {
	s.speak()
	s.shorten()
	for _, id := range slices.Sorted(maps.Keys(s.open)) {
		s.answer(id, false, "the agent ended before its result came", nil)
	}
}

// parse reads an event; false for what is none.
func parse(l line, to any) bool {
	return !l.cut && len(l.text) > 0 && l.text[0] == '{' && json.Unmarshal(l.text, to) == nil
}

// words is a JSON value as text: a string as it is, blocks of content by their
// texts, else the JSON.
func words(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &blocks) == nil {
		var parts []string
		for _, b := range blocks {
			parts = append(parts, b.Text)
		}
		return strings.Join(parts, "\n")
	}
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}
