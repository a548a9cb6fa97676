package scripts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/result"
	"ralph/memory/session/folder"
	"ralph/memory/text"
	"ralph/workers/agent"
)

const (
	// waitEvery is how often a wait looks again.
	waitEvery = 50 * time.Millisecond
	// maxKeptOutput bounds the text that expressions see as output: its end.
	maxKeptOutput = 1 << 20
)

// scriptResult tells in the result document how a script went.
type scriptResult struct {
	File         string         `json:"file"`
	Lines        int            `json:"lines"`        // that were typed
	Expectations int            `json:"expectations"` // that were looked at, those of wait too
	Failed       *scriptFailure `json:"failed"`
}

// scriptFailure is the expectation that did not hold.
type scriptFailure struct {
	Line   int            `json:"line"`
	Expr   string         `json:"expr"`
	Values map[string]any `json:"values"`
}

// player plays a script: play on one goroutine, ended on another.
type player struct {
	inv   *invocation
	name  string
	exprs scriptExprs
	list  []statement
	doc   *scriptResult
	out   *transcript
	began coordinator.Live // how things stood before the first line

	mu       sync.Mutex // guards what follows, and the result of inv while play runs
	last     *Result    // of the last turn, nil before the first
	broken   *Result    // the last turn, when it failed and nothing looked at that yet
	stops    bool       // the script has stopped the work itself
	declined string     // what was asked in the turn that runs, and nobody answered
	finished bool
	at       int // the line that was typed last
	status   result.Status
	signal   int
	failure  *result.Failure // why the script ended early
}

// ended takes the outcome of a turn.
func (p *player) ended(o result.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.declined != "" && o.Status == result.Completed {
		// Nobody could give an answer that was needed: that ends a task too.
		o.Status, o.Reason = result.NeedsInput, "nobody answered: "+oneRow(p.declined)
		o.Failure = &result.Failure{Kind: "needs_input", Message: o.Reason, Hint: "the line behind the one that asks is the answer; --allow RULE and --on-ask deny leave nothing to ask"}
	}
	p.declined = ""
	r := newResult(p.inv.result.RunID, o.StartedAt)
	r.ProjectRoot, r.Model, r.Provider = p.inv.result.ProjectRoot, p.inv.result.Model, p.inv.result.Provider
	r.fill(o)
	r.DurationMS = o.Duration.Milliseconds()
	p.last, p.broken = r, nil
	if !r.OK && !(p.stops && o.Status == result.Interrupted && o.Signal == 0) {
		p.broken = r
	}
	p.stops = false
	p.inv.result.addOutcome(o)
}

// play types the lines and looks at what comes of them. over is the context of the
// program, whose end has a cause; that of the chat ends when it is left.
func (p *player) play(ctx, over context.Context, stage Stage) (code int) {
	err := p.open(ctx, stage)
	for _, s := range p.list {
		if err != nil {
			break
		}
		switch s.verb {
		case verbExpect:
			err = p.expect(ctx, stage, s)
		case verbWait:
			err = p.wait(ctx, stage, s)
		default:
			err = p.say(ctx, stage, s)
		}
	}
	if err == nil && !p.leaves() {
		err = p.settle(ctx, stage)
	}
	if err == nil {
		err = p.fails()
	}
	p.spent(ctx, stage)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case over.Err() != nil:
		err = context.Cause(over)
	case err != nil && ctx.Err() != nil:
		return 0 // the chat was left, and says with which code
	}
	var failed *turnError
	switch {
	case errors.As(err, &failed):
		p.status, p.signal, p.failure = failed.ending()
	case err != nil:
		p.status, p.signal, p.failure = ending(err)
	default:
		p.finished = true
		return 0
	}
	return exitCode(p.status, p.signal)
}

// leaves says that the last line is one that leaves the chat, which ends with all
// that still runs.
func (p *player) leaves() bool { return p.list[len(p.list)-1].command() == "exit" }

// open waits until the chat is there. What it asks before the first line was typed
// is nothing that a line answers.
func (p *player) open(ctx context.Context, stage Stage) error {
	if err := p.settle(ctx, stage); err != nil {
		return err
	}
	var err error
	p.began, _, err = stage.Look(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.declined = ""
	p.inv.result.Model, p.inv.result.SessionID = optional(p.began.Model), optional(folder.SessionID(p.began.SessionID))
	return err
}

// settle waits until all has ended; nobody answers what is asked meanwhile.
func (p *player) settle(ctx context.Context, stage Stage) error {
	for {
		if err := stage.Rest(ctx); err != nil {
			return err
		}
		_, question, err := stage.Look(ctx)
		if err != nil || question == "" {
			return err
		}
		p.mu.Lock()
		p.declined = question
		p.mu.Unlock()
		if err := stage.Decline(ctx); err != nil {
			return err
		}
	}
}

// say types a line.
func (p *player) say(ctx context.Context, stage Stage, s statement) error {
	if err := p.fails(); err != nil {
		return err
	}
	if err := p.afford(ctx, stage, s); err != nil {
		return err
	}
	p.mu.Lock()
	p.doc.Lines++
	p.at = s.line
	p.stops = p.stops || s.command() == "stop" || s.command() == "exit"
	p.mu.Unlock()
	p.out.begin(s.text)
	if err := stage.Say(ctx, s.text); err != nil {
		return err
	}
	if s.verb == verbBeside || s.command() == "exit" {
		return nil
	}
	return stage.Rest(ctx)
}

// fails is the error of a turn that failed.
func (p *player) fails() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.broken
	if r == nil || r.Error == nil {
		return nil
	}
	return &turnError{result: r, text: fmt.Sprintf("%s:%d: %s", p.name, p.at, r.Error.Message)}
}

// afford ends a script that has used up what it may.
func (p *player) afford(ctx context.Context, stage Stage, s statement) error {
	cfg := p.inv.cfg
	if cfg.MaxTokens <= 0 && cfg.MaxCostUSD <= 0 {
		return nil
	}
	p.spent(ctx, stage)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.inv.result
	limits := agent.Limits{MaxTokens: cfg.MaxTokens, MaxCostUSD: cfg.MaxCostUSD}
	err := limits.Check(agent.Spent{Usage: r.Usage, CostUSD: r.CostUSD})
	if err == nil {
		return nil
	}
	status, f := coordinator.Fail(err)
	return &fault{status: status, kind: f.Kind, text: fmt.Sprintf("%s:%d: not typed: %s", p.name, s.line, f.Message), hint: f.Hint}
}

// spent takes up what was used beside the turns, such as for /ask.
func (p *player) spent(ctx context.Context, stage Stage) {
	now, _, err := stage.Look(ctx)
	if err != nil || now.SessionID != p.began.SessionID {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r, u := p.inv.result, now.Usage
	if u.Total-p.began.Usage.Total <= r.Usage.Total {
		return
	}
	r.Usage.Input, r.Usage.CachedInput = u.Input-p.began.Usage.Input, u.CachedInput-p.began.Usage.CachedInput
	r.Usage.Output, r.Usage.Reasoning = u.Output-p.began.Usage.Output, u.Reasoning-p.began.Usage.Reasoning
	r.Usage.Total, r.Usage.Estimated = u.Total-p.began.Usage.Total, u.Estimated
	r.CostUSD = nil
	if now.CostUSD != nil {
		cost := *now.CostUSD
		if p.began.CostUSD != nil {
			cost -= *p.began.CostUSD
		}
		r.CostUSD = &cost
	}
}

// expect checks an expression when all has ended, or when Ralph asks what the
// expression is about.
func (p *player) expect(ctx context.Context, stage Stage, s statement) error {
	wait := p.settle
	if s.expr.asks {
		wait = func(ctx context.Context, stage Stage) error { return stage.Rest(ctx) }
	}
	if err := wait(ctx, stage); err != nil {
		return err
	}
	env, err := p.env(ctx, stage)
	if err != nil {
		return err
	}
	broken := p.looked()
	ok, trouble := s.expr.holds(env)
	if trouble == nil && ok {
		return nil
	}
	return p.unmet(s, "is false", trouble, broken, env)
}

// wait looks until the expression is true, or for so long.
func (p *player) wait(ctx context.Context, stage Stage, s statement) error {
	late := time.NewTimer(s.within)
	defer late.Stop()
	tick := time.NewTicker(waitEvery)
	defer tick.Stop()
	for over := false; ; {
		env, err := p.env(ctx, stage)
		if err != nil {
			return err
		}
		ok, trouble := s.expr.holds(env)
		switch {
		case trouble == nil && ok:
			p.looked()
			return nil
		case over:
			return p.unmet(s, "is false after "+s.within.String(), trouble, p.looked(), env)
		}
		select {
		case <-tick.C:
		case <-late.C:
			over = true // it is looked at once more
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// looked notes that an expectation was checked, which decides about a turn that
// failed before it: that turn, or nil.
func (p *player) looked() (broken *Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doc.Expectations++
	broken, p.broken = p.broken, nil
	return broken
}

// unmet is the error of an expectation that does not hold, or has no answer. A turn
// that failed before it is what most likely is the matter.
func (p *player) unmet(s statement, how string, trouble error, broken *Result, env map[string]any) error {
	values := s.expr.values(p.exprs, env)
	p.mu.Lock()
	p.doc.Failed = &scriptFailure{Line: s.line, Expr: s.text, Values: values}
	p.mu.Unlock()
	if trouble != nil {
		how = "has no answer: " + trouble.Error()
	}
	text := fmt.Sprintf("%s:%d: %s %s: %s", p.name, s.line, s.verb, oneRow(s.text), how)
	if len(values) > 0 {
		text += "; " + shownValues(values)
	}
	hint := "the lines after it were not typed"
	if broken != nil && broken.Error != nil {
		text += "\nthe turn before it failed: " + broken.Error.Message
		if broken.Error.Hint != nil {
			hint = *broken.Error.Hint
		}
	}
	return &fault{status: result.Failed, kind: "expectation", text: text, hint: hint}
}

// env is what an expression sees.
func (p *player) env(ctx context.Context, stage Stage) (map[string]any, error) {
	now, question, err := stage.Look(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	last := &Result{}
	if p.last != nil {
		last = p.last
	}
	p.mu.Unlock()
	env, _ := exprOf(reflect.ValueOf(*last)).(map[string]any) // a struct is one
	env["output"], env["question"], env["mode"], env["state"] = p.out.text(), question, now.Mode, now.State
	env["waiting"] = exprOf(reflect.ValueOf(now.Queue))
	var children []crew.Agent
	for _, a := range now.Agents {
		if a.Depth > 0 {
			children = append(children, a)
		}
	}
	env["agents"] = exprOf(reflect.ValueOf(children))
	return env, nil
}

// counted says what a script holds.
func (p *player) counted(list []statement) string {
	lines, expectations := 0, 0
	for _, s := range list {
		if s.expr != nil {
			expectations++
		} else {
			lines++
		}
	}
	return text.Count(lines, "line") + ", " + text.Count(expectations, "expectation")
}

// turnError ends a script as the turn did that failed.
type turnError struct {
	result *Result
	text   string
}

func (e *turnError) Error() string { return e.text }

// ending is that of the turn, and says at which line.
func (e *turnError) ending() (result.Status, int, *result.Failure) {
	r, f := e.result, e.result.Error
	out := &result.Failure{Kind: f.Kind, Message: e.text, Retryable: f.Retryable}
	if f.Hint != nil {
		out.Hint = *f.Hint
	}
	if f.HTTPStatus != nil {
		out.HTTPStatus = *f.HTTPStatus
	}
	if f.RetryAfter != nil {
		out.RetryAfter = time.Duration(*f.RetryAfter * float64(time.Second))
	}
	signal := 0
	if r.Status == result.Interrupted {
		signal = r.ExitCode - 128
	}
	return r.Status, signal, out
}

// transcript is the conversation, and the text that the last line printed. It is
// safe for concurrent use.
type transcript struct {
	mu   sync.Mutex // guards what follows
	w    io.Writer
	kept []byte
}

// begin shows a line that is typed; what is printed from there on is its output.
func (t *transcript) begin(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = nil
	content := "\n> " + strings.ReplaceAll(text.Visible(line), "\n", "\n  ") + "\n"
	_, _ = io.WriteString(t.w, content) // its owner notices that it takes nothing
}

// Write shows what the chat says.
func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*maxKeptOutput {
		t.kept = slices.Clone(t.kept[len(t.kept)-maxKeptOutput:])
	}
	return t.w.Write(b)
}

func (t *transcript) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.kept), "\uFFFD")
}
