package coordinator

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ralph/coordinator/prompt"
	"ralph/coordinator/transcript"
	"ralph/memory/session"
	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/git"
)

// goText is what the model reads when the user said only go.
const goText = "Go on."

// interruption is the truth about work that was stopped, as the journal keeps
// it. It is a value.
type interruption struct {
	At   time.Time `json:"at"`
	Task string    `json:"task"`
	// Run names the run of a plan that was stopped, "" for other work.
	Run string `json:"run,omitempty"`
	// Requests were made of the model until then.
	Requests int `json:"requests"`
	// Partial is what had arrived of the reply, Open are the calls whose outcome
	// is not known, Background what ran beside it.
	Partial    string   `json:"partial,omitempty"`
	Open       []string `json:"open,omitempty"`
	Background []string `json:"background,omitempty"`
	// Unsaid is what waited in the queue and was given back, Files what the work
	// had changed; it is known a little later.
	Unsaid []string `json:"unsaid,omitempty"`
	Files  []string `json:"files,omitempty"`
	// Report says in a sentence what was ended, and whether anything survives.
	Report string `json:"report"`
	By     string `json:"by"` // "Ctrl-C", "SIGTERM", "/stop"
}

// text tells it, one fact a line.
func (s *interruption) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Stopped at %s by %s.\n", s.At.Local().Format(time.DateTime), s.By)
	if s.Task != "" {
		fmt.Fprintf(&b, "The work was: %s\n", head(s.Task, maxToldBytes))
	}
	fmt.Fprintf(&b, "Until then %s had been made of the model.\n", text.Count(s.Requests, "request"))
	for _, o := range s.Open {
		fmt.Fprintf(&b, "It was in the middle of: %s (outcome unknown)\n", head(o, maxToldBytes))
	}
	for _, o := range s.Background {
		fmt.Fprintf(&b, "In the background ran: %s (ended)\n", head(o, maxToldBytes))
	}
	if len(s.Files) > 0 {
		fmt.Fprintf(&b, "It had changed: %s\n", text.List(s.Files, maxNamed))
	}
	for _, u := range s.Unsaid {
		fmt.Fprintf(&b, "The user had said, and it was not delivered but given back: %s\n", head(u, maxToldBytes))
	}
	if s.Partial != "" {
		fmt.Fprintf(&b, "A reply was cut off; it ended with: %s\n", tail(s.Partial, maxToldBytes))
	}
	b.WriteString(s.Report)
	return b.String()
}

// interruption is the work that was stopped, nil when the user and Ralph do not
// only talk.
func (c *Coordinator) interruption() *interruption {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// converse begins conversation mode. Its record goes to disk with everything
// else that waits, in one flush.
func (c *Coordinator) converse(s interruption) {
	c.mu.Lock()
	c.stopped = &s
	c.mu.Unlock()
	payload, err := json.Marshal(s)
	if err != nil {
		return // strings always encode
	}
	c.book.keepRecord(transcript.Interrupted, payload)
}

// changedBefore adds to what was stopped what it had changed.
func (c *Coordinator) changedBefore(files []git.FileChange) {
	c.mu.Lock()
	if c.stopped == nil || len(files) == 0 {
		c.mu.Unlock()
		return
	}
	s := *c.stopped // who has it already keeps what it was
	for _, f := range files {
		s.Files = append(s.Files, f.Path)
	}
	c.stopped = &s
	c.mu.Unlock()
	if payload, err := json.Marshal(s); err == nil {
		c.book.keepRecord(transcript.Interrupted, payload)
	}
}

// released ends conversation mode, if there is one: the user said go. Its record
// goes to disk with what the work begins with, so that a stop or a crash before
// that leaves the mode, and the truth, as they are.
func (c *Coordinator) released() {
	c.mu.Lock()
	s := c.stopped
	c.stopped = nil
	c.mu.Unlock()
	if s != nil {
		c.book.keepRecord(transcript.Go, []byte("{}"))
		c.events.emit(agent.Event{Type: agent.EventInterrupt, Status: "go", Text: "the work goes on"})
	}
}

// mode takes up what a journal says of the mode.
func (f *fold) mode(r session.Record) {
	switch r.Kind {
	case transcript.Go, transcript.Cleared:
		f.stopped = nil
	case transcript.Interrupted:
		var s interruption
		if json.Unmarshal(r.Payload, &s) == nil {
			f.stopped = &s
		}
	}
}

// talks says that a turn is only talk; others than its own goroutine ask here.
func (p *piece) talks() bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.talking
}

// aboutStop is what the model is told of a stop with a turn, empty when there
// was none, and whether the turn is only talk: without tools.
func (p *piece) aboutStop() (note string, talk bool, err error) {
	s := p.c.interruption()
	if s == nil || !p.job.Go && !p.job.Chat {
		return "", false, nil
	}
	text, err := prompt.Stopped(s.text(), p.job.Go, p.job.Go && p.job.Task != "")
	return "\n\n" + transcript.NoteTitle + "\n" + text, !p.job.Go, err
}
