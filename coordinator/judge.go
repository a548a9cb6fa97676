package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"ralph/coordinator/plan"
	"ralph/coordinator/prompt"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory/text"
	"ralph/workers/agent"
)

// maxSchemaRetries bounds how often an answer that does not fit is sent back.
const maxSchemaRetries = 2

// maxCheckBytes bounds what the model is shown of a failed check's output.
const maxCheckBytes = 16 << 10

// timedOutCode is the exit code of a check that its time limit ended, as
// timeout(1) has it.
const timedOutCode = 124

// The kinds of failure that the model is asked to mend.
const (
	kindSchema = "schema"
	kindCheck  = "check"
)

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

// verdict judges what a loop that ended by itself came to. Something urgent ends
// the check that runs: it is answered first, and then judged anew.
func (p *piece) verdict(ctx context.Context, end agent.End) (again string, err error) {
	if p.heeding {
		p.heeding = false
		if text := p.resumed(); text != "" {
			return text, nil
		}
	}
	for {
		again, err = p.judge(ctx, end)
		if _, urgent := interrupts.AsPreempt(err); !urgent || ctx.Err() != nil {
			return again, err
		}
		if heard, err := p.heed(ctx); heard || err != nil {
			return "", err
		}
	}
}

// judge says what a loop that ended by itself is worth: "" when the outcome
// stands, or what the model must be told to go on.
func (p *piece) judge(ctx context.Context, end agent.End) (again string, err error) {
	if f := end.Finish; f != nil && f.Status != agent.FinishDone {
		p.declared(*f)
		return "", nil
	}
	p.out.Verified = false
	for _, judge := range []func(context.Context) (string, error){p.judgeSchema, p.judgeCheck} {
		if again, err = judge(ctx); again != "" || err != nil || p.out.Status != "" {
			return again, err
		}
	}
	if unanswered, _ := p.c.approver.Missed(); unanswered > 0 {
		p.out.Status = result.Denied
		p.out.Failure = &result.Failure{Kind: "denied", Hint: hintPermission,
			Message: fmt.Sprintf("the model answered, but %s needed a permission and nobody was there to give it", text.Count(unanswered, "call"))}
		return "", nil
	}
	if p.out.Answer == "" && !p.out.Verified && p.out.ToolCalls.Total == 0 && !p.job.Chat {
		// Nothing was said and nothing done: some endpoints end a filtered answer so.
		p.out.Status = result.Failed
		p.out.Failure = &result.Failure{Kind: "no_answer", Message: "the model ended without a word", Hint: "put the task in other words, or choose another model with --model", Retryable: true}
		return "", nil
	}
	if err := p.c.sure(ctx, "", end.Finish); errors.Is(err, errUnsure) {
		p.out.Status, p.out.Verified = result.Failed, false
		p.out.Failure = &result.Failure{Kind: "low_confidence", Message: err.Error(), Hint: "look at what was done; --check CMD proves it, and `ralph chat` asks you"}
		return "", nil
	} else if err != nil {
		return "", err
	}
	p.out.Status = result.Completed
	p.out.Reason = "the model answered"
	if end.Finish != nil {
		p.out.Reason = "the model declared it done: " + end.Finish.Summary
	}
	if p.out.Verified {
		p.out.Reason += ", and it was checked"
	}
	return "", nil
}

// declared takes the model's word that it did not get there.
func (p *piece) declared(f agent.Finish) {
	p.out.Status = result.Failed
	fail := &result.Failure{Kind: "gave_up", Message: fmt.Sprintf("the model ended with %s: %s", f.Status, f.Summary), Hint: "see the answer for what is missing"}
	switch f.Status {
	case agent.FinishPartial:
		fail.Kind = "partial"
	case agent.FinishNeedsInput:
		p.out.Status, fail.Kind, fail.Hint = result.NeedsInput, "needs_input", hintAnswer
	}
	p.out.Failure = fail
}

// mended notes that what was judged is in order, now or again.
func (p *piece) mended(kind string) {
	p.out.Verified = true
	if f := p.out.Failure; f != nil && f.Kind == kind {
		p.out.Failure = nil
	}
}

// judgeSchema holds the answer against --schema.
func (p *piece) judgeSchema(context.Context) (again string, err error) {
	if p.schema == nil {
		return "", nil
	}
	structured, problem := p.schema.fit(p.out.Answer)
	p.out.Structured = structured
	if problem == nil {
		p.mended(kindSchema)
		return "", nil
	}
	p.out.Failure = &result.Failure{Kind: kindSchema, Message: "the answer does not fit the schema: " + problem.Error(),
		Hint: "the answer is in the result; make the schema looser or the task clearer"}
	if p.unfit++; p.unfit > maxSchemaRetries {
		p.out.Status = result.SchemaMismatch
		return "", nil
	}
	p.c.events.emit(agent.Event{Type: agent.EventWarning, Text: p.out.Failure.Message + "; the model is asked again"})
	return prompt.SchemaMismatch(problem.Error(), p.schema.text)
}

// judgeCheck runs the checks of the work: the one that is named, or the detected tests
// where files changed. The result has the last of them that did not pass, else the last.
func (p *piece) judgeCheck(ctx context.Context) (again string, err error) {
	if p.job.DryRun || p.job.Chat {
		return "", nil
	}
	step, release := ctx, func() {}
	if p.loop.Limits.Check(p.loop.Spent) == nil { // else nobody could answer what is urgent
		step, release = p.c.mail.queue.Step(ctx, p.c.box())
	}
	defer release()
	checks, before, err := p.check(step)
	if err != nil {
		return "", err
	}
	ran, passed := false, true
	for _, check := range checks {
		res, why, err := p.c.checkFor(step, p.c.station, check, before, p.c.events.emit)
		if err != nil {
			return "", err
		}
		if why != "" { // only a detected check may not be allowed
			continue
		}
		if ran = true; passed || !res.passed() {
			p.out.Check = &result.Check{Command: check.Command, ExitCode: res.ExitCode, Source: p.c.checkSource(check), BaselineExitCode: res.Baseline, Tree: res.Where, LeftOut: res.LeftOut}
		}
		if res.failed() {
			return p.unprovenBy(check.Command, res)
		}
		passed = passed && res.passed()
	}
	if ran {
		p.mended(kindCheck)
		p.out.Verified = passed
	}
	return "", nil
}

// unprovenBy notes that a check failed, and says what the model is told; the last time
// it fails the work.
func (p *piece) unprovenBy(command string, res checked) (again string, err error) {
	how := fmt.Sprintf("exited with %d", res.ExitCode)
	if res.TimedOut {
		how = fmt.Sprintf("did not end within %v", p.c.cfg.CheckTimeout)
	}
	p.out.Verified = false
	p.out.Failure = &result.Failure{Kind: kindCheck, Message: fmt.Sprintf("check %q %s", command, how), Hint: "run it yourself to see why; --check-retries says how often the model may try again"}
	if p.unproven++; p.unproven > p.c.cfg.CheckRetries {
		p.out.Status = result.Failed
		return "", nil
	}
	return p.c.failedCheck(command, res)
}

// check returns the checks that the work has to pass now, and the state before the work.
func (p *piece) check(ctx context.Context) ([]plan.Check, state, error) {
	command, err := p.c.ownCheck(ctx)
	switch {
	case err != nil:
		return nil, state{}, err
	case command != "":
		return []plan.Check{{Command: command}}, state{}, nil
	case !p.c.detects():
		return nil, state{}, nil
	}
	checks, before, err := p.c.detectedFor(ctx, p.c.station)
	if err != nil {
		p.c.warn("whether the work changed files is not known, so nothing checked it: " + err.Error())
	}
	return checks, before, nil
}

// provenBy are the checks that a job has to pass by the configuration; those of a
// plan are known once it is read.
func (c *Coordinator) provenBy(j Job) []string {
	if j.Chat || c.book.dry {
		return nil
	}
	return c.agreedChecks()
}

// failedCheck is what a model is told of a failed check.
func (c *Coordinator) failedCheck(command string, res checked) (string, error) {
	if len(res.LeftOut) > 0 {
		c.warn(fmt.Sprintf("the check %q failed, and did not see what no commit of the work holds: %s", text.ClipRunes(firstLine(command), maxQuote), strings.Join(res.LeftOut, ", ")))
	}
	told := prompt.Check{Command: command, ExitCode: res.ExitCode, TimedOut: res.TimedOut, LeftOut: res.LeftOut,
		Output: c.redactor.String(string(res.Stdout.Head)), Bytes: res.Stdout.Bytes}
	if rest := c.redactor.String(string(res.Stdout.Tail)); res.Stdout.Truncated() {
		told.Rest = rest
	} else {
		told.Output += rest
	}
	return prompt.CheckFailed(told)
}
