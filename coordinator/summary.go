package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ralph/coordinator/prompt"
	"ralph/coordinator/result"
	"ralph/coordinator/transcript"
	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/model"
)

// summarizer is the name of the child that writes summaries.
const summarizer = "summarize_conversation_history"

const (
	// minSummarised is how much must be left out for a summary to be worth a
	// request, in bytes.
	minSummarised = 1 << 10
	// maxWaiting bounds what waits to be summarised, in bytes.
	maxWaiting = 8 << 10
	// Bounds of a summary in words.
	minSummaryWords, maxSummaryWords = 60, 700
	// wordBytes is about how long a word is with the space behind it.
	wordBytes = 6
	// partShare is how much of the window the part to summarise may take.
	partShare = 0.5
	// finishCut is the endpoint's word for a reply that was cut off.
	finishCut = "length"
)

// summarise asks the model for a summary of what is left out and puts it in s,
// in the place of the one before. Without one s says why, and the old summary
// stays, and what is left out waits for the next one. The error is what ended ctx, or a replay's mismatch.
func (w *window) summarise(ctx context.Context, s *shorter, left []agent.Message, budget int) error {
	if w.c == nil {
		return nil
	}
	waiting := s.state.Waiting
	defer func() {
		if s.state.Waiting = ""; s.summary == "" {
			content, _ := partText(left, maxWaiting)
			s.state.Waiting = tail(waiting+content, maxWaiting)
		}
	}()
	if len(waiting)+bytesIn(left) < minSummarised {
		return nil
	}
	if w.plain {
		s.failed = "the one that was tried failed"
		return nil
	}
	words := min(max(w.bytes(budget)/wordBytes, minSummaryWords), maxSummaryWords)
	req, err := w.summaryRequest(s.state, left, words)
	if err != nil {
		return err
	}
	if why := w.forbids(req); why != "" {
		s.failed = why
		return nil
	}
	c := w.c
	c.events.emit(agent.Event{Type: agent.EventChildStart, Agent: summarizer, Model: c.Endpoint().Model, Text: "summarises " + text.Count(len(left), "older message")})
	began := time.Now()
	s.reply, err = w.Model.Complete(ctx, req, func(d agent.Delta) {
		if d.Kind == agent.DeltaRetry {
			c.events.emit(agent.Event{Type: agent.EventRetry, Agent: summarizer, Attempt: d.Attempt, WaitMS: d.Wait.Milliseconds(), Reason: d.Text})
		}
	})
	s.reply.CostUSD = w.cost(s.reply)
	content := strings.TrimSpace(s.reply.Message.Text)
	s.reply.Message = agent.Message{} // it is no answer of the conversation
	switch {
	case err != nil:
		s.failed = err.Error()
	case s.reply.Finish == finishCut:
		s.failed = "it was cut off at the endpoint's limit for one reply"
	case content == "":
		s.failed = "the model gave none"
	default:
		s.summary = clipSummary(content, 2*words*wordBytes)
		s.state.Summary = s.summary
	}
	w.plain = s.failed != ""
	s.ended(ctx, c, time.Since(began))
	var differs *model.MismatchError
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.As(err, &differs) {
		return err
	}
	return nil
}

// ended tells how the child ended.
func (s *shorter) ended(ctx context.Context, c *Coordinator, took time.Duration) {
	ok, ms, usage := s.failed == "", took.Milliseconds(), s.reply.Usage
	e := agent.Event{Type: agent.EventChildEnd, Agent: summarizer, OK: &ok, DurationMS: &ms, Usage: &usage, CostUSD: s.reply.CostUSD, Status: string(result.Completed), Text: "the summary has " + text.Count(len(strings.Fields(s.summary)), "word")}
	if !ok {
		e.Status, e.Text, e.Reason = string(result.Failed), "", s.failed
	}
	if ctx.Err() != nil {
		e.Status = string(result.Interrupted)
	}
	c.events.emit(e)
}

// clipSummary bounds a summary that is longer than it was asked to be.
func clipSummary(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.TrimRight(head(text, limit), "\n") + "\n(cut here)"
}

// summaryRequest is what the child is asked: the part in as much detail as fits
// half of the window.
func (w *window) summaryRequest(state pastState, left []agent.Message, words int) (agent.Request, error) {
	room := w.bytes(int(float64(w.full())*partShare)) - len(state.Summary) - len(state.Waiting)
	text, note := partText(left, min(room, max(bytesIn(left), minSummarised)))
	system, user, err := prompt.Summarize(prompt.Part{Before: state.Summary, Text: state.Waiting + text, Cut: note, Words: words})
	if err != nil {
		return agent.Request{}, err
	}
	return agent.Request{Agent: summarizer, MaxOutputTokens: w.c.cfg.MaxOutputTokens,
		Messages: []agent.Message{{Role: agent.RoleSystem, Text: system}, {Role: agent.RoleUser, Text: user}}}, nil
}

// partText is what is left out as text within a limit: long messages without
// their middle, as much of each as fits, and of too many the newest.
func partText(left []agent.Message, limit int) (text, note string) {
	for _, each := range []int{4000, 1500, 600, 250, 120} {
		var b strings.Builder
		for _, m := range left {
			if !transcript.IsRecall(m) {
				b.WriteString(sayMessage(m, each))
			}
		}
		if b.Len() <= limit {
			return b.String(), note
		}
		text, note = b.String(), "long messages are shown without their middle"
	}
	return tail(text, max(limit, 0)), "only its newest messages are shown, and of long ones not the middle"
}

// forbids says which limit of the run leaves no room for a summary.
func (w *window) forbids(req agent.Request) string {
	need := agent.Usage{Input: w.estimate.Request(requestBytes(req))}
	need.Total = need.Input + maxSummaryWords
	if limit := w.limits.MaxTokens; limit > 0 && w.used.Usage.Total+need.Total >= limit {
		return fmt.Sprintf("the limit of %d tokens leaves no room for one", limit)
	}
	if limit := w.limits.MaxCostUSD; limit > 0 {
		cost, known := w.c.price(need)
		if w.used.CostUSD != nil {
			cost += *w.used.CostUSD
		}
		if !known && w.used.CostUSD == nil || cost >= limit {
			return fmt.Sprintf("the limit of $%.4f leaves no room for one", limit)
		}
	}
	return ""
}
