package coordinator

import (
	"context"
	"fmt"
	"time"

	"ralph/memory/text"
	"ralph/workers/agent"
)

// CompactReport says what came of Compact.
type CompactReport struct {
	MessagesBefore int         `json:"messages_before"`
	MessagesAfter  int         `json:"messages_after"`
	TokensBefore   int         `json:"tokens_before"` // estimates
	TokensAfter    int         `json:"tokens_after"`
	LeftOut        int         `json:"left_out"` // messages
	Elided         int         `json:"elided"`   // results of tools
	Summary        string      `json:"summary,omitempty"`
	Failed         string      `json:"failed,omitempty"` // why there is no summary
	Usage          agent.Usage `json:"usage"`            // of the summary
	CostUSD        *float64    `json:"cost_usd"`
	Duration       int64       `json:"duration_ms"`
}

// Compact makes the conversation shorter now: all but its recent part is
// summarised. It waits for work that is under way; a stop ends it at once and
// leaves the conversation as it was. The error matches agent.ErrNoCompaction
// when there is nothing to leave out.
func (c *Coordinator) Compact(parent context.Context) (CompactReport, error) {
	var report CompactReport
	if err := c.take(parent); err != nil {
		return report, fmt.Errorf("compact the conversation: %w", err)
	}
	defer c.free()
	guard := c.mail.queue.Guard(parent, c.box())
	defer guard.Release()
	ctx := guard.Context()
	client := c.answers()
	if client == nil {
		return report, errNoModel
	}
	began := c.now()
	job := Job{Chat: c.opt.Holder == "chat"}
	system, err := c.systemPrompt(job)
	if err != nil {
		return report, err
	}
	transcript := append([]agent.Message{{Role: agent.RoleSystem, Text: system}}, agent.Repair(c.History(), unknownOutcome)...)
	w := c.window(client, job, "")
	s, err := w.shorten(ctx, transcript, room{why: "asked for by the user", tokens: w.tokensOf(transcript), share: compactAllTo})
	if s != nil {
		w.count(s.reply)
		c.mu.Lock()
		c.totals.spend(w.used)
		c.mu.Unlock()
		report.Usage, report.CostUSD = s.reply.Usage, w.used.CostUSD
	}
	if err != nil {
		return report, fmt.Errorf("compact the conversation: %w", err)
	}
	w.adopt(s)
	c.mu.Lock()
	c.transcript = s.transcript[1:]
	c.mu.Unlock()
	c.events.emit(agent.Event{Type: agent.EventCompact, Text: s.String(), Reason: s.why})
	report.MessagesBefore, report.MessagesAfter, report.TokensBefore, report.TokensAfter = len(transcript)-1, len(s.transcript)-1, s.tokens[0], s.tokens[1]
	report.LeftOut, report.Elided, report.Summary, report.Failed = s.dropped, s.elided, s.summary, s.failed
	report.Duration = c.now().Sub(began).Round(time.Millisecond).Milliseconds()
	return report, nil
}

// String says in one line what became of the transcript.
func (s *shorter) String() string {
	content := fmt.Sprintf("%s: %d messages became %d, about %d tokens %d", s.why, s.from, len(s.transcript), s.tokens[0], s.tokens[1])
	if s.dropped > 0 {
		content += "; " + text.Count(s.dropped, "message") + " left out"
		switch {
		case s.failed != "":
			content += " without a summary: " + s.failed
		case s.summary != "":
			content += ", summarised"
		}
	}
	if s.elided > 0 {
		content += "; " + text.Count(s.elided, "old result") + " elided"
	}
	return content
}
