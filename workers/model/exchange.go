package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"ralph/memory/text"

	openai "github.com/sashabaranov/go-openai"
)

// exchange is go-openai's way to the wire for one completion: it puts the
// encoded transcript into the envelope, sends it, and keeps the response, which
// the stream then reads itself.
type exchange struct {
	c    *Client
	load *payload
	// watch ends an exchange that takes too long.
	watch  *watch
	flight *flight

	size   int64          // of the request's body
	resp   *http.Response // when the endpoint took the request
	status int            // when it did not
	header http.Header
	body   []byte
}

// Do sends a request that go-openai built.
func (x *exchange) Do(req *http.Request) (*http.Response, error) {
	envelope, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	body, size, err := x.load.splice(envelope)
	if err != nil {
		return nil, err
	}
	x.size = size
	req.Body, req.ContentLength = body(), size
	req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
	resp, err := x.c.send(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		x.c.gate.taken(x.flight)
		x.resp = resp
		return resp, nil
	}
	x.status, x.header = resp.StatusCode, resp.Header
	x.watch.timer.Reset(errorBodyTime)
	x.body, err = readBounded(resp.Body, maxErrorBytes)
	if err != nil && req.Context().Err() != nil && !errors.Is(context.Cause(req.Context()), errSilent) {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(x.body))
	return resp, nil
}

// failure is the error for a response with an error status, or for no response.
func (x *exchange) failure(err error, model string, now time.Time) *Error {
	if x.status == 0 {
		if errors.Is(err, openai.ErrChatCompletionInvalidModel) {
			return &Error{Kind: KindModelNotFound, Message: "this model does not take chat completions", Err: err}
		}
		return transportError(err, x.c.host)
	}
	var f apiFault
	var api *openai.APIError
	if errors.As(err, &api) && api.Message != "" {
		f = fromAPI(api, innerError(x.body))
	} else {
		f = looseFault(x.body)
	}
	f.status = x.status
	e := classify(f, model)
	e.Err = err
	if d, ok := retryAfter(x.header, now); ok && e.Retryable {
		e.RetryAfter, e.pace = d, paceWait
	}
	return e
}

// innerError takes the error object out of its wrapping.
func innerError(body []byte) []byte {
	var w struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &w) != nil {
		return nil
	}
	return w.Error
}

// lister is go-openai's way to the wire for the list of models. Lists differ in
// everything but the names, so it passes on the names alone.
type lister struct {
	c     *Client
	fault *Error
}

// Do sends a request that go-openai built.
func (x *lister) Do(req *http.Request) (*http.Response, error) {
	if x.c.opts.Endpoint.Provider == providerAnthropic {
		// Anthropic's list is not part of its compatible endpoint.
		req.Header.Set("x-api-key", x.c.opts.Endpoint.Key)
		req.Header.Set("anthropic-version", openai.AnthropicAPIVersion)
		req.Header.Del("Authorization")
	}
	resp, err := x.c.send(req)
	if err != nil {
		return nil, err
	}
	body, err := readBounded(resp.Body, maxLineBytes)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		f := looseFault(body)
		f.status = resp.StatusCode
		x.fault = classify(f, "")
		return nil, x.fault
	}
	names, ok := modelNames(body)
	if !ok {
		x.fault = &Error{Kind: KindProtocol, Message: x.c.host + " did not answer with a list of models",
			Hint: "check the base URL; most end in /v1"}
		return nil, x.fault
	}
	clean := openai.ModelsList{Models: make([]openai.Model, len(names))}
	for i, n := range names {
		clean.Models[i].ID = n
	}
	if body, err = json.Marshal(clean); err != nil {
		return nil, fmt.Errorf("read models: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// modelNames finds the names in a list of models: {"data":[{"id":…}]}, or
// {"models":[{"name":…}]}, or the bare list.
func modelNames(body []byte) ([]string, bool) {
	var o struct {
		Data   []json.RawMessage `json:"data"`
		Models []json.RawMessage `json:"models"`
	}
	list := []json.RawMessage(nil)
	if json.Unmarshal(body, &o) == nil {
		list = o.Data
		if list == nil {
			list = o.Models
		}
	} else if json.Unmarshal(body, &list) != nil {
		return nil, false
	}
	if list == nil {
		return nil, false
	}
	var names []string
	for _, raw := range list {
		var m struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &m) != nil && json.Unmarshal(raw, &m.ID) != nil {
			continue
		}
		// Gemini calls its models "models/…" and takes them without it.
		if n := strings.TrimPrefix(orDefault(m.ID, m.Name), "models/"); n != "" {
			names = append(names, n)
		}
	}
	return names, true
}

// send does one request with the headers and rules that all requests share. A
// redirect that was not followed is an error.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", c.opts.UserAgent)
	// Without a value this header is not sent; it tells net/http that the request
	// may be sent again when an idle connection turns out to be dead.
	req.Header["Idempotency-Key"] = nil
	if key := c.opts.Endpoint.Key; key != "" && azureHost(req.URL.Hostname()) {
		req.Header.Set(openai.AzureAPIKeyHeader, key)
		req.Header.Del("Authorization")
	}
	if !c.azure && len(c.query) > 0 {
		req.URL.RawQuery = c.query.Encode()
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		resp.Body.Close()
		return nil, redirected(resp, req.URL)
	}
	return resp, nil
}

// maxRedirects is how many redirects within one host are followed.
const maxRedirects = 3

// checkRedirect follows only what keeps method, body and host: the key and the
// conversation go to the host that they were meant for.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	same := next.URL.Scheme == first.URL.Scheme && next.URL.Host == first.URL.Host
	if !same || next.Method != first.Method || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

func redirected(resp *http.Response, from *url.URL) *Error {
	e := &Error{Kind: KindProtocol, HTTPStatus: resp.StatusCode, Message: "the endpoint redirects and does not say where to"}
	to, err := resp.Location()
	if err != nil {
		return e
	}
	to.RawQuery, to.User = "", nil
	e.Message = fmt.Sprintf("the endpoint redirects to %s, which was not followed", text.Clip(to.String(), 200))
	if to.Host != from.Host {
		e.Hint = "a key goes to its own host only; if you trust the other host, name it with --base-url"
	} else {
		e.Hint = "set the base URL to the new address"
	}
	return e
}

// readBounded reads at most limit bytes and closes the body.
func readBounded(body io.ReadCloser, limit int64) ([]byte, error) {
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, limit))
}

// drains finishes reading responses whose reply is known already, so that their
// connections can serve again. One that does not end soon is dropped.
type drains struct {
	mu     sync.Mutex // guards closed and active
	closed bool
	active map[int]context.CancelCauseFunc
	last   int
	wg     sync.WaitGroup
}

// drainTime is how long the regular end of a response may take to arrive.
const drainTime = 250 * time.Millisecond

// add takes over a response. cancel ends its request.
func (d *drains) add(body io.ReadCloser, cancel context.CancelCauseFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		cancel(nil)
		body.Close()
		return
	}
	if d.active == nil {
		d.active = make(map[int]context.CancelCauseFunc)
	}
	d.last++
	id := d.last
	d.active[id] = cancel
	d.wg.Go(func() {
		timer := time.AfterFunc(drainTime, func() { cancel(nil) })
		// Whatever comes now changes nothing; only the connection is at stake.
		_, _ = io.CopyN(io.Discard, body, 4<<10)
		body.Close()
		timer.Stop()
		cancel(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.active, id)
	})
}

func (d *drains) close() {
	d.mu.Lock()
	d.closed = true
	for _, cancel := range d.active {
		cancel(nil)
	}
	d.mu.Unlock()
	d.wg.Wait()
}
