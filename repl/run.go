package repl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ralph/coordinator"
	"ralph/coordinator/crew"
	"ralph/coordinator/loop"
	"ralph/coordinator/permission"
	"ralph/coordinator/result"
	"ralph/coordinator/slash"
	"ralph/interrupts"
	"ralph/memory/feature"
	"ralph/memory/text"
	"ralph/repl/render"
)

// labelRun is what the prompt calls a run over a plan.
const labelRun = "run"

// errNothingBegun says that the user wants no run after all.
var errNothingBegun = errors.New("no run was begun")

// course is what the loop knows of runs over a plan.
type course struct {
	// stopped says that what was stopped last was a run: /go goes on with it.
	stopped bool
	// chosen is what /plan switch said, for the next run.
	chosen choice
	// told is the progress that was printed last where there are no live rows.
	told loop.Counts
}

// underWay is the run that is being worked, or that rests at a pause; nil for none.
func underWay(live coordinator.Live) *loop.View {
	v := live.Loop
	switch {
	case v == nil, live.State == "idle", live.State == stateInterrupted:
		return nil
	case v.Status.Live(), v.Status == feature.Paused && (live.State == statePaused || live.State == statePausing):
		return v
	}
	return nil
}

// left is the run that can go on though nobody works on it; nil for none.
func left(live coordinator.Live) *loop.View {
	if live.Loop == nil || underWay(live) != nil || !live.Loop.Status.Resumable() {
		return nil
	}
	return live.Loop
}

// autonomous does /run.
func (s *Shell) autonomous(args string) {
	set, err := slash.RunFlags(args)
	if err != nil {
		s.refuse(err)
		return
	}
	if v := underWay(s.standing); v != nil {
		s.fail("a run is under way: "+runName(v), "/pause and /stop are for it, /plan switch changes its plan; /status says how far it is")
		return
	}
	s.course.chosen.into(&set)
	talks := s.talks()
	s.autonomy(func(ctx context.Context) (coordinator.Job, error) {
		err := s.continueOrNew(ctx, &set)
		return coordinator.Job{Chat: true, Go: talks, Loop: &set, DryRun: set.DryRun}, err
	})
}

// refuse shows what is wrong with the flags of /run.
func (s *Shell) refuse(err error) {
	var f *slash.FlagError
	if errors.As(err, &f) {
		s.fail(f.Text, f.Hint)
		return
	}
	s.explain(err)
}

// The answers to what becomes of a run that can go on; the first is the safe one.
const (
	answerNothing  = "nothing"
	answerContinue = "continue"
	answerNew      = "new"
)

// continueOrNew asks what becomes of a run that can go on, when one is asked for
// without a word about it.
func (s *Shell) continueOrNew(ctx context.Context, set *loop.Settings) error {
	v := left(s.mind.Control.Live())
	if v == nil || set.Continue || set.New || set.DryRun || set.Feature != "" && set.Feature != v.Feature {
		return nil
	}
	answer, err := s.ask(ctx, permission.Question{Kind: "question",
		Text:    runStanding(v) + "\nGo on with it, or begin a new run?",
		Options: []string{answerNothing, answerContinue, answerNew}})
	switch {
	case err != nil:
		return err
	case answer == answerContinue:
		*set = loop.Settings{Feature: v.Feature, Continue: true}
	case answer == answerNew:
		set.New = true
	default:
		return errNothingBegun
	}
	return nil
}

// continueRun goes on with a run that was stopped or paused, as it was.
func (s *Shell) continueRun() {
	name := ""
	if v := s.standing.Loop; v != nil {
		name = v.Feature
	}
	s.autonomy(func(context.Context) (coordinator.Job, error) {
		return coordinator.Job{Chat: true, Go: true, Loop: &loop.Settings{Feature: name, Continue: true}}, nil
	})
}

// autonomy gives the run that prepare makes to the coordinator. prepare works beside
// the loop: it may wait for the disk and for the user.
func (s *Shell) autonomy(prepare func(context.Context) (coordinator.Job, error)) {
	s.ink.begin(s.mind.Changes.Totals())
	s.course.stopped, s.course.told = false, loop.Counts{}
	s.ink.runs(nil)
	s.start(labelRun, true, func(ctx context.Context) func() {
		job, err := prepare(ctx)
		if err != nil {
			return func() { s.notBegun(err) }
		}
		out := s.mind.Turns.Run(ctx, job)
		live := s.mind.Control.Live()
		return func() { s.runEnded(job, out, live) }
	})
}

// notBegun says why there is no run.
func (s *Shell) notBegun(err error) {
	s.ink.end()
	s.ink.runs(nil)
	_, stopped := interrupts.AsStop(err)
	if stopped || errors.Is(err, errNothingBegun) || errors.Is(err, context.Canceled) {
		s.note(errNothingBegun.Error())
		return
	}
	s.explain(err)
}

// runEnded shows what came of a run, and how it goes on when it can.
func (s *Shell) runEnded(job coordinator.Job, out result.Outcome, live coordinator.Live) {
	s.standing = live
	s.ink.runs(nil)
	if job.DryRun && out.Answer != "" {
		s.ink.say(func(r *render.Renderer) string { return r.Facts("what a run would do", out.Answer) })
	}
	s.turnEnded(out)
	s.course.stopped = out.Status == result.Interrupted
	v := live.Loop
	if v == nil || job.DryRun {
		return
	}
	told := *v
	if out.Failure != nil && strings.HasPrefix(out.Failure.Message, v.Reason) || out.Reason == v.Reason {
		told.Reason = "" // it stands above
	}
	s.note(runStanding(&told))
	if left(live) != nil && out.Failure == nil && !s.course.stopped {
		s.note(howToRunOn(v))
	}
}

// howToRunOn says how a run that rests goes on.
func howToRunOn(v *loop.View) string {
	return continueLine(v) + " goes on with it, /run --new begins another one"
}

// continueLine is the line that goes on with a run.
func continueLine(v *loop.View) string {
	return strings.TrimSpace("/run --continue " + featureFlag(v))
}

func featureFlag(v *loop.View) string {
	if v.Feature == "" {
		return ""
	}
	return "--feature " + quoted(v.Feature)
}

// quoted is a word as it can be typed.
func quoted(word string) string {
	if strings.ContainsAny(word, " \t'\"\\") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// runName names a run.
func runName(v *loop.View) string {
	name := strings.TrimSpace("the run " + v.Feature)
	if v.Plan != "" {
		name += " over " + v.Plan
	}
	return name
}

// runStanding says in a line how a run stands.
func runStanding(v *loop.View) string {
	verb := " is "
	switch v.Status {
	case feature.Interrupted, feature.Cancelled:
		verb = " was "
	case feature.Failed:
		verb = " has "
	}
	text := runName(v) + verb + string(v.Status) + atIteration(v) + ": " + tallied(v.Counts)
	switch {
	case v.Question != nil:
		text += "; it asks: " + render.Brief(v.Question.Text)
	case v.Reason != "" && v.Status != feature.Completed:
		text += "; " + render.Brief(v.Reason)
	}
	return text
}

// runLeft names a run that can go on, how far it is and how to go on, in few words.
func runLeft(v *loop.View) string {
	verb := "was interrupted"
	if v.Status == feature.Paused {
		verb = "is paused"
	}
	content := fmt.Sprintf("%s %s%s, %d of %s open", runName(v), verb, atIteration(v), v.Counts.Open, text.Count(v.Counts.Total, "task"))
	if v.Question != nil {
		content += "; it asks: " + render.Brief(v.Question.Text)
	}
	return content + "; " + continueLine(v) + " goes on with it"
}

// atIteration says how far the loop is.
func atIteration(v *loop.View) string {
	switch {
	case v.Iteration == 0:
		return ""
	case v.MaxIterations > 0:
		return fmt.Sprintf(" at iteration %d of %d", v.Iteration, v.MaxIterations)
	}
	return fmt.Sprintf(" at iteration %d", v.Iteration)
}

// tallied counts the tasks of a run.
func tallied(c loop.Counts) string {
	content := fmt.Sprintf("%d of %s done", c.Done, text.Count(c.Total, "task"))
	for _, part := range []struct {
		n    int
		word string
	}{{c.Failed, "failed"}, {c.Skipped, "skipped"}, {c.Open, "open"}} {
		if part.n > 0 {
			content += fmt.Sprintf(", %d %s", part.n, part.word)
		}
	}
	return content
}

// shown is a run as it stands above the prompt, nil when none is under way. Its
// agents tell what they do; those that work for no task of it come last.
func shown(live coordinator.Live) *render.Run {
	v := underWay(live)
	if v == nil {
		return nil
	}
	run := &render.Run{Status: string(v.Status), Phase: v.Phase, Iteration: v.Iteration, MaxIterations: v.MaxIterations,
		Done: v.Counts.Done, Failed: v.Counts.Failed, Skipped: v.Counts.Skipped, Open: v.Counts.Open}
	if live.State != stateRunning {
		run.Status = live.State
	}
	if v.Waiting != nil {
		run.Waiting, run.Until = awaited(v.Waiting), v.Waiting.Until
	}
	if v.Question != nil {
		run.Question = v.Question.Text
	}
	var owners []string
	for _, row := range v.Active {
		t := render.RunTask{ID: row.ID, Title: row.Title, Agent: row.Who(), Attempt: row.Attempt, Since: row.Since}
		if a, ok := find(live.Agents, row.Agent); ok {
			t.Doing = action(a)
			owners = append(owners, a.ID)
		}
		run.Active = append(run.Active, t)
	}
	for _, a := range childrenOf(live.Agents) {
		waits := a.State == crew.Waiting || a.State == crew.Queued
		if active(a) && !waits && !slices.Contains(owners, a.ID) {
			run.Active = append(run.Active, render.RunTask{ID: a.ID, Doing: action(a), Since: a.Since, Beside: true})
		}
	}
	for _, row := range v.Next {
		run.Next = append(run.Next, render.RunTask{ID: row.ID, Title: row.Title})
	}
	return run
}

// action is what an agent does now, or how it stands when it does nothing.
func action(a crew.Agent) string {
	switch {
	case a.Stalled:
		return "stalled"
	case a.State == crew.Running:
		return a.Doing
	}
	return string(a.State)
}

// atWork names the tasks that are worked, for the prompt.
func atWork(v *loop.View) string {
	switch n := len(v.Active); n {
	case 0:
		return ""
	case 1:
		return render.SafeLine(v.Active[0].ID)
	default:
		return fmt.Sprintf("%s +%d", render.SafeLine(v.Active[0].ID), n-1)
	}
}

// awaited says in words what a run waits for.
func awaited(w *loop.Wait) string {
	text := strings.ReplaceAll(w.For, "_", " ")
	switch w.For {
	case "rate_limit":
		text = "the rate limit"
	case "backoff":
		text = "another try"
	case "breaker":
		text = "the breaker"
	}
	if w.Agent != "" {
		text += " of " + w.Agent
	}
	return text
}

// progress tells how far a run is where nothing above the prompt shows it.
func (s *Shell) progress(live coordinator.Live) {
	v := underWay(live)
	if s.live || v == nil || v.Counts == s.course.told || v.Counts.Total == 0 {
		return
	}
	s.course.told = v.Counts
	run := shown(live)
	s.ink.say(func(r *render.Renderer) string { return r.Progress(*run) })
}

// runTable is a run, one fact a row.
func runTable(v *loop.View, now time.Time) [][]string {
	rows := [][]string{{"run", runStanding(v)}}
	add := func(name, text string) {
		if text != "" {
			rows = append(rows, []string{name, text})
		}
	}
	add("phase", v.Phase)
	plan := v.Plan
	if v.Tracker != "" && plan != "" {
		plan += " (" + v.Tracker + ")"
	}
	if len(v.Epics) > 0 {
		plan += ", " + strings.Join(v.Epics, ", ")
	}
	add("plan", plan)
	for _, t := range v.Active {
		text := strings.TrimSpace(t.ID + " " + t.Title)
		if t.Agent != "" {
			text += ", " + t.Agent
		}
		if t.Attempt > 1 {
			text += fmt.Sprintf(", try %d", t.Attempt)
		}
		if !t.Since.IsZero() {
			text += fmt.Sprintf(" (%s)", age(now.Sub(t.Since)))
		}
		add("at work", text)
	}
	var next []string
	for _, t := range v.Next[:min(len(v.Next), 3)] {
		next = append(next, t.ID)
	}
	add("next", strings.Join(next, ", "))
	for _, t := range v.Recent[:min(len(v.Recent), 3)] {
		add("lately", strings.TrimSpace(strings.Join([]string{t.Status, t.ID, t.Title}, " ")+reason(t.Reason)))
	}
	if v.Waiting != nil {
		add("waits for", fmt.Sprintf("%s, %s more", awaited(v.Waiting), render.Span(v.Waiting.Until.Sub(now))))
	}
	if v.Question != nil {
		add("asks", v.Question.Text)
	}
	if v.Breaker != "" {
		add("breaker", strings.ReplaceAll(v.Breaker, "_", " "))
	}
	if r := v.Recovery; r != nil {
		text := fmt.Sprintf("from %s, iteration %d", r.From, r.Iteration)
		if len(r.Tasks) > 0 {
			text += ": " + strings.Join(r.Tasks, ", ")
		}
		if r.Lost != "" {
			text += "; lost: " + r.Lost
		}
		add("recovered", text)
	}
	return rows
}

func reason(text string) string {
	if text == "" {
		return ""
	}
	return ": " + render.Brief(text)
}
