package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ralph/coordinator/plan"
	"ralph/memory/feature"
	"ralph/memory/text"
)

// rest is asked when nothing is at work: whether anything will come by itself, and
// how the run ends otherwise.
func (e *engine) rest(ctx context.Context) {
	if e.remaining() == 0 { // there is nothing left that a breaker could keep from being begun
		e.drop(func(q *question) bool { return q.Kind == askBreaker })
	}
	if e.halted || e.next != nil || len(e.questions) > 0 || e.unread != nil || e.wait != nil {
		return
	}
	for _, id := range e.byPhase(e.ranked.ready()) {
		t, _ := e.find(id)
		if e.hindered(t, e.s.known(id)) {
			continue
		}
		// It is ready, and the breaker is against it.
		if cause := e.breaker.State().Cause; e.breaker.Held() && cause != nil {
			e.needHelp(*cause, "")
		}
		return
	}
	if e.wait != nil || e.refused() {
		return
	}
	if held := e.held(); len(held) > 0 {
		e.end = &ending{status: feature.Paused, reason: "not worked on until you say so: " + text.List(held, maxNamed)}
		return
	}
	if !e.conclude(ctx) || ctx.Err() != nil {
		return
	}
	e.end = e.conclusion()
}

// refused sees to the tasks that were too unsure to be begun, when nothing else is
// left: the human is asked; where nobody ever is, they are left out.
func (e *engine) refused() bool {
	any := false
	for i := range e.p.Tasks {
		t := &e.p.Tasks[i]
		k := e.s.known(t.ID)
		if k.Refused == "" || !e.scope[t.ID] || !e.stands[t.ID].Open() {
			continue
		}
		any = true
		if e.alone() {
			e.leave(t, "too unsure: "+k.Refused)
			e.s.task(t.ID).Refused = ""
			e.stale = true
			continue
		}
		id, why := t.ID, k.Refused
		e.raise(askConfidence, id, fmt.Sprintf("Work %s (%s) all the same? %s", id, t.Title, why), []string{sayGo, saySkip, sayStop}, func(_ context.Context, option, said string) {
			k := e.s.task(id)
			k.Refused = ""
			if now, ok := e.find(id); ok && option == saySkip {
				e.leave(now, "the user left it out")
				return
			}
			if k.Permitted = true; said != "" {
				k.Guidance = say(k.Guidance, said)
			}
		})
	}
	return any
}

// held are the tasks that somebody has stopped.
func (e *engine) held() []string {
	var list []string
	for i := range e.p.Tasks {
		t := &e.p.Tasks[i]
		if k := e.s.known(t.ID); k.Held != "" && e.scope[t.ID] && e.stands[t.ID].Open() {
			list = append(list, fmt.Sprintf("%s (%s)", t.ID, k.Held))
		}
	}
	return list
}

// conclusion is how a run ends of which nothing can be worked any more.
func (e *engine) conclusion() *ending {
	var failed, left, stuck, later []string
	errored, unsaid := 0, 0 // of the tasks that were given up
	for i := range e.p.Tasks {
		t := &e.p.Tasks[i]
		if !e.scope[t.ID] {
			continue
		}
		switch k := e.s.known(t.ID); {
		case k.Failures > 0 && (k.Over == plan.Failed || k.Over == plan.Skipped):
			errored++
		case e.stands[t.ID] == plan.Failed:
			unsaid++
		}
		switch s := e.stands[t.ID]; {
		case s == plan.Failed:
			failed = append(failed, t.ID)
		case s == plan.Skipped && e.s.known(t.ID).Over != "":
			left = append(left, t.ID)
		case s.Open() && t.DeferUntil.After(e.now()):
			later = append(later, t.ID)
		case s.Open():
			stuck = append(stuck, t.ID+" "+e.whyNot(t))
		}
	}
	var parts []string
	for _, p := range []struct {
		what string
		ids  []string
	}{{"failed: ", failed}, {"left out: ", left}, {"cannot be worked: ", stuck}, {"put off: ", later}} {
		if len(p.ids) > 0 {
			parts = append(parts, p.what+text.List(p.ids, maxNamed))
		}
	}
	done := fmt.Sprintf("%d of %d tasks are done", e.counts.Done, e.counts.Total)
	if e.counts.Total == 0 {
		return &ending{status: failedRun, reason: "no task of the plan is selected"}
	}
	end := &ending{status: feature.Completed, reason: strings.Join(append([]string{done}, parts...), "; ")}
	if len(failed)+len(left)+len(stuck) > 0 {
		end.status, end.told = failedRun, errored > 0 && unsaid == 0
	}
	return end
}

// whyNot says why a task that is open is not worked.
func (e *engine) whyNot(t *plan.Task) string {
	for _, id := range e.needs[t.ID] {
		if e.stands[id] == plan.Done {
			continue
		}
		if need, ok := e.find(id); ok && !e.scope[id] && need.Kind != epicKind {
			return "needs " + id + ", which is not part of this run"
		}
		return "needs " + id
	}
	switch e.stands[t.ID] {
	case plan.InProgress:
		by := ""
		if who := first(t.Assignee, t.Agent); who != "" {
			by = " (" + who + ")"
		}
		id := t.ID
		if strings.ContainsAny(id, " ~'#&/") {
			id = "'" + strings.ReplaceAll(id, "'", `'\''`) + "'" // as one word of a shell
		}
		return "is in progress" + by + ", and nobody here is at work on it: --retry " + id + " takes it over"
	case plan.Blocked:
		return "is blocked in the plan"
	}
	return "is not ready"
}

// maxNamed bounds how many tasks or files a sentence names.
const maxNamed = 5

// refuse is how a run ends that could not begin. Nothing was written.
func (e *engine) refuse(ctx context.Context, err error) Outcome {
	e.withdraw(nil)
	e.workers.Wait()
	out := Outcome{Status: failedRun, Reason: err.Error(), Err: err}
	if ctx.Err() != nil {
		out = Outcome{Status: feature.Interrupted, Reason: "it was stopped before it began"}
	}
	e.l.mu.Lock()
	e.l.view.Status, e.l.view.Reason = out.Status, out.Reason
	e.l.mu.Unlock()
	return out
}

// finish brings everything to rest: after a stop behind it, else at once.
func (e *engine) finish(ctx context.Context) Outcome {
	stopped := ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTime)
	if stopped {
		e.end = &ending{status: feature.Interrupted, reason: "it was stopped"}
	}
	e.status, e.reason = e.end.status, e.end.reason
	e.stale = true
	if e.end.question != nil {
		e.s.Question = e.end.question
	}
	if stopped && e.o.Behind != nil {
		out := e.outcome()
		e.show()
		e.o.Behind(func(ctx context.Context) { _ = e.close(ctx) }) // what is owed is in the snapshot
		return out
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterTime)
	defer cancel()
	if err := e.close(ctx); err != nil {
		e.end.err = errors.Join(e.end.err, err)
		if e.end.status == feature.Completed {
			e.end.status, e.end.reason = feature.Paused, "the plan does not have all of it yet: "+err.Error()
			e.status, e.reason = e.end.status, e.end.reason
			e.save(e.status)
		}
	}
	e.show()
	return e.outcome()
}

// ErrUnsaved is the end of a run that is not on disk.
var ErrUnsaved = errors.New("how the run stands could not be saved")

// close pays what the plan is owed, and writes everything for the last time.
func (e *engine) close(ctx context.Context) error {
	e.recount()
	err := e.pay(ctx)
	if err != nil {
		e.o.Warn("the plan does not know yet: " + err.Error())
	}
	if p, lost := e.tracker.Load(ctx); lost == nil { // as it is now that it knows
		_ = e.adopt(p) // what it was before was adopted, so it can only be worse by an edit
	}
	e.stale = true
	e.recount()
	e.report()
	e.overcome()
	e.save(e.status)
	if e.unsaved > 0 {
		err = errors.Join(err, ErrUnsaved)
	}
	return err
}

// report calls Progress for what has ended.
func (e *engine) report() {
	for _, end := range e.ends {
		if err := e.o.Progress(end); err != nil {
			e.o.Warn(fmt.Sprintf("the end of %s is not noted: %v", end.ID, err))
		}
	}
	e.ends = nil
}

// outcome is how the run stands.
func (e *engine) outcome() Outcome {
	out := Outcome{Status: e.end.status, Reason: e.end.reason, Counts: e.counts, Limit: e.end.limit, RetryAfter: e.end.after, Question: e.end.question, Err: e.end.err, Told: e.end.told && e.end.err == nil,
		Iterations: e.s.Iteration, Phase: e.phaseNow(), Since: e.o.Base.Git.Baseline}
	if e.o.Resume != nil {
		out.Since = e.o.Resume.Git.Baseline
	}
	mine, verified := 0, 0
	for i := range e.p.Tasks {
		t := &e.p.Tasks[i]
		if !e.scope[t.ID] {
			continue
		}
		switch e.standing(t) {
		case plan.Done:
			out.Done = append(out.Done, t.ID)
		case plan.Failed:
			out.Failed, out.Why = append(out.Failed, t.ID), append(out.Why, cmp.Or(e.s.known(t.ID).Why, t.Result))
		case plan.Skipped:
			out.Skipped = append(out.Skipped, t.ID)
		default:
			out.Open = append(out.Open, t.ID)
		}
		if k := e.s.known(t.ID); k.Mine {
			if mine++; k.Commit != "" && !slices.Contains(out.Commits, k.Commit) {
				out.Commits = append(out.Commits, k.Commit)
			}
			if k.Verified {
				verified++
			}
		}
	}
	out.Verified = mine > 0 && mine == verified
	out.Counts = Counts{Done: len(out.Done), Failed: len(out.Failed), Skipped: len(out.Skipped), Open: len(out.Open),
		Total: len(out.Done) + len(out.Failed) + len(out.Skipped) + len(out.Open)}
	return out
}

// persist saves what has changed since it was saved last.
func (e *engine) persist() {
	if len(e.ends) > 0 {
		e.report()
	}
	if e.dirty {
		e.save(e.status)
	}
}

// mostUnsaved is how often in a row the snapshot may not be written before nothing
// begins any more.
const mostUnsaved = 3

// save writes the snapshot.
func (e *engine) save(status feature.Status) {
	e.keepGranted()
	s, err := e.snapshot(status)
	if err == nil {
		err = e.o.Save(s)
	}
	if err == nil {
		if e.dirty = false; e.unsaved > 0 {
			e.unsaved = 0
			e.drop(func(q *question) bool { return q.Kind == askSave })
		}
		return
	}
	e.dirty = true
	if e.unsaved++; e.unsaved == 1 {
		e.o.Warn("how the run stands is not saved: " + err.Error())
	}
	if e.unsaved >= mostUnsaved && e.end == nil {
		e.raise(askSave, "", "How the run stands cannot be saved, and nothing begins until it can: "+err.Error(), []string{sayRetry, sayStop},
			func(context.Context, string, string) { e.unsaved = 0 })
	}
}

// snapshot is the run as it stands now.
func (e *engine) snapshot(status feature.Status) (feature.Snapshot, error) {
	now := e.now()
	set := e.s.Settings
	s := e.o.Base
	if e.o.Resume != nil {
		s = *e.o.Resume // with where it began, and the keys that others have put there
	}
	s.Version, s.Feature, s.SessionID = 1, set.Feature, e.o.SessionID
	s.Status, s.Phase, s.Iteration, s.MaxIterations = status, e.phaseNow(), e.s.Iteration, set.MaxIterations
	s.Phases = nil
	for _, p := range e.phases {
		s.Phases = append(s.Phases, feature.Phase{ID: p.id, Status: p.status, StartedAt: p.start, EndedAt: p.end})
	}
	s.Tasks = feature.Count{Completed: e.counts.Done, Total: e.counts.Total}
	s.ActiveTaskIDs, s.SkippedTaskIDs = nil, nil
	for _, a := range e.s.Active {
		s.ActiveTaskIDs = append(s.ActiveTaskIDs, a.Task)
	}
	for _, t := range e.listed {
		if t.Status == string(plan.Skipped) {
			s.SkippedTaskIDs = append(s.SkippedTaskIDs, t.ID)
		}
	}
	s.Iterations = slices.Clone(e.finished)
	s.Tokens = feature.Tokens{Input: int64(e.s.Usage.Input), Output: int64(e.s.Usage.Output), CachedInput: int64(e.s.Usage.CachedInput)}
	s.Agent = feature.Agent{Plugin: first(set.Agent, "ralph"), Model: set.Model, Fallback: set.Fallback, Prompt: set.Prompt, Sandbox: set.Sandbox, Parallel: set.Parallel}
	s.Tracker = feature.Tracker{Plugin: e.p.Tracker, EpicIDs: slices.Clone(set.Epics), PlanPath: first(set.Plan, e.p.Path), TotalTasks: e.counts.Total, Tasks: slices.Clone(e.listed)}
	s.StartedAt, s.UpdatedAt, s.PausedAt, s.EndedAt, s.ExitReason = e.started, now, nil, nil, ""
	switch status {
	case feature.Paused, feature.Interrupted:
		s.PausedAt, s.ExitReason = &now, e.reason
	case feature.Completed, feature.Failed, feature.Cancelled:
		s.EndedAt, s.ExitReason = &now, e.reason
	}
	st := e.s
	st.Worked, st.Breaker, st.Kept = e.worked(), e.breaker.State(), keptOf(set)
	data, err := json.Marshal(st)
	if err != nil {
		return s, fmt.Errorf("encode the state of run %q: %w", set.Feature, err)
	}
	s.Run = data
	return s, nil
}
