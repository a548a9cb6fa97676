package agent

import (
	"context"
	"encoding/json"
	"time"
)

// Model answers a transcript. An implementation must be safe for concurrent
// use by several loops.
type Model interface {
	// Complete sends req and returns the whole reply. While the reply streams
	// in, sink is called on the caller's goroutine, in order, with each piece;
	// it must not block for long. Complete retries by itself what had no
	// effect, and announces each retry with a DeltaRetry; text that was sunk
	// before a DeltaRetry is void.
	//
	// When ctx ends, Complete drops the connection and returns at once with an
	// error that matches context.Cause(ctx); Reply.Message then holds the text
	// received so far, marked Partial, and no calls. A reply without a terminal
	// event is an error, never a short answer.
	Complete(ctx context.Context, req Request, sink func(Delta)) (Reply, error)
}

// Request is what a model is asked.
type Request struct {
	// Agent names the asker; cassettes match requests in order per agent.
	Agent    string
	Messages []Message
	// Tools is the same slice from request to request of one loop, so that a
	// client may encode it once.
	Tools []Tool
	// Schema, when set, is the JSON Schema that the answer's text should fit.
	Schema json.RawMessage
	// MaxOutputTokens bounds the reply; 0 leaves it to the endpoint.
	MaxOutputTokens int
}

// DeltaKind tells the pieces of a streamed reply apart.
type DeltaKind int

// The pieces of a streamed reply.
const (
	// DeltaText carries a piece of the answer's text, whole UTF-8 runes.
	DeltaText DeltaKind = iota
	// DeltaReasoning carries a piece of reasoning text.
	DeltaReasoning
	// DeltaRetry says that the try failed with Text as the reason, and that the
	// next begins after Wait.
	DeltaRetry
)

// Delta is one piece of a streamed reply.
type Delta struct {
	Kind    DeltaKind
	Text    string
	Attempt int           // DeltaRetry: the number of the try that failed, from 1
	Wait    time.Duration // DeltaRetry: how long until the next
}

// Reply is a whole answer.
type Reply struct {
	Message Message
	Usage   Usage
	// Finish is the endpoint's reason for ending: stop, tool_calls, length,
	// content_filter.
	Finish string
	// Model is the name that the endpoint reports for itself.
	Model string
	// CostUSD is the cost that the endpoint reported, nil when it reported none.
	CostUSD *float64
	// Duration is the time spent waiting for the endpoint, without back-off.
	Duration time.Duration
}
