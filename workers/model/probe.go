package model

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// probeTime bounds the search for local servers, all of them together.
const probeTime = 200 * time.Millisecond

// listTime bounds the question for the list of models.
const listTime = 15 * time.Second

// localServer is a server that people run on their own machine.
type localServer struct {
	port     string
	provider string
}

// localServers are looked for in this order.
func localServers() []localServer {
	return []localServer{
		{"11434", providerOllama}, {"8080", providerLlamaCpp}, {"1234", providerLMStudio}, {"8000", providerVLLM},
	}
}

// probe asks the usual loopback ports side by side and returns the first in
// order that answers with a list of models; one that has the wished model goes
// first.
func probe(ctx context.Context, hc *http.Client, model string) (Endpoint, bool) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	servers := localServers()
	found := make([][]string, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			if names, err := askModels(ctx, hc, "http://127.0.0.1:"+s.port+"/v1"); err == nil {
				found[i] = names
			}
		})
	}
	wg.Wait()
	best := -1
	for i, names := range found {
		if len(names) == 0 {
			continue
		}
		if best < 0 {
			best = i
		}
		if model != "" && slices.ContainsFunc(names, func(n string) bool { return n == model || strings.HasPrefix(n, model+":") }) {
			best = i
			break
		}
	}
	if best < 0 {
		return Endpoint{}, false
	}
	if model == "" {
		model = found[best][0]
	}
	return Endpoint{
		Provider: servers[best].provider,
		BaseURL:  "http://127.0.0.1:" + servers[best].port + "/v1",
		Model:    model,
		Source:   "local " + servers[best].port,
	}, true
}

// askModels asks a server without a key for its models.
func askModels(ctx context.Context, hc *http.Client, base string) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", nil)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	resp, err := hc.Do(req)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	body, err := readBounded(resp.Body, maxLineBytes)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	names, ok := modelNames(body)
	if resp.StatusCode != http.StatusOK || !ok || !json.Valid(body) {
		return nil, fmt.Errorf("list models: %s is no model server", base)
	}
	return names, nil
}

// client is what lists of models are asked with.
func (c *choice) client() *http.Client {
	if c.HTTP != nil {
		return c.HTTP
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: checkRedirect}
}

// complete fills in the model of an endpoint whose user named none.
func (c *choice) complete(ctx context.Context, end Endpoint) (Endpoint, error) {
	if end.Provider == providerOpenRouter {
		end.Model = "openrouter/auto"
		return end, nil
	}
	o := Options{Endpoint: end}
	if c.HTTP != nil {
		o.Transport = orTransport(c.HTTP.Transport)
	}
	client := New(o)
	defer client.Close()
	names, err := client.Models(ctx)
	if err != nil {
		return Endpoint{}, err
	}
	end.Model = prefer(end.Provider, names)
	if end.Model == "" {
		return Endpoint{}, &Error{Kind: KindNoModel, Op: "choose a model", Err: ErrNoModel,
			Message: end.BaseURL + " offers no model", Hint: "load or pull one there, or name one with --model"}
	}
	return end, nil
}

func orTransport(rt http.RoundTripper) http.RoundTripper {
	if rt == nil {
		return http.DefaultTransport
	}
	return rt
}

// mainModels matches the general models of a provider; the first group is the
// version by which the newest is found.
var mainModels = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		providerOpenAI:    regexp.MustCompile(`^gpt-([45](?:\.\d+)?)$`),
		providerAnthropic: regexp.MustCompile(`^claude-sonnet-(\d+(?:-\d)?)(?:-\d{8})?$`),
		providerGemini:    regexp.MustCompile(`^gemini-(\d+(?:\.\d+)?)-(?:pro|flash)(?:-preview)?$`),
	}
})

// prefer chooses one of an endpoint's models: for the large providers the newest
// general one, otherwise the first that can hold a conversation.
func prefer(provider string, names []string) string {
	best, version := "", -1.0
	if re := mainModels()[provider]; re != nil {
		for _, n := range names {
			m := re.FindStringSubmatch(n)
			if m == nil {
				continue
			}
			v, err := strconv.ParseFloat(strings.ReplaceAll(m[1], "-", "."), 64)
			if err == nil && v > version {
				best, version = n, v
			}
		}
	}
	if best != "" {
		return best
	}
	for _, n := range names {
		if !has(strings.ToLower(n), "embed", "whisper", "tts", "dall-e", "moderation", "rerank", "transcribe", "image", "audio", "realtime", "davinci", "babbage") {
			return n
		}
	}
	if len(names) > 0 {
		return names[0]
	}
	return ""
}
