package coordinator

import (
	"context"
	"errors"
	"strings"

	"ralph/coordinator/loop"
	"ralph/coordinator/permission"
	"ralph/coordinator/policy"
	"ralph/coordinator/result"
	"ralph/interrupts"
	"ralph/memory"
	"ralph/memory/config"
	"ralph/memory/durable"
	"ralph/memory/session"
	"ralph/workers/agent"
	"ralph/workers/model"
)

// errTimeout is the cause of a context that --timeout ended.
var errTimeout = errors.New("the time limit of --timeout is used up")

// errNoModel ends a Run of a Coordinator that was opened with NoModel.
var errNoModel = errors.New("no model was chosen")

// ErrBusy refuses what cannot be done while work is under way.
var ErrBusy = errors.New("work is under way")

// Fail says what an error means for a run: how it ended and what to tell. It
// knows every error that Open, Run and their callees return; any other one is
// an internal failure.
func Fail(err error) (result.Status, *result.Failure) {
	if stop, ok := interrupts.AsStop(err); ok {
		return result.Interrupted, &result.Failure{Kind: "interrupted", Message: stop.Error(), Hint: hintInterrupted}
	}
	var (
		own      *result.Error
		mod      *model.Error
		mismatch *model.MismatchError
		limit    *agent.LimitError
		rule     *policy.RuleError
		disk     *durable.Error
	)
	switch {
	case errors.Is(err, errTimeout):
		return failTimeout()
	case errors.As(err, &own):
		f := &result.Failure{Kind: string(own.Status), Message: own.Error(), Hint: own.Hint}
		return own.Status, f
	case errors.As(err, &mismatch):
		return result.Failed, &result.Failure{Kind: kindReplay, Message: err.Error(), Hint: hintReplay}
	case errors.As(err, &mod):
		return failModel(mod, err)
	case errors.As(err, &limit):
		return failLimit(limit)
	case errors.Is(err, context.DeadlineExceeded):
		// Below the model's own errors: a connection that timed out matches too.
		return failTimeout()
	case errors.Is(err, context.Canceled):
		return result.Interrupted, &result.Failure{Kind: "interrupted", Message: "interrupted", Hint: hintInterrupted}
	case errors.As(err, &rule):
		return result.Usage, &result.Failure{Kind: "rule", Message: err.Error(), Hint: hintRule}
	case errors.Is(err, memory.ErrLocked):
		return result.Locked, &result.Failure{Kind: "locked", Message: err.Error(), Hint: "ralph status shows what it does; ralph \"task\" has it do a task", Retryable: true}
	case errors.As(err, &disk) && disk.Hint != "":
		return result.Failed, &result.Failure{Kind: "io", Message: disk.Error(), Hint: disk.Hint}
	case errors.Is(err, config.ErrConfig):
		return result.ConfigError, &result.Failure{Kind: "config", Message: err.Error(), Hint: "`ralph config` shows every setting and where it comes from"}
	case errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrAmbiguous):
		return result.Usage, &result.Failure{Kind: "session", Message: err.Error(), Hint: "ralph chat begins a session, and says which one can go on"}
	case errors.Is(err, permission.ErrNobody):
		return result.NeedsInput, &result.Failure{Kind: "needs_input", Message: err.Error(), Hint: hintAnswer}
	case errors.Is(err, permission.ErrOnAskFail):
		return result.Denied, &result.Failure{Kind: "denied", Message: err.Error(), Hint: hintPermission}
	case errors.Is(err, ErrNothingToRedo):
		return result.Failed, &result.Failure{Kind: "nothing_to_redo", Message: err.Error(), Hint: "what undo took back can be redone until other work changes files"}
	case errors.Is(err, ErrNothingToUndo):
		return result.Failed, &result.Failure{Kind: "nothing_to_undo", Message: err.Error(), Hint: "only turns that changed files can be undone"}
	case errors.Is(err, loop.ErrUnsaved):
		return result.Failed, &result.Failure{Kind: kindUnsaved, Message: err.Error(), Hint: hintUnsaved}
	case errors.Is(err, agent.ErrRepeats):
		return result.Failed, &result.Failure{Kind: "repeats", Message: err.Error(), Hint: "say in the task what was tried, or use another model"}
	case errors.Is(err, agent.ErrCut):
		return result.Limit, &result.Failure{Kind: "output_limit", Message: err.Error(), Hint: "raise --max-output-tokens or ask for less at once"}
	}
	return result.Failed, &result.Failure{Kind: "internal", Message: err.Error()}
}

// kindReplay is the kind of a run that differs from its recording.
const kindReplay = "replay_mismatch"

const hintReplay = "the work differs from the recording: record it again with --record, or find what changed"

const hintPermission = "allow it with --allow RULE, run commands unsandboxed with --sandbox off, or answer in `ralph chat`"

const hintAnswer = "answer it in the task text, or use `ralph chat`"

const hintInterrupted = "what was done until then is kept; run it again to go on"

const hintRule = `a rule is an expression over tool, command, argv, path, network and acts, such as 'tool == "shell" && argv[0] == "curl"'`

func failTimeout() (result.Status, *result.Failure) {
	return result.Timeout, &result.Failure{Kind: "timeout", Message: errTimeout.Error(), Hint: "raise --timeout, or make the task smaller; what was done until then is kept"}
}

func failLimit(e *agent.LimitError) (result.Status, *result.Failure) {
	if e.Unknown {
		return result.ConfigError, &result.Failure{Kind: "price_unknown", Message: e.Error(), Hint: "set `prices:` for the model in the user's config, or leave out " + e.Flag}
	}
	return result.Limit, &result.Failure{Kind: "limit", Message: e.Error(), Hint: "raise " + e.Flag + " and run it again"}
}

func failModel(e *model.Error, whole error) (result.Status, *result.Failure) {
	f := &result.Failure{Kind: string(e.Kind), Message: strings.ReplaceAll(whole.Error(), "\n", "; "), Hint: e.Hint, Retryable: e.Retryable, HTTPStatus: e.HTTPStatus, RetryAfter: e.RetryAfter}
	switch e.Kind {
	case model.KindAuth, model.KindNoModel, model.KindModelNotFound:
		return result.ConfigError, f
	case model.KindRateLimit:
		return result.RetryLater, f
	}
	return result.ProviderError, f
}
