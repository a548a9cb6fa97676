package model

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	openai "github.com/sashabaranov/go-openai"
	"golang.org/x/time/rate"

	"ralph/workers/agent"
)

var _ agent.Model = (*Client)(nil)

// Options says how a Client works. Only Endpoint is needed.
type Options struct {
	Endpoint Endpoint
	// Transport carries the requests; nil means one of the Client's own, which
	// Close ends. The transports of Recorder and Replay belong here.
	Transport http.RoundTripper
	// Limiter is asked before each try; nil does not limit.
	Limiter *rate.Limiter
	// MaxConns is how many idle connections are kept, at best the number of
	// agents that may work at once; 0 means 24.
	MaxConns int
	// MaxRetryWait bounds the sum of the waits that an endpoint may ask for in
	// one Complete before it ends with KindRateLimit; 0 means 10 minutes.
	MaxRetryWait time.Duration
	// IdleTimeout bounds the silence within a reply; 0 means 2 minutes.
	IdleTimeout time.Duration
	// HeaderTimeout bounds the wait for a reply to begin, and, at a local server
	// with no IdleTimeout set, the wait for its first byte: a model on the same
	// machine may think long about a long prompt. 0 means 10 minutes.
	HeaderTimeout time.Duration
	// UserAgent is sent with each request; "" means "ralph".
	UserAgent string
}

// Client talks to one endpoint. It is safe for concurrent use; one Client
// serves all agents, which share its connections and its waits for a rate
// limit. Whoever calls New calls Close.
type Client struct {
	opts  Options
	base  string // without query and final slash
	query url.Values
	azure bool // the older Azure address: a deployment in the path
	host  string
	http  *http.Client
	own   *http.Transport
	rec   *Recorder
	enc   encoder
	gate  gate
	drain drains
	first time.Duration // the longest first wait before another try

	mu sync.Mutex // guards dialect
	dialect
}

// New returns a Client. It opens no connection.
func New(o Options) *Client {
	o.MaxConns = orDefault(o.MaxConns, 24)
	o.MaxRetryWait = orDefault(o.MaxRetryWait, 10*time.Minute)
	o.HeaderTimeout = orDefault(o.HeaderTimeout, 10*time.Minute)
	o.UserAgent = orDefault(o.UserAgent, "ralph")
	c := &Client{opts: o, base: strings.TrimRight(o.Endpoint.BaseURL, "/"), first: firstWait}
	if u, err := url.Parse(o.Endpoint.BaseURL); err == nil {
		c.host, c.query = u.Host, u.Query()
		u.RawQuery, u.Fragment = "", ""
		c.base = strings.TrimRight(u.String(), "/")
		c.azure = azureHost(u.Hostname()) && !strings.Contains(u.Path, "/v1")
	}
	c.names = namesTools(o.Endpoint)
	rt := o.Transport
	if rec, ok := rt.(*recording); ok {
		c.rec, rt = rec.to, rec.base
		c.rec.model(o.Endpoint)
	}
	if rt == nil {
		c.own = newTransport(o.MaxConns)
		rt = c.own
	}
	c.http = &http.Client{Transport: rt, CheckRedirect: checkRedirect}
	return c
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// newTransport makes the one transport of a Client.
func newTransport(conns int) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           conns,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    15 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		// Compression would hold back the pieces of a stream.
		DisableCompression: true,
		HTTP2:              &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// Close ends idle connections and what is left of finished responses. A
// Complete that still runs is not waited for.
func (c *Client) Close() {
	c.drain.close()
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Endpoint tells where the Client sends its requests.
func (c *Client) Endpoint() Endpoint { return c.opts.Endpoint }

// Complete sends req and streams the reply as agent.Model demands. Its errors
// match context.Cause(ctx) when ctx ended, a *MismatchError in a replay, and
// are an *Error otherwise. With an error the reply holds the text received so
// far, marked Partial.
func (c *Client) Complete(ctx context.Context, req agent.Request, sink func(agent.Delta)) (agent.Reply, error) {
	if sink == nil {
		sink = func(agent.Delta) {}
	}
	b := newBudget(c.opts.MaxRetryWait, c.first)
	var last *try
	var took, known time.Duration
	for n := 1; ; n++ {
		f, err := c.admit(ctx, req.Agent, n, known, sink)
		if err != nil {
			return last.partial(took), err
		}
		known = 0
		last = c.try(ctx, req, f, sink)
		took += last.took
		refused := last.err != nil && (last.err.pace == paceWait || last.err.Kind == KindRateLimit)
		if !refused || ctx.Err() != nil {
			c.gate.failed(f)
		}
		if last.err == nil {
			reply := last.reply(req.Messages, took)
			return reply, c.record(req, reply, outcomeWhole, nil)
		}
		reply := last.partial(took)
		if ctx.Err() != nil {
			return reply, both(stopped(ctx), c.record(req, reply, outcomeStopped, last.err))
		}
		var differs *MismatchError
		if errors.As(last.err, &differs) {
			return reply, fmt.Errorf("replay: %w", differs)
		}
		if c.learn(last.dialect, last.err) {
			n--
			continue
		}
		wait, again := b.next(last.err, last.took, last.streamed)
		if refused {
			c.gate.hold(f, wait)
		}
		if !again {
			return reply, both(c.final(last.err), c.record(req, reply, outcomeFailed, last.err))
		}
		sink(agent.Delta{Kind: agent.DeltaRetry, Text: last.err.Message, Attempt: n, Wait: wait})
		if refused {
			known = wait // it waits at the gate, with all the others
			continue
		}
		if err := sleep(ctx, wait); err != nil {
			return reply, err
		}
	}
}

// Forget gives back the memory that is kept for an agent, which has ended. One
// that asks again all the same is only encoded anew.
func (c *Client) Forget(who string) { c.enc.forget(who) }

// scrub takes the key out of whatever the endpoint echoed.
func (c *Client) scrub(e *Error) {
	if key := c.opts.Endpoint.Key; len(key) >= 8 {
		e.Message = strings.ReplaceAll(e.Message, key, "[key]")
	}
}

// final prepares the error of the last try for the caller.
func (c *Client) final(e *Error) error {
	e.Op = "ask " + c.opts.Endpoint.Model
	return e
}

// record tells the recorder, if there is one, what came of a request.
func (c *Client) record(req agent.Request, reply agent.Reply, how outcome, failed *Error) error {
	if c.rec == nil {
		return nil
	}
	return c.rec.exchange(req, reply, how, failed)
}

// both joins the error of a request with that of recording it.
func both(err, recording error) error {
	if recording == nil {
		return err
	}
	return errors.Join(err, recording)
}

// Models lists the names of the models that the endpoint offers, in its order.
// It does not retry, and gives up after 15 seconds.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	x := &lister{c: c}
	lctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	list, err := c.api(x).ListModels(lctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("list models: %w", context.Cause(ctx))
		}
		e := x.fault
		if e == nil {
			e = transportError(err, c.host)
		}
		c.scrub(e)
		e.Op = "list models"
		return nil, e
	}
	names := make([]string, 0, len(list.Models))
	for _, m := range list.Models {
		names = append(names, m.ID)
	}
	return names, nil
}

// api returns go-openai's client for one exchange with the endpoint.
func (c *Client) api(doer openai.HTTPDoer) *openai.Client {
	cfg := openai.DefaultConfig(c.opts.Endpoint.Key)
	if c.azure {
		cfg = openai.DefaultAzureConfig(c.opts.Endpoint.Key, c.base)
		cfg.AzureModelMapperFunc = func(model string) string { return url.PathEscape(model) }
		cfg.APIVersion = orDefault(c.query.Get("api-version"), azureVersion)
	}
	cfg.BaseURL = c.base
	cfg.HTTPClient = doer
	return openai.NewClientWithConfig(cfg)
}
