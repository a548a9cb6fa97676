package model

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"ralph/workers/agent"
)

// cassetteVersion is the format that is written; older ones are still read.
const cassetteVersion = 1

// cassetteMark begins every cassette, so that a recording never overwrites a
// file of another sort.
const cassetteMark = "# A recording of Ralph's exchanges with a model."

// cassette is the whole file. Entries stand in the order in which they
// happened; the order counts per agent.
//
// A request is compared by what was said: roles, texts, calls, results. The
// system prompt and the tools are compared by digest, and a difference there is
// only a warning, unless the cassette lists them under strict: an old recording
// stays useful when a description was reworded.
type cassette struct {
	Version  int        `yaml:"ralph-cassette"`
	Provider string     `yaml:"provider,omitempty"`
	Model    string     `yaml:"model,omitempty"`
	Strict   []string   `yaml:"strict,flow,omitempty"` // system, tools
	Mask     []maskRule `yaml:"mask,omitempty"`
	Entries  []entry    `yaml:"exchanges"`
}

// entry is one exchange with the model, or the result of one tool call.
type entry struct {
	Agent string `yaml:"agent"`

	// Keep is how many messages of the transcript so far the request goes on
	// from; without it, all of them and the reply before.
	Keep    *int       `yaml:"keep,omitempty"`
	Tools   *toolsNote `yaml:"tools,omitempty"` // when they changed
	Request []said     `yaml:"request,omitempty"`
	Reply   *replyNote `yaml:"reply,omitempty"`

	Result *resultNote `yaml:"result,omitempty"`
}

// said is one message of a request; exactly one of the roles is set.
type said struct {
	System    *string    `yaml:"system,omitempty"` // a digest or the whole text
	User      *string    `yaml:"user,omitempty"`
	Assistant *string    `yaml:"assistant,omitempty"`
	Calls     []callNote `yaml:"calls,omitempty"`
	Tool      *string    `yaml:"tool,omitempty"` // the call's id
	// Text is what a tool message says; without it, the recorded result.
	Text *string `yaml:"text,omitempty"`
}

type toolsNote struct {
	Names  []string `yaml:"names,flow,omitempty"`
	Digest string   `yaml:"digest"`
}

// replyNote is what the model answered, or how the request failed.
type replyNote struct {
	Text      string     `yaml:"text,omitempty"`
	Reasoning string     `yaml:"reasoning,omitempty"`
	Calls     []callNote `yaml:"calls,omitempty"`
	Finish    string     `yaml:"finish,omitempty"` // "" is stop or tool_calls
	Model     string     `yaml:"model,omitempty"`
	Usage     *usageNote `yaml:"usage,flow,omitempty"`
	Cost      *float64   `yaml:"cost_usd,omitempty"`
	// Pace is the time between the pieces of the text; 0 sends all at once.
	Pace time.Duration `yaml:"pace,omitempty"`
	// Hold keeps the reply open after its last piece, until it is stopped.
	Hold  bool       `yaml:"hold,omitempty"`
	Error *errorNote `yaml:"error,omitempty"`
}

type callNote struct {
	ID   string    `yaml:"id"` // unique among the calls of its agent
	Name string    `yaml:"name"`
	Args yaml.Node `yaml:"args,omitempty"` // a mapping; text when it is no JSON object
	// Extra is what the endpoint attached, in replies only: requests are not
	// compared by it.
	Extra yaml.Node `yaml:"extra,omitempty"`
}

type usageNote struct {
	Input     int `yaml:"input"`
	Cached    int `yaml:"cached_input,omitempty"`
	Output    int `yaml:"output"`
	Reasoning int `yaml:"reasoning,omitempty"`
}

type errorNote struct {
	Status  int    `yaml:"status"`
	Message string `yaml:"message"`
	Code    string `yaml:"code,omitempty"`
}

// resultNote is what a tool gave back.
type resultNote struct {
	Call   string `yaml:"call"`
	Name   string `yaml:"name"`
	Head   string `yaml:"head,omitempty"`
	Text   string `yaml:"text,omitempty"`
	Failed bool   `yaml:"failed,omitempty"`
	Denied string `yaml:"denied,omitempty"`
	Exit   *int   `yaml:"exit_code,omitempty"`
	// Exact makes Replay.Tool compare the result; otherwise it is compared when
	// the model is told of it.
	Exact bool `yaml:"exact,omitempty"`
}

func (n *resultNote) result() agent.Result {
	return agent.Result{Head: n.Head, Text: n.Text, Failed: n.Failed, Denied: n.Denied}
}

// parseCassette reads a cassette and checks all that can be checked before it
// is played.
func parseCassette(data []byte) (*cassette, error) {
	c := &cassette{}
	if err := yaml.Load(data, c, yaml.WithKnownFields()); err != nil {
		return nil, fmt.Errorf("parse cassette: %w", err)
	}
	if c.Version < 1 || c.Version > cassetteVersion {
		return nil, fmt.Errorf("parse cassette: ralph-cassette is %d; this Ralph reads version %d", c.Version, cassetteVersion)
	}
	var errs []error
	for _, s := range c.Strict {
		if s != "system" && s != "tools" {
			errs = append(errs, fmt.Errorf("strict: %q is neither system nor tools", s))
		}
	}
	for i := range c.Entries {
		if err := c.Entries[i].check(); err != nil {
			errs = append(errs, fmt.Errorf("exchanges[%d]: %w", i, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("parse cassette: %w", err)
	}
	return c, nil
}

func (e *entry) check() error {
	switch {
	case e.Agent == "":
		return errors.New("agent is missing")
	case (e.Reply == nil) == (e.Result == nil):
		return errors.New("needs a reply or a result, and not both")
	case e.Result != nil && (e.Request != nil || e.Tools != nil || e.Keep != nil):
		return errors.New("a result has no request")
	case e.Keep != nil && *e.Keep < 0:
		return errors.New("keep is less than 0")
	}
	for i := range e.Request {
		if err := e.Request[i].check(); err != nil {
			return fmt.Errorf("request[%d]: %w", i, err)
		}
	}
	if r := e.Reply; r != nil {
		if r.Error != nil && (r.Error.Status < 400 || r.Error.Status > 599) {
			return fmt.Errorf("reply: error status %d is not between 400 and 599", r.Error.Status)
		}
		if r.Pace < 0 || r.Pace > time.Minute {
			return fmt.Errorf("reply: pace %v is not between 0 and 1m", r.Pace)
		}
		return checkCalls(r.Calls)
	}
	return nil
}

func (s *said) check() error {
	roles := 0
	for _, p := range []*string{s.System, s.User, s.Assistant, s.Tool} {
		if p != nil {
			roles++
		}
	}
	switch {
	case roles == 0 && len(s.Calls) > 0:
		empty := ""
		s.Assistant = &empty
	case roles != 1:
		return errors.New("needs one of system, user, assistant, tool")
	case s.Text != nil && s.Tool == nil:
		return errors.New("text belongs to tool only")
	case s.Calls != nil && s.Assistant == nil:
		return errors.New("calls belong to assistant only")
	}
	return checkCalls(s.Calls)
}

func checkCalls(calls []callNote) error {
	for i := range calls {
		if calls[i].ID == "" {
			return fmt.Errorf("calls[%d]: id is missing", i)
		}
		if _, err := calls[i].args(); err != nil {
			return fmt.Errorf("calls[%d]: args: %w", i, err)
		}
		if _, err := calls[i].extra(); err != nil {
			return fmt.Errorf("calls[%d]: extra: %w", i, err)
		}
	}
	return nil
}

// digest is a short fingerprint of a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:8])
}

// MismatchError says that a request is not the one that was recorded, or that
// none was. It is found through errors.As in what Complete returns, and nothing
// is ever retried because of it.
type MismatchError struct {
	Agent    string
	Exchange int // the number of the agent's request, from 1
	// Diff is a unified diff from what was recorded to what was asked, with
	// masked parts replaced; for a request too many it is all that was asked.
	Diff string
}

// Error names the request and what of it was not recorded first, and then has the Diff.
func (e *MismatchError) Error() string {
	first := ""
	for line := range strings.Lines(e.Diff) {
		if text, ok := strings.CutPrefix(line, "+"); ok && !strings.HasPrefix(text, "++") {
			first = fmt.Sprintf(", from %q on", strings.TrimSpace(text))
			break
		}
	}
	return fmt.Sprintf("request %d of agent %q is not the recorded one%s:\n%s", e.Exchange, e.Agent, first, strings.TrimRight(e.Diff, "\n"))
}
