package model

import (
	"context"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	openai "github.com/sashabaranov/go-openai"

	"ralph/workers/agent"
)

const (
	maxTries   = 5
	maxFailing = 30 * time.Second // of failed tries and the waits between them
	maxStalls  = 2
	firstWait  = time.Second
)

// budget is what one Complete may spend on trying again.
type budget struct {
	patience time.Duration // for waits that the endpoint asks for
	back     *backoff.ExponentialBackOff
	quick    *backoff.ExponentialBackOff
	tries    int
	stalls   int
	failing  time.Duration
	waited   time.Duration
}

// newBudget returns a budget whose first wait is at most first.
func newBudget(patience, first time.Duration) *budget {
	return &budget{
		patience: patience,
		// With a factor of one an interval of d gives a wait between 0 and 2d: full
		// jitter over a second, two, four, eight.
		back:  &backoff.ExponentialBackOff{InitialInterval: first / 2, RandomizationFactor: 1, Multiplier: 2, MaxInterval: 8 * time.Second},
		quick: &backoff.ExponentialBackOff{InitialInterval: 100 * time.Millisecond, RandomizationFactor: 0.25, Multiplier: 2, MaxInterval: time.Second},
	}
}

// next decides whether to try again after e and how long to wait before. took
// is how long the try lasted, streamed says whether a reply had begun: time
// spent on receiving is no failing.
func (b *budget) next(e *Error, took time.Duration, streamed bool) (time.Duration, bool) {
	if e.pace == paceNever {
		return 0, false
	}
	if e.pace == paceWait && e.RetryAfter > 0 {
		if b.waited+e.RetryAfter > b.patience {
			e.Kind, e.Hint = KindRateLimit, "the endpoint asks to come back in "+e.RetryAfter.Round(time.Second).String()
			return 0, false
		}
		b.waited += e.RetryAfter
		return e.RetryAfter + rand.N(250*time.Millisecond), true
	}
	b.tries++
	if e.pace == paceStalled {
		b.stalls++
	}
	if b.tries >= maxTries || b.stalls >= maxStalls {
		return 0, false
	}
	if e.pace == paceQuick {
		return b.quick.NextBackOff(), true
	}
	wait := b.back.NextBackOff()
	if !streamed && e.pace != paceStalled {
		b.failing += took
	}
	b.failing += wait
	return wait, b.failing <= maxFailing
}

// retryAfter reads what a response says about when to come back.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && ms >= 0 && ms < 1e12 {
		return time.Duration(ms * float64(time.Millisecond)), true
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 && s < 1e9 {
		return time.Duration(s * float64(time.Second)), true
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(t.Sub(now), 0), true
	}
	if d, err := time.ParseDuration(v); err == nil && d >= 0 {
		return d, true
	}
	return 0, false
}

// waitPattern finds "try again in 1.2s", "retry in 34.07s", "retryDelay": "34s".
var waitPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:(?:try again|retry) in|"?retrydelay"?:)\s*"?((?:\d+(?:\.\d+)?(?:ms|h|m|s))+)`)
})

// waitInWords reads a wait out of an error's words, which are in lower case.
func waitInWords(words string) (time.Duration, bool) {
	m := waitPattern().FindStringSubmatch(words)
	if m == nil {
		return 0, false
	}
	d, err := time.ParseDuration(m[1])
	return d, err == nil && d > 0
}

// dialect is what an endpoint turned out not to take, or to need.
type dialect struct {
	noUsage    bool // stream_options
	otherLimit bool // the other name of the bound on the output
	noSchema   bool // response_format
	echo       bool // the model's reasoning has to come back to it
	names      bool // answers of tools have to name the tool
	noNames    bool // and must not
	noExtra    bool // extra_content of calls
}

// style says how to write messages in this dialect.
func (d dialect) style() style {
	return style{echo: d.echo, names: d.names && !d.noNames, noExtra: d.noExtra}
}

// namesTools says whether an endpoint is known to need the tool's name with
// each answer. Gemini does, also behind a gateway; the protocol has it not, and
// some servers refuse it.
func namesTools(e Endpoint) bool {
	return e.Provider == providerGemini || strings.Contains(strings.ToLower(e.Model), "gemini")
}

func (c *Client) current() dialect {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dialect
}

// learn changes the dialect when the endpoint refused something that can be
// said in another way, or not at all. It answers true when the same request is
// worth another try at once.
func (c *Client) learn(used dialect, e *Error) bool {
	if e.HTTPStatus < 400 || e.HTTPStatus >= 500 || e.Kind != KindRejected {
		return false
	}
	d := used
	// The name of a member is not yet a word of refusal.
	refused := has(strings.ReplaceAll(e.words, "extra_content", ""), "unsupported", "not support", "unknown", "unrecognized", "unexpected",
		"not permitted", "not allowed", "extra", "deprecated", "use 'max_completion_tokens'", "use max_completion_tokens", "additional propert", "no such")
	switch {
	case has(e.words, "stream_options", "include_usage"):
		d.noUsage = true
	case refused && has(e.words, "max_tokens", "max_completion_tokens"):
		d.otherLimit = true
	case has(e.words, "response_format", "json_schema", "response format", "structured output"):
		d.noSchema = true
	case has(e.words, "reasoning_content") && has(e.words, "must", "missing", "require"):
		d.echo = true
	case refused && has(e.words, "extra_content"):
		d.noExtra = true
	case used.style().names && refused && has(e.words, "message") && has(e.words, `"name"`, "'name'", ".name", "_name"):
		d.noNames = true
	case has(e.words, "function_response.name", "functionresponse.name", "must have a 'name'", "must have a \"name\""):
		d.names = true
	}
	if d == used {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialect = dialect{
		noUsage:    c.noUsage || d.noUsage,
		otherLimit: c.otherLimit || d.otherLimit,
		noSchema:   c.noSchema || d.noSchema,
		echo:       c.echo || d.echo,
		names:      c.names || d.names,
		noNames:    c.noNames || d.noNames,
		noExtra:    c.noExtra || d.noExtra,
	}
	return true
}

// envelope is the request without its messages and tools.
func (c *Client) envelope(req agent.Request, d dialect) openai.ChatCompletionRequest {
	r := openai.ChatCompletionRequest{Model: c.opts.Endpoint.Model}
	if !d.noUsage {
		r.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}
	// OpenAI calls the bound max_completion_tokens and refuses the older name
	// for its newer models; most other servers know only the older one.
	p := c.opts.Endpoint.Provider
	newer := p == providerOpenAI || p == providerAzure
	if newer != d.otherLimit {
		r.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		r.MaxTokens = req.MaxOutputTokens //lint:ignore SA1019 what servers other than OpenAI's understand
	}
	if len(req.Schema) > 0 && !d.noSchema {
		r.ResponseFormat = &openai.ChatCompletionResponseFormat{
			Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: "answer", Schema: req.Schema},
		}
	}
	return r
}

// agentKey is the context key of the agent's name, which the transports of
// cassettes read; no other transport sends it.
type agentKey struct{}

func withAgent(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, agentKey{}, name)
}

func agentOf(ctx context.Context) string {
	name, _ := ctx.Value(agentKey{}).(string)
	return name
}
