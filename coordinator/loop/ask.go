package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ralph/coordinator/permission"

	"ralph/coordinator/policy/decide"
	"ralph/memory/feature"
	"ralph/memory/text"
)

// The kinds of questions.
const (
	askApproval   = "approval"
	askConfidence = "confidence"
	askAboutError = "error"
	askBreaker    = KindBreaker
	askGate       = "gate"
	askPlan       = "plan"
	askAgent      = "agent"
	askSave       = "save"
)

// KindBreaker is the kind of the question whether a breaker that is open may be tried
// again.
const KindBreaker = "breaker"

// Answers that mean something by themselves.
const (
	sayGo    = "go"
	sayRetry = "retry"
	saySkip  = "skip"
	sayFail  = "fail"
	sayStop  = "stop"
)

// question is one that waits for its answer.
type question struct {
	permission.Question
	// take does what the answer says: one of the options, or an instruction with the
	// option go or retry, whichever there is.
	take   func(ctx context.Context, option, text string)
	cancel context.CancelFunc // nil as long as it is not being asked
}

// whole says that nothing begins until a question is answered.
func (q *question) whole() bool { return q.TaskID == "" }

// answer is what a human said to a question.
type answer struct {
	to   *question
	text string
	err  error
}

// raise asks a question, once.
func (e *engine) raise(kind, task, text string, options []string, take func(ctx context.Context, option, text string)) {
	for _, q := range e.questions {
		if q.Kind == kind && q.TaskID == task {
			return
		}
	}
	e.s.Tally.Questions++
	e.dirty = true
	e.questions = append(e.questions, &question{Question: permission.Question{Kind: kind, TaskID: task, Text: text, Options: append([]string{}, options...), Asked: e.now()}, take: take})
}

// blocked says that nothing may begin before a question is answered.
func (e *engine) blocked() bool { return slices.ContainsFunc(e.questions, (*question).whole) }

// questioned says that a task waits for an answer.
func (e *engine) questioned(id string) bool {
	return slices.ContainsFunc(e.questions, func(q *question) bool { return q.TaskID == id })
}

// drop takes back the questions for which is says so.
func (e *engine) drop(is func(*question) bool) {
	e.questions = slices.DeleteFunc(e.questions, func(q *question) bool {
		if !is(q) {
			return false
		}
		if q.cancel != nil {
			q.cancel()
		}
		e.dirty = true
		return true
	})
}

// withdraw takes back all questions but one.
func (e *engine) withdraw(but *question) { e.drop(func(q *question) bool { return q != but }) }

// ask puts the first question to the human. Where nobody is there, it pauses the
// run once what is at work has ended.
func (e *engine) ask(ctx context.Context) {
	e.s.Question = nil
	if len(e.questions) == 0 {
		return
	}
	q := e.questions[0]
	if i := slices.IndexFunc(e.questions, (*question).whole); i >= 0 && e.asked == nil {
		q = e.questions[i]
	}
	if e.asked != nil {
		q = e.asked
	}
	if e.s.Question = &q.Question; e.asked != nil || e.end != nil || ctx.Err() != nil {
		return
	}
	if e.o.Ask == nil {
		e.unanswered(q)
		return
	}
	ctx, q.cancel = context.WithCancel(ctx)
	e.asked = q
	e.workers.Add(1)
	go func() {
		defer e.workers.Done()
		text, err := e.o.Ask(ctx, q.Question)
		e.answers <- answer{q, text, err} // there is room for the one that is asked
	}()
}

// unanswered ends the run, which can go on, with a question.
func (e *engine) unanswered(q *question) {
	copied := q.Question
	e.end = &ending{status: feature.Paused, reason: "it needs an answer: " + q.Text, question: &copied}
	if q.TaskID != "" {
		e.s.task(q.TaskID).Asked = true
	}
	e.tellQuestion(q.Question)
	e.dirty = true
}

// answered takes an answer.
func (e *engine) answered(ctx context.Context, a answer) {
	e.asked = nil
	a.to.cancel()
	if !slices.Contains(e.questions, a.to) || ctx.Err() != nil {
		return // it was taken back
	}
	if a.err != nil {
		if !errors.Is(a.err, context.Canceled) {
			e.o.Warn("a question got no answer: " + a.err.Error())
		}
		e.unanswered(a.to)
		return
	}
	e.drop(func(q *question) bool { return q == a.to })
	e.dirty, e.stale = true, true
	text := strings.TrimSpace(a.text)
	option := optionOf(text, a.to.Options)
	if option == sayStop {
		copied := a.to.Question
		e.end = &ending{status: feature.Paused, reason: "stopped by the answer to a question: " + a.to.Text, question: &copied}
		if a.to.Kind == askApproval {
			e.end = &ending{status: feature.Cancelled, reason: "the plan was not approved"}
		}
		return
	}
	if option != "" {
		text = ""
	} else if slices.Contains(a.to.Options, sayRetry) {
		option = sayRetry
	} else {
		option = sayGo
	}
	a.to.take(ctx, option, text)
}

// optionOf reads an answer as one of the options; "" when it says something else.
func optionOf(text string, options []string) string {
	word := strings.ToLower(strings.Trim(text, " .!\t"))
	if slices.Contains(options, word) {
		return word
	}
	switch word {
	case "", "y", "yes", "ok", "okay", "continue", "go on", "approve", "accept", "resume":
		if word != "" && slices.Contains(options, sayGo) {
			return sayGo
		}
		if slices.Contains(options, sayRetry) {
			return sayRetry
		}
		if slices.Contains(options, sayStop) && word == "" {
			return sayStop // silence is no consent
		}
	case "again", "try again":
		if slices.Contains(options, sayRetry) {
			return sayRetry
		}
	case "n", "no", "quit", "abort", "cancel":
		if slices.Contains(options, sayStop) {
			return sayStop
		}
	}
	return ""
}

// approve asks one question before the first task: about all tasks that are unclear,
// and with always about any plan. A start without a terminal is the approval.
func (e *engine) approve(ctx context.Context) {
	mode := e.s.Settings.HumanIntervention
	if e.s.Approved || e.o.Ask == nil || mode != askFirst && mode != askAlways {
		e.s.Approved = true
		return
	}
	unclear, told := e.unclear(ctx)
	if len(unclear) == 0 && mode == askFirst {
		e.s.Approved = true
		return
	}
	content := fmt.Sprintf("Work the plan %s? %d of %d tasks are open", first(e.p.Name, e.p.Path, e.p.Tracker), e.counts.Open, e.counts.Total)
	if len(unclear) > 0 {
		content += fmt.Sprintf(", and %d of them unclear: %s", len(unclear), text.List(told, maxNamed))
	}
	e.raise(askApproval, "", content, []string{sayGo, sayStop}, func(_ context.Context, _, content string) {
		for _, id := range unclear {
			e.s.task(id).Permitted = true
		}
		if e.s.Approved = true; content != "" {
			e.s.Guidance = say(e.s.Guidance, content)
		}
	})
}

// unclear returns the open tasks that would be asked about, and each with its title
// and the reason. What they depend on counts as merged.
func (e *engine) unclear(ctx context.Context) (ids, told []string) {
	for i := range e.p.Tasks {
		t := &e.p.Tasks[i]
		if !e.scope[t.ID] || !e.stands[t.ID].Open() {
			continue
		}
		k := e.s.known(t.ID)
		f := e.facts(ctx, t, k)
		f.Merged = f.Dependencies
		c := decide.Choose(f)
		rules := e.rules(k, c)
		rules.Mode = decide.AskFirst
		if answer, why := decide.Verdict(c.Sum, rules); answer == decide.Ask {
			ids, told = append(ids, t.ID), append(told, fmt.Sprintf("%s (%s; %s)", t.ID, text.Clip(t.Title, 80), why))
		}
	}
	return ids, told
}
