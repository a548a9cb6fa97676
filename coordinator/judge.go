package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"ralph/coordinator/prompt"
	"ralph/interrupts"
	"ralph/workers/agent"
	"ralph/workers/proc"
)

// maxSchemaRetries bounds how often an answer that does not fit is sent back.
const maxSchemaRetries = 2

// fromProject is the origin of a setting that the repository made.
const fromProject = "project config"

// answerSchema is the JSON Schema that an answer must fit.
type answerSchema struct {
	text     string
	resolved *jsonschema.Resolved
}

func newAnswerSchema(text json.RawMessage) (*answerSchema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, err
	}
	return &answerSchema{text: string(text), resolved: resolved}, nil
}

// fit reads an answer as JSON, bare or in one code fence, and holds it against
// the schema.
func (s *answerSchema) fit(answer string) (json.RawMessage, error) {
	text := unfenced(answer)
	dec := json.NewDecoder(strings.NewReader(text))
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the JSON value")
	}
	if err := s.resolved.Validate(value); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		return nil, err
	}
	return compact.Bytes(), nil
}

func unfenced(s string) string {
	s = strings.TrimSpace(s)
	if !strings.HasPrefix(s, "```") || !strings.HasSuffix(s, "```") {
		return s
	}
	_, body, ok := strings.Cut(s, "\n")
	if !ok {
		return s
	}
	return strings.TrimSpace(strings.TrimSuffix(body, "```"))
}

// judgeSchema holds the answer against --schema.
func (p *piece) judgeSchema(tries int) (again string, err error) {
	if p.schema == nil {
		return "", nil
	}
	structured, problem := p.schema.fit(p.out.Answer)
	if problem == nil {
		p.out.Structured, p.out.Verified, p.out.Failure = structured, true, nil
		return "", nil
	}
	p.out.Failure = &Failure{Kind: "schema", Message: "the answer does not fit the schema: " + problem.Error(),
		Hint: "the answer is in the result; make the schema looser or the task clearer"}
	if tries >= maxSchemaRetries {
		p.out.Status = StatusSchemaMismatch
		return "", nil
	}
	p.c.events.emit(agent.Event{Type: agent.EventWarning, Text: p.out.Failure.Message + "; the model is asked again"})
	return prompt.SchemaMismatch(problem.Error(), p.schema.text)
}

// judgeCheck runs --check.
func (p *piece) judgeCheck(ctx context.Context, tries int) (again string, err error) {
	command := p.c.cfg.Check
	if command == "" || p.job.DryRun || p.job.Chat {
		return "", nil
	}
	if ok, err := p.c.mayCheck(ctx, command); !ok || err != nil {
		return "", err
	}
	res, err := p.c.runCheck(ctx, command)
	if err != nil {
		return "", err
	}
	p.out.Check = &CheckResult{Command: command, ExitCode: res.ExitCode}
	if res.ExitCode == 0 && !res.TimedOut {
		p.out.Verified, p.out.Failure = true, nil
		return "", nil
	}
	how := fmt.Sprintf("exited with %d", res.ExitCode)
	if res.TimedOut {
		how = fmt.Sprintf("did not end within %v", p.c.cfg.CheckTimeout)
	}
	p.out.Verified = false
	p.out.Failure = &Failure{Kind: "check", Message: fmt.Sprintf("check %q %s", command, how), Hint: "run it yourself to see why; --check-retries says how often the model may try again"}
	if tries >= p.c.cfg.CheckRetries {
		p.out.Status = StatusFailed
		return "", nil
	}
	return prompt.CheckFailed(command, res.ExitCode, res.TimedOut, p.c.redactor.String(res.Stdout.String()))
}

// mayCheck lets a check that the repository proposes run only after the human
// approved its exact text.
func (c *Coordinator) mayCheck(ctx context.Context, command string) (bool, error) {
	origin := c.cfg.Origin("check")
	if origin.Source != fromProject {
		return true, nil
	}
	if c.opt.Ask == nil {
		c.warn(fmt.Sprintf("the check %q of %s was left out: a check that comes from the repository needs a yes on a terminal, or --check", command, origin))
		return false, nil
	}
	answer, err := c.opt.Ask(ctx, Question{Kind: "check", Options: []string{answerNo, answerYes},
		Text: "The repository proposes a check, which would run with your rights. May it run?\n" + command})
	if err != nil || answer != answerYes {
		c.warn(fmt.Sprintf("the check %q of %s was left out: it was not approved", command, origin))
	}
	return answer == answerYes, err
}

// runCheck runs the check in the project, as the user would.
func (c *Coordinator) runCheck(ctx context.Context, command string) (proc.Result, error) {
	began := time.Now()
	res, err := c.opt.Proc.Run(ctx, proc.Spec{
		Argv:    []string{proc.Shell(), "-c", command},
		Dir:     c.opt.Root,
		Env:     proc.Environ(os.Environ()),
		Timeout: c.cfg.CheckTimeout,
	})
	if err != nil {
		return res, err
	}
	code, ok, took := res.ExitCode, res.ExitCode == 0 && !res.TimedOut, time.Since(began).Milliseconds()
	c.events.emit(agent.Event{Type: agent.EventGate, Text: command, ExitCode: &code, OK: &ok, DurationMS: &took})
	return res, nil
}

// signal notes the signal behind an error.
func (p *piece) signal(err error) {
	if stop, ok := interrupts.AsStop(err); ok {
		p.out.Signal = int(stop.Signal)
		p.c.events.emit(agent.Event{Type: agent.EventInterrupt, Reason: stop.Error()})
	}
}
