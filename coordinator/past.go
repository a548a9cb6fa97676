package coordinator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ralph/coordinator/transcript"
	"ralph/memory/durable"
	"ralph/memory/exchange"
	"ralph/memory/history"
	"ralph/memory/session"
	"ralph/memory/text"
	"ralph/workers/agent"
)

const (
	// recallShare is how much of the window excerpts may take that are added when
	// the first task of an opened session begins, againShare when a later one does.
	recallShare, againShare = 0.03, 0.01
	// maxExcerptBytes bounds one excerpt.
	maxExcerptBytes = 1200
	// maxUnitBytes bounds what is kept of one unit in memory, and unitBytes is
	// about how large a unit becomes when more messages follow.
	maxUnitBytes, unitBytes = 6 << 10, 1500
	// bytesPerToken is how many bytes of journal are read for a token of the
	// window when nothing is known about the model.
	bytesPerToken = 4
)

// pastState is what is known of a conversation beside its messages.
type pastState struct {
	// Front is the message of Ralph's that stands before the transcript, "" when
	// there is none, and what it was made of.
	Front   string        `json:"front,omitempty"`
	Summary string        `json:"summary,omitempty"`
	Working workingMemory `json:"working"`
	// Waiting is what was left out and is in no summary yet: too little to ask
	// for one, or there was none to be had.
	Waiting  string `json:"waiting,omitempty"`
	Excerpts int    `json:"excerpts,omitempty"`
	// Older counts the messages behind the front that are older than the recent
	// ones.
	Older    int    `json:"older,omitempty"`
	OlderWhy string `json:"older_why,omitempty"`
	// LeftOut and LeftOutBytes are what was left out so far, Elided the results
	// that were at the last compaction.
	LeftOut      int    `json:"left_out"`
	LeftOutBytes int    `json:"left_out_bytes"`
	Elided       int    `json:"elided,omitempty"`
	Why          string `json:"why"`
}

// compactedRecord is the payload of transcript.Compacted: the whole transcript but
// for the system prompt, so that nothing before it need be read.
type compactedRecord struct {
	pastState
	Messages []agent.Message `json:"messages"`
}

// summaryRecord is the payload of transcript.Summary.
type summaryRecord struct {
	Text     string      `json:"text,omitempty"`
	Messages int         `json:"messages"` // that it stands for
	Model    string      `json:"model"`
	Usage    agent.Usage `json:"usage"`
	Failed   string      `json:"failed,omitempty"`
}

// recalledRecord is the payload of transcript.Recalled.
type recalledRecord struct {
	Message  agent.Message `json:"message"`
	Excerpts int           `json:"excerpts"`
}

// calibratedRecord is the payload of transcript.Calibrated.
type calibratedRecord struct {
	Model string `json:"model"`
	history.Line
}

// past is the part of a session's conversation that the model does not see: it
// stays on disk until a request has to choose from it.
type past struct {
	// mu guards what follows; no other mutex is taken with it.
	mu    sync.Mutex
	state pastState
	// more says that the journal holds messages before those that were loaded.
	more bool
	// fresh says that the model was not told yet where the work stood.
	fresh bool
	// index and units hold the whole conversation once a choice was needed.
	index  *history.Index
	units  []unit
	bytes  int64
	seed   maphash.Seed
	warned bool
	kept   history.Line // the calibration that the journal holds

	view  []agent.Message // the transcript of the last request
	tools []agent.Tool
	job   Job
}

// fold turns the records of a journal into the conversation as the model sees
// it.
type fold struct {
	c        *Coordinator
	messages []agent.Message
	state    pastState
	based    bool // nothing before the records matters
	untold   []ran
	stopped  *interruption
	last     int64    // the number of the record before
	missing  []string // the numbers of records that were skipped
}

func (f *fold) take(r session.Record) error {
	switch lost := r.Seq - f.last - 1; {
	case f.last == 0 || lost <= 0:
	case lost == 1:
		f.missing = append(f.missing, strconv.FormatInt(r.Seq-1, 10))
	default:
		f.missing = append(f.missing, fmt.Sprintf("%d–%d", f.last+1, r.Seq-1))
	}
	f.last = r.Seq
	f.mode(r)
	var err error
	switch r.Kind {
	case transcript.Cleared:
		f.messages, f.state, f.based, f.untold = nil, pastState{}, true, nil
	case transcript.Message, exchange.RecordHandoff:
		var m agent.Message
		err = json.Unmarshal(r.Payload, &m)
		f.messages = append(f.messages, m)
		if r.Kind == transcript.Message && m.Role == agent.RoleUser {
			f.untold = nil // it told what had been run by then
		}
	case transcript.UserCommand:
		var v ran
		err = json.Unmarshal(r.Payload, &v)
		f.untold = append(f.untold, v)
	case transcript.Recalled:
		var v recalledRecord
		err = json.Unmarshal(r.Payload, &v)
		f.messages = append(f.messages, v.Message)
	case transcript.Compacted:
		var v compactedRecord
		err = json.Unmarshal(r.Payload, &v)
		f.messages, f.state, f.based = v.Messages, v.pastState, true
	case transcript.Calibrated:
		var v calibratedRecord
		err = json.Unmarshal(r.Payload, &v)
		f.c.estimate.For(v.Model).Seed(v.Line)
	}
	if err != nil {
		return fmt.Errorf("record %d: %w", r.Seq, err)
	}
	return nil
}

// loadPast reads the end of a session's journal: what the model still sees, or
// as much as the window holds after a compaction. What is older stays on disk. Lines
// that are no records are skipped; which, it says.
func (c *Coordinator) loadPast(j *session.Journal) (skipped string, err error) {
	want := int64(float64(c.cfg.ContextWindow) * bytesPerToken * compactTo)
	if limit := c.cfg.History.MaxBytes; limit > 0 {
		want = min(want, limit)
	}
	maxBytes, err := c.fromBase(j.Path(), want+want/4+64<<10)
	if err != nil {
		return "", err
	}
	var f *fold
	var offset int64
	for {
		f = &fold{c: c}
		if offset, err = j.Tail(maxBytes, f.take); err != nil {
			return "", err
		}
		if offset == 0 || f.based || int64(bytesIn(f.messages)) >= want/2 {
			break
		}
		maxBytes *= 4 // mostly events
	}
	older := offset > 0 && !f.based
	list := f.messages
	if !f.based {
		list = newestWithin(f.messages, want, c.cfg.History.MaxMessages, older)
	}
	list = agent.Repair(list, unknownOutcome)
	p := &c.past
	p.mu.Lock()
	p.state = f.state
	p.more = older || f.state.LeftOut > 0 || !f.based && len(list) < len(f.messages)
	p.fresh = p.more && len(list) > 0
	p.mu.Unlock()
	c.mu.Lock()
	c.transcript, c.stopped = list, f.stopped
	c.mu.Unlock()
	for _, r := range f.untold {
		c.typed.add(r)
	}
	if _, bad := j.Damage(); bad > 0 {
		skipped = skippedText(bad, f.missing, c.nameOf(j))
	}
	return skipped, nil
}

// skippedText says which lines of a journal the conversation lacks.
func skippedText(lines int, records []string, path string) string {
	content := fmt.Sprintf("%s of %s cannot be read and is left out of the conversation", text.Count(lines, "line"), path)
	if lines > 1 {
		content = strings.Replace(content, " is left", " are left", 1)
	}
	if len(records) > 0 {
		content += ": record " + text.List(records, maxNamed)
	}
	return content + "; `ralph sessions check` looks at the rest"
}

// fromBase returns how many bytes from the end of a journal are to be read so
// that the last compaction is among them, if it is near; otherwise least. It
// looks for the record's name only, and may be wrong by reading too much.
func (c *Coordinator) fromBase(path string, least int64) (int64, error) {
	tail, _, err := durable.ReadTail(c.opt.FS, path, 4*least)
	if err != nil {
		return 0, err
	}
	at := max(lastOf(tail, `"kind":"`+transcript.Compacted+`"`), lastOf(tail, `"kind":"`+transcript.Cleared+`"`))
	if at < 0 {
		return least, nil
	}
	line := bytes.LastIndexByte(tail[:at], '\n') + 1
	return max(least, int64(len(tail)-line)), nil
}

// lastOf is bytes.LastIndex, many times faster where there are few or none.
func lastOf(text []byte, what string) int {
	last, sought := -1, []byte(what)
	for at := 0; ; {
		i := bytes.Index(text[at:], sought)
		if i < 0 {
			return last
		}
		last = at + i
		at = last + len(sought)
	}
}

// newestWithin is the newest messages within the limits, from the beginning of
// an exchange on. cut says that the list itself begins anywhere.
func newestWithin(list []agent.Message, maxBytes int64, maxMessages int, cut bool) []agent.Message {
	from, size := len(list), int64(0)
	for from > 0 && (maxMessages <= 0 || len(list)-from < maxMessages) {
		if size += int64(messageBytes(list[from-1])); size > maxBytes && from < len(list) {
			break
		}
		from--
	}
	if from == 0 && !cut {
		return list
	}
	rest := list[from:]
	user := slices.IndexFunc(rest, func(m agent.Message) bool { return m.Role == agent.RoleUser })
	if user >= 0 && user <= len(rest)/2 {
		return rest[user:]
	}
	for len(rest) > 0 && rest[0].Role == agent.RoleTool {
		rest = rest[1:]
	}
	return rest
}

// resetPast forgets everything about the conversation: a new one begins.
func (c *Coordinator) resetPast() {
	p := &c.past
	p.mu.Lock()
	p.state, p.more, p.fresh, p.view = pastState{}, false, false, nil
	p.drop()
	p.mu.Unlock()
}

// drop gives the index and the older messages free; mu is held.
func (p *past) drop() { p.index, p.units, p.bytes = nil, nil, 0 }

// DropHistory gives free what is held of older messages beside what the model
// sees, and returns about how many bytes that were. It is read again when a task
// needs it.
func (c *Coordinator) DropHistory() int64 {
	p := &c.past
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.bytes
	if p.index != nil {
		n += p.index.Bytes()
	}
	p.drop()
	return n
}

// roomy reports whether the process takes no more memory than max_memory. When it does,
// what is held of the history is given back first; what still does not fit is warned
// about once.
func (c *Coordinator) roomy() bool {
	limit := c.cfg.MaxMemoryBytes
	if limit <= 0 || resident() <= limit {
		return true
	}
	c.DropHistory()
	debug.FreeOSMemory()
	if resident() <= limit {
		return true
	}
	p := &c.past
	p.mu.Lock()
	first := !p.warned
	p.warned = true
	p.mu.Unlock()
	if first {
		c.warn(fmt.Sprintf("Ralph takes more memory than max_memory allows (%d MiB): older messages are not held but read again when a task needs them, and an agent begins when the others have ended", limit>>20))
	}
	return false
}

// resident is how much memory the process takes.
func resident() int64 {
	if data, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(data)); len(fields) > 1 {
			if pages, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				return pages * int64(os.Getpagesize())
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

// keepCalibration notes in the journal what was learned about the model's
// tokens, when it changed.
func (c *Coordinator) keepCalibration() {
	name := c.Endpoint().Model
	line, reports := c.estimate.For(name).Learned()
	if reports < 3 {
		return
	}
	p := &c.past
	p.mu.Lock()
	changed := line.BytesPerToken < 0.97*p.kept.BytesPerToken || line.BytesPerToken > 1.03*p.kept.BytesPerToken
	if changed {
		p.kept = line
	}
	p.mu.Unlock()
	if changed {
		c.book.keepPast(transcript.Calibrated, calibratedRecord{Model: name, Line: line})
	}
}

// keepPast lets a record wait for the next message; it is not worth a sync of
// its own.
func (b *book) keepPast(kind string, v any) {
	payload, err := json.Marshal(v)
	if err != nil {
		return // texts and numbers always encode
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.dry {
		b.keep(kind, payload)
	}
}

// compacted writes what a compaction left, before the model is asked with it.
func (b *book) compacted(records ...session.Record) {
	b.mu.Lock()
	defer b.leave()
	if b.dry {
		return
	}
	for _, r := range records {
		b.keep(r.Kind, r.Payload)
	}
	b.flush()
}

// openedJournal is the journal of the session or run, nil when none is open.
func (b *book) openedJournal() *session.Journal {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.journal
}

// journalName is the journal's file as Context shows it.
func (c *Coordinator) journalName() string {
	j := c.book.openedJournal()
	if j == nil {
		return "the conversation"
	}
	return c.nameOf(j)
}

// nameOf is the file of a journal, relative to the project.
func (c *Coordinator) nameOf(j *session.Journal) string {
	return strings.TrimPrefix(strings.TrimPrefix(j.Path(), c.opt.Root), "/")
}
