package model

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what sort of trouble an endpoint made, in words that are part of
// the result document.
type Kind string

// The kinds of trouble.
const (
	KindAuth          Kind = "auth"            // the key is missing, wrong or not allowed
	KindNoModel       Kind = "no_model"        // no endpoint or no model could be found
	KindModelNotFound Kind = "model_not_found" // the endpoint does not have this model
	KindUnreachable   Kind = "unreachable"     // no connection
	KindServer        Kind = "server"          // the endpoint failed, 5xx or an error in the stream
	KindRateLimit     Kind = "rate_limit"      // too many requests; RetryAfter says how long
	KindContextLength Kind = "context_length"  // the transcript does not fit the model
	KindProtocol      Kind = "protocol"        // the answer is not the chat-completions protocol
	KindIncomplete    Kind = "incomplete"      // the reply was cut off
	KindContentFilter Kind = "content_filter"  // refused for its content
	KindRejected      Kind = "rejected"        // the endpoint does not take this request
	KindQuota         Kind = "quota"           // the account has no credit left
)

// ErrNoModel is matched by the error of Choose when nothing answered.
var ErrNoModel = errors.New("no model")

// Error is a failure of an endpoint or of the way to it.
type Error struct {
	Kind    Kind
	Op      string // what was done: "ask NAME", "list models", "choose a model"
	Message string // what happened, without secrets
	Hint    string // a way out for the user; may be empty
	// Retryable says that the same request may succeed later.
	Retryable  bool
	HTTPStatus int           // 0 when there was no answer
	RetryAfter time.Duration // what the endpoint asked for; 0 when it did not say
	Err        error         // the cause, may be nil

	pace  pace
	words string // all that the endpoint said, in lower case
}

// pace says how a failed try may be repeated.
type pace int

const (
	paceNever   pace = iota
	paceBackoff      // 5xx, resets: a few tries within 30 s
	paceQuick        // nothing listens: a few tries within 2 s
	paceStalled      // a stream that went silent: once more
	paceWait         // the endpoint said how long to wait
)

// Error tells what was done and what happened.
func (e *Error) Error() string {
	if e.HTTPStatus >= 300 {
		return fmt.Sprintf("%s: %s (HTTP %d)", e.Op, e.Message, e.HTTPStatus)
	}
	return e.Op + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
