package external

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"ralph/memory/text"
	"ralph/workers/agent"
	"ralph/workers/exec"
	"ralph/workers/exec/supervise"
)

// judge makes the result of what the stream, the errors and the end have said.
// why is what of ours ended it, err what Start returned.
func (r *run) judge(ctx context.Context, got exec.Result, why, err error) {
	s, res := r.in.s, &r.res
	res.Exit, res.Signal, res.Killed = got.ExitCode, got.Signal, got.Killed
	res.Started = res.Started || got.Duration > 0
	res.Final, res.Denied = s.final(), s.denied
	res.Usage, res.CostUSD = s.usage, s.cost
	res.Session, res.Model, res.Turns = s.session, s.model, s.turns
	res.ToolCalls, res.ToolErrors = s.calls, s.bad
	res.Lines, res.Skipped = r.in.lines, r.in.skipped
	res.Stderr = r.errs.String()
	res.Warnings = slices.Clone(s.warned)
	if s.cut {
		res.Warnings = append(res.Warnings, "only the end of the agent's final text is kept")
	}
	if u := s.usage; r.q.Events != nil && u.Total > 0 {
		r.q.Events(agent.Event{Type: agent.EventUsage, Usage: &u, CostUSD: s.cost, Model: s.model})
	}
	res.Promised, res.Uncounted = promised(res.Final, r.q.Prompt, s.cut)
	if r.ended(ctx, why, err) {
		return
	}
	content := r.complaint(got)
	switch {
	case why == nil && r.in.lines == 0 && (got.ExitCode == 126 || got.ExitCode == 127):
		// The shell could not become the program, though it is there.
		r.missing(errors.New(text.Clip(text.OneLine(content.text), 500)))
		r.res.Hint = "the program is there, but its interpreter is missing"
		if r.q.Held {
			r.res.Hint += ", or the sandbox does not show it: install it elsewhere than below /tmp"
		}
	case why == nil && r.mismatch(got):
		hint := "its arguments are data: set `command` of this agent in the user config to what the installed version takes"
		r.fail(KindMismatch, r.wrong(ErrMismatch, content.text), hint)
	case why == nil && s.failure == nil && s.closed && got.ExitCode == 0 && got.Signal == "":
		r.succeed()
	default:
		f := faultOf(content, r.quota)
		switch {
		case errors.Is(why, ErrQuota):
			// Its wait has been cut short.
		case why != nil && !f.quota && f.kind == KindExecution:
			f.err = why
		case why != nil:
			f.err = fmt.Errorf("%w: %w", f.err, why)
		}
		res.Quota, res.RetryAfter = f.quota, f.after
		r.fail(f.kind, r.wrong(f.err, content.text), f.hint)
	}
}

// ended handles what is neither the program's success nor its failure: it never
// ran, it was stopped, or it left something running.
func (r *run) ended(ctx context.Context, why, err error) bool {
	name := r.q.Adapter.Name
	var pe *exec.Error
	var left *supervise.SurvivorError
	switch {
	case err == nil:
		return false
	case ctx.Err() != nil || why == nil && isStop(err):
		r.res.Interrupted = true
		if why == nil {
			why = err
		}
		r.fail(KindNone, fmt.Errorf("run agent %q: %w", name, why), "")
	case errors.As(err, &pe):
		r.res.Started = false
		if errors.Is(err, fs.ErrNotExist) && pe.Path == r.q.Adapter.Argv[0] {
			r.missing(err)
			break
		}
		r.fail(KindExecution, fmt.Errorf("run agent %q: %w", name, err), pe.Hint)
	case errors.As(err, &left):
		r.fail(KindExecution, fmt.Errorf("run agent %q: %w", name, err), "")
	case why == nil:
		// Something of the caller's, such as a sandbox that is not there.
		r.fail(KindExecution, fmt.Errorf("run agent %q: %w", name, err), "")
	default:
		return false
	}
	return true
}

// succeed is for a run that ended well; one whose tools were all denied did not.
func (r *run) succeed() {
	s, res := r.in.s, &r.res
	if len(s.denied) > 0 && s.ok == 0 {
		r.fail(KindPermission, r.wrong(ErrDenied, strings.Join(s.denied, "; ")), "allow the tool in the program's own settings, or by `args` of this agent")
		return
	}
	if len(s.denied) > 0 {
		res.Warnings = append(res.Warnings, "the agent's own permissions denied "+strings.Join(s.denied, "; "))
	}
	res.Clean, res.Declared = true, res.Promised
}

// wrong is an error of the agent with what it said.
func (r *run) wrong(err error, content string) error {
	if content = text.Clip(text.OneLine(content), 500); content != "" {
		return fmt.Errorf("agent %q: %w: %s", r.q.Adapter.Name, err, content)
	}
	return fmt.Errorf("agent %q: %w", r.q.Adapter.Name, err)
}

// complaint is the best account of what went wrong: the stream's own, else what
// was said on standard error, else the exit.
func (r *run) complaint(got exec.Result) failure {
	s := r.in.s
	said := strings.TrimSpace(r.res.Stderr)
	switch {
	case s.failure != nil:
		return *s.failure
	case s.trouble != nil && !s.closed:
		return *s.trouble
	}
	how := fmt.Sprintf("it exited with %d", got.ExitCode)
	if got.Signal != "" {
		how = "it was ended by " + got.Signal
	}
	switch {
	case s.plain && got.ExitCode != 0:
		// A text is all that there is; its end is where the error stands.
		said = strings.TrimSpace(lastBytes(s.final(), 2<<10) + "\n" + lastBytes(said, 2<<10))
	case s.closed:
		return failure{text: how + " after it had ended well", status: statusOf(r.q.Adapter.Format, got.ExitCode)}
	case got.ExitCode == 0:
		how = "its stream ended without the closing event"
	}
	text := how
	if said != "" {
		text += ": " + lastBytes(said, 4<<10)
	}
	return failure{status: statusOf(r.q.Adapter.Format, got.ExitCode), text: text}
}

func lastBytes(s string, n int) string { return strings.ToValidUTF8(s[max(0, len(s)-n):], "") }

// statusOf reads an exit code that is a status of HTTP cut to a byte, or means
// one, as those of gemini do.
func statusOf(format string, exit int) int {
	if format != formatGemini {
		return 0
	}
	switch exit {
	case 41: // no way to log in
		return 401
	case 145, 147, 173:
		return exit + 256
	case 244, 246, 247:
		return exit + 256
	}
	return 0
}

// mismatch says that the program did not take its arguments: the usual exit for
// that, or words to that effect, and no event.
func (r *run) mismatch(got exec.Result) bool {
	if r.in.s.events > 0 && !r.in.s.plain || got.ExitCode == 0 || got.Signal != "" {
		return false
	}
	return r.in.lines == 0 && got.ExitCode == 2 || mismatchWords().MatchString(lastBytes(r.res.Stderr, 4<<10)) && r.in.s.events == 0
}
