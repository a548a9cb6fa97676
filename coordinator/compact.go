package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"ralph/coordinator/prompt"
	"ralph/coordinator/transcript"
	"ralph/memory/history"
	"ralph/memory/session"
	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/model"
)

const (
	// compactTo is how full the window may be after a compaction, so that the
	// next one is not due at once; compactAllTo is that of what there was, when
	// the user asks for it.
	compactTo, compactAllTo = 0.6, 0.3
	// nearFull is how full the window may become before room is made without
	// waiting for the endpoint to refuse.
	nearFull = 0.85
	// A compaction that nobody asked for must leave the window no fuller than
	// worthwhile, or at most leastGain of what there was, so that a few bytes are
	// not bought with a new prefix.
	worthwhile, leastGain = 0.75, 0.8
	// frontShare is how much the message about what is left out may take.
	frontShare = 0.1
	// maxTries is how often room is made for one request, as often as the loop
	// asks for it.
	maxTries = 3
)

// errNearFull stands for the refusal that the endpoint would send soon.
var errNearFull = errors.New("the conversation nearly fills the model's window")

// window is the model's window as one piece of work sees it: how large it is
// thought to be, and how many tokens a text takes there. It is a Model itself,
// which learns from what the endpoint reports and makes room before the window
// is full. It serves one loop.
type window struct {
	agent.Model
	c         *Coordinator // nil: there is neither a child nor a journal
	estimate  *history.Estimate
	maxTokens int
	task      string // what this run is about
	job       Job
	limits    agent.Limits

	used  agent.Spent // by all requests so far
	tries int         // of making room for the request that is under way
	floor int         // bytes of the transcript after the last compaction
	plain bool        // the summary of this request failed already
	next  *shorter    // made, not taken yet
	last  *shorter    // taken last
	rest  int         // bytes of a request beside its messages
}

// shorter is what became of a transcript.
type shorter struct {
	transcript []agent.Message
	state      pastState
	from       int // messages before
	dropped    int
	elided     int
	tokens     [2]int // before and after
	why        string
	records    []session.Record
	summary    string
	failed     string // why there is no summary, "" when there is one or none was due
	reply      agent.Reply
}

// Complete asks the model and learns how many tokens the request was. When the
// window is nearly full, or the endpoint says that it is, room is made first and
// the error matches overflow; compact hands out what was made. What a summary
// used is in the reply.
func (w *window) Complete(ctx context.Context, req agent.Request, sink func(agent.Delta)) (agent.Reply, error) {
	w.see(req)
	sent := req
	sent.Messages = worded(req.Messages)
	size := requestBytes(sent)
	w.rest = size - bytesIn(sent.Messages)
	if w.near(req, size) {
		reply, err := w.makeRoom(ctx, req.Messages, fmt.Sprintf("the conversation fills %d %% of the model's window", 100*w.estimate.Request(size)/w.full()), false)
		if err != nil && !errors.Is(err, agent.ErrNoCompaction) {
			return reply, err
		}
		if w.next != nil {
			return reply, errNearFull
		}
		w.floor = bytesIn(req.Messages) // not worth it until more has come
	}
	reply, err := w.Model.Complete(ctx, sent, sink)
	w.count(reply)
	switch {
	case err == nil:
		w.tries, w.plain = 0, false
		w.plainArgs(&reply.Message)
		if !reply.Usage.Estimated {
			w.estimate.Learn(size, reply.Usage.Input, reply.Usage.CachedInput)
		}
	case overflow(err) && w.tries < maxTries:
		w.estimate.Refuse(size)
		made, merr := w.makeRoom(ctx, req.Messages, "the endpoint says that the conversation no longer fits", true)
		reply = together(reply, made)
		if merr != nil && !errors.Is(merr, agent.ErrNoCompaction) {
			return reply, merr
		}
	}
	return reply, err
}

// plainArgs writes the arguments of calls as a replay will: excerpts and sizes
// depend on them, and a cassette keeps no spaces between them.
func (w *window) plainArgs(m *agent.Message) {
	if w.c == nil || w.c.cassette.recorder == nil {
		return
	}
	m.Calls = slices.Clone(m.Calls)
	for i := range m.Calls {
		var b bytes.Buffer
		if json.Compact(&b, []byte(m.Calls[i].Args)) == nil {
			m.Calls[i].Args = b.String()
		}
	}
}

// see notes what the model is shown, for Context.
func (w *window) see(req agent.Request) {
	if w.c == nil {
		return
	}
	p := &w.c.past
	p.mu.Lock()
	p.view, p.tools, p.job = req.Messages, req.Tools, w.job
	p.mu.Unlock()
}

// near reports whether room should be made before the request is sent.
func (w *window) near(req agent.Request, size int) bool {
	full := w.full()
	if w.c == nil || w.tries > 0 || full <= 0 {
		return false
	}
	grown := bytesIn(req.Messages) - w.floor
	return float64(w.estimate.Request(size)) >= nearFull*float64(full) && (w.floor == 0 || w.estimate.Tokens(grown) > full/10)
}

// full is the tokens that the window holds: as many as is said, or fewer when
// the endpoint showed that it takes fewer.
func (w *window) full() int { return w.estimate.Window(w.maxTokens) }

// count adds up what the requests of this piece of work used.
func (w *window) count(r agent.Reply) {
	w.used.Usage = w.used.Usage.Add(r.Usage)
	switch cost := w.cost(r); {
	case cost != nil && w.used.CostUSD != nil:
		sum := *cost + *w.used.CostUSD
		w.used.CostUSD = &sum
	case cost != nil:
		w.used.CostUSD = cost
	}
}

func (w *window) cost(r agent.Reply) *float64 {
	if r.CostUSD != nil || w.c == nil || r.Usage.Total == 0 {
		return r.CostUSD
	}
	if v, ok := w.c.price(r.Usage); ok {
		return &v
	}
	return nil
}

// together adds what a summary used to the reply that made it necessary.
func together(reply, made agent.Reply) agent.Reply {
	reply.Usage = reply.Usage.Add(made.Usage)
	reply.Duration += made.Duration
	switch {
	case reply.CostUSD == nil:
		reply.CostUSD = made.CostUSD
	case made.CostUSD != nil:
		sum := *reply.CostUSD + *made.CostUSD
		reply.CostUSD = &sum
	}
	return reply
}

// makeRoom prepares a shorter transcript for compact to hand out. The error is
// agent.ErrNoCompaction when nothing can be left out, what ended ctx, or a
// replay's mismatch; anything else that befalls the summary only leaves it out.
func (w *window) makeRoom(ctx context.Context, transcript []agent.Message, why string, refused bool) (agent.Reply, error) {
	w.tries++
	base := max(w.full()-w.estimate.Tokens(w.rest), 0)
	if refused {
		base = min(base, w.tokensOf(transcript))
	}
	enough := 0
	if !refused {
		enough = int(max(worthwhile*float64(w.full()), leastGain*float64(w.estimate.Request(bytesIn(transcript)+w.rest))))
	}
	s, err := w.shorten(ctx, transcript, room{why: why, tokens: base, share: compactTo, enough: enough})
	if s == nil {
		return agent.Reply{}, err
	}
	w.count(s.reply)
	if err == nil {
		w.next = s
	}
	return s.reply, err
}

func (w *window) tokensOf(transcript []agent.Message) int {
	n := 0
	for _, m := range transcript {
		n += w.estimate.Tokens(messageBytes(m))
	}
	return n
}

// compact hands out the shorter transcript that Complete prepared, or makes one
// without a summary. It takes effect here: in the journal first.
func (w *window) compact(ctx context.Context, transcript []agent.Message) ([]agent.Message, error) {
	s := w.next
	w.next = nil
	if s == nil {
		var err error
		w.plain = true
		if s, err = w.shorten(ctx, transcript, room{why: "the conversation no longer fits", tokens: min(w.full(), w.tokensOf(transcript)), share: compactTo}); err != nil {
			return nil, err
		}
	}
	w.adopt(s)
	return s.transcript, nil
}

// adopt makes a shorter transcript the one that counts.
func (w *window) adopt(s *shorter) {
	w.last, w.floor = s, bytesIn(s.transcript)
	if w.c == nil {
		return
	}
	w.c.book.compacted(s.records...)
	p := &w.c.past
	p.mu.Lock()
	p.state, p.more, p.fresh, p.view = s.state, p.more || s.state.LeftOut > 0, false, s.transcript
	p.mu.Unlock()
	if s.failed != "" {
		w.c.warn(fmt.Sprintf("%d older messages are left out without a summary: %s", s.dropped, s.failed))
	}
}

// tell says in the loop's own event what was left out and why.
func (w *window) tell(emit func(agent.Event)) func(agent.Event) {
	return func(e agent.Event) {
		if e.Type == agent.EventCompact && w.last != nil {
			e.Text, e.Reason = w.last.String(), w.last.why
		}
		emit(e)
	}
}

// room says how much shorter a transcript is to become, and why.
type room struct {
	why    string
	tokens int     // that the messages may take
	share  float64 // of them that may be left
	enough int     // tokens of the request that it is given up at; 0: never
}

// shorten leaves out what the model can best do without: old tool results
// first, then the older exchanges that have least to do with the task, of which
// a summary takes the place. The system prompt, the task of this run and the
// last message stay. The transcript that came in is not changed.
func (w *window) shorten(ctx context.Context, transcript []agent.Message, r room) (*shorter, error) {
	var state pastState
	if w.c != nil {
		w.c.past.mu.Lock()
		state = w.c.past.state
		w.c.past.mu.Unlock()
	}
	entries := w.entries(transcript, state.Front)
	fates := history.Plan(entries, w.estimate.Tokens, int(float64(r.tokens)*r.share))
	s := &shorter{from: len(transcript), why: r.why, state: state}
	var kept, left []agent.Message
	s.state.Older, s.state.Elided = 0, 0
	for i, fate := range fates {
		m := transcript[i]
		switch fate.Action {
		case history.Drop:
			left = append(left, m)
			continue
		case history.Elide:
			s.elided++
			m.Text = fmt.Sprintf("(left out to make room: an old result of about %d KB)", (len(m.Text)+512)>>10)
		}
		if fate.Older && i > 0 && m.Text != state.Front {
			s.state.Older++
			s.state.OlderWhy = fate.Why
		}
		kept = append(kept, m)
	}
	if s.elided+len(left) == 0 || r.enough > 0 && w.estimate.Request(bytesIn(kept)+w.rest) > r.enough {
		return nil, agent.ErrNoCompaction
	}
	s.dropped, s.state.Why, s.state.Elided = len(left), r.why, s.elided
	if len(left) > 0 {
		var err error
		if kept, err = w.front(ctx, s, transcript, kept, left, int(float64(r.tokens)*frontShare)); err != nil {
			return s, err
		}
	}
	if w.c != nil && len(kept) > 0 && kept[0].Role == agent.RoleSystem {
		if text, err := w.c.renewed(w.job); err == nil && text != "" {
			kept[0].Text = text
		}
	}
	s.transcript = kept
	s.tokens = [2]int{w.estimate.Request(bytesIn(transcript) + w.rest), w.estimate.Request(bytesIn(kept) + w.rest)}
	return s, s.encode(left)
}

// entries is the transcript as planning sees it.
func (w *window) entries(transcript []agent.Message, front string) []history.Entry {
	entries := make([]history.Entry, len(transcript))
	task := -1
	for i, m := range transcript {
		if m.Role == agent.RoleUser && m.Text == w.task {
			task = i
		}
	}
	query := w.task
	if w.c != nil {
		query = w.c.query(w.task, transcript)
	}
	relevance := relevances(transcript, query)
	for i, m := range transcript {
		pinned := m.Role == agent.RoleSystem || i == task || i == len(transcript)-1 || front != "" && m.Text == front
		entries[i] = history.Entry{Kind: kindOf(m), Bytes: messageBytes(m), Pinned: pinned, Relevance: relevance[i]}
	}
	return entries
}

// relevances says how much each message has to do with a query. An answer
// shares in what the question before it is about, and the other way round;
// Ralph's own excerpts are the first to go.
func relevances(conversation []agent.Message, query string) []float64 {
	var index history.Index
	for _, m := range conversation {
		text := m.Text
		for _, c := range m.Calls {
			text += "\n" + c.Name + " " + c.Args
		}
		if m.Role == agent.RoleSystem || transcript.IsRecall(m) {
			text = ""
		}
		index.Add(text)
	}
	own := make([]float64, len(conversation))
	for _, h := range index.Search(query, 0) {
		own[h.ID] = h.Score
	}
	out := slices.Clone(own)
	for i := 1; i < len(conversation); i++ {
		if conversation[i-1].Role == agent.RoleUser && conversation[i].Role == agent.RoleAssistant {
			out[i] = max(out[i], own[i-1]/2)
			out[i-1] = max(out[i-1], own[i]/2)
		}
	}
	return out
}

// front puts the message about what is left out before what is kept, in the
// place of the one that stood there. Where it would make the transcript no
// shorter it is left out.
func (w *window) front(ctx context.Context, s *shorter, conversation, kept, left []agent.Message, budget int) ([]agent.Message, error) {
	old := s.state.Front
	for _, m := range left {
		if !transcript.IsRecall(m) {
			s.state.LeftOut++
			s.state.LeftOutBytes += messageBytes(m)
		}
	}
	if err := w.summarise(ctx, s, left, budget/2); err != nil {
		return nil, err
	}
	s.state.Working = s.state.Working.With(conversation)
	facts := prompt.Past{Title: transcript.SummaryTitle, Summary: s.state.Summary, Working: head(s.state.Working.String(), w.bytes(budget/6)),
		Note: text.Count(s.state.LeftOut, "message") + " of it are left out here; all of it is on disk."}
	if w.c != nil {
		if err := w.c.indexPast(ctx); err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		facts.Earlier = documents(w.c.past.choose(w.c.query(w.task, conversation), kept, w.estimate.Tokens, budget/3))
		w.c.roomy()
	}
	content, err := prompt.Earlier(facts)
	if err != nil {
		return nil, err
	}
	m := agent.Message{Role: agent.RoleUser, Text: content}
	rest := slices.DeleteFunc(slices.Clone(kept), func(m agent.Message) bool { return old != "" && m.Role == agent.RoleUser && m.Text == old })
	at := 0
	if len(rest) > 0 && rest[0].Role == agent.RoleSystem {
		at = 1
	}
	out := slices.Insert(rest, at, m)
	if bytesIn(out) >= bytesIn(conversation) {
		return kept, nil // tiny: the words about it would take more room than it did
	}
	s.state.Front, s.state.Excerpts = content, len(facts.Earlier)
	return out, nil
}

// bytes is about how many bytes so many tokens are.
func (w *window) bytes(tokens int) int {
	return tokens * 1000 / max(w.estimate.Tokens(1000), 1)
}

// encode makes the journal records of a compaction.
func (s *shorter) encode(left []agent.Message) error {
	list := s.transcript
	if len(list) > 0 && list[0].Role == agent.RoleSystem {
		list = list[1:] // made anew when a session is opened
	}
	if s.summary != "" || s.failed != "" {
		payload, err := json.Marshal(summaryRecord{Text: s.summary, Messages: len(left), Model: s.reply.Model, Usage: s.reply.Usage, Failed: s.failed})
		if err != nil {
			return fmt.Errorf("encode summary: %w", err)
		}
		s.records = append(s.records, session.Record{Kind: transcript.Summary, Payload: payload})
	}
	payload, err := json.Marshal(compactedRecord{pastState: s.state, Messages: list})
	if err != nil {
		return fmt.Errorf("encode compacted conversation: %w", err)
	}
	s.records = append(s.records, session.Record{Kind: transcript.Compacted, Payload: payload})
	return nil
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

// envelopeBytes is about what a message or a call costs beside its text: names,
// ids, and the template's marks around it.
const envelopeBytes = 30

func messageBytes(m agent.Message) int {
	n := envelopeBytes + len(m.Text)
	for _, c := range m.Calls {
		n += envelopeBytes + len(c.Name) + len(c.Args)
	}
	return n
}

func requestBytes(req agent.Request) int {
	n := len(req.Schema) + bytesIn(req.Messages)
	for _, t := range req.Tools {
		n += envelopeBytes + len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

// overflow reports whether an error means that the request did not fit the
// model's window, or soon would not.
func overflow(err error) bool {
	var e *model.Error
	return errors.Is(err, errNearFull) || errors.As(err, &e) && e.Kind == model.KindContextLength
}

// window is the view of the present model for a piece of work.
func (c *Coordinator) window(client agent.Model, j Job, task string) *window {
	return &window{Model: client, c: c, estimate: c.estimate.For(c.Endpoint().Model), maxTokens: c.cfg.ContextWindow, task: task, job: j,
		limits: agent.Limits{MaxTokens: c.cfg.MaxTokens, MaxCostUSD: c.cfg.MaxCostUSD}}
}
