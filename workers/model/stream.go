package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"ralph/memory/text"
	"ralph/workers/agent"
)

const (
	idleTime = 2 * time.Minute
	// graceTime is how long a reply that gave its finish reason may take to say
	// the rest: usage, the end.
	graceTime = 2 * time.Second
	// errorBodyTime is how long the body of an error response may take.
	errorBodyTime = 10 * time.Second
)

// errSilent ends a request whose endpoint said nothing for too long.
var errSilent = errors.New("the endpoint went silent")

// try is one attempt to get a reply, and what came of it.
type try struct {
	draft    draft
	err      *Error
	dialect  dialect // what it was sent with
	took     time.Duration
	streamed bool // the endpoint began to reply
	size     int  // of the request, in bytes
}

// try sends req once. It returns when the reply is known, when it cannot come
// any more, or when ctx ends.
func (c *Client) try(ctx context.Context, req agent.Request, f *flight, sink func(agent.Delta)) *try {
	began := time.Now()
	t := &try{dialect: c.current()}
	c.attempt(ctx, req, f, sink, t)
	t.took = time.Since(began)
	if t.err != nil {
		c.scrub(t.err)
	}
	if t.err != nil && t.err.pace == paceBackoff && t.err.Kind == KindRateLimit {
		if d, ok := waitInWords(t.err.words); ok {
			t.err.RetryAfter, t.err.pace = d, paceWait
		}
	}
	return t
}

func (c *Client) attempt(ctx context.Context, req agent.Request, f *flight, sink func(agent.Delta), t *try) {
	actx, cancel := context.WithCancelCause(withAgent(ctx, req.Agent))
	w := &watch{d: c.opts.HeaderTimeout, cancel: cancel}
	w.timer = time.AfterFunc(w.d, w.fire)
	defer w.timer.Stop()

	tools, err := c.enc.toolList(req.Tools)
	if err != nil {
		cancel(nil)
		t.err = &Error{Kind: KindRejected, Message: err.Error(), Err: err}
		return
	}
	load := &payload{tools: tools, messages: c.enc.messages(req.Agent, req.Messages, t.dialect.style())}
	if c.opts.Endpoint.Provider == providerOpenRouter {
		load.extra = []byte(`,"usage":{"include":true}`)
	}
	x := &exchange{c: c, load: load, watch: w, flight: f}
	_, err = c.api(x).CreateChatCompletionStream(actx, c.envelope(req, t.dialect))
	t.size = int(x.size)
	if err != nil || x.resp == nil {
		t.err = c.refused(actx, x, err, w.d)
		cancel(nil)
		return
	}
	t.streamed = true
	s := &stream{sink: sink, draft: &t.draft, watch: w, host: c.host, model: c.opts.Endpoint.Model}
	s.html = strings.HasPrefix(x.resp.Header.Get("Content-Type"), "text/html")
	w.r, w.d = x.resp.Body, orDefault(c.opts.IdleTimeout, idleTime)
	if c.opts.IdleTimeout == 0 && nearby(c.host) {
		w.first = c.opts.HeaderTimeout
	}
	s.lines.r = w
	if t.err = s.read(actx); t.err != nil {
		cancel(nil)
		x.resp.Body.Close()
		return
	}
	c.drain.add(x.resp.Body, cancel)
}

// refused is the error of an exchange that brought no reply to read.
func (c *Client) refused(ctx context.Context, x *exchange, err error, after time.Duration) *Error {
	if errors.Is(context.Cause(ctx), errSilent) && x.status == 0 {
		return &Error{Kind: KindUnreachable, Err: errSilent, Retryable: true, pace: paceStalled,
			Message: fmt.Sprintf("%s took the request and did not answer for %v", c.host, after)}
	}
	if errors.Is(err, openai.ErrReasoningModelMaxTokensDeprecated) {
		return &Error{Kind: KindRejected, Message: err.Error(), Err: err, words: "max_tokens is not supported, use max_completion_tokens", HTTPStatus: 400}
	}
	return x.failure(err, c.opts.Endpoint.Model, time.Now())
}

// nearby says whether a host is this machine or one of the local network, where
// people run models on hardware that takes its time.
func nearby(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && (ip.IsLoopback() || ip.IsPrivate())
}

// reply makes the reply of a try that brought one.
func (t *try) reply(transcript []agent.Message, took time.Duration) agent.Reply {
	return agent.Reply{
		Message:  t.draft.message(transcript),
		Usage:    t.draft.tokens(t.size),
		Finish:   t.draft.reason(),
		Model:    t.draft.model,
		CostUSD:  t.draft.cost,
		Duration: took,
	}
}

// partial makes the reply of a try that was cut off; t may be nil. A request
// that the endpoint never took cost nothing.
func (t *try) partial(took time.Duration) agent.Reply {
	r := agent.Reply{Message: agent.Message{Role: agent.RoleAssistant, Partial: true}, Duration: took}
	if t != nil {
		r.Message, r.Model, r.CostUSD = t.draft.partial(), t.draft.model, t.draft.cost
	}
	if t != nil && t.streamed {
		r.Usage = t.draft.tokens(t.size)
	}
	return r
}

// watch reads a body and ends the request when it stays silent.
type watch struct {
	r      io.Reader
	timer  *time.Timer
	d      time.Duration
	first  time.Duration // for the first byte, when longer
	cancel context.CancelCauseFunc
	// deadline, when set, ends the reading however much still comes.
	deadline time.Time
}

func (w *watch) fire() { w.cancel(errSilent) }

// Read reads from the body. The timer runs only while it waits.
func (w *watch) Read(p []byte) (int, error) {
	d := max(w.d, w.first)
	if !w.deadline.IsZero() {
		d = min(d, max(time.Until(w.deadline), 0))
	}
	w.timer.Reset(d)
	w.first = 0
	n, err := w.r.Read(p)
	w.timer.Stop()
	return n, err
}

// stream reads one reply.
type stream struct {
	lines   lines
	chunk   chunk
	draft   *draft
	sink    func(agent.Delta)
	watch   *watch
	host    string
	model   string
	html    bool
	event   string // the type of the event that is being read
	pending []byte // data that is not whole yet
	bare    bool   // pending began without "data:"
	tried   int    // the length of pending at the last vain decode
	stray   []byte // the first line that belongs to no event
	begun   bool   // the first line has been seen
	heard   bool   // at least one event was understood
}

// read reads until the reply is known. It returns nil when it is whole.
func (s *stream) read(ctx context.Context) *Error {
	err := s.events(ctx)
	if err == nil {
		s.draft.text.finish()
		s.draft.reasoning.finish()
		s.flush()
	}
	return err
}

func (s *stream) events(ctx context.Context) *Error {
	for {
		line, err := s.lines.next()
		if err != nil {
			return s.ended(ctx, err)
		}
		done, fault := s.line(line)
		s.flush()
		if fault != nil || done {
			return fault
		}
		if s.draft.finish != "" && s.watch.deadline.IsZero() {
			s.watch.deadline = time.Now().Add(min(s.watch.d, graceTime))
		}
	}
}

// flush hands out the text that came in.
func (s *stream) flush() {
	if t := s.draft.reasoning.take(); t != "" {
		s.sink(agent.Delta{Kind: agent.DeltaReasoning, Text: t})
	}
	if t := s.draft.text.take(); t != "" {
		s.sink(agent.Delta{Kind: agent.DeltaText, Text: t})
	}
}

// line takes in one line. It answers true when the reply is whole.
func (s *stream) line(line []byte) (bool, *Error) {
	if !s.begun {
		s.begun = true
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	if s.bare {
		return s.data(line)
	}
	if len(line) == 0 {
		return s.boundary()
	}
	name, value := field(line)
	switch string(name) {
	case "data":
		return s.data(value)
	case "event":
		s.event = string(value)
		return false, nil
	case "", "id", "retry":
		return false, nil
	}
	content := bytes.TrimSpace(line)
	switch {
	case len(content) == 0:
	case !s.heard && (s.html || content[0] == '<'):
		return false, htmlError(s.host)
	case content[0] == '{':
		s.bare = true
		return s.data(line)
	case s.stray == nil:
		s.stray = append(s.stray, text.Clip(string(content), 200)...)
	}
	return false, nil
}

// boundary ends an event.
func (s *stream) boundary() (bool, *Error) {
	event := s.event
	s.event = ""
	if len(s.pending) == 0 {
		return false, nil
	}
	data := s.pending
	s.pending = nil
	if event == "error" {
		return false, s.fault(data)
	}
	return false, s.garbled(data)
}

// data takes in the data of one line. An event is acted on as soon as it is
// whole: the blank line behind it may never come.
func (s *stream) data(value []byte) (bool, *Error) {
	text := bytes.TrimSpace(value)
	if len(text) == 0 && len(s.pending) == 0 {
		return false, nil
	}
	if string(text) == "[DONE]" {
		if s.draft.finish != "" {
			return true, nil
		}
		return false, incomplete(nil)
	}
	if len(s.pending) > 0 {
		if len(s.pending)+len(value) > maxLineBytes {
			return false, s.tooLong(errLineTooLong)
		}
		s.pending = append(append(s.pending, '\n'), value...)
		text = s.pending
		// A text in many lines is decoded only where it may end, and less and less
		// often the longer it gets.
		if !bytes.HasSuffix(bytes.TrimSpace(value), []byte("}")) || len(text) < s.tried+s.tried/8 {
			return false, nil
		}
	}
	switch s.chunk.decode(text) {
	case tooShort:
		if len(s.pending) == 0 {
			s.pending = append([]byte(nil), text...)
		}
		s.tried = len(s.pending)
		return false, nil
	case malformed:
		if s.event == "error" {
			return false, s.fault(text)
		}
		return false, s.garbled(text)
	}
	return s.take(text)
}

// take acts on the chunk that was decoded from text.
func (s *stream) take(content []byte) (bool, *Error) {
	k, bare := &s.chunk, s.bare
	s.pending, s.bare, s.tried = nil, false, 0
	switch {
	case k.fault != nil:
		return false, s.fault(k.fault)
	case s.event == "error" && !k.choices:
		return false, s.fault(content)
	case bare && !s.heard && !k.choices && !k.hasUsage:
		if f := looseFault(content); f.message != "" {
			return false, classify(f, s.model)
		}
		return false, &Error{Kind: KindProtocol, Hint: "check the base URL; most end in /v1",
			Message: s.host + " answered with JSON that is no completion: " + text.Clip(strings.TrimSpace(text.FirstLine(string(content))), 300)}
	}
	s.heard = true
	if err := s.draft.add(k); err != nil {
		return false, s.tooLong(err)
	}
	if s.draft.finish == "error" {
		return false, classify(apiFault{message: "the endpoint ended the reply with an error"}, s.model)
	}
	return s.draft.told || k.whole, nil
}

// fault turns an error within the stream into an error of the try.
func (s *stream) fault(raw []byte) *Error { return classify(parseFault(raw), s.model) }

func (s *stream) garbled(content []byte) *Error {
	e := incomplete(nil)
	e.Message = "the stream holds an event that is not JSON: " + text.Clip(strings.TrimSpace(text.FirstLine(string(content))), 300)
	return e
}

func (s *stream) tooLong(err error) *Error {
	return &Error{Kind: KindProtocol, Message: err.Error(), Err: err}
}

// ended decides what a stream amounts to that ended with err.
func (s *stream) ended(ctx context.Context, err error) *Error {
	if errors.Is(err, errLineTooLong) || errors.Is(err, errWireTooLong) {
		return s.tooLong(err)
	}
	if len(s.pending) > 0 && s.chunk.decode(s.pending) == whole {
		if done, fault := s.take(bytes.Clone(s.pending)); done || fault != nil {
			return fault
		}
	}
	switch {
	case s.draft.finish != "":
		return nil
	case errors.Is(context.Cause(ctx), errSilent):
		return stalled(s.watch.d)
	case !errors.Is(err, io.EOF):
		return incomplete(err)
	case !s.heard && s.stray != nil:
		return &Error{Kind: KindProtocol, Hint: "check the base URL; most end in /v1",
			Message: s.host + " answered with something that is no completion: " + string(s.stray)}
	}
	return incomplete(nil)
}
