package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ralph/coordinator/policy/fault"
	"ralph/memory/text"
)

// end is what an attempt came to.
type end string

const (
	endDone        end = "done"
	endFailed      end = "failed"
	endQuota       end = "rate_limited"
	endQuestion    end = "needs_input"
	endInterrupted end = "interrupted"
	endGone        end = "cancelled" // its task is not to be worked any more
)

// judgement is what an attempt came to, by the evidence.
type judgement struct {
	end      end
	why      string // in words, when it is not done
	kind     fault.Kind
	verified bool
	feedback string   // for the next attempt
	sure     *float64 // how sure the agent said it was; nil: it did not say
	limit    bool     // a limit of the whole run has ended it
	futile   bool     // another attempt of the same agent comes to the same
}

// judge says what an attempt came to. What the agent says of its work counts only
// as far as it says that it is not done: that it is done takes a clean end, checks
// that passed, and work that is merged.
func judge(o Order, r Report, requireCheck bool) judgement {
	switch {
	case r.Status == interrupted, errors.Is(r.Err, context.Canceled):
		return judgement{end: endInterrupted, why: first(r.Problem, "it was stopped")}
	case r.Quota:
		return judgement{end: endQuota, why: first(r.Problem, "the agent may not work now"), kind: fault.Resource}
	case r.Status == needsInput:
		return judgement{end: endQuestion, why: first(r.Question, r.Problem, r.Summary, "it needs an answer")}
	case len(r.Weakened) > 0:
		return failure(r, fault.Facts{Weakened: true}, "its work weakens what checks it: "+strings.Join(r.Weakened, "; "),
			"Your changes weaken the checks of your own work, so they were not merged:\n- "+strings.Join(r.Weakened, "\n- ")+"\nUndo that, and solve the task itself.")
	}
	for _, c := range r.Checks {
		if c.Failed() {
			return failed(r, c)
		}
	}
	switch {
	case r.Err != nil:
		return failure(r, fault.Facts{Said: r.Kind, Output: r.Err.Error()}, first(r.Problem, r.Err.Error()), "")
	case r.Landing == "conflict" || r.Landing == "held":
		return failure(r, fault.Facts{Conflict: true}, first(r.Problem, "its work is not merged: "+r.Landing), "")
	case r.Status != saidDone:
		return failure(r, fault.Facts{Said: r.Kind, Output: r.Problem}, first(r.Problem, "it says that it is "+first(r.Status, "not done")), "")
	case !r.Declared:
		return failure(r, fault.Facts{Said: first(r.Kind, string(fault.Execution))}, first(r.Problem, "it ended without saying that the task is complete"),
			"You ended without saying that the task is complete. Go on until it is, then declare it as you were told.")
	case r.Landing != landedMerged && r.Landing != landedUnchanged:
		return failure(r, fault.Facts{Conflict: true}, first(r.Problem, "its work is not merged"), "")
	case requireCheck && !r.Verified:
		return failure(r, fault.Facts{Said: string(fault.Validation)}, "nothing has checked it, and --require-check asks for that",
			"Nothing has checked this work. Name a command that proves it.")
	}
	return judgement{end: endDone, verified: r.Verified}
}

// failed is an attempt that a check refused.
func failed(r Report, c CheckRun) judgement {
	how := fmt.Sprintf("its check %q failed with exit code %d", c.Command, c.ExitCode)
	if c.TimedOut {
		how = fmt.Sprintf("its check %q did not end in time", c.Command)
	}
	said := strings.TrimSpace(c.Output)
	if said != "" {
		said = "\n" + said
	}
	return failure(r, fault.Facts{Said: r.Kind, Check: true, ExitCode: c.ExitCode, TimedOut: c.TimedOut, Output: c.Output}, how, strings.ToUpper(how[:1])+how[1:]+"."+said)
}

func failure(r Report, f fault.Facts, why, feedback string) judgement {
	if feedback == "" {
		feedback = "The last attempt did not get there: " + why
		if r.Summary != "" {
			feedback += "\nIt said of itself: " + r.Summary
		}
	}
	return judgement{end: endFailed, why: why, kind: fault.Classify(f), feedback: text.Clip(feedback, maxFeedbackBytes), futile: r.Futile}
}

// first is the first of the texts that says something.
func first(texts ...string) string {
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" {
			return t
		}
	}
	return ""
}
