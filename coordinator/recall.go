package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"ralph/coordinator/prompt"
	"ralph/coordinator/transcript"
	"ralph/memory/exchange"
	"ralph/memory/history"
	"ralph/memory/session"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// unit is messages that are found and shown together: what the user said with
// what was answered, or a call with its results.
type unit struct {
	time   time.Time
	text   string
	sums   []uint64 // of its messages
	closed bool
}

// saw takes a message that was just recorded into the index, if there is one.
func (p *past) saw(m agent.Message, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index != nil {
		p.add(m, at)
		p.indexClosed(len(p.units) - 1) // the last may still grow
	}
}

// add puts a message into the last unit or begins a new one; mu is held.
func (p *past) add(m agent.Message, at time.Time) {
	last := len(p.units) - 1
	joins := last >= 0 && !p.units[last].closed && (m.Role == agent.RoleTool || m.Role == agent.RoleAssistant && len(p.units[last].text) < unitBytes)
	if !joins {
		if last >= 0 {
			p.units[last].closed = true
		}
		p.units = append(p.units, unit{time: at})
		last++
	}
	u := &p.units[last]
	before := len(u.text)
	if room := maxUnitBytes - len(u.text); room > 0 {
		u.text += text.Clip(sayMessage(m, room), room)
	}
	u.sums = append(u.sums, p.sum(m))
	p.bytes += int64(len(u.text) - before + 8)
}

// indexClosed indexes the units before the n-th that are not indexed yet; mu is
// held.
func (p *past) indexClosed(n int) {
	for i := p.index.Len(); i < n; i++ {
		p.index.Add(p.units[i].text)
	}
}

// sum tells messages apart; mu is held.
func (p *past) sum(m agent.Message) uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	h.WriteString(string(m.Role))
	h.WriteString(m.Text)
	for _, c := range m.Calls {
		h.WriteString(c.Name)
		h.WriteString(c.Args)
	}
	return h.Sum64()
}

// maxFirstLine bounds a first line of a result that is shown beside the limit.
const maxFirstLine = 80

// sayMessage is a message as it is shown in an excerpt or to be summarised.
func sayMessage(m agent.Message, limit int) string {
	var b strings.Builder
	switch {
	case m.Role == agent.RoleTool:
		// How long a command took stands in the first line; the cut must not
		// depend on its digits, or a replay would differ.
		first, rest, _ := strings.Cut(m.Text, "\n")
		if len(first) > maxFirstLine || len(rest) == 0 {
			first, rest = "", m.Text
		} else {
			first += "\n"
		}
		b.WriteString("result: " + first + middleOut(rest, limit) + "\n")
	case m.Role == agent.RoleUser:
		b.WriteString("user: " + middleOut(m.Text, limit) + "\n")
	case m.Text != "":
		b.WriteString("ralph: " + middleOut(m.Text, limit) + "\n")
	}
	for _, c := range m.Calls {
		b.WriteString("ralph calls " + c.Name + " " + middleOut(c.Args, min(limit, 400)) + "\n")
	}
	return b.String()
}

// middleOut is a text without its middle where it is longer than limit.
func middleOut(s string, limit int) string {
	const mark = " … "
	if len(s) <= limit || limit < 2*len(mark) {
		return text.Clip(s, limit)
	}
	head := (limit - len(mark)) * 2 / 3
	tail := limit - len(mark) - head
	return strings.ToValidUTF8(s[:head], "") + mark + strings.ToValidUTF8(s[len(s)-tail:], "")
}

// spoken is a message of the journal. Without one everything before it is
// forgotten.
type spoken struct {
	message *agent.Message
	time    time.Time
}

// readBatch is how many messages are read ahead of the index at a time.
const readBatch = 256

// indexPast reads the whole conversation and indexes it, unless that was done
// already: one goroutine reads while this one indexes. It can be interrupted,
// and leaves nothing running.
func (c *Coordinator) indexPast(ctx context.Context) error {
	p := &c.past
	p.mu.Lock()
	ready := p.index != nil
	p.mu.Unlock()
	journal := c.book.openedJournal()
	if ready || journal == nil {
		return nil
	}
	next := &past{index: &history.Index{}, seed: maphash.MakeSeed()}
	limit := min(c.cfg.MaxMemoryBytes/4, 256<<20)
	batches := make(chan []spoken, 8)
	var err error // of the reader, until batches is closed
	go func() {
		defer close(batches)
		err = readSpoken(ctx, journal, batches)
	}()
	whole := true // nothing was forgotten, so the index fits the units
	for batch := range batches {
		for _, s := range batch {
			switch {
			case s.message == nil:
				next.drop()
				next.index, whole = &history.Index{}, true
			case limit > 0 && next.bytes > limit:
				next.keepNewest(len(next.units) / 2)
				whole = false
			}
			if s.message != nil {
				next.add(*s.message, s.time)
			}
		}
		if whole {
			next.indexClosed(len(next.units) - 1)
		}
	}
	if err != nil {
		return err
	}
	if c.boundPast(next) || !whole {
		next.index = &history.Index{}
		next.indexClosed(len(next.units) - 1)
	}
	p.mu.Lock()
	p.index, p.units, p.bytes, p.seed = next.index, next.units, next.bytes, next.seed
	p.mu.Unlock()
	return nil
}

// readSpoken sends what was said in a session, in order.
func readSpoken(ctx context.Context, journal *session.Journal, batches chan<- []spoken) error {
	var batch []spoken
	send := func() error {
		select {
		case batches <- batch:
			batch = make([]spoken, 0, readBatch)
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := journal.Records(func(r session.Record) error {
		switch r.Kind {
		case transcript.Cleared:
			batch = append(batch, spoken{})
		case transcript.Message, exchange.RecordHandoff:
			m := new(agent.Message)
			if err := json.Unmarshal(r.Payload, m); err != nil {
				return fmt.Errorf("record %d: %w", r.Seq, err)
			}
			batch = append(batch, spoken{message: m, time: r.Time})
		}
		if len(batch) >= readBatch {
			return send()
		}
		return context.Cause(ctx)
	})
	if err == nil {
		err = send()
	}
	return err
}

// boundPast keeps what history.max_messages and history.max_bytes allow, and
// reports whether that is less than there was.
func (c *Coordinator) boundPast(p *past) bool {
	limits := c.cfg.History
	messages, size := 0, int64(0)
	for i := range slices.Backward(p.units) {
		messages += len(p.units[i].sums)
		size += int64(len(p.units[i].text))
		if limits.MaxMessages > 0 && messages > limits.MaxMessages || limits.MaxBytes > 0 && size > limits.MaxBytes {
			p.keepNewest(len(p.units) - 1 - i)
			return true
		}
	}
	return false
}

// keepNewest forgets all but the newest n units.
func (p *past) keepNewest(n int) {
	p.units = slices.Clone(p.units[len(p.units)-n:])
	p.bytes = 0
	for _, u := range p.units {
		p.bytes += int64(len(u.text) + 8*len(u.sums))
	}
}

// earlier is a part of the conversation that fits a query.
type earlier struct {
	time time.Time
	text string
}

// Search returns excerpts of the whole conversation that fit a query, chosen by
// relevance, in their order, in about maxBytes together. The first search reads
// the journal.
func (c *Coordinator) Search(ctx context.Context, query string, maxBytes int) ([]string, error) {
	if err := c.indexPast(ctx); err != nil {
		return nil, fmt.Errorf("search the conversation: %w", err)
	}
	defer c.roomy()
	var out []string
	for _, e := range c.past.choose(query, nil, func(n int) int { return n }, maxBytes) {
		out = append(out, e.text)
	}
	return out, nil
}

// choose returns what fits a query and is not seen by the model.
func (p *past) choose(query string, seen []agent.Message, tokens func(bytes int) int, budget int) []earlier {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.index == nil {
		return nil
	}
	p.indexClosed(len(p.units) - 1)
	visible := make(map[uint64]bool, len(seen))
	for _, m := range seen {
		visible[p.sum(m)] = true
	}
	taken := map[string]bool{}
	cost := func(id int) int {
		u := p.units[id]
		if taken[u.text] || !slices.ContainsFunc(u.sums, func(s uint64) bool { return !visible[s] }) {
			return -1
		}
		taken[u.text] = true // what was said twice is shown once
		return tokens(min(len(u.text), maxExcerptBytes) + envelopeBytes)
	}
	var out []earlier
	for _, h := range p.index.Choose(query, cost, budget) {
		u := p.units[h.ID]
		out = append(out, earlier{time: u.time, text: history.Excerpt(strings.TrimSpace(u.text), query, maxExcerptBytes)})
	}
	return out
}

func documents(list []earlier) []prompt.Document {
	var docs []prompt.Document
	for _, e := range list {
		docs = append(docs, prompt.Document{Name: e.time.UTC().Format("2006-01-02 15:04"), Text: e.text})
	}
	return docs
}

// recall tells the model what of the messages that it does not see may matter
// for the task that begins, and, when the session was just opened, where the
// work stood.
func (p *piece) recall(ctx context.Context, task string) error {
	c := p.c
	c.past.mu.Lock()
	more, fresh, state := c.past.more, c.past.fresh, c.past.state
	c.past.view, c.past.job = nil, p.job
	c.past.fresh = false
	c.past.mu.Unlock()
	if !more {
		return nil
	}
	if err := c.indexPast(ctx); err != nil {
		if ctx.Err() != nil {
			return err
		}
		c.warn("older messages cannot be searched: " + err.Error())
	}
	defer c.roomy()
	share := recallShare
	if !fresh {
		share = againShare
	}
	tokens := c.estimate.For(c.Endpoint().Model).Tokens
	found := c.past.choose(c.query(task, p.talk), p.talk, tokens, int(float64(c.cfg.ContextWindow)*share))
	facts := prompt.Past{Title: transcript.RecallTitle, Earlier: documents(found), Note: "Messages from before what you see are left out."}
	if fresh && state.Front == "" {
		facts.Working = state.Working.With(p.talk).String()
	}
	if len(found) == 0 && facts.Working == "" {
		return nil
	}
	text, err := prompt.Earlier(facts)
	if err != nil {
		return err
	}
	m := agent.Message{Role: agent.RoleUser, Text: text}
	p.talk = append(p.talk, m)
	c.book.keepPast(transcript.Recalled, recalledRecord{Message: m, Excerpts: len(found)})
	return nil
}

// maxQueryBytes bounds what is looked for.
const maxQueryBytes = 4 << 10

// query is what older messages are chosen by: the task, and when that is too
// short to say what it is about, what the user said before.
func (c *Coordinator) query(task string, conversation []agent.Message) string {
	query := head(task, maxQueryBytes)
	for _, m := range slices.Backward(conversation) {
		if len(query) >= 60 {
			break
		}
		if m.Role == agent.RoleUser && m.Text != task && !transcript.IsRecall(m) {
			query += "\n" + head(m.Text, maxQueryBytes)
		}
	}
	return query
}
