package model

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"ralph/memory/text"

	openai "github.com/sashabaranov/go-openai"
)

// apiFault is what an endpoint says about an error, from a response with an
// error status or from within a stream.
type apiFault struct {
	status  int
	message string
	code    string // code and type, in lower case
	body    string // the start of a body that is no error object
	isJSON  bool
}

// maxMessageBytes bounds what of an endpoint's words is passed on.
const maxMessageBytes = 2000

// parseFault reads an error object or text as it stands in a stream. The body
// of an error response is the object in its wrapping.
func parseFault(raw []byte) apiFault {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return apiFault{message: text, isJSON: true}
	}
	var api openai.APIError
	if json.Unmarshal(raw, &api) == nil && api.Message != "" {
		return fromAPI(&api, raw)
	}
	return looseFault(raw)
}

func fromAPI(api *openai.APIError, raw []byte) apiFault {
	f := apiFault{status: api.HTTPStatusCode, message: api.Message, isJSON: true}
	if n, ok := api.Code.(int); ok {
		if f.status == 0 && n >= 300 && n < 600 {
			f.status = n
		}
	} else if api.Code != nil {
		f.code = fmt.Sprint(api.Code)
	}
	f.code = strings.ToLower(f.code + " " + api.Type)
	if api.InnerError != nil {
		f.code += " " + strings.ToLower(api.InnerError.Code)
	}
	// A router keeps the words of the provider behind it here.
	var more struct {
		Metadata struct {
			Raw json.RawMessage `json:"raw"`
		} `json:"metadata"`
	}
	if json.Unmarshal(raw, &more) == nil && len(more.Metadata.Raw) > 0 {
		var s string
		if json.Unmarshal(more.Metadata.Raw, &s) != nil {
			s = string(more.Metadata.Raw)
		}
		f.message += ": " + s
	}
	return f
}

// looseFault reads the error bodies that are not OpenAI's: {"message":…},
// {"detail":…}, {"error":"…"}, a list around one of them.
func looseFault(raw []byte) apiFault {
	f := apiFault{body: text.Clip(strings.TrimSpace(string(raw)), maxMessageBytes)}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		raw = list[0]
	}
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil {
		return f
	}
	f.isJSON = true
	if inner, ok := o["error"]; ok && len(inner) > 0 && (inner[0] == '{' || inner[0] == '"') {
		return parseFault(inner)
	}
	for _, key := range []string{"message", "detail", "error_description", "msg", "title"} {
		if len(o[key]) == 0 {
			continue
		}
		if json.Unmarshal(o[key], &f.message) != nil {
			f.message = string(o[key])
		}
		break
	}
	for _, key := range []string{"code", "type", "status"} {
		f.code += strings.ToLower(strings.Trim(string(o[key]), `"`)) + " "
	}
	var n int
	for _, key := range []string{"status", "code"} {
		if json.Unmarshal(o[key], &n) == nil && n >= 300 && n < 600 && f.status == 0 {
			f.status = n
		}
	}
	return f
}

func (f apiFault) words() string { return strings.ToLower(f.code + " " + f.message + " " + f.body) }

func has(s string, any ...string) bool {
	for _, a := range any {
		if strings.Contains(s, a) {
			return true
		}
	}
	return false
}

// contextWords are the ways in which endpoints say that a transcript is too
// long: OpenAI, vLLM, Anthropic, Gemini, llama.cpp, LM Studio, xAI, Groq,
// Mistral, Moonshot, DashScope, Bedrock, Copilot, in this order.
func contextWords() []string {
	return []string{
		"context_length_exceeded", "maximum context length", "string_above_max_length",
		"longer than the maximum model length", "longer than the model's context length", "max_model_len",
		"prompt is too long", "exceed context limit", "exceeds the context limit",
		"exceeds the maximum number of tokens", "input token count",
		"exceed_context_size", "exceeds the available context size", "context size exceeded", "exceeds the context size",
		"context overflow", "greater than the context length", "exceeds context length", "context length of only",
		"maximum prompt length", "reduce the length of the messages", "request too large",
		"too large for model with", "exceeded model token limit", "range of input length",
		"input is too long", "model_max_prompt_tokens_exceeded", "exceeds the model's maximum context",
		"context window", "exceed the configured limit", "maximum number of input tokens", "too many input tokens",
	}
}

// classify turns what an endpoint said into an error for the caller and a rule
// for repeating. model is the name that was asked for.
func classify(f apiFault, model string) *Error {
	w := f.words()
	e := &Error{HTTPStatus: f.status, Message: f.message}
	if e.Message == "" && !strings.HasPrefix(f.body, "<") {
		e.Message = text.Clip(strings.TrimSpace(text.FirstLine(f.body)), 300)
	}
	if e.Message == "" {
		e.Message = strings.ToLower(http.StatusText(f.status))
	}
	if e.Message == "" {
		e.Message = "the endpoint reported an error without a message"
	}
	e.Message = text.Clip(e.Message, maxMessageBytes)
	e.words = w
	is := func(k Kind, hint string) *Error {
		e.Kind, e.Hint = k, hint
		return e
	}
	switch {
	case has(w, "insufficient_quota", "insufficient balance", "insufficient credits", "billing_hard_limit", "credit balance is too low") || f.status == http.StatusPaymentRequired:
		return is(KindQuota, "the account has no credit left; add some or choose another model with --model")
	case f.status != http.StatusUnauthorized && has(w, contextWords()...) || f.status == http.StatusRequestEntityTooLarge && f.isJSON:
		return is(KindContextLength, "the conversation is longer than the model can take")
	case has(w, "content_filter", "content_policy", "responsibleaipolicyviolation", "content management policy", "requires moderation"):
		return is(KindContentFilter, "")
	case f.status == http.StatusTooManyRequests || f.status == 0 && has(w, "rate_limit", "rate limit", "too many requests", "resource_exhausted"):
		e.Retryable, e.pace = true, paceBackoff
		return is(KindRateLimit, "")
	case f.status == http.StatusUnauthorized || f.status == 0 && has(w, "invalid_api_key", "authentication_error"):
		return is(KindAuth, "the key was refused; check RALPH_API_KEY, or the provider's own variable")
	case modelMissing(f, w):
		return is(KindModelNotFound, missingHint(w, model))
	case f.status == http.StatusForbidden:
		return is(KindAuth, "this key may not use this model or endpoint")
	case f.status == http.StatusNotFound, f.status == http.StatusMethodNotAllowed:
		return is(KindProtocol, "nothing speaks chat completions there; most base URLs end in /v1")
	case f.status == 0, f.status >= 500 && f.status != http.StatusNotImplemented, f.status == http.StatusRequestTimeout, f.status == http.StatusTooEarly:
		e.Retryable, e.pace = true, paceBackoff
		return is(KindServer, "")
	case has(w, "does not support tools", "tool use is not supported", "no endpoints found that support tool use"):
		return is(KindRejected, "this model cannot call tools; choose another with --model")
	}
	return is(KindRejected, "")
}

func modelMissing(f apiFault, w string) bool {
	if has(w, "model_not_found", "not a valid model", "invalid model", "unknown model", "no such model", "model does not exist") {
		return true
	}
	return f.isJSON && (f.status == http.StatusNotFound || f.status == http.StatusBadRequest) && has(w, "model", "deployment") &&
		has(w, "not found", "does not exist", "not exist", "not_found", "try pulling", "not loaded", "deploymentnotfound")
}

func missingHint(w, model string) string {
	if has(w, "try pulling") {
		return "run: ollama pull " + model
	}
	return "ralph doctor lists the models of this endpoint; choose one with --model"
}

// transportError turns an error of the way to the endpoint into one for the
// caller.
func transportError(err error, host string) *Error {
	var mine *Error
	if errors.As(err, &mine) {
		return mine
	}
	e := &Error{Kind: KindUnreachable, Err: err, Retryable: true, pace: paceBackoff}
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Message, e.pace, e.Retryable = fmt.Sprintf("there is no host %q", dns.Name), paceNever, false
		e.Hint = "check the base URL and the network"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		e.Message, e.pace = "nothing answers at "+host, paceQuick
		e.Hint = "is the server started? check the base URL"
	case errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid), errors.As(err, &certificate):
		e.Message, e.pace, e.Retryable = fmt.Sprintf("the certificate of %s is not valid: %v", host, innermost(err)), paceNever, false
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		e.Message, e.pace, e.Retryable = host+" does not speak TLS", paceNever, false
		e.Hint = "use http:// in the base URL"
	case strings.Contains(err.Error(), "malformed HTTP"):
		e.Kind, e.Message, e.pace, e.Retryable = KindProtocol, host+" does not speak HTTP", paceNever, false
		e.Hint = "check scheme and port of the base URL"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.Message = host + " closed the connection without an answer"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		e.Message = "no answer from " + host + " in time"
	default:
		e.Message = fmt.Sprintf("no answer from %s: %v", host, innermost(err))
	}
	return e
}

// innermost is the cause at the end of a chain, which says it in few words.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

func htmlError(host string) *Error {
	return &Error{
		Kind:    KindProtocol,
		Message: host + " answered with a web page instead of a completion",
		Hint:    "the base URL is probably incomplete; most end in /v1",
	}
}

func stalled(after time.Duration) *Error {
	return &Error{
		Kind: KindIncomplete, Retryable: true, pace: paceStalled,
		Message: fmt.Sprintf("no data for %v in the middle of a reply", after),
	}
}

func incomplete(err error) *Error {
	e := &Error{
		Kind: KindIncomplete, Retryable: true, pace: paceBackoff, Err: err,
		Message: "the stream ended without saying that the reply is complete",
	}
	if err != nil {
		e.Message = "the reply was cut off: " + innermost(err).Error()
	}
	return e
}

// runeStart is the start of the rune that holds byte n.
func runeStart(s string, n int) int {
	for n > 0 && n < len(s) && s[n]&0xC0 == 0x80 {
		n--
	}
	return n
}
