package model

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"ralph/memory/text"
)

// The names of providers.
const (
	providerOpenAI     = "openai"
	providerOpenRouter = "openrouter"
	providerAzure      = "azure"
	providerAnthropic  = "anthropic"
	providerGemini     = "gemini"
	providerOllama     = "ollama"
	providerLlamaCpp   = "llamacpp"
	providerLMStudio   = "lmstudio"
	providerVLLM       = "vllm"
	providerCustom     = "custom"
)

const (
	openAIBase     = "https://api.openai.com/v1"
	openRouterBase = "https://openrouter.ai/api/v1"
	anthropicBase  = "https://api.anthropic.com/v1/"
	geminiBase     = "https://generativelanguage.googleapis.com/v1beta/openai/"
	// azureVersion is the API version for deployments whose base URL names none.
	azureVersion = "2024-10-21"
)

// Endpoint is where a model answers. It is a value.
type Endpoint struct {
	// Provider is openai, openrouter, azure, anthropic, gemini, ollama, llamacpp,
	// lmstudio, vllm or custom.
	Provider string
	// BaseURL is the address up to and without /chat/completions.
	BaseURL string
	Model   string
	Key     string // a secret; "" for none
	// Source says what decided: "--base-url", "OPENAI_API_KEY", "profile work",
	// "local 11434".
	Source string
}

// Wish is what the user's side says about the model. Nothing in it may come
// from a repository.
type Wish struct {
	Model   string // --model: a model, or the name of a profile
	BaseURL string // --base-url
	// Key is a key from the user's configuration; RALPH_API_KEY comes first.
	Key      string
	Profiles []Profile // of the user's configuration; the first is the default
	// Getenv reads the environment; nil reads nothing.
	Getenv func(string) string
	// ProbeLocal allows to look for local servers when nothing else is there.
	ProbeLocal bool
	// HTTP is used to ask for lists of models; nil means a client of its own.
	HTTP *http.Client
}

// Profile is an endpoint that the user named.
type Profile struct {
	Name    string
	Model   string
	BaseURL string // "" means the provider that the key belongs to, or OpenAI
	Key     string
}

// Choose finds the endpoint, first that answers: --model and --base-url, the
// RALPH_ variables, profiles, OPENAI_API_KEY, OPENROUTER_API_KEY,
// ANTHROPIC_API_KEY, GEMINI_API_KEY, local servers. Only when no model is named
// does it ask the endpoint for its list. A base URL without a path gets /v1. A
// key is given only to its own host. The error is an *Error; it matches
// ErrNoModel when nothing is there.
func Choose(ctx context.Context, w Wish) (Endpoint, error) {
	ch := &choice{Wish: w}
	if ch.Getenv == nil {
		ch.Getenv = func(string) string { return "" }
	}
	end, err := ch.find(ctx)
	if err != nil {
		return Endpoint{}, err
	}
	if end.Model != "" {
		return end, nil
	}
	return ch.complete(ctx, end)
}

// Configured returns the endpoint that Choose finds without asking anybody; ok is false
// where none is named. Its Model is "" where that would be asked for.
func Configured(w Wish) (end Endpoint, ok bool) {
	w.ProbeLocal = false
	if w.Getenv == nil {
		w.Getenv = func(string) string { return "" }
	}
	end, err := (&choice{Wish: w}).find(context.Background())
	return end, err == nil
}

// choice is a Choose while it works.
type choice struct {
	Wish
}

// find decides about the address and the key, and the model if it is named.
func (c *choice) find(ctx context.Context) (Endpoint, error) {
	model, modelFrom := first(c.Model, "--model", c.Getenv("RALPH_MODEL"), "RALPH_MODEL")
	base, baseFrom := first(c.BaseURL, "--base-url", c.Getenv("RALPH_BASE_URL"), "RALPH_BASE_URL")
	profile, named := c.profile(model)
	if named {
		model = profile.Model
	}
	key := orDefault(c.Getenv("RALPH_API_KEY"), c.Key)
	switch {
	case base != "":
		return c.explicit(base, baseFrom, model, key, profile)
	case named:
		return c.fromProfile(profile, model)
	case key != "":
		// A key without an address: its form tells whose it is.
		return endpoint(baseOfKey(key), model, key, orDefault(modelFrom, "RALPH_API_KEY"))
	case len(c.Profiles) > 0:
		return c.fromProfile(c.Profiles[0], orDefault(model, c.Profiles[0].Model))
	}
	if base, key := c.Getenv("OPENAI_BASE_URL"), c.Getenv("OPENAI_API_KEY"); base != "" || key != "" {
		from := "OPENAI_API_KEY"
		if key == "" {
			from = "OPENAI_BASE_URL"
		}
		return endpoint(orDefault(base, openAIBase), model, key, from)
	}
	for _, p := range [...]struct{ env, base string }{
		{"OPENROUTER_API_KEY", openRouterBase}, {"ANTHROPIC_API_KEY", anthropicBase}, {"GEMINI_API_KEY", geminiBase},
	} {
		if key := c.Getenv(p.env); key != "" {
			return endpoint(p.base, model, key, p.env)
		}
	}
	if c.ProbeLocal {
		if end, ok := probe(ctx, c.client(), model); ok {
			return end, nil
		}
		if ctx.Err() != nil {
			return Endpoint{}, fmt.Errorf("choose a model: %w", context.Cause(ctx))
		}
	}
	return Endpoint{}, noModel()
}

// noModel is the answer when nothing is there.
func noModel() *Error {
	return &Error{
		Kind: KindNoModel, Op: "choose a model", Err: ErrNoModel,
		Message: "no model is configured and no local model server answers",
		Hint: "set OPENAI_API_KEY (or OPENROUTER_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY); " +
			"or start a local server, for example Ollama; " +
			"or name any other endpoint with --base-url and --model (RALPH_BASE_URL, RALPH_MODEL, RALPH_API_KEY). " +
			"To see Ralph work without a model: ralph demo",
	}
}

// first returns the first value that is set and what it was set by.
func first(pairs ...string) (value, from string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] != "" {
			return pairs[i], pairs[i+1]
		}
	}
	return "", ""
}

func (c *choice) profile(name string) (Profile, bool) {
	for _, p := range c.Profiles {
		if name != "" && p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

func (c *choice) fromProfile(p Profile, model string) (Endpoint, error) {
	base := orDefault(p.BaseURL, baseOfKey(p.Key))
	end, err := endpoint(base, model, p.Key, "profile "+p.Name)
	if err == nil && end.Key == "" {
		end.Key = c.keyFor(end.BaseURL)
	}
	return end, err
}

// explicit is the endpoint that the user named. Its key is RALPH_API_KEY, else
// that of a profile or a provider's variable for the very same host.
func (c *choice) explicit(base, from, model, key string, named Profile) (Endpoint, error) {
	end, err := endpoint(base, model, key, from)
	if err != nil || end.Key != "" {
		return end, err
	}
	profiles := c.Profiles
	if named.Name != "" {
		profiles = append([]Profile{named}, profiles...)
	}
	for _, p := range profiles {
		if p.Key != "" && sameHost(orDefault(p.BaseURL, baseOfKey(p.Key)), end.BaseURL) {
			end.Key = p.Key
			return end, nil
		}
	}
	end.Key = c.keyFor(end.BaseURL)
	return end, nil
}

// keyFor is the key in the environment that belongs to the host of base.
func (c *choice) keyFor(base string) string {
	openai := orDefault(c.Getenv("OPENAI_BASE_URL"), openAIBase)
	for _, p := range [...]struct{ env, base string }{
		{"OPENAI_API_KEY", openai}, {"OPENAI_API_KEY", openAIBase}, {"OPENROUTER_API_KEY", openRouterBase},
		{"ANTHROPIC_API_KEY", anthropicBase}, {"GEMINI_API_KEY", geminiBase},
	} {
		if key := c.Getenv(p.env); key != "" && sameHost(p.base, base) {
			return key
		}
	}
	return ""
}

// sameHost compares scheme, host and port: a key does not go to the same host
// in the clear either.
func sameHost(a, b string) bool {
	x, err := normalize(a)
	if err != nil {
		return false
	}
	y, err := normalize(b)
	return err == nil && x.Scheme == y.Scheme && strings.EqualFold(x.Host, y.Host)
}

// baseOfKey guesses the provider from the form of a key.
func baseOfKey(key string) string {
	switch {
	case strings.HasPrefix(key, "sk-ant-"):
		return anthropicBase
	case strings.HasPrefix(key, "sk-or-"):
		return openRouterBase
	case strings.HasPrefix(key, "AIza"):
		return geminiBase
	}
	return openAIBase
}

// endpoint makes an Endpoint of an address as the user wrote it.
func endpoint(base, model, key, from string) (Endpoint, error) {
	u, err := normalize(base)
	if err != nil {
		return Endpoint{}, &Error{Kind: KindNoModel, Op: "choose a model", Err: err,
			Message: fmt.Sprintf("base URL %q (%s): %v", text.Clip(base, 200), from, err),
			Hint:    "a base URL looks like https://host/v1 or http://localhost:11434/v1"}
	}
	return Endpoint{Provider: providerOf(u), BaseURL: u.String(), Model: model, Key: key, Source: from}, nil
}

// normalize checks an address and brings it into the form without a final slash
// or /chat/completions. A bare host gets the path that its API has.
func normalize(base string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	switch {
	case err != nil:
		return nil, fmt.Errorf("is no address: %w", innermost(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("begins with neither http:// nor https://")
	case u.Hostname() == "":
		return nil, fmt.Errorf("names no host")
	case u.User != nil:
		return nil, fmt.Errorf("holds a user name; a key belongs in RALPH_API_KEY")
	case u.Fragment != "":
		return nil, fmt.Errorf("holds a fragment (#)")
	}
	u.Host = strings.ToLower(u.Host)
	u.Path = strings.TrimRight(u.Path, "/")
	u.Path = strings.TrimRight(strings.TrimSuffix(u.Path, "/chat/completions"), "/")
	u.RawPath = ""
	if u.Path == "" {
		u.Path = barePath(u)
	}
	return u, nil
}

func barePath(u *url.URL) string {
	switch providerOf(u) {
	case providerOpenRouter:
		return "/api/v1"
	case providerGemini:
		return "/v1beta/openai"
	case providerAzure:
		return "" // go-openai adds the deployment
	}
	return "/v1"
}

func azureHost(host string) bool {
	return strings.HasSuffix(host, ".openai.azure.com") || strings.HasSuffix(host, ".cognitiveservices.azure.com")
}

func providerOf(u *url.URL) string {
	host := u.Hostname()
	switch {
	case host == "api.openai.com":
		return providerOpenAI
	case host == "openrouter.ai":
		return providerOpenRouter
	case azureHost(host):
		return providerAzure
	case host == "api.anthropic.com":
		return providerAnthropic
	case host == "generativelanguage.googleapis.com":
		return providerGemini
	}
	ip := net.ParseIP(host)
	if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return providerCustom
	}
	for _, s := range localServers() {
		if u.Port() == s.port {
			return s.provider
		}
	}
	return providerCustom
}
